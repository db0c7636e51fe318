//! Where a follower is: the place of the last row that it has, as the id of an event.
//!
//! `CALL.ROW.PART` is one row of the answer: the number of the call in the write-ahead log, the number of the row in it,
//! and, where one stored row makes several (UNNEST), which of them. `CALL` alone is all rows of the calls up to it.
//! `CALL-LEFT` is one of the rows that are sent first, of which `LEFT` were still to come.

use std::cmp::Ordering;
use std::fmt;

/// A place in the order of commits: everything up to it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) call: i64,
    row: u64,
    part: u32,
}

impl Position {
    pub(super) fn row(call: i64, row: usize, part: u32) -> Self {
        Self { call, row: tidegate_model::number(row), part }
    }

    /// The place of the next row of an answer, which is made of this stored row. `None` if that comes before the one of
    /// this row.
    pub(super) fn next(self, call: i64, row: usize) -> Option<Self> {
        let next = Self::row(call, row, 0);
        match (self.call, self.row).cmp(&(next.call, next.row)) {
            Ordering::Less => Some(next),
            Ordering::Equal => Some(Self { part: self.part.saturating_add(1), ..self }),
            Ordering::Greater => None,
        }
    }

    /// The number after which calls may have rows that come later.
    pub(super) fn before(self) -> i64 {
        if self.row == u64::MAX { self.call } else { self.call.saturating_sub(1) }
    }

    /// All rows of the calls up to this one.
    pub(super) fn whole(call: i64) -> Self {
        Self { call, row: u64::MAX, part: u32::MAX }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, row, part } = self;
        if *row == u64::MAX { write!(f, "{call}") } else { write!(f, "{call}.{row}.{part}") }
    }
}

/// What the header `Last-Event-ID` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSeen {
    pub(super) position: Position,
    /// How many of the rows that come first were not sent.
    pub(super) left: u64,
}

impl LastSeen {
    /// Reads the id of an event. `None` if it is none of this service.
    pub fn read(text: &str) -> Option<Self> {
        let number = |text: &str| (!text.starts_with('+')).then(|| text.parse::<i64>().ok()).flatten();
        let not_negative = |text: &str| number(text).filter(|number| *number >= 0);
        if let Some((call, left)) = text.split_once('-') {
            let left = u64::try_from(not_negative(left)?).ok()?;
            return Some(Self { position: Position::whole(not_negative(call)?), left });
        }
        let mut parts = text.split('.');
        let call = not_negative(parts.next()?)?;
        let position = match (parts.next(), parts.next(), parts.next()) {
            (None, None, None) => Position::whole(call),
            (Some(row), Some(part), None) => {
                let (row, part) = (not_negative(row)?, not_negative(part)?);
                Position { call, row: u64::try_from(row).ok()?, part: u32::try_from(part).ok()? }
            }
            _ => return None,
        };
        Some(Self { position, left: 0 })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for position in [Position::row(7, 0, 0), Position::row(i64::MAX, 3, 9), Position::whole(12)] {
            let seen = LastSeen::read(&position.to_string()).unwrap();
            assert_eq!((seen.position, seen.left), (position, 0));
        }
        assert_eq!(LastSeen::read("12-3"), Some(LastSeen { position: Position::whole(12), left: 3 }));
        for other in ["", "x", "1.2", "1.2.3.4", "-1", "1-", "1.-2.3", "+1", "1.2.4294967296", "9223372036854775808"] {
            assert_eq!(LastSeen::read(other), None, "{other}");
        }
    }

    #[test]
    fn rows_that_are_made_of_one_are_numbered() {
        let first = Position::row(7, 3, 0);
        assert_eq!(first.next(7, 3), Some(Position::row(7, 3, 1)));
        assert_eq!(first.next(7, 4), Some(Position::row(7, 4, 0)));
        assert_eq!(first.next(8, 0), Some(Position::row(8, 0, 0)));
        assert_eq!((first.next(7, 2), first.next(6, 9)), (None, None));
    }

    #[test]
    fn a_call_as_a_whole_comes_after_its_rows() {
        let order = [Position::whole(6), Position::row(7, 0, 1), Position::row(7, 1, 0), Position::whole(7)];
        assert!(order.is_sorted());
    }
}
