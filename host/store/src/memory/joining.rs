//! Which batches are joined, so that there are few of them and each row is copied rarely.
//!
//! Each call of ingest becomes a batch, and a query looks at every batch: its columns, its expressions. So neighbours of a
//! similar size are joined, several at a time. A row is copied once for each step of size, which is some four times at
//! most. Joining two at a time copied a row of a call of 500 events six times, which took as long as making its columns.

use std::{ops::Range, sync::Arc};

use crate::memory::mem_batch::MemBatch;

/// The most rows of a joined batch.
const JOIN_ROWS: usize = 32 << 10;

/// The factor between two steps of size.
const STEP: usize = 8;

/// So many batches are joined at least.
const FAN_IN: usize = 8;

/// The step of size of so many rows.
fn step(rows: usize) -> u32 {
    rows.max(1).ilog2() / STEP.ilog2()
}

/// The batches that are joined next; `None` if there are few enough. The newest are last.
pub(crate) fn next(batches: &[Arc<MemBatch>]) -> Option<Range<usize>> {
    of_sizes(&batches.iter().map(|batch| batch.rows.num_rows()).collect::<Vec<_>>())
}

/// The newest batches up to a step of size, if they have enough rows for the next one. So each row is copied once for each
/// step, and of each step there are fewer than [`STEP`] batches.
fn of_sizes(sizes: &[usize]) -> Option<Range<usize>> {
    (0..step(JOIN_ROWS)).find_map(|most| {
        let is_small = |rows: &&usize| step(**rows) <= most && **rows <= JOIN_ROWS / 2;
        let start = sizes.len() - sizes.iter().rev().take_while(is_small).count();
        let small = sizes.get(start..).unwrap_or_default();
        if small.iter().sum::<usize>() < STEP.pow(most + 1) {
            return None;
        }
        let mut rows = 0;
        let fits = |own: &&usize| {
            rows += **own;
            rows <= JOIN_ROWS
        };
        let count = small.iter().take_while(fits).count();
        (count >= FAN_IN).then_some(start..start + count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the batches after so many calls, and how often a row was copied.
    fn after(calls: usize, rows: usize) -> (Vec<usize>, f64) {
        let (mut sizes, mut copied) = (Vec::new(), 0);
        for _ in 0..calls {
            sizes.push(rows);
            while let Some(range) = of_sizes(&sizes) {
                let joined = sizes.drain(range.clone()).sum();
                copied += joined;
                sizes.insert(range.start, joined);
            }
        }
        (sizes, copied as f64 / (calls * rows) as f64)
    }

    #[test]
    fn batches_stay_few_and_rows_are_copied_rarely() {
        for rows in [1, 3, 7, 20, 100, 500, 600, 1_000, 4_000, 5_000, 9_000, 20_000, 40_000] {
            let (sizes, copied) = after(100_000 / rows, rows);
            // Of each step of size there are fewer than are joined, and there are the largest.
            let few = FAN_IN * 5 + sizes.iter().filter(|size| **size > JOIN_ROWS / 2).count();
            assert!(sizes.len() <= few.min(40), "calls of {rows} rows: {sizes:?}");
            assert!(copied <= 5.0, "calls of {rows} rows: each is copied {copied} times");
            assert_eq!(sizes.iter().sum::<usize>(), 100_000 / rows * rows);
            assert!(sizes.iter().all(|size| *size <= JOIN_ROWS.max(rows)));
        }
    }
}
