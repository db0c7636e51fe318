//! What stands for several texts together.

use sha2::{Digest, Sha256};

use crate::account::Identity;

/// A SHA-256 of texts, each behind its length, so that no two lists of texts have the same.
pub(super) fn digest<'a>(purpose: &'a str, texts: impl IntoIterator<Item = &'a str>) -> Identity {
    let mut hash = Sha256::new();
    for text in [purpose].into_iter().chain(texts) {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
