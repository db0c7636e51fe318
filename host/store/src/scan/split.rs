//! Cutting the files of a scan without order into pieces of about the same number of rows, so that all partitions read
//! until the end.
//!
//! DataFusion would cut the files by ranges of bytes. That knows nothing of the row groups that are read: those of one
//! tenant lie next to each other, and mostly fall into one range. Here whole row groups are dealt out. A piece is opened
//! like a file, so there are only a few for each partition; who is done first takes the next one.

use datafusion::{
    common::stats::Precision,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            FileGroup,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
    },
};

use crate::scan::segment_reader::SegmentOfFile;

/// Pieces for each partition, about.
const PIECES: usize = 2;

/// The fewest row groups of a piece, about: opening one takes as long as reading thousands of numbers.
const LEAST_ROW_GROUPS: usize = 2;

/// The files as `partitions` groups of pieces; `None` if there is nothing to cut, or if the row groups of a file are not
/// known.
pub(crate) fn split(groups: &[FileGroup], partitions: usize) -> Option<Vec<FileGroup>> {
    let files: Vec<(&PartitionedFile, Vec<RowGroup>)> =
        groups.iter().flat_map(FileGroup::iter).map(|file| Some((file, read_groups(file)?))).collect::<Option<_>>()?;
    let rows: usize = files.iter().flat_map(|(_, groups)| groups).map(|group| group.rows).sum();
    let row_groups = files.iter().map(|(_, groups)| groups.len()).sum::<usize>().max(1);
    let most = (rows / (partitions.max(1) * PIECES)).max(LEAST_ROW_GROUPS * rows / row_groups);
    let mut pieces: Vec<(usize, PartitionedFile)> = Vec::new();
    for (file, read) in files {
        let all = row_group_count(file)?;
        let mut rest = read.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_length(rest, most));
            let rows = piece.iter().map(|group| group.rows).sum();
            pieces.push((rows, piece_of(file, all, piece, rows)));
            rest = after;
        }
    }
    if pieces.len() < 2 {
        return None;
    }
    // Each to the partition that has the fewest rows so far.
    let mut dealt = vec![(0, Vec::new()); partitions.clamp(1, pieces.len())];
    for (rows, piece) in pieces {
        if let Some((held, files)) = dealt.iter_mut().min_by_key(|(held, _)| *held) {
            *held += rows;
            files.push(piece);
        }
    }
    Some(dealt.into_iter().map(|(_, files)| FileGroup::new(files)).collect())
}

/// A row group that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowGroup {
    place: usize,
    /// About: the rows of a run are shared out evenly.
    rows: usize,
}

/// How many row groups the file has; `None` if that is not known.
fn row_group_count(file: &PartitionedFile) -> Option<usize> {
    let SegmentOfFile(segment) = file.extension()?;
    let known = segment.has_runs && file.range.is_none() && segment.runs.iter().all(|run| run.groups > 0);
    known.then(|| segment.runs.iter().map(|run| run.groups).sum())
}

/// The row groups that are read of a file; `None` if they are not known.
fn read_groups(file: &PartitionedFile) -> Option<Vec<RowGroup>> {
    let all = row_group_count(file)?;
    let SegmentOfFile(segment) = file.extension()?;
    let access = file.extension::<ParquetAccessPlan>();
    if access.is_some_and(|plan| plan.len() != all) {
        return None;
    }
    let groups = segment.runs.iter().flat_map(|run| std::iter::repeat_n(run.rows / run.groups.max(1), run.groups));
    let groups = groups.enumerate().map(|(place, rows)| RowGroup { place, rows });
    // The plans of scans skip or read whole row groups.
    Some(groups.filter(|group| access.is_none_or(|plan| plan.should_scan(group.place))).collect())
}

/// How many row groups make the next piece: as many as `most` rows, and all if only half a piece would be left.
fn piece_length(groups: &[RowGroup], most: usize) -> usize {
    let total: usize = groups.iter().map(|group| group.rows).sum();
    if total <= most + most / 2 {
        return groups.len();
    }
    let mut rows = 0;
    let within = groups.iter().take_while(|group| {
        rows += group.rows;
        rows <= most
    });
    within.count().max(1)
}

fn piece_of(file: &PartitionedFile, all: usize, piece: &[RowGroup], rows: usize) -> PartitionedFile {
    let mut access = vec![RowGroupAccess::Skip; all];
    for group in piece {
        if let Some(access) = access.get_mut(group.place) {
            *access = RowGroupAccess::Scan;
        }
    }
    let mut file = file.clone().with_extension(ParquetAccessPlan::new(access));
    if let Some(statistics) = &file.statistics {
        let mut statistics = statistics.as_ref().clone();
        statistics.num_rows = Precision::Inexact(rows);
        file.statistics = Some(statistics.into());
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(rows: &[usize]) -> Vec<RowGroup> {
        rows.iter().enumerate().map(|(place, rows)| RowGroup { place, rows: *rows }).collect()
    }

    #[test]
    fn pieces_have_about_as_many_rows_as_they_may() {
        for (rows, most, expected) in [
            (&[10, 10, 10, 10, 10][..], 20, 2),
            (&[10, 10, 10], 20, 3),
            (&[10, 10, 10, 10], 25, 2),
            (&[50, 10, 10], 20, 1),
            (&[10], 1, 1),
        ] {
            assert_eq!(piece_length(&groups(rows), most), expected, "{rows:?}");
        }
    }
}
