//! Reading the footer of a segment. No byte is trusted before its checksum was verified.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use datafusion::arrow::{
    array::AsArray,
    datatypes::{DataType, Schema},
};
use parquet::{
    arrow::{ProjectionMask, arrow_reader::ParquetRecordBatchReaderBuilder, parquet_to_arrow_schema},
    errors::ParquetError,
    file::metadata::{ParquetMetaData, ParquetMetaDataReader},
};
use uuid::Uuid;

use crate::{
    arrays::schema_evolution::adapt,
    field_names::ID,
    segment::{
        checksum::{
            file::{check_file, check_root, read_table},
            table::ChecksumTable,
        },
        file_error::{Damage, SegmentFileError},
        footer_entry::{FOOTER_KEY, FooterEntry},
    },
};

/// The footer of a segment, read and checked.
#[derive(Debug)]
pub(crate) struct Footer {
    pub(crate) checksums: Option<ChecksumTable>,
    /// `None` in files of a version without checksums.
    pub(crate) entry: Option<FooterEntry>,
    pub(crate) rows: u64,
    /// Bytes of the file.
    pub(crate) size: u64,
    pub(crate) source_name: Option<String>,
    metadata: ParquetMetaData,
}

fn wrong(error: impl ToString) -> SegmentFileError {
    Damage(format!("its footer cannot be read: {}", error.to_string())).into()
}

/// Reads the footer of a segment. `root` is as in [`check_file`].
pub(crate) fn read(path: &Path, segment: Uuid, root: Option<u32>) -> Result<Footer, SegmentFileError> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let checksums = check_root(read_table(&mut file, segment)?, root)?;
    let mut last = [0; 8];
    file.seek(SeekFrom::Start(size.saturating_sub(8)))?;
    file.read_exact(&mut last)?;
    let [a, b, c, d, ..] = last;
    let start = size.checked_sub(u64::from(u32::from_le_bytes([a, b, c, d])) + 8);
    let start = start.ok_or_else(|| Damage("its footer is said to be longer than the file".to_owned()))?;
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(size - start).read_to_end(&mut tail)?;
    if let Some(checksums) = &checksums {
        checksums.check(start, &tail)?;
    }
    let footer = tail.get(..tail.len().saturating_sub(8)).unwrap_or_default();
    let metadata = ParquetMetaDataReader::decode_metadata(footer).map_err(wrong)?;
    let said = metadata.file_metadata().key_value_metadata().map(Vec::as_slice).unwrap_or_default();
    let value = |key: &str| said.iter().find(|said| said.key == key).and_then(|said| said.value.clone());
    let entry = match value(FOOTER_KEY) {
        Some(entry) => Some(serde_json::from_str(&entry).map_err(wrong)?),
        None => None,
    };
    if entry.is_some() && checksums.is_none() {
        return Err(Damage("the table of its checksums is missing".to_owned()).into());
    }
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    Ok(Footer { checksums, entry, rows, size, source_name: value("tidegate.source_name"), metadata })
}

impl Footer {
    /// The Arrow schema of the file.
    pub(crate) fn schema(&self) -> Result<Schema, ParquetError> {
        let file = self.metadata.file_metadata();
        parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
    }

    /// How many values that are not NULL each column of the file has, by the names that lead to it; `None` if the file does
    /// not say so of some column.
    pub(crate) fn value_counts(&self) -> Option<HashMap<Vec<String>, u64>> {
        let mut counts = HashMap::new();
        for column in self.metadata.row_groups().iter().flat_map(|group| group.columns()) {
            let nulls = column.statistics()?.null_count_opt()?;
            let values = u64::try_from(column.num_values()).ok()?.saturating_sub(nulls);
            *counts.entry(column.column_path().parts().to_vec()).or_default() += values;
        }
        Some(counts)
    }
}

/// Checks a whole file: every byte, if it has checksums, and that its footer can be read.
pub(crate) fn check(path: &Path, segment: Uuid, root: Option<u32>) -> Result<Footer, SegmentFileError> {
    check_file(path, segment, root)?;
    read(path, segment, root)
}

/// How often each event id occurs in a file. The file must have been checked before.
pub(crate) fn ids(path: &Path) -> Result<HashMap<String, usize>, SegmentFileError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?).map_err(wrong)?;
    let columns = ProjectionMask::columns(builder.parquet_schema(), [ID]);
    let reader = builder.with_projection(columns).build().map_err(wrong)?;
    let mut ids = HashMap::new();
    for batch in reader {
        let batch = batch.map_err(wrong)?;
        let column = batch.columns().first().ok_or_else(|| wrong("there is no column of identities"))?;
        let column = adapt(column, &DataType::Utf8View).map_err(wrong)?;
        for id in column.as_string_view().iter().flatten() {
            *ids.entry(id.to_owned()).or_default() += 1;
        }
    }
    Ok(ids)
}
