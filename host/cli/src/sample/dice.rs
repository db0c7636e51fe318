//! Seeded random numbers, in the few forms that the samples need.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

#[derive(Debug)]
pub(super) struct Dice(StdRng);

impl Dice {
    /// A generator for one stream of a seed. The streams of a seed are independent.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self(StdRng::seed_from_u64(mixed(seed ^ mixed(stream))))
    }

    pub(super) fn pick<T: Copy + Default>(&mut self, list: &[T]) -> T {
        list.choose(&mut self.0).copied().unwrap_or_default()
    }

    /// A random item by weights whose sum is a hundred. The last item gets the remainder.
    pub(super) fn weighted<T: Copy + Default>(&mut self, list: &[(u32, T)]) -> T {
        let mut left = self.below(100);
        for &(weight, value) in list {
            if left < weight {
                return value;
            }
            left -= weight;
        }
        list.last().map(|&(_, value)| value).unwrap_or_default()
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub(super) fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    /// A random number below `bound`, which must be above zero.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0.random_range(0..bound.max(1))
    }

    pub(super) fn any(&mut self) -> u64 {
        self.0.random()
    }

    /// A random number from 0 up to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.0.random()
    }

    /// A random duration in milliseconds, distributed as in real services: most near the median, few very long.
    pub(super) fn duration(&mut self, median: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.fraction()).sum::<f64>() - 6.0;
        (median * (normal * 1.1).exp()).min(20_000.0)
    }

    pub(super) fn uuid(&mut self) -> String {
        uuid(self.0.random())
    }

    /// A random IP address from the ranges reserved for documentation.
    pub(super) fn address(&mut self) -> String {
        let (a, b) = (self.below(254) + 1, self.below(0xffff));
        match self.below(12) {
            0 => format!("2001:db8:{b:x}::{a:x}"),
            1..4 => format!("192.0.2.{a}"),
            4..8 => format!("198.51.100.{a}"),
            _ => format!("203.0.113.{a}"),
        }
    }
}

pub(super) fn uuid(bits: u128) -> String {
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
}

/// Mixes the bits of a number, so that neighbouring numbers give unrelated results.
pub(super) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
