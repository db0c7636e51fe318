//! The share of a source that retention by age may drop within a time: at most half of its rows.
//!
//! The [age clock](crate::clock) bounds what a wrong clock does. This bounds what a jump within its bounds does, a wrong default of
//! the server, and what nobody thought of: what is more than half waits, is told, and goes when nobody has changed anything
//! until the next time. The count is kept in the catalog, so that starts do not begin it again.

use std::time::Duration;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::meta;
use crate::{
    clock::DAY,
    error::{Result, StoreError},
};

/// The shortest time for which a share counts.
const SHORTEST: i64 = 60_000_000;

/// What retention has dropped of a source within a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// When the time began, by the age clock.
    since: i64,
    /// The rows that the source had then.
    rows: u64,
    /// Rows that were dropped since.
    dropped: u64,
    /// Whether something waits.
    pub(crate) waits: bool,
    /// The operator has said that all that is too old may go at once.
    is_free: bool,
}

impl Share {
    /// How many of the segments that are too old may go now, given by their rows, the oldest first; of a source with
    /// `rows` rows. Returns what is to be kept.
    pub(crate) fn take(self, expired: &[u64], rows: u64, now: i64, max_age: Duration) -> (usize, Share) {
        if self.is_free {
            return (expired.len(), Share { since: now, rows, dropped: rows, ..Share::default() });
        }
        let window = i64::try_from(max_age.as_micros() / 8).unwrap_or(DAY).clamp(SHORTEST, DAY);
        let passed = now.saturating_sub(self.since);
        let (mut share, has_waited) = if passed < window {
            (self, false)
        } else {
            // A segment with more than half of the rows goes when it has waited for a time.
            (Share { since: now, rows, ..Share::default() }, self.waits && passed < window.saturating_mul(3))
        };
        let mut taken = 0;
        for segment in expired {
            let dropped = share.dropped.saturating_add(*segment);
            if dropped > share.rows / 2 && !(has_waited && share.dropped == 0) {
                break;
            }
            share.dropped = dropped;
            taken += 1;
        }
        share.waits = taken < expired.len();
        (taken, share)
    }

    /// What the catalog has of a source.
    pub(crate) fn read(conn: &Connection, source: Uuid) -> Result<Share> {
        let text = meta::get(conn, &key(source))?;
        // What cannot be read counts as nothing: it is written by no one else.
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    }

    /// Keeps it in the catalog.
    pub(crate) fn write(self, conn: &Connection, source: Uuid) -> Result<()> {
        let text = serde_json::to_string(&self).map_err(|error| StoreError::corrupt("a share", error))?;
        meta::set(conn, &key(source), &text)
    }
}

/// The operator says that what is too old of a source may go at once: until the next run of retention.
pub(crate) fn free(conn: &Connection, source: Uuid) -> Result<()> {
    Share { is_free: true, ..Share::default() }.write(conn, source)
}

/// Forgets a source that is deleted.
pub(crate) fn forget(conn: &Connection, source: Uuid) -> Result<()> {
    meta::remove(conn, &key(source))
}

fn key(source: Uuid) -> String {
    format!("retention_share/{source}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_hours(24 * 90);

    #[test]
    fn at_most_half_goes_in_a_time() {
        let (taken, share) = Share::default().take(&[10; 7], 100, 5 * DAY, AGE);
        assert_eq!((taken, share.waits), (5, true));
        assert_eq!(share.take(&[10; 2], 50, 5 * DAY + SHORTEST, AGE).0, 0, "the next run, or the next start");
        let (taken, share) = share.take(&[10; 2], 50, 6 * DAY, AGE);
        assert_eq!((taken, share.waits), (2, false));
        let (taken, _) = share.take(&[10], 30, 6 * DAY + SHORTEST, AGE);
        assert_eq!(taken, 0, "a day has one half");
        // An hour's logs have a time of seven minutes.
        let (_, share) = Share::default().take(&[10; 7], 100, 5 * DAY, Duration::from_hours(1));
        assert_eq!(share.take(&[10; 2], 50, 5 * DAY + 8 * SHORTEST, Duration::from_hours(1)).0, 2);
    }

    #[test]
    fn what_is_more_than_half_goes_when_it_has_waited() {
        let (taken, share) = Share::default().take(&[100, 1], 101, 5 * DAY, AGE);
        assert_eq!((taken, share.waits), (0, true));
        let (taken, after) = share.take(&[100, 1], 101, 6 * DAY, AGE);
        assert_eq!((taken, after.waits), (1, true));
        // It was not too old for long: that it waited once says nothing.
        assert_eq!(share.take(&[100, 1], 101, 60 * DAY, AGE).0, 0);
    }

    #[test]
    fn the_operator_s_word_counts_once() {
        let free = Share { is_free: true, ..Share::default() };
        let (taken, share) = free.take(&[100, 1], 101, 5 * DAY, AGE);
        assert_eq!((taken, share.waits), (2, false));
        assert_eq!(share.take(&[10], 10, 5 * DAY + 1, AGE).0, 0);
    }
}
