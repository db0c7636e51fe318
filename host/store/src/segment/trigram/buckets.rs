//! The numbers of a text's trigrams.

/// Calls `note` with the number of each trigram of a text, in the order of the text, with repetitions.
pub(crate) fn each_bucket(text: &str, mut note: impl FnMut(u16)) {
    let mut last = 0_u32;
    for (place, byte) in text.bytes().enumerate() {
        last = (last << 8 | u32::from(byte.to_ascii_lowercase())) & 0xff_ffff;
        if place >= 2 {
            // The upper half of a product depends on all bits of the factor.
            note((last.wrapping_mul(0x9E37_79B1) >> 16) as u16);
        }
    }
}

/// The distinct numbers of a text, in ascending order. Empty for a text of fewer than three bytes.
pub(crate) fn buckets(text: &str) -> Vec<u16> {
    let mut buckets = Vec::new();
    each_bucket(text, |bucket| buckets.push(bucket));
    buckets.sort_unstable();
    buckets.dedup();
    buckets
}
