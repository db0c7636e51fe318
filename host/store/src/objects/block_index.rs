//! Which blocks are on disk, how many bytes they have together, and which was used least recently.

use std::collections::{BTreeMap, HashMap};

use uuid::Uuid;

/// Bytes that a file takes on disk are counted in these units.
const UNIT: u64 = 4096;

/// A block of a segment's file: the bytes from `number` times the size of a block on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BlockKey {
    pub(crate) segment: Uuid,
    pub(crate) number: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    use_number: u64,
    bytes: u64,
    /// Whether its file is complete.
    is_written: bool,
}

/// The blocks of a cache. Their bytes never exceed the bound, those that are just being written included.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    by_key: HashMap<BlockKey, Entry>,
    by_use: BTreeMap<u64, BlockKey>,
    uses: u64,
    bytes: u64,
    most_bytes: u64,
}

impl BlockIndex {
    pub(crate) fn new(most_bytes: u64) -> BlockIndex {
        BlockIndex { by_key: HashMap::new(), by_use: BTreeMap::new(), uses: 0, bytes: 0, most_bytes }
    }

    /// Bytes of all blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a block is on disk.
    pub(crate) fn has(&self, key: &BlockKey) -> bool {
        self.by_key.get(key).is_some_and(|entry| entry.is_written)
    }

    /// Makes a block that is on disk the one that was used last.
    pub(crate) fn touch(&mut self, key: &BlockKey) {
        if let Some(entry) = self.by_key.get_mut(key) {
            self.by_use.remove(&entry.use_number);
            self.uses += 1;
            entry.use_number = self.uses;
            self.by_use.insert(self.uses, *key);
        }
    }

    /// Makes room for a block that will be written. Returns the blocks that must go from disk, or `None` if the block is there,
    /// is being written, or is larger than the bound.
    pub(crate) fn reserve(&mut self, key: BlockKey, bytes: u64) -> Option<Vec<BlockKey>> {
        let bytes = bytes.div_ceil(UNIT) * UNIT;
        if bytes > self.most_bytes || self.by_key.contains_key(&key) {
            return None;
        }
        let mut gone = Vec::new();
        while self.bytes + bytes > self.most_bytes {
            // Blocks that are being written may be among them: their writer finds out.
            let (_, oldest) = self.by_use.first_key_value()?;
            let oldest = *oldest;
            self.remove(&oldest);
            gone.push(oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.by_use.insert(self.uses, key);
        self.by_key.insert(key, Entry { use_number: self.uses, bytes, is_written: false });
        Some(gone)
    }

    /// Says that a block is on disk now; `false` if it had to make room in between and must go again.
    pub(crate) fn written(&mut self, key: &BlockKey) -> bool {
        self.by_key.get_mut(key).map(|entry| entry.is_written = true).is_some()
    }

    /// Forgets a block.
    pub(crate) fn remove(&mut self, key: &BlockKey) {
        if let Some(entry) = self.by_key.remove(key) {
            self.by_use.remove(&entry.use_number);
            self.bytes -= entry.bytes;
        }
    }

    /// The blocks of a segment.
    pub(crate) fn of_segment(&self, segment: Uuid) -> Vec<BlockKey> {
        self.by_key.keys().filter(|key| key.segment == segment).copied().collect()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn key(number: u32) -> BlockKey {
        BlockKey { segment: Uuid::from_u128(7), number }
    }

    #[test]
    fn the_block_that_was_used_least_recently_goes() {
        let mut index = BlockIndex::new(3 * UNIT);
        for number in 0..3 {
            assert_eq!(index.reserve(key(number), UNIT - number as u64).unwrap(), []);
            assert!(!index.has(&key(number)) && index.written(&key(number)) && index.has(&key(number)));
        }
        assert_eq!(index.bytes(), 3 * UNIT);
        index.touch(&key(0));
        assert_eq!(index.reserve(key(3), 1).unwrap(), [key(1)]);
        assert!(index.reserve(key(3), 1).is_none(), "it is being written");
        assert_eq!(index.reserve(key(4), UNIT + 1).unwrap(), [key(2), key(0)]);
        assert!(index.reserve(key(5), 3 * UNIT + 1).is_none());
        assert_eq!(index.reserve(key(5), 3 * UNIT).unwrap(), [key(3), key(4)]);
        assert!(!index.written(&key(4)), "it had to go while it was written");
        index.remove(&key(5));
        index.remove(&key(5));
        assert_eq!((index.bytes(), index.of_segment(Uuid::from_u128(7)).len()), (0, 0));
    }
}
