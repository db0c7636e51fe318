//! What is left to read of a scan.

use datafusion::common::stats::Precision;
use tidegate_store::{FileDescription, ScanDescription, SegmentName};

/// What is left to read of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// As it is stored, with all columns, about.
    pub(super) bytes: u64,
    /// Before any condition, about.
    pub(super) rows: u64,
}

impl Weight {
    /// Of a scan. Where each partition hands on at most `limit` rows, no more are read.
    pub(super) fn of(scan: &ScanDescription, limit: Option<usize>) -> Self {
        let mut all = Self::default();
        for files in &scan.partitions {
            let mut left = limit.map_or(u64::MAX, |limit| limit as u64);
            for file in files {
                let Some(segment) = scan.segments.get(file.segment) else { continue };
                let rows = rows_of(file, segment).min(left);
                left -= rows;
                let bytes = u128::from(segment.bytes) * u128::from(rows) / u128::from(segment.rows.max(1));
                all.rows = all.rows.saturating_add(rows);
                all.bytes = all.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            }
        }
        all
    }
}

fn rows_of(file: &FileDescription, segment: &SegmentName) -> u64 {
    match file.rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => (rows as u64).min(segment.rows),
        Precision::Absent => segment.rows,
    }
}
