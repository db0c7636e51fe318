//! Which bytes of a segment are read for ranges of it: whole units of its checksums, those that overlap together.

use std::ops::Range;

use crate::segment::checksum::table::ChecksumTable;

/// The most bytes of a run. A run joins ranges that share a block; its bytes stay in memory until the last of its
/// ranges is dropped.
const LONGEST_RUN: u64 = 4 << 20;

/// The ranges to read for `ranges`: whole units; those that overlap are joined. Each of `ranges` lies in one run.
pub(crate) fn runs(checksums: &ChecksumTable, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut wide: Vec<Range<u64>> = ranges.iter().map(|range| checksums.widen(range)).collect();
    wide.sort_by_key(|range| (range.start, range.end));
    let mut runs: Vec<Range<u64>> = Vec::with_capacity(wide.len());
    for range in wide {
        match runs.last_mut() {
            Some(last)
                if range.end <= last.end || (range.start < last.end && range.end - last.start <= LONGEST_RUN) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => runs.push(range),
        }
    }
    runs
}
