//! How many stored rows a follower looks at at once when it comes back.
//!
//! The rows are sorted before they are sent, so that they are in memory together: those for which the simple conditions of
//! the statement are true. How many that are is not known before. So a follower begins with a few thousand rows, goes on
//! with more while few of them are in the answer, and with fewer when they were too many.

use tidegate_model::{Code, Failure};

/// The rows of the first look, and the most.
const FIRST: usize = 8 << 10;
const MOST: usize = 64 << 10;
/// The factor by which a look becomes smaller that was too large.
const LESS: i64 = 8;

/// The bounds of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// About so many rows.
    pub(super) rows: usize,
    /// Calls whose numbers span at most so many.
    pub(super) span: i64,
}

impl Default for Reach {
    fn default() -> Self {
        Self { rows: FIRST, span: i64::MAX }
    }
}

impl Reach {
    /// After a look whose answer was not taken as a whole.
    pub(super) fn smaller(self) -> Self {
        Self { rows: (self.rows / 2).max(1), ..self }
    }

    /// After a look whose answer left room.
    pub(super) fn larger(self) -> Self {
        Self { rows: self.rows.saturating_mul(2).min(MOST), span: self.span.saturating_mul(2) }
    }

    /// After a look over so many numbers of calls that failed. `None` if a smaller one would fail in the same way.
    pub(super) fn after_failure(self, failure: &Failure, span: i64) -> Option<Self> {
        let is_too_large = matches!(failure.code, Code::LimitExceeded | Code::Timeout);
        (is_too_large && span > 1).then(|| Self { rows: (self.rows / 2).max(1), span: (span / LESS).max(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_is_too_large_becomes_smaller_until_it_is_one_call() {
        let failure = Failure::new(Code::LimitExceeded, "too much");
        let (mut reach, mut span, mut looks) = (Reach::default(), i64::MAX, 0);
        while let Some(next) = reach.after_failure(&failure, span) {
            assert!(next.span < span);
            (reach, span, looks) = (next, next.span, looks + 1);
        }
        assert_eq!((reach, looks), (Reach { rows: 1, span: 1 }, 21));
        assert_eq!(Reach::default().after_failure(&Failure::new(Code::DataDamaged, "x"), 100), None);
    }

    #[test]
    fn rows_are_bounded() {
        let most = (0..100).fold(Reach::default(), |reach, _| reach.larger());
        assert_eq!(most, Reach { rows: MOST, span: i64::MAX });
        let least = (0..100).fold(most, |reach, _| reach.smaller());
        assert_eq!(least.rows, 1);
    }
}
