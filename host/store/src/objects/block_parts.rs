//! Ranges of an object as parts of its blocks, and the ranges again from what was read of them.

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;

use crate::objects::object_error::ObjectError;

/// A part of a range in one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// The place of the range among those that were asked for.
    pub(crate) range: usize,
    /// Its bytes, from the first one of the block.
    pub(crate) within: Range<u64>,
    /// Whether it is the whole range.
    pub(crate) is_whole: bool,
}

impl Part {
    pub(crate) fn bytes(&self) -> u64 {
        self.within.end - self.within.start
    }
}

/// The parts of ranges of an object of `size` bytes by the number of their block, in the order of the ranges.
///
/// # Errors
/// If a range ends behind the object.
pub(crate) fn parts(
    ranges: &[Range<u64>],
    size: u64,
    block_bytes: u64,
) -> Result<BTreeMap<u32, Vec<Part>>, ObjectError> {
    let mut parts: BTreeMap<u32, Vec<Part>> = BTreeMap::new();
    for (place, range) in ranges.iter().enumerate() {
        if range.end > size {
            return Err(ObjectError::BeyondEnd);
        }
        let mut start = range.start;
        while start < range.end {
            let number = u32::try_from(start / block_bytes).map_err(|_| ObjectError::BeyondEnd)?;
            let first = u64::from(number) * block_bytes;
            let end = range.end.min(first + block_bytes);
            let is_whole = start == range.start && end == range.end;
            parts.entry(number).or_default().push(Part { range: place, within: start - first..end - first, is_whole });
            start = end;
        }
    }
    Ok(parts)
}

/// Ranges as they come, block by block.
#[derive(Debug)]
pub(crate) struct Gathered {
    ranges: Vec<Gathering>,
}

#[derive(Debug)]
enum Gathering {
    Whole(Bytes),
    /// Parts of a range, one after the other, in room for all of it.
    Parts(Vec<u8>),
}

impl Gathered {
    pub(crate) fn of(ranges: &[Range<u64>]) -> Gathered {
        Gathered { ranges: ranges.iter().map(|_| Gathering::Whole(Bytes::new())).collect() }
    }

    /// Adds a part of a range that has `length` bytes. The parts of a range come in their order.
    pub(crate) fn add(&mut self, part: &Part, length: u64, bytes: Bytes) {
        let Some(range) = self.ranges.get_mut(part.range) else { return };
        match range {
            Gathering::Whole(whole) if part.is_whole => *whole = bytes,
            Gathering::Whole(_) => {
                let mut parts = Vec::with_capacity(usize::try_from(length).unwrap_or(bytes.len()));
                parts.extend_from_slice(&bytes);
                *range = Gathering::Parts(parts);
            }
            Gathering::Parts(parts) => parts.extend_from_slice(&bytes),
        }
    }

    pub(crate) fn all(self) -> Vec<Bytes> {
        let bytes = |range| match range {
            Gathering::Whole(bytes) => bytes,
            Gathering::Parts(parts) => parts.into(),
        };
        self.ranges.into_iter().map(bytes).collect()
    }
}
