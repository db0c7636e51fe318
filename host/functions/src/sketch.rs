//! Sketches of distinct values (HyperLogLog): how many there are, about, in a few kilobytes that can be stored and merged.
//!
//! A value is hashed to 64 bits. The first `precision` bits tell a register, and a register holds the largest number of zeros
//! that any of its values has behind them, plus one. The estimate is that of Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches" (2017), which needs no corrections for few or many values.
//!
//! The bytes of a sketch are our own, not Google's: a head of 6 bytes ([`MAGIC`], the type of the values, the precision), then the
//! registers that are not 0, each as 4 bytes: 25 bits of its number and 7 of its value, in their order. Of a full sketch of the
//! default precision these are 128 KiB.

use crate::bytes::fingerprint;
use crate::kernel::Kernel;
use crate::rows::{Body, RowError, RowResult};

/// What is said of bytes that are no sketch.
pub(crate) const NO_SKETCH: &str = "these BYTES are no sketch of HLL_COUNT.INIT";

pub(crate) const KERNELS: &[Kernel] =
    &[Kernel::rows("sketch_estimate", 1..=1, Body::Int(|row| estimate(row.bytes(0))))];

/// How many values a sketch is of.
fn estimate(bytes: &[u8]) -> RowResult<i64> {
    Sketch::read(bytes).map(|mut sketch| Some(sketch.estimate())).ok_or_else(|| RowError::from(NO_SKETCH))
}

/// What the bytes of a sketch begin with.
const MAGIC: [u8; 4] = *b"TGH1";

/// The precisions of sketches.
pub const PRECISIONS: std::ops::RangeInclusive<u8> = 10..=24;

/// What sketches are of. Those of different types do not merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SketchOf {
    /// INT64.
    Int64 = 1,
    /// NUMERIC and BIGNUMERIC.
    Numeric = 2,
    /// STRING.
    String = 3,
    /// BYTES.
    Bytes = 4,
}

/// A sketch.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    of: u8,
    precision: u8,
    registers: Registers,
}

/// The registers of a sketch.
#[derive(Debug, Clone)]
enum Registers {
    /// Those that are not 0, as in the bytes. The first so many are in the order of their numbers, and each is there once; those
    /// behind them are still to be sorted in.
    Few(Vec<u32>, usize),
    /// A byte for each.
    All(Vec<u8>),
}

fn packed(place: u32, value: u8) -> u32 {
    place << 7 | u32::from(value)
}

fn unpacked(packed: u32) -> (u32, u8) {
    (packed >> 7, (packed & 0x7f) as u8)
}

impl Registers {
    fn set(&mut self, place: u32, value: u8, precision: u8) {
        match self {
            Self::All(values) => {
                if let Some(register) = values.get_mut(place as usize) {
                    *register = value.max(*register);
                }
            }
            Self::Few(registers, sorted) => {
                registers.push(packed(place, value));
                if registers.len() >= 2 * (*sorted).max(64) {
                    self.settle(precision);
                }
            }
        }
    }

    /// Sorts registers in, of each its largest value. Where a byte for each register takes no more, they are held so.
    fn settle(&mut self, precision: u8) {
        let Self::Few(registers, sorted) = self else { return };
        if registers.len() > *sorted {
            registers.sort_unstable();
            registers.dedup_by(|next, kept| {
                let same = unpacked(*next).0 == unpacked(*kept).0;
                if same {
                    *kept = *next;
                }
                same
            });
            *sorted = registers.len();
        }
        let all = 1 << precision;
        if registers.len() * size_of::<u32>() >= all {
            let mut values = vec![0; all];
            for (place, value) in registers.iter().copied().map(unpacked) {
                if let Some(register) = values.get_mut(place as usize) {
                    *register = value;
                }
            }
            *self = Self::All(values);
        }
    }

    /// Those that are not 0, in the order of their numbers once they are settled.
    fn each(&self, mut see: impl FnMut(u32, u8)) {
        match self {
            Self::Few(registers, _) => {
                registers.iter().copied().map(unpacked).for_each(|(place, value)| see(place, value))
            }
            Self::All(values) => {
                (0..).zip(values).filter(|(_, value)| **value > 0).for_each(|(place, value)| see(place, *value));
            }
        }
    }
}

impl Sketch {
    /// A sketch of no values.
    pub(crate) fn new(of: SketchOf, precision: u8) -> Self {
        Self::with(of as u8, precision, Vec::new())
    }

    /// A sketch of sorted registers.
    fn with(of: u8, precision: u8, registers: Vec<u32>) -> Self {
        let sorted = registers.len();
        Self { of, precision, registers: Registers::Few(registers, sorted) }
    }

    /// The sketch of some bytes; `None` for what is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(6)?;
        let [of, precision] = *head.strip_prefix(&MAGIC)? else { return None };
        let (registers, []) = rest.as_chunks() else { return None };
        if !PRECISIONS.contains(&precision) || !(1..=4).contains(&of) {
            return None;
        }
        let registers: Vec<u32> = registers.iter().map(|register| u32::from_le_bytes(*register)).collect();
        let fits = |(place, value)| place < 1 << precision && (1..=65 - precision).contains(&value);
        let is_sketch = registers.iter().copied().map(unpacked).all(fits)
            && registers.is_sorted_by(|one, next| unpacked(*one).0 < unpacked(*next).0);
        is_sketch.then(|| Self::with(of, precision, registers))
    }

    /// Its bytes.
    pub(crate) fn written(&mut self) -> Vec<u8> {
        self.registers.settle(self.precision);
        let mut bytes = Vec::with_capacity(6 + size_of::<u32>() * self.len());
        bytes.extend(MAGIC);
        bytes.extend([self.of, self.precision]);
        self.registers.each(|place, value| bytes.extend(packed(place, value).to_le_bytes()));
        bytes
    }

    /// How many registers are not 0, once they are settled.
    fn len(&self) -> usize {
        let mut number = 0;
        self.registers.each(|_, _| number += 1);
        number
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, value: &[u8]) {
        // The fingerprint of short texts has few bits that change; this spreads them.
        let mut hash = fingerprint(value).wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let place = u32::try_from(hash >> (64 - self.precision)).unwrap_or_default();
        let rest = hash << self.precision;
        let zeros = rest.leading_zeros().min(64 - u32::from(self.precision));
        self.registers.set(place, u8::try_from(zeros + 1).unwrap_or(u8::MAX), self.precision);
    }

    /// Adds the values of another sketch; the precision is the lower one of both. `None` if it is of another type.
    pub(crate) fn merge(&mut self, mut other: Self) -> Option<()> {
        if self.of != other.of {
            return None;
        }
        if self.precision > other.precision {
            std::mem::swap(self, &mut other);
        }
        let lower = other.precision - self.precision;
        other.registers.each(|place, value| {
            let bits = place & ((1 << lower) - 1);
            // The bits of the number that are none of the lower precision's are the first of the rest there.
            let value = match bits {
                0 => value.saturating_add(lower),
                bits => u8::try_from(bits.leading_zeros() + u32::from(lower) - 32 + 1).unwrap_or(u8::MAX),
            };
            self.registers.set(place >> lower, value, self.precision);
        });
        Some(())
    }

    /// How many values there are, about.
    pub(crate) fn estimate(&mut self) -> i64 {
        self.registers.settle(self.precision);
        let count = f64::from(1_u32 << self.precision);
        let most = 64 - self.precision;
        let mut of_value = [0_u32; 66];
        self.registers.each(|_, value| {
            if let Some(number) = of_value.get_mut(usize::from(value)) {
                *number += 1;
            }
        });
        let empty = count - f64::from(of_value.iter().sum::<u32>());
        let number = |value: u8| of_value.get(usize::from(value)).map_or(0.0, |number| f64::from(*number));
        let mut sum = count * tau(1.0 - number(most + 1) / count);
        for value in (1..=most).rev() {
            sum = 0.5 * (sum + number(value));
        }
        sum += count * sigma(empty / count);
        let estimate = count * count / (2.0 * std::f64::consts::LN_2 * sum);
        // As of an i64: what is beyond it is its end.
        estimate.round() as i64
    }

    /// The bytes that it holds.
    pub(crate) fn size(&self) -> usize {
        match &self.registers {
            Registers::Few(registers, _) => registers.capacity() * size_of::<u32>(),
            Registers::All(values) => values.capacity(),
        }
    }
}

fn sigma(part: f64) -> f64 {
    if part == 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut y, mut z) = (part, 1.0, part);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(part: f64) -> f64 {
    if part == 0.0 || part == 1.0 {
        return 0.0;
    }
    let (mut x, mut y, mut z) = (part, 1.0, 1.0 - part);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn of(precision: u8, values: std::ops::Range<u64>) -> Sketch {
        let mut sketch = Sketch::new(SketchOf::Int64, precision);
        values.for_each(|value| sketch.add(value.to_string().as_bytes()));
        sketch
    }

    fn near(estimate: i64, expected: u64) -> bool {
        let expected = expected as f64;
        (estimate as f64 - expected).abs() <= 0.02 * expected
    }

    #[test]
    fn estimates_are_near() {
        assert_eq!(of(15, 0..0).estimate(), 0);
        for expected in [1, 2, 10, 100] {
            assert_eq!(of(15, 0..expected).estimate(), expected as i64);
        }
        for expected in [1_000, 30_000, 300_000] {
            assert!(near(of(15, 0..expected).estimate(), expected), "{expected}: {}", of(15, 0..expected).estimate());
        }
    }

    /// A merged sketch is that of all values, at the lower precision.
    #[test]
    fn merging_is_adding() {
        for (one, other) in [(15, 15), (12, 17), (17, 12), (10, 24)] {
            let mut merged = of(one, 0..20_000);
            merged.merge(of(other, 10_000..40_000)).unwrap();
            assert_eq!(merged.written(), of(one.min(other), 0..40_000).written());
            assert!(merged.size() <= 2 << one.min(other), "{}", merged.size());
        }
        assert!(of(15, 0..1).merge(Sketch::new(SketchOf::String, 15)).is_none());
    }

    #[test]
    fn bytes_that_are_no_sketch_are_none() {
        let bytes = of(15, 0..1_000).written();
        let again = |bytes: &[u8]| Sketch::read(bytes).map(|mut sketch| sketch.written());
        assert_eq!(again(&bytes).as_ref(), Some(&bytes));
        assert!(Sketch::read(b"").is_none());
        assert!(Sketch::read(bytes.split_last().unwrap().1).is_none());
        for (at, byte) in [(0, b'X'), (4, 9), (5, 9), (5, 25), (6, 0), (7, 0xff)] {
            let mut damaged = bytes.clone();
            *damaged.get_mut(at).unwrap() = byte;
            // The lowest byte of the first register is not the only one that tells its number.
            assert_ne!(again(&damaged).as_ref(), Some(&bytes), "{at}");
        }
        let mut twice = bytes.clone();
        twice.extend_from_slice(bytes.get(6..10).unwrap());
        assert!(Sketch::read(&twice).is_none());
    }
}
