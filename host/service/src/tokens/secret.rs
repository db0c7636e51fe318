//! Random secrets: access tokens, and the key that authenticates compiled code on disk.

use rand::TryRng;
use sha2::{Digest, Sha256};
use tidegate_store::{Catalog, StoreError};
use uuid::Uuid;

use crate::account::Identity;

/// The identity of a token: its SHA-256.
pub(crate) fn hash(token: &str) -> Identity {
    Sha256::digest(token.as_bytes()).into()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The operating system's random generator does not fail on the supported systems. If it failed all the same, a UUID
    // from the same generator would be the only alternative.
    if rand::rngs::SysRng.try_fill_bytes(&mut bytes).is_err() {
        for chunk in bytes.chunks_mut(16) {
            let random = Uuid::new_v4();
            for (to, from) in chunk.iter_mut().zip(random.as_bytes()) {
                *to = *from;
            }
        }
    }
    bytes
}

/// A new token: `tg_` and 192 random bits.
pub fn generate_token() -> String {
    format!("tg_{}", hex::encode(random::<24>()))
}

/// A new secret that signs messages of an alert: `tgs_` and 256 random bits.
pub fn generate_alert_secret() -> String {
    format!("tgs_{}", hex::encode(random::<32>()))
}

/// The key that authenticates compiled code on disk. It is created at the first start.
pub(crate) fn artefact_key(catalog: &Catalog) -> Result<[u8; 32], StoreError> {
    const NAME: &str = "artefact_key";
    if let Some(text) = catalog.meta(NAME)? {
        let bytes: Vec<u8> = text
            .as_bytes()
            .chunks(2)
            .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        if let Ok(key) = <[u8; 32]>::try_from(bytes) {
            return Ok(key);
        }
    }
    let key = random::<32>();
    catalog.set_meta(NAME, &hex::encode(key))?;
    Ok(key)
}
