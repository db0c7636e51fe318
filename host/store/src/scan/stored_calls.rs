//! The stored rows of calls, for followers that come back: those that the feed of their source has no longer.
//!
//! They are read in ranges of calls, each about as large as the caller wants. Segments and batches in memory know the
//! first and the last call of their rows, and few of them have calls of a range, as they are made in the order of calls.
//! Which rows of a segment those are, the columns of places say ([`crate::memory::places`]); pages without such rows are
//! left out by their bounds.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use uuid::Uuid;

use crate::{
    scan::{
        followed_table::FollowedTable,
        place_order::CallRange,
        table::{SourceTable, TableRows},
    },
    segment::{footer_entry::RowPlaces, handle::Segment},
    source::Snapshot,
};

/// The rows of some calls of a source.
#[derive(Debug, Clone)]
pub struct StoredCalls {
    /// The columns of a [`FollowedTable`]. A scan of it gives the rows in the order of their places.
    pub table: Arc<dyn TableProvider>,
    /// The number of the last call of the range.
    pub last: i64,
    /// How many numbers the range spans, without those that were given to no call.
    pub span: i64,
    /// Whether all stored rows of these calls are in the table. If not, some are in a segment that is damaged, or that was
    /// written before rows had places.
    pub is_complete: bool,
}

/// The calls of which a caller wants the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedCalls {
    /// After the call with this number.
    pub after: i64,
    /// Up to this one, which the snapshot has.
    pub up_to: i64,
    /// Of about so many rows. One call at least is taken.
    pub rows: usize,
    /// Whose numbers span at most so many, without those that were given to no call.
    pub span: i64,
}

/// Rows that lie together, with the calls that they came with.
#[derive(Debug, Clone, Copy)]
struct Part {
    first: i64,
    last: i64,
    rows: usize,
}

impl Part {
    fn overlaps(&self, after: i64, last: i64) -> bool {
        self.first <= last && self.last > after
    }
}

impl FollowedTable {
    /// The stored rows of the snapshot that came with the wanted calls, from the first of them on. `catalog` is the
    /// identity of the catalog that numbers them, `left_out` are the numbers that it gave to none
    /// ([`crate::wal::numbering`]). Reads footers of segments that were not asked for before.
    pub(crate) fn stored(&self, wanted: WantedCalls, catalog: Uuid, left_out: &[(i64, i64)]) -> StoredCalls {
        let Snapshot { segments, memory, .. } = &self.snapshot;
        let batches = memory.iter().map(|batch| Part {
            first: batch.first_seq,
            last: batch.last_seq,
            rows: batch.rows.num_rows(),
        });
        let parts = segments.iter().filter_map(|segment| part(segment)).chain(batches);
        let last = range_end(parts.collect(), wanted, left_out);
        let calls = CallRange { after: wanted.after, last };
        let mut is_complete = true;
        let mut kept = Vec::new();
        for segment in segments.iter() {
            let Some(own) = part(segment).filter(|part| part.overlaps(calls.after, last)) else { continue };
            // Calls of the range that may have rows in the segment.
            let from = own.first.max(calls.after.saturating_add(1));
            match segment.row_places(catalog) {
                _ if segment.damage().is_some() => is_complete = false,
                Err(error) => {
                    tracing::warn!(segment = %segment.id, %error, "the rows of a segment are not read for a follower");
                    is_complete = false;
                }
                Ok(RowPlaces::Foreign) => {}
                Ok(RowPlaces::After(unplaced)) => {
                    is_complete &= unplaced < from;
                    kept.push(Arc::clone(segment));
                }
            }
        }
        let memory = memory.iter().filter(|batch| batch.first_seq <= last && batch.last_seq > calls.after);
        let rows = Snapshot {
            schema: self.table.schema(),
            memory: memory.cloned().collect(),
            segments: Arc::new(kept),
            ..self.snapshot.clone()
        };
        let table = SourceTable::of_rows(Arc::clone(&self.info), rows, TableRows::Calls(calls));
        let span = i64::try_from(given(left_out, calls.after, last)).unwrap_or(i64::MAX);
        StoredCalls { table: Arc::new(table), last, span, is_complete }
    }
}

fn part(segment: &Segment) -> Option<Part> {
    // Files that do not say which calls they have are older than all followers.
    segment.seqs.map(|(first, last)| Part { first, last, rows: segment.rows })
}

/// How many numbers after `from` and up to `to` were given to calls. Those between the two of each pair were not.
fn given(left_out: &[(i64, i64)], from: i64, to: i64) -> i128 {
    let overlap = |(last, next): &(i64, i64)| {
        let (begin, end) = ((*last).max(from), next.saturating_sub(1).min(to));
        (i128::from(end) - i128::from(begin)).max(0)
    };
    i128::from(to) - i128::from(from) - left_out.iter().map(overlap).sum::<i128>()
}

/// The number up to which `count` numbers after `from` were given.
fn given_end(left_out: &[(i64, i64)], from: i64, count: i128) -> i64 {
    let mut end = i128::from(from).saturating_add(count);
    for (last, next) in left_out {
        let begin = (*last).max(from);
        if end <= i128::from(begin) {
            break;
        }
        end = end.saturating_add((i128::from(*next) - 1 - i128::from(begin)).max(0));
    }
    i64::try_from(end).unwrap_or(i64::MAX)
}

/// The last call of a range with about the wanted rows. Within a part, calls are taken to have equally many rows.
fn range_end(mut parts: Vec<Part>, wanted: WantedCalls, left_out: &[(i64, i64)]) -> i64 {
    let WantedCalls { after, up_to, rows, span } = wanted;
    let least = after.saturating_add(1);
    let most = up_to.min(given_end(left_out, after, i128::from(span.max(1)))).max(least);
    parts.retain(|part| part.overlaps(after, most));
    parts.sort_by_key(|part| part.first);
    let mut left = rows as i128;
    for Part { first, last, rows } in parts {
        let (before, end) = (first.saturating_sub(1).max(after), last.min(most));
        let calls = given(left_out, before, end);
        let own = (rows as i128).saturating_mul(calls) / given(left_out, first.saturating_sub(1), last).max(1);
        if own > left {
            let taken = calls.saturating_mul(left) / own;
            // Without a call the range would not go on.
            let taken = if before > after { taken } else { taken.max(1) };
            return given_end(left_out, before, taken).clamp(least, most);
        }
        left -= own;
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_has_about_the_wanted_rows() {
        let part = |first, last, rows| Part { first, last, rows };
        let parts = [part(1, 10, 100), part(11, 20, 1_000), part(21, 30, 10)];
        let end = |after, up_to, rows, span| range_end(parts.to_vec(), WantedCalls { after, up_to, rows, span }, &[]);
        assert_eq!(end(0, 30, 50, i64::MAX), 5);
        assert_eq!(end(0, 30, 100, i64::MAX), 10);
        assert_eq!(end(0, 30, 600, i64::MAX), 15);
        assert_eq!(end(0, 30, 10_000, i64::MAX), 30);
        assert_eq!(end(0, 25, 10_000, i64::MAX), 25);
        assert_eq!(end(0, 30, 10_000, 3), 3);
        assert_eq!(end(10, 30, 1, i64::MAX), 11, "one call at least");
        assert_eq!(end(30, 90, 1, i64::MAX), 90, "nothing is stored there");
    }

    /// Numbers that no call has count for nothing, also where a segment has calls before and after them.
    #[test]
    fn numbers_that_were_left_out_are_stepped_over() {
        let left_out = [(100, 1_000_001), (1_000_100, 9_000_001)];
        let parts = vec![Part { first: 1, last: 9_000_100, rows: 300 }];
        let end = |after, rows, span| {
            range_end(parts.clone(), WantedCalls { after, up_to: 9_000_100, rows, span }, &left_out)
        };
        assert_eq!((end(0, 50, i64::MAX), end(50, 50, i64::MAX)), (50, 100));
        assert_eq!((end(100, 50, i64::MAX), end(100, 150, i64::MAX)), (1_000_050, 9_000_050));
        assert_eq!((end(99, 1_000, 2), end(100, 0, i64::MAX)), (1_000_001, 1_000_001));
        assert_eq!((given(&left_out, 0, 9_000_100), given(&left_out, 50, 1_000_050)), (300, 100));
        assert_eq!(given(&left_out, 500, 1_000_000), 0);
    }

    proptest! {
        /// What is counted is what is stepped over.
        #[test]
        fn counts_and_ends_agree(
            steps in prop::collection::vec((1_i64..50, 1_i64..1_000), 0..6), from in 0_i64..3_000, count in 1_i128..200
        ) {
            let (mut left_out, mut at) = (Vec::new(), 0);
            for (calls, hole) in steps {
                left_out.push((at + calls, at + calls + hole));
                at += calls + hole;
            }
            let end = given_end(&left_out, from, count);
            prop_assert_eq!(given(&left_out, from, end), count);
        }

        /// Ranges go on, and end where the wanted calls end.
        #[test]
        fn ranges_go_on(
            parts in prop::collection::vec((any::<i64>(), any::<i64>(), 0_usize..1 << 40), 0..5),
            after in any::<i64>(), up_to in any::<i64>(), rows in 0_usize..1 << 40, span in 1..i64::MAX
        ) {
            prop_assume!(after < up_to);
            let left_out = [(-7, 1 << 40), (1 << 50, i64::MAX - 3)];
            let parts = parts.into_iter().map(|(a, b, rows)| Part { first: a.min(b), last: a.max(b), rows }).collect();
            let end = range_end(parts, WantedCalls { after, up_to, rows, span }, &left_out);
            prop_assert!(after < end && end <= up_to, "{after} {end} {up_to}");
        }
    }
}
