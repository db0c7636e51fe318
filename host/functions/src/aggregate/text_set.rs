//! The distinct texts of a group.
//!
//! Texts that are counted are mostly ids, addresses and short names. Those of up to 15 bytes and UUIDs are kept as 16 bytes each,
//! without their text, so that a look-up reads one place in memory. Two different texts never have the same 16 bytes: counts
//! are exact.

use datafusion::common::HashSet;

/// The longest text, in bytes, that is kept as 16 bytes: the last one is its length.
const SHORT: usize = 15;

/// Bytes of a text that is kept packed.
pub(super) const PACKED: usize = size_of::<u128>();

/// Bytes of a UUID as a text.
const UUID: usize = 36;

/// A text as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept<'t> {
    Short(u128),
    Uuid(u128),
    Long(&'t str),
}

impl<'t> Kept<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let bytes = text.as_bytes();
        let short = packed_short(bytes).map(Self::Short);
        short.or_else(|| packed_uuid(bytes).map(Self::Uuid)).unwrap_or(Self::Long(text))
    }
}

/// Distinct texts.
#[derive(Debug, Default)]
pub(super) struct TextSet {
    short: HashSet<u128>,
    uuids: HashSet<u128>,
    long: HashSet<Box<str>>,
    /// Bytes of the texts of `long`.
    long_bytes: usize,
}

impl TextSet {
    pub(super) fn insert(&mut self, text: &str) {
        match Kept::of(text) {
            Kept::Short(packed) => _ = self.short.insert(packed),
            Kept::Uuid(packed) => _ = self.uuids.insert(packed),
            Kept::Long(text) if self.long.contains(text) => {}
            Kept::Long(text) => {
                self.long_bytes += text.len();
                self.long.insert(text.into());
            }
        }
    }

    /// Adds short texts and UUIDs of another set, 16 bytes of each. `None` if these are no whole values.
    pub(super) fn merge_packed(&mut self, short: &[u8], uuids: &[u8]) -> Option<()> {
        for (set, bytes) in [(&mut self.short, short), (&mut self.uuids, uuids)] {
            let (values, []) = bytes.as_chunks::<PACKED>() else { return None };
            set.extend(values.iter().map(|value| u128::from_le_bytes(*value)));
        }
        Some(())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.short.len() + self.uuids.len() + self.long.len()
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Kept<'_>> {
        let short = self.short.iter().map(|packed| Kept::Short(*packed));
        let uuids = self.uuids.iter().map(|packed| Kept::Uuid(*packed));
        short.chain(uuids).chain(self.long.iter().map(|text| Kept::Long(text)))
    }

    /// Bytes that it holds, without itself.
    pub(super) fn held(&self) -> usize {
        let places = self.short.allocation_size() + self.uuids.allocation_size() + self.long.allocation_size();
        places + self.long_bytes
    }
}

fn packed_short(text: &[u8]) -> Option<u128> {
    let mut packed = [0; PACKED];
    packed.get_mut(..SHORT)?.get_mut(..text.len())?.copy_from_slice(text);
    packed[SHORT] = text.len() as u8;
    Some(u128::from_le_bytes(packed))
}

/// A UUID as its 128 bits, if it is written with hyphens and lower-case digits. Others are other texts.
fn packed_uuid(text: &[u8]) -> Option<u128> {
    let text: &[u8; UUID] = text.try_into().ok()?;
    if [text[8], text[13], text[18], text[23]] != *b"----" {
        return None;
    }
    let mut digits = [0; 2 * PACKED];
    digits[..8].copy_from_slice(&text[..8]);
    digits[8..12].copy_from_slice(&text[9..13]);
    digits[12..16].copy_from_slice(&text[14..18]);
    digits[16..20].copy_from_slice(&text[19..23]);
    digits[20..].copy_from_slice(&text[24..]);
    // All digits alike and without branches, so that the compiler takes many of them at once.
    let mut others = 0;
    for digit in &mut digits {
        let (number, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
        others |= u8::from(number >= 10) & u8::from(letter >= 6);
        *digit = if number < 10 { number } else { letter.wrapping_add(10) };
    }
    let (pairs, _) = digits.as_chunks::<2>();
    let mut packed = [0; PACKED];
    for (byte, [high, low]) in packed.iter_mut().zip(pairs) {
        *byte = high << 4 | low;
    }
    (others == 0).then(|| u128::from_be_bytes(packed))
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Texts that differ in one byte, in their length or in the case of a digit are different, whichever way they are kept.
    #[test]
    fn different_texts_stay_different() {
        let uuid = "0123abcd-4567-89ef-0123-456789abcdef";
        let mut texts: Vec<String> = vec![String::new(), "\0".to_owned(), "\0\0".to_owned(), uuid.to_owned()];
        for length in 0..60 {
            texts.push("x".repeat(length));
            texts.push(format!("{}\0", "x".repeat(length)));
        }
        for at in 0..uuid.len() {
            for other in ["0", "9", "a", "f", "g", "A", "F", "/", ":", "`", "-", "\u{7f}"] {
                let mut text = uuid.to_owned();
                text.replace_range(at..=at, other);
                texts.push(text);
            }
        }
        texts.extend(["ä".repeat(7), "ä".repeat(8), "ä".repeat(18)]);
        let expected: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
        let mut set = TextSet::default();
        texts.iter().chain(&texts).for_each(|text| set.insert(text));
        assert_eq!(set.len(), expected.len());
        let uuids = expected.iter().filter(|text| packed_uuid(text.as_bytes()).is_some()).count();
        assert_eq!(set.iter().filter(|kept| matches!(kept, Kept::Uuid(_))).count(), uuids);
        assert!(uuids > 32 && expected.iter().filter(|text| text.len() == UUID).count() > uuids);
        assert!(set.held() >= set.len() * PACKED);
    }

    #[test]
    fn a_uuid_has_its_bits() {
        let packed = packed_uuid(b"0123abcd-4567-89ef-0123-456789abcdef");
        assert_eq!(packed, Some(0x0123_abcd_4567_89ef_0123_4567_89ab_cdef));
    }

    #[test]
    fn what_is_merged_is_what_was_there() {
        let (mut one, mut other) = (TextSet::default(), TextSet::default());
        for number in 0..100 {
            let texts =
                [number.to_string(), format!("{number:08x}-0000-4000-8000-000000000000"), "long".repeat(number)];
            texts.iter().for_each(|text| one.insert(text));
            texts.iter().filter(|_| number < 50).for_each(|text| other.insert(text));
        }
        let (mut short, mut uuids) = (Vec::new(), Vec::new());
        for kept in one.iter() {
            match kept {
                Kept::Short(packed) => short.extend(packed.to_le_bytes()),
                Kept::Uuid(packed) => uuids.extend(packed.to_le_bytes()),
                Kept::Long(text) => other.insert(text),
            }
        }
        assert!(other.merge_packed(&short, &uuids).is_some());
        assert_eq!(other.len(), one.len());
        assert!(other.merge_packed(&short[1..], &[]).is_none());
    }
}
