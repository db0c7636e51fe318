//! Where a segment has what a search looks at before the file is opened: filters of ids and indexes of texts.
//!
//! The footer says it, but a footer has a kilobyte for each column of a row group, and footers of large folders do not all
//! stay in memory. What is here takes some 40 bytes a row group. So it stays with the segment, and a search that finds
//! nothing in a file needs no footer of it.

use std::ops::Range;

use parquet::{
    basic::Type,
    file::metadata::{ParquetMetaData, RowGroupMetaData},
};
use tokio::sync::OnceCell;

use crate::{
    field_names::ID,
    segment::trigram::{
        GRANULE_ROWS,
        directory::{INDEX_KEY, IndexPlace, Layout, VERSION},
    },
};

/// Where filters and indexes lie in a file.
#[derive(Debug)]
pub(crate) struct SearchPlaces {
    /// The rows of each row group.
    pub(crate) rows: Vec<usize>,
    /// Whether ids are UUIDs of 16 bytes, and these are what filters know.
    pub(crate) has_packed_ids: bool,
    /// The bytes of each row group's filter of ids, header included; `None` for one without.
    pub(crate) id_filters: Vec<Option<Range<u64>>>,
    /// Whether the filter of each row group has the header that is known, once the headers were read.
    pub(crate) known_headers: OnceCell<Vec<bool>>,
    /// The indexes that fit to the row groups.
    pub(crate) indexes: Vec<IndexPlace>,
}

impl SearchPlaces {
    /// Those that the footer of a file of so many bytes says.
    pub(crate) fn of_footer(footer: &ParquetMetaData, file_bytes: u64) -> SearchPlaces {
        let groups = footer.row_groups();
        let rows: Vec<usize> = groups.iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).collect();
        let columns = footer.file_metadata().schema_descr().columns();
        let column = columns.iter().position(|column| column.path().parts() == [ID]);
        let of_ids = column.and_then(|column| columns.get(column));
        let has_packed_ids = of_ids.is_some_and(|column| column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY);
        let id_filters = groups.iter().map(|group| id_filter(group, column?)).collect();
        let indexes = indexes(footer, file_bytes, granules_of(&rows));
        SearchPlaces { rows, has_packed_ids, id_filters, known_headers: OnceCell::new(), indexes }
    }

    /// The granules of the file.
    pub(crate) fn granules(&self) -> usize {
        granules_of(&self.rows)
    }
}

fn granules_of(rows: &[usize]) -> usize {
    rows.iter().map(|rows| rows.div_ceil(GRANULE_ROWS)).sum()
}

/// Where a row group has the filter of a column.
fn id_filter(group: &RowGroupMetaData, column: usize) -> Option<Range<u64>> {
    let chunk = group.columns().get(column)?;
    let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let length = u64::try_from(chunk.bloom_filter_length()?).ok()?;
    Some(start..start.checked_add(length)?)
}

fn indexes(footer: &ParquetMetaData, file_bytes: u64, granules: usize) -> Vec<IndexPlace> {
    let said = footer.file_metadata().key_value_metadata().into_iter().flatten();
    let said = said.filter(|said| said.key == INDEX_KEY).filter_map(|said| said.value.as_deref());
    let places = said.filter_map(|said| serde_json::from_str::<Vec<IndexPlace>>(said).ok()).flatten();
    let fits = |place: &IndexPlace| {
        let end = place.start.checked_add(place.bytes);
        place.version == VERSION
            && place.granules == granules
            && end.is_some_and(|end| end <= file_bytes)
            && Layout::of(granules).is_some_and(|layout| layout.directory_bytes() as u64 <= place.bytes)
    };
    places.filter(fits).collect()
}
