//! The choices of one simulated power cut. A seed makes the same choices of the same record.

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// How likely something is kept that a cut may lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Style {
    Keep,
    Lose,
    /// With this probability.
    Some(f64),
}

/// The choices of one cut.
#[derive(Debug)]
pub(crate) struct Chance {
    /// None: everything is kept.
    random: Option<StdRng>,
    sector: usize,
    zeros: bool,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        let mut random = StdRng::seed_from_u64(seed);
        let sector = if random.random_bool(0.5) { 512 } else { 4096 };
        let zeros = random.random_bool(0.7);
        Chance { random: Some(random), sector, zeros }
    }

    pub(crate) fn keeping_all() -> Chance {
        Chance { random: None, sector: 4096, zeros: true }
    }

    /// How much of one file, or of the names, is kept.
    pub(crate) fn style(&mut self) -> Style {
        let Some(random) = &mut self.random else { return Style::Keep };
        match random.random_range(0..8) {
            0 | 1 => Style::Keep,
            2 | 3 => Style::Lose,
            4 => Style::Some(0.95),
            5 => Style::Some(0.05),
            _ => Style::Some(0.5),
        }
    }

    pub(crate) fn keeps(&mut self, style: Style) -> bool {
        match (style, &mut self.random) {
            (Style::Keep, _) | (_, None) => true,
            (Style::Lose, _) => false,
            (Style::Some(share), Some(random)) => random.random_bool(share),
        }
    }

    /// Bytes that are written as a whole.
    pub(crate) fn sector(&self) -> usize {
        self.sector
    }

    /// Whether the length of a file is kept where its data is lost.
    pub(crate) fn extends(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.random_bool(0.5))
    }

    /// What is read where nothing was written: zeros, or what another file had there.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        if let Some(random) = self.random.as_mut().filter(|_| !self.zeros) {
            random.fill(bytes);
        }
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.random.as_mut().map_or(0, |random| random.random_range(0..limit.max(1)))
    }
}
