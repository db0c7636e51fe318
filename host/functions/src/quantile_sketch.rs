//! Sketches of quantiles (KLL): about which value stands at a part of many values, in bytes that can be stored and merged.
//!
//! Values are held in levels; one of level n stands for 2^n of them. A level that is full is sorted, and of each pair of
//! neighbours one goes on to the next level, at one time the lower ones and at another the upper ones. That changes how many
//! values are below some value by 2^n at most. Such changes are added up, and a level is only thinned out if their sum stays
//! within the number of values divided by the precision: the bound holds for every input and every order of merging, not just
//! as a rule. A level is so long that a sketch which only takes values never has to wait for it.
//!
//! The bytes are our own, not Google's: a head ([`MAGIC`], the type of the values, the precision, which half of each level
//! comes next, the sum of the changes, the least and the greatest value), then each level: its length, and its keys in order.

use crate::kernel::Kernel;
use crate::rows::{Body, Item, Items, Row, RowError, RowResult};

/// What is said of bytes that are no sketch, or one of another type.
pub(crate) const NO_QUANTILES: &str =
    "these BYTES are no sketch of KLL_QUANTILES.INIT_INT64 or INIT_FLOAT64, or one of the other type";

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("sketch_quantiles_int64", 2..=2, Body::Ints(|row, items| borders(row, items, QuantilesOf::Int64))),
    Kernel::rows(
        "sketch_quantiles_float64",
        2..=2,
        Body::Floats(|row, items| borders(row, items, QuantilesOf::Float64)),
    ),
    Kernel::rows("sketch_quantile_int64", 2..=2, Body::Int(|row| point(row, QuantilesOf::Int64))),
    Kernel::rows(
        "sketch_quantile_float64",
        2..=2,
        Body::Float(|row| Ok(point(row, QuantilesOf::Float64)?.map(float_of_key))),
    ),
];

fn borders(row: &Row, items: &mut Items<'_>, of: QuantilesOf) -> RowResult<()> {
    let parts = u64::try_from(row.int(1)).ok().filter(|parts| *parts > 0);
    let parts = parts.ok_or("the number of quantiles of KLL_QUANTILES functions is 1 or more")?;
    let sorted = sorted(row, of)?;
    for part in 0..=parts {
        items.push(match (of, sorted.at(part, parts)) {
            (QuantilesOf::Int64, key) => Item::Int(key),
            (QuantilesOf::Float64, key) => Item::Float(float_of_key(key)),
        })?;
    }
    Ok(Some(()))
}

fn point(row: &Row, of: QuantilesOf) -> RowResult<i64> {
    let part = row.float(1);
    match (0.0..=1.0).contains(&part) {
        true => Ok(Some(sorted(row, of)?.near(part))),
        false => Err("the part of a quantile of KLL_QUANTILES functions is from 0 to 1".into()),
    }
}

fn sorted(row: &Row, of: QuantilesOf) -> Result<Sorted, RowError> {
    let bytes = row.bytes(0);
    // The keys twice: as levels, and with their weights in order.
    row.hold(bytes.len().saturating_mul(4))?;
    row.work((bytes.len() / size_of::<i64>()) as u64)?;
    let sketch = QuantileSketch::read(bytes).filter(|sketch| sketch.of == of).ok_or(NO_QUANTILES)?;
    Ok(sketch.sorted())
}

/// What the bytes of a sketch begin with.
const MAGIC: [u8; 4] = *b"TGK1";

/// The precisions of sketches.
pub const QUANTILE_PRECISIONS: std::ops::RangeInclusive<u32> = 1..=100_000;

/// What sketches are of. Those of different types do not merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QuantilesOf {
    /// INT64.
    Int64 = 1,
    /// FLOAT64.
    Float64 = 2,
}

/// The most levels: no sketch is of 2^63 values.
const MOST_LEVELS: usize = 63;

/// The key of a NaN, which comes before all other numbers.
const NAN: i64 = i64::MIN;

/// A float as a number of the same order.
pub(crate) fn key_of_float(value: f64) -> i64 {
    if value.is_nan() {
        return NAN;
    }
    // Both zeros are one.
    let bits = (value + 0.0).to_bits().cast_signed();
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

pub(crate) fn float_of_key(key: i64) -> f64 {
    match key {
        NAN => f64::NAN,
        key => f64::from_bits((if key < 0 { key ^ i64::MAX } else { key }).cast_unsigned()),
    }
}

/// A sketch of one value or more.
#[derive(Debug, Clone)]
pub(crate) struct QuantileSketch {
    of: QuantilesOf,
    precision: u32,
    /// A bit for each level: whether the upper ones of its pairs go on next.
    upper: u64,
    /// By how much the rank of a value may have changed.
    changed: u64,
    least: i64,
    greatest: i64,
    levels: Vec<Vec<i64>>,
}

impl QuantileSketch {
    /// The sketch of one value.
    pub(crate) fn new(of: QuantilesOf, precision: u32, key: i64) -> Self {
        Self { of, precision, upper: 0, changed: 0, least: key, greatest: key, levels: vec![vec![key]] }
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, key: i64) {
        self.least = self.least.min(key);
        self.greatest = self.greatest.max(key);
        let full = self.full();
        if let Some(level) = self.levels.first_mut() {
            level.push(key);
            if level.len() >= full {
                self.thin_out();
            }
        }
    }

    /// Adds the values of another sketch; the precision is the lower one of both. `None` if it is of another type, or there
    /// would be more values than an INT64 counts.
    pub(crate) fn merge(&mut self, other: Self) -> Option<()> {
        let count = self.count().checked_add(other.count())?;
        if self.of != other.of || count > i64::MAX as u64 {
            return None;
        }
        self.precision = self.precision.min(other.precision);
        self.changed = self.changed.checked_add(other.changed)?;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
        for (n, level) in other.levels.into_iter().enumerate() {
            match self.levels.get_mut(n) {
                Some(own) => own.extend(level),
                None => self.levels.push(level),
            }
        }
        self.thin_out();
        Some(())
    }

    /// How many values there are.
    fn count(&self) -> u64 {
        self.levels.iter().rev().fold(0_u64, |count, level| count.saturating_mul(2).saturating_add(level.len() as u64))
    }

    /// From how many keys on a level is full.
    fn full(&self) -> usize {
        (self.precision as usize).saturating_mul(self.levels.len() + 1)
    }

    /// Thins out the levels that are full, from the lowest up.
    fn thin_out(&mut self) {
        let most = self.count() / u64::from(self.precision);
        for n in 0..64 {
            let full = self.full();
            let Some(level) = self.levels.get_mut(n).filter(|level| level.len() >= full) else { continue };
            let Some(changed) = self.changed.checked_add(1 << n).filter(|changed| *changed <= most) else { continue };
            self.changed = changed;
            // Mostly a few sorted runs, which this kind of sorting merges.
            level.sort();
            let skipped = usize::from(self.upper >> n & 1 == 1);
            self.upper ^= 1 << n;
            // One that has no neighbour stays.
            let pairs = level.len() / 2 * 2;
            let next: Vec<i64> = level.iter().take(pairs).skip(skipped).step_by(2).copied().collect();
            level.drain(..pairs);
            match self.levels.get_mut(n + 1) {
                Some(level) => level.extend(next),
                None => self.levels.push(next),
            }
        }
    }

    /// The bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        let keys: usize = self.levels.iter().map(Vec::capacity).sum();
        keys * size_of::<i64>() + self.levels.capacity() * size_of::<Vec<i64>>()
    }

    /// Its bytes.
    pub(crate) fn written(&mut self) -> Vec<u8> {
        let keys: usize = self.levels.iter().map(Vec::len).sum();
        let mut bytes = Vec::with_capacity(41 + self.levels.len() * size_of::<u32>() + keys * size_of::<i64>());
        bytes.extend(MAGIC);
        bytes.push(self.of as u8);
        bytes.extend(self.precision.to_le_bytes());
        bytes.extend([self.upper, self.changed].map(u64::to_le_bytes).as_flattened());
        bytes.extend([self.least, self.greatest].map(i64::to_le_bytes).as_flattened());
        for level in &mut self.levels {
            level.sort();
            bytes.extend(u32::try_from(level.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(level.iter().flat_map(|key| key.to_le_bytes()));
        }
        bytes
    }

    /// The sketch of some bytes; `None` for what is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (of, rest) = bytes.strip_prefix(&MAGIC)?.split_first()?;
        let of = match of {
            1 => QuantilesOf::Int64,
            2 => QuantilesOf::Float64,
            _ => return None,
        };
        let (precision, rest) = rest.split_first_chunk()?;
        let precision = u32::from_le_bytes(*precision);
        let mut rest = rest;
        let mut next = || -> Option<[u8; 8]> {
            let (number, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(*number)
        };
        let (upper, changed) = (u64::from_le_bytes(next()?), u64::from_le_bytes(next()?));
        let (least, greatest) = (i64::from_le_bytes(next()?), i64::from_le_bytes(next()?));
        let mut levels = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk().filter(|_| levels.len() < MOST_LEVELS) {
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_mul(size_of::<i64>())?;
            let (keys, behind) = behind.split_at_checked(length)?;
            levels.push(keys.as_chunks().0.iter().map(|key| i64::from_le_bytes(*key)).collect::<Vec<_>>());
            rest = behind;
        }
        let sketch = Self { of, precision, upper, changed, least, greatest, levels };
        (rest.is_empty() && sketch.is_valid()).then_some(sketch)
    }

    /// Whether it is what values make.
    fn is_valid(&self) -> bool {
        let (low, high) = match self.of {
            QuantilesOf::Int64 => (i64::MIN, i64::MAX),
            QuantilesOf::Float64 => (key_of_float(f64::NEG_INFINITY), key_of_float(f64::INFINITY)),
        };
        let is_key = |key: i64| (low..=high).contains(&key) || key == NAN;
        let count = self.count();
        let is_between = |level: &Vec<i64>| {
            level.first().is_none_or(|first| *first >= self.least)
                && level.last().is_none_or(|last| *last <= self.greatest)
        };
        QUANTILE_PRECISIONS.contains(&self.precision)
            && (1..=i64::MAX as u64).contains(&count)
            && self.changed <= count / u64::from(self.precision)
            && self.least <= self.greatest
            && [self.least, self.greatest].into_iter().all(is_key)
            && self
                .levels
                .iter()
                .all(|level| level.is_sorted() && is_between(level) && level.iter().copied().all(is_key))
    }

    /// Its values in order.
    pub(crate) fn sorted(&self) -> Sorted {
        let keys: usize = self.levels.iter().map(Vec::len).sum();
        let mut ranks = Vec::with_capacity(keys);
        for (n, level) in self.levels.iter().enumerate() {
            ranks.extend(level.iter().map(|key| (*key, 1_u64.checked_shl(n as u32).unwrap_or(0))));
        }
        ranks.sort_unstable();
        let mut count = 0;
        for (_, rank) in &mut ranks {
            count += *rank;
            *rank = count;
        }
        Sorted { ranks, least: self.least, greatest: self.greatest, count }
    }
}

/// The values of a sketch, each with how many there are up to it.
#[derive(Debug)]
pub(crate) struct Sorted {
    ranks: Vec<(i64, u64)>,
    least: i64,
    greatest: i64,
    count: u64,
}

impl Sorted {
    /// The value that so many of so many parts are up to.
    pub(crate) fn at(&self, part: u64, parts: u64) -> i64 {
        match part {
            0 => self.least,
            part if part >= parts => self.greatest,
            part => {
                let rank = (u128::from(part) * u128::from(self.count)).div_ceil(u128::from(parts));
                self.of_rank(u64::try_from(rank).unwrap_or(u64::MAX))
            }
        }
    }

    /// The value that a part from 0 to 1 is up to.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "of a float"
    )]
    pub(crate) fn near(&self, part: f64) -> i64 {
        match part {
            0.0 => self.least,
            1.0 => self.greatest,
            part => self.of_rank((part * self.count as f64).ceil() as u64),
        }
    }

    fn of_rank(&self, rank: u64) -> i64 {
        let at = self.ranks.partition_point(|(_, up_to)| *up_to < rank);
        self.ranks.get(at).map_or(self.greatest, |(key, _)| *key)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
