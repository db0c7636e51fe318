//! Random numbers of the generator: the same on every machine and in every version, because the records of a seed are
//! compared between reports. A library's generator may change with its version.

/// SplitMix64: one addition and two multiplications a number, and every seed is a good one.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Numbers of a seed. `stream` tells apart what the same seed is used for.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream)))
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `limit`, which is at most 2^32.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((self.any() >> 32) * limit) >> 32
    }

    /// True once in `count` times.
    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// From 0 to 1, without 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.any() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of a list; the lists of the generator are not empty.
    pub(crate) fn pick<T: Copy + Default>(&mut self, list: &[T]) -> T {
        list.get(self.below(list.len() as u64) as usize).copied().unwrap_or_default()
    }

    /// Milliseconds with a long tail: most are near `median`, one in a thousand is over ten times as long.
    pub(crate) fn duration(&mut self, median: f64) -> u32 {
        // The sum of twelve shares less six is close to a normal distribution, and needs no tables.
        let normal: f64 = (0..12).map(|_| self.share()).sum::<f64>() - 6.0;
        (median * (0.8 * normal).exp()).clamp(1.0, 20_000.0) as u32
    }
}

/// Scatters the bits of a number.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Picks by weight: position `n` of the list as often as its weight says.
#[derive(Debug)]
pub(crate) struct Weights {
    /// The upper end of each position's part of 2^32.
    ends: Vec<u64>,
}

impl Weights {
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let weights: Vec<f64> = weights.into_iter().collect();
        let total: f64 = weights.iter().sum();
        let mut sum = 0.0;
        let ends = weights.iter().map(|weight| {
            sum += weight;
            (sum / total * (1_u64 << 32) as f64) as u64
        });
        Self { ends: ends.collect() }
    }

    /// Weights 1, 1/2, 1/3 and so on, to the given power.
    pub(crate) fn zipf(count: usize, power: f64) -> Self {
        Self::new((1..=count).map(|rank| (rank as f64).powf(-power)))
    }

    /// A position.
    pub(crate) fn pick(&self, dice: &mut Dice) -> usize {
        let number = dice.any() >> 32;
        self.ends.partition_point(|end| *end <= number).min(self.ends.len().saturating_sub(1))
    }
}
