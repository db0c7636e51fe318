//! Which of a group's sorted values a quantile is.

use crate::decimal::Wide;

/// What is taken of the sorted values. The parts are kept as bits, to be compared and hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pick {
    /// The bounds of so many parts.
    Borders(usize),
    /// The value at a part, interpolated.
    Between(u64),
    /// The value at a part.
    At(u64),
    /// The value at a part in units of 1e-38, interpolated: of decimals.
    BetweenExactly(u128),
    /// The value at such a part.
    AtExactly(u128),
}

/// The part 1 in units of 1e-38.
pub(super) const WHOLE: u128 = 10_u128.pow(38);

impl Pick {
    /// Whether the result is a list.
    pub(super) fn is_list(self) -> bool {
        matches!(self, Self::Borders(_))
    }

    /// The places of the picked values among `len` sorted ones, of which none is interpolated.
    pub(super) fn ranks(self, len: usize) -> impl Iterator<Item = usize> {
        // Border k is the smallest value that at least k/parts of all values do not exceed.
        let (parts, single) = match self {
            Self::Borders(parts) => (Some(parts), None),
            Self::At(part) => (None, Some(index((f64::from_bits(part) * count(len)).ceil() - 1.0, len))),
            Self::AtExactly(part) => {
                let (whole, rest) = exact_position(part, len);
                (None, Some(whole.saturating_sub(usize::from(rest == 0)).min(len.saturating_sub(1))))
            }
            Self::BetweenExactly(part) => (None, Some(exact_position(part, len.saturating_sub(1)).0)),
            Self::Between(part) => (None, Some(index((f64::from_bits(part) * count(len)).floor(), len))),
        };
        let borders = parts.map(|parts| (0..=parts).map(move |k| (k * len).div_ceil(parts).saturating_sub(1)));
        borders.into_iter().flatten().chain(single)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows in memory are far below 2^53")]
pub(super) fn count(rows: usize) -> f64 {
    rows as f64
}

/// So many rows times a part: how many whole ones, and the rest in units of 1e-38.
pub(super) fn exact_position(part: u128, rows: usize) -> (usize, u128) {
    let product = Wide::of(part).times_small(rows as u64);
    let (whole, rest) = product.over(&Wide::of(WHOLE));
    let low = |number: Wide| number.halves().map_or(0, |(low, _)| low);
    (usize::try_from(low(whole)).unwrap_or(usize::MAX), low(rest))
}

/// A position as an index of `len` values.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "kept between 0 and a count of rows")]
pub(super) fn index(position: f64, len: usize) -> usize {
    (position.max(0.0) as usize).min(len.saturating_sub(1))
}
