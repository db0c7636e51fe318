//! Reading the index of trigrams of a file: which of its granules may have the texts that a query demands.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    datasource::{
        listing::PartitionedFile,
        physical_plan::{
            ParquetFileReaderFactory,
            parquet::{ParquetAccessPlan, RowGroupAccess},
        },
    },
    error::Result,
    physical_plan::metrics::{Count, ExecutionPlanMetricsSet},
};
use parquet::arrow::{
    arrow_reader::{RowSelection, RowSelector},
    async_reader::AsyncFileReader,
};
use tidegate_model::TextCondition;
use tokio::sync::OnceCell;

use crate::segment::{
    file_error::Damage,
    search_places::SearchPlaces,
    trigram::{
        GRANULE_ROWS,
        directory::{IndexPlace, Layout, chunk_range},
        search::{self, Search},
    },
};

/// What a query demands of the texts of a file. It is attached to the file, and all pieces of the file share it.
#[derive(Debug)]
pub(crate) struct TextSearch {
    condition: Arc<TextCondition>,
    /// Whether each granule of the file may have the texts, once the index was read.
    may_have: OnceCell<Vec<bool>>,
}

impl TextSearch {
    pub(crate) fn new(condition: Arc<TextCondition>) -> TextSearch {
        TextSearch { condition, may_have: OnceCell::new() }
    }

    pub(crate) fn condition(&self) -> &Arc<TextCondition> {
        &self.condition
    }
}

/// Reads indexes.
#[derive(Debug, Clone)]
pub(crate) struct IndexReader {
    pub(crate) readers: Arc<dyn ParquetFileReaderFactory>,
    pub(crate) partition: usize,
    pub(crate) metrics: ExecutionPlanMetricsSet,
    /// Granules that were left out, and those that were not.
    pub(crate) skipped: Count,
    pub(crate) read: Count,
}

impl IndexReader {
    /// The file with the rows that may have the texts; `None` if there are none.
    pub(crate) async fn pruned(
        &self,
        file: PartitionedFile,
        reader: &mut (dyn AsyncFileReader + Send),
        places: &SearchPlaces,
    ) -> Result<Option<PartitionedFile>> {
        let Some(search) = file.extension::<TextSearch>() else { return Ok(Some(file)) };
        let look_up = look_up_all(reader, places, &file, &search.condition);
        let may_have = search.may_have.get_or_try_init(|| look_up).await?;
        let before = file.extension::<ParquetAccessPlan>().map(ParquetAccessPlan::inner);
        let (access, read, skipped) = access(&places.rows, before, may_have);
        self.read.add(read);
        self.skipped.add(skipped);
        Ok((read > 0).then(|| file.with_extension(ParquetAccessPlan::new(access))))
    }
}

/// Whether each granule of a file may have the texts.
async fn look_up_all(
    reader: &mut (dyn AsyncFileReader + Send),
    places: &SearchPlaces,
    file: &PartitionedFile,
    condition: &TextCondition,
) -> Result<Vec<bool>> {
    let mut may_have = vec![true; places.granules()];
    for place in &places.indexes {
        if let (Some(search), Some(layout)) = (Search::of(condition, &place.column), Layout::of(place.granules)) {
            match look_up(reader, &search, place, &layout).await? {
                Ok(found) => may_have.iter_mut().zip(found).for_each(|(may_have, found)| *may_have &= found),
                // Its bytes are those that were written. Without the index the answer is the same.
                Err(error) => tracing::warn!(file = %file.object_meta.location, %error, "an index is not used"),
            }
        }
    }
    Ok(may_have)
}

/// Whether each granule may have the texts, or why the index cannot tell.
async fn look_up(
    reader: &mut (dyn AsyncFileReader + Send),
    search: &Search,
    place: &IndexPlace,
    layout: &Layout,
) -> Result<std::result::Result<Vec<bool>, Damage>> {
    let directory = reader.get_bytes(place.start..place.start + layout.directory_bytes() as u64).await?;
    let numbers = search::chunks(search, layout);
    let ranges = numbers.iter().map(|chunk| chunk_range(place, layout, &directory, *chunk));
    let ranges: Vec<Range<u64>> = match ranges.collect() {
        Ok(ranges) => ranges,
        Err(damage) => return Ok(Err(damage)),
    };
    let chunks: BTreeMap<usize, Bytes> = numbers.into_iter().zip(reader.get_byte_ranges(ranges).await?).collect();
    Ok(search::granules(search, place, layout, &chunks))
}

/// What is read of each row group, and how many granules are read and left out of those that would be read otherwise.
fn access(rows: &[usize], before: Option<&[RowGroupAccess]>, may_have: &[bool]) -> (Vec<RowGroupAccess>, usize, usize) {
    let (mut read, mut skipped, mut first) = (0, 0, 0);
    let groups = rows.iter().enumerate().map(|(number, rows)| {
        let end = first + rows.div_ceil(GRANULE_ROWS);
        let granules = may_have.get(first..end).unwrap_or_default();
        first = end;
        let before = before.map_or(Some(&RowGroupAccess::Scan), |before| before.get(number));
        let Some(before) = before.filter(|before| before.should_scan()) else { return RowGroupAccess::Skip };
        let found = granules.iter().filter(|may_have| **may_have).count();
        (read, skipped) = (read + found, skipped + granules.len() - found);
        match before {
            _ if found == granules.len() => before.clone(),
            _ if found == 0 => RowGroupAccess::Skip,
            RowGroupAccess::Selection(selection) => {
                RowGroupAccess::Selection(selection.intersection(&selected(*rows, granules)))
            }
            _ => RowGroupAccess::Selection(selected(*rows, granules)),
        }
    });
    (groups.collect(), read, skipped)
}

/// The rows of the granules of a row group.
fn selected(rows: usize, granules: &[bool]) -> RowSelection {
    let mut left = rows;
    let selectors = granules.iter().map(|may_have| {
        let rows = left.min(GRANULE_ROWS);
        left -= rows;
        if *may_have { RowSelector::select(rows) } else { RowSelector::skip(rows) }
    });
    selectors.collect::<Vec<_>>().into()
}
