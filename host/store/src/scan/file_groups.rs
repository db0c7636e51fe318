//! Dealing the parts of segments out to groups, each of which is read by one partition.
//!
//! Where each part is in order, newest row first, so are the groups, and a merge of them gives the newest rows of all. A
//! merge takes from one group until another one has newer rows. With one long part after the other only one partition
//! would work at a time. So the row groups of a long part are dealt out to several groups in turn: while the rows of one row
//! group are taken, the next ones are being read.

use std::{cmp::Reverse, sync::Arc};

use datafusion::{
    common::stats::Precision,
    datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess},
};

use crate::scan::{
    chains::{Extent, chains},
    prune::SegmentPart,
};

/// The most groups of overlapping files that are merged in order. With more groups the scan gives up the order instead
/// of opening hundreds of files at once.
const MAX_ORDERED_GROUPS: usize = 32;

/// The fewest row groups of a share: it is opened like a file.
const LEAST_ROW_GROUPS: usize = 3;

/// A part of a segment, or the share of a group in its row groups.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) part: SegmentPart,
    /// Of how many shares this is which: of that many row groups one. The first has the newest rows.
    of: usize,
    number: usize,
}

impl Share {
    fn whole(part: SegmentPart) -> Share {
        Share { part, of: 1, number: 0 }
    }

    /// How many rows it has. The row groups of a part have about the same number of rows.
    pub(crate) fn rows(&self) -> Precision<usize> {
        match self.of {
            1 => Precision::Exact(self.part.rows()),
            _ => Precision::Inexact(self.about()),
        }
    }

    fn about(&self) -> usize {
        self.part.rows() / self.of.max(1)
    }

    /// The row groups that are read of the segment; `None` for all of them.
    pub(crate) fn row_groups(&self) -> Option<ParquetAccessPlan> {
        let runs = &self.part.segment.runs;
        if self.of == 1 && runs.len() == self.part.runs.len() {
            return None;
        }
        let access = runs.iter().enumerate().flat_map(|(place, run)| {
            let is_read = self.part.runs.contains(&place);
            (0..run.groups).map(move |group| match is_read && group % self.of == self.number {
                true => RowGroupAccess::Scan,
                false => RowGroupAccess::Skip,
            })
        });
        Some(ParquetAccessPlan::new(access.collect()))
    }
}

/// Groups of shares such that reading those of a group one after the other is in order, and whether that was possible.
/// At least `parallel` groups if there are as many shares.
pub(crate) fn grouped(parts: Vec<SegmentPart>, parallel: usize) -> (Vec<Vec<Share>>, bool) {
    let parallel = parallel.max(1);
    let mut parts = runs_apart(parts);
    parts.sort_by_key(|part| (Reverse(part.max_time()), Reverse(part.min_time())));
    if parts.iter().all(|part| part.runs.len() == 1) {
        let shares = parts.iter().flat_map(|part| shares(part, parallel)).map(with_extent);
        let whole = || parts.iter().cloned().map(Share::whole).map(with_extent);
        let groups = chains(shares, parallel, MAX_ORDERED_GROUPS);
        if let Some(groups) = groups.or_else(|| chains(whole(), parallel, MAX_ORDERED_GROUPS)) {
            return (groups, true);
        }
    }
    let mut groups: Vec<Vec<Share>> = vec![Vec::new(); parallel.min(parts.len())];
    for (part, turn) in parts.into_iter().zip((0..groups.len()).cycle()) {
        if let Some(group) = groups.get_mut(turn) {
            group.push(Share::whole(part));
        }
    }
    (groups, false)
}

/// Each run as a part of its own, if there are few. Then each part is in order. A file is opened for each part, so that
/// a scan which reads many runs of each segment is faster without the order.
fn runs_apart(parts: Vec<SegmentPart>) -> Vec<SegmentPart> {
    let runs: usize = parts.iter().map(|part| part.runs.len()).sum();
    if runs > MAX_ORDERED_GROUPS.max(2 * parts.len()) {
        return parts;
    }
    let apart = parts.into_iter().flat_map(|SegmentPart { segment, runs }| {
        runs.into_iter().map(move |run| SegmentPart { segment: Arc::clone(&segment), runs: vec![run] })
    });
    apart.collect()
}

fn with_extent(share: Share) -> (Share, Extent) {
    let extent = Extent { newest: share.part.max_time(), oldest: share.part.min_time(), rows: share.about() };
    (share, extent)
}

/// The shares of `parallel` groups in a part that is one run; the part as a whole if it has few row groups, or if they
/// were not counted.
fn shares(part: &SegmentPart, parallel: usize) -> Vec<Share> {
    let groups =
        part.runs.iter().filter_map(|place| part.segment.runs.get(*place)).map(|run| run.groups).sum::<usize>();
    let of = parallel.min(groups / LEAST_ROW_GROUPS).max(1);
    (0..of).map(|number| Share { part: part.clone(), of, number }).collect()
}
