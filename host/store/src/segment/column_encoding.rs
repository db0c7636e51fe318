//! How the columns of a segment are written: by what is seen of their values.
//!
//! - **Few**: their dictionary is small, so that the rest are numbers of a few bits. They are not compressed. That would save
//!   little, and each column chunk that is compressed costs a reader a context of the decompressor, which takes
//!   longer than decoding a thousand such numbers.
//! - **Repeating**: the dictionary may be larger than that of columns of which nothing is known. Whoever groups by the
//!   column or searches it looks at each text of the dictionary once, and texts beside it cost a look at each row. It is
//!   compressed with LZ4: the numbers of a dictionary hardly become smaller with zstd, and reading them takes several times as long.
//! - **Differing**: no dictionary. It would have each value once, and be read as a whole for a few rows. Of texts the lengths
//!   come first, then the texts: ids have all the same length, and both compress better apart and are decoded faster. UUIDs are
//!   packed ([`packed_columns`](super::packed_columns)).
//!
//! A batch from memory is sampled; segments that are merged say in their footers what their columns became.

use std::collections::HashMap;

use datafusion::{
    arrow::{
        array::{Array, ArrayAccessor, ArrayRef, AsArray},
        datatypes::{DataType, Float64Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType},
    },
    common::HashSet,
};
use parquet::{
    basic::{Compression, Encoding},
    file::{
        metadata::{ColumnChunkMetaData, ParquetMetaData},
        properties::WriterPropertiesBuilder,
    },
    schema::types::ColumnPath,
};

use crate::{
    arrays::{column_path::type_at, packed_uuids::packed_paths},
    field_names::{CALL, ID, MESSAGE, ROW, TIMESTAMP},
    memory::flush_rows::FlushRows,
};

/// A dictionary of more bytes than this is given up for the rest of its row group: it is read as a whole for a few rows.
pub(crate) const DICTIONARY_BYTES: usize = 64 << 10;
/// The same for columns whose values repeat.
pub(super) const REPEATING_BYTES: usize = 128 << 10;
/// A dictionary of at most so many bytes is a small one.
const FEW_BYTES: usize = 8 << 10;

/// A sample has at most so many blocks of so many rows. Neighbours are of one tenant, as in a row group; blocks are not.
const BLOCKS: usize = 4;
const BLOCK_ROWS: usize = 2 << 10;
/// Fewer values in a sample say nothing.
const LEAST_VALUES: usize = 64;

/// Columns that are always written in the same way, however often their values repeat. They have no dictionary. Of times and
/// places the differences of neighbours are stored: rows are in the order of time, and neighbours have the same call or the
/// next one.
const FIXED_ENCODINGS: [(&str, Encoding); 4] = [
    (ID, Encoding::DELTA_LENGTH_BYTE_ARRAY),
    (TIMESTAMP, Encoding::DELTA_BINARY_PACKED),
    (CALL, Encoding::DELTA_BINARY_PACKED),
    (ROW, Encoding::DELTA_BINARY_PACKED),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnEncoding {
    Few,
    Repeating,
    Differing,
}

/// How columns are written of which something is known.
#[derive(Debug, Default)]
pub(crate) struct ColumnEncodings(HashMap<ColumnPath, ColumnEncoding>);

impl ColumnEncodings {
    /// By a sample of rows, which are written in this order, or in their own.
    pub(crate) fn of_rows(rows: &FlushRows, order: Option<&[u32]>) -> ColumnEncodings {
        let count = rows.count();
        let step = (count / BLOCKS).max(BLOCK_ROWS);
        let blocks = (0..count).step_by(step).map(|start| start..(start + BLOCK_ROWS).min(count));
        let numbers: Vec<usize> = match order {
            None => blocks.flatten().collect(),
            Some(order) => {
                blocks.flat_map(|block| order.get(block).unwrap_or_default()).map(|row| *row as usize).collect()
            }
        };
        let places: Vec<(usize, usize)> = numbers.into_iter().map(|row| rows.place(row)).collect();
        let mut encodings = ColumnEncodings::default();
        for (index, field) in rows.file_schema().fields().iter().enumerate() {
            if has_fixed_encoding(field.name()) {
                continue;
            }
            let columns: Vec<&ArrayRef> = rows.parts().iter().map(|part| part.column(index)).collect();
            encodings.sample(vec![field.name().clone()], field.data_type(), &columns, &places);
        }
        encodings
    }

    /// Adds what is seen of a column at these places. It has an array of this type in each part.
    fn sample(&mut self, path: Vec<String>, kind: &DataType, parts: &[&ArrayRef], places: &[(usize, usize)]) {
        let sampled = match kind {
            DataType::Struct(fields) => {
                for (index, field) in fields.iter().enumerate() {
                    let children: Vec<&ArrayRef> = parts.iter().map(|part| part.as_struct().column(index)).collect();
                    let path = path.iter().chain([field.name()]).cloned().collect();
                    self.sample(path, field.data_type(), &children, places);
                }
                return;
            }
            DataType::Utf8View => {
                let values = values(parts, places, |part| part.as_string_view());
                Sampled::of(values, |text| text.len() + size_of::<u32>())
            }
            DataType::Int64 => Sampled::of(values(parts, places, |part| part.as_primitive::<Int64Type>()), size_of_val),
            DataType::Float64 => {
                let numbers = values(parts, places, |part| part.as_primitive::<Float64Type>());
                Sampled::of(numbers.map(f64::to_bits), size_of_val)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                let times = values(parts, places, |part| part.as_primitive::<TimestampMicrosecondType>());
                Sampled::of(times, size_of_val)
            }
            _ => return,
        };
        if let Some(encoding) = sampled.encoding() {
            self.0.insert(ColumnPath::new(path), encoding);
        }
    }

    /// By the footers of segments whose rows are merged.
    pub(crate) fn of_files<'a>(files: impl Iterator<Item = &'a ParquetMetaData>) -> ColumnEncodings {
        let mut found: HashMap<ColumnPath, Written> = HashMap::new();
        let is_open = |chunk: &&ColumnChunkMetaData| !matches!(chunk.column_path().parts(), [column] if has_fixed_encoding(column));
        for chunk in files.flat_map(ParquetMetaData::row_groups).flat_map(|group| group.columns()).filter(is_open) {
            let nulls = chunk.statistics().and_then(|statistics| statistics.null_count_opt()).unwrap_or_default();
            let values = u64::try_from(chunk.num_values()).unwrap_or_default().saturating_sub(nulls);
            found.entry(chunk.column_path().clone()).or_default().add(encoding(chunk), values);
        }
        let known = found.into_iter().filter_map(|(path, written)| Some((path, written.encoding()?)));
        ColumnEncodings(known.collect())
    }

    /// The properties with those of the columns of this schema.
    pub(crate) fn applied(&self, properties: WriterPropertiesBuilder, schema: &Schema) -> WriterPropertiesBuilder {
        let of_texts = Encoding::DELTA_LENGTH_BYTE_ARRAY;
        let properties = properties
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            // Differences of a few bits do not become smaller.
            .set_column_compression(ColumnPath::from(TIMESTAMP), Compression::UNCOMPRESSED)
            .set_column_dictionary_enabled(ColumnPath::from(MESSAGE), false)
            .set_column_encoding(ColumnPath::from(MESSAGE), of_texts);
        let properties = FIXED_ENCODINGS.iter().fold(properties, |properties, (column, encoding)| {
            let column = ColumnPath::from(*column);
            properties.set_column_dictionary_enabled(column.clone(), false).set_column_encoding(column, *encoding)
        });
        let properties = self.0.iter().fold(properties, |properties, (path, encoding)| match encoding {
            ColumnEncoding::Few => properties
                .set_column_dictionary_enabled(path.clone(), true)
                .set_column_compression(path.clone(), Compression::UNCOMPRESSED),
            ColumnEncoding::Repeating => properties
                .set_column_dictionary_enabled(path.clone(), true)
                .set_column_dictionary_page_size_limit(path.clone(), REPEATING_BYTES)
                .set_column_compression(path.clone(), Compression::LZ4_RAW),
            ColumnEncoding::Differing if type_at(schema, path.parts()) == Some(&DataType::Utf8View) => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path.clone(), of_texts),
            ColumnEncoding::Differing => properties.set_column_dictionary_enabled(path.clone(), false),
        });
        // Random bytes do not become smaller.
        packed_paths(schema).into_iter().map(ColumnPath::new).fold(properties, |properties, path| {
            properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path.clone(), Encoding::PLAIN)
                .set_column_compression(path, Compression::UNCOMPRESSED)
        })
    }

    /// Whether the values of a column are known to differ from row to row.
    pub(crate) fn differs(&self, path: &[String]) -> bool {
        self.0.get(&ColumnPath::new(path.to_vec())) == Some(&ColumnEncoding::Differing)
    }
}

fn has_fixed_encoding(column: &str) -> bool {
    FIXED_ENCODINGS.iter().any(|(fixed, _)| *fixed == column)
}

/// The values at these places, each of a part and a row, that are not NULL.
fn values<'a, A: ArrayAccessor + 'a>(
    parts: &[&'a ArrayRef],
    places: &'a [(usize, usize)],
    typed: impl Fn(&'a ArrayRef) -> A,
) -> impl Iterator<Item = A::Item> + 'a {
    let parts: Vec<A> = parts.iter().map(|part| typed(part)).collect();
    places.iter().filter_map(move |&(part, row)| {
        let part = parts.get(part).filter(|part| row < part.len() && part.is_valid(row))?;
        Some(part.value(row))
    })
}

/// What a chunk became, if all of its values did. A dictionary that is compressed is taken for four times as large.
fn encoding(chunk: &ColumnChunkMetaData) -> Option<ColumnEncoding> {
    let Some(start) = chunk.dictionary_page_offset() else { return Some(ColumnEncoding::Differing) };
    let pages = chunk.page_encoding_stats_mask()?;
    if !pages.is_only(Encoding::RLE_DICTIONARY) && !pages.is_only(Encoding::PLAIN_DICTIONARY) {
        return None;
    }
    let bytes = usize::try_from(chunk.data_page_offset().checked_sub(start)?).ok()?;
    let is_few = match chunk.compression() {
        Compression::UNCOMPRESSED => bytes <= FEW_BYTES * 2,
        _ => bytes <= FEW_BYTES / 4,
    };
    Some(if is_few { ColumnEncoding::Few } else { ColumnEncoding::Repeating })
}

/// How many values of a column were written in which way, in the segments that are merged.
#[derive(Debug, Default)]
struct Written {
    few: u64,
    repeating: u64,
    differing: u64,
    otherwise: u64,
}

impl Written {
    fn add(&mut self, encoding: Option<ColumnEncoding>, values: u64) {
        let sum = match encoding {
            Some(ColumnEncoding::Few) => &mut self.few,
            Some(ColumnEncoding::Repeating) => &mut self.repeating,
            Some(ColumnEncoding::Differing) => &mut self.differing,
            None => &mut self.otherwise,
        };
        *sum = sum.saturating_add(values);
    }

    /// What all of them became, or what most did: values without compression are only written if there are few everywhere.
    fn encoding(&self) -> Option<ColumnEncoding> {
        let &Written { few, repeating, differing, otherwise } = self;
        if few + repeating > differing + otherwise {
            let is_few = repeating + differing + otherwise == 0;
            return Some(if is_few { ColumnEncoding::Few } else { ColumnEncoding::Repeating });
        }
        (differing > few + repeating + otherwise).then_some(ColumnEncoding::Differing)
    }
}

/// What was seen of a column.
#[derive(Debug, Default)]
struct Sampled {
    values: usize,
    distinct: usize,
    /// Bytes of a dictionary of them.
    bytes: usize,
}

impl Sampled {
    fn of<T: std::hash::Hash + Eq + Copy>(values: impl Iterator<Item = T>, bytes: impl Fn(&T) -> usize) -> Sampled {
        let mut seen = HashSet::new();
        let mut sampled = Sampled::default();
        for value in values {
            sampled.values += 1;
            if seen.insert(value) {
                sampled.bytes += bytes(&value);
            }
        }
        sampled.distinct = seen.len();
        sampled
    }

    fn encoding(&self) -> Option<ColumnEncoding> {
        let &Sampled { values, distinct, bytes } = self;
        if values < LEAST_VALUES {
            None
        } else if distinct > values / 16 * 15 {
            Some(ColumnEncoding::Differing)
        } else if bytes <= FEW_BYTES && distinct <= values / 4 {
            Some(ColumnEncoding::Few)
        } else {
            Some(ColumnEncoding::Repeating)
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use datafusion::arrow::{
        array::{Int64Array, RecordBatch, StringViewArray, StructArray},
        datatypes::Field,
    };
    use parquet::{
        arrow::ArrowWriter,
        file::{
            properties::WriterProperties,
            reader::{FileReader, SerializedFileReader},
        },
    };

    use super::*;
    use crate::memory::mem_batch::MemBatch;

    const ROWS: usize = 20_000;

    fn rows() -> RecordBatch {
        let text = |number: usize| Some(format!("a text of some length, {number}"));
        let texts =
            |of: &dyn Fn(usize) -> Option<String>| Arc::new((0..ROWS).map(of).collect::<StringViewArray>()) as ArrayRef;
        let agent = texts(&|row| text(row % 50));
        let path = texts(&|row| text(row * 7 % 2_500));
        let id = texts(&text);
        let rare = texts(&|row| text(row % 50).filter(|_| row % 500 == 0));
        let status: ArrayRef = Arc::new((0..ROWS).map(|row| Some(200 + row as i64 % 9)).collect::<Int64Array>());
        let none: ArrayRef = Arc::new((0..ROWS).map(|_| None::<i64>).collect::<Int64Array>());
        let fields = [("agent", agent), ("path", path), ("id", id), ("rare", rare), ("status", status), ("none", none)]
            .map(|(name, values)| (Arc::new(Field::new(name, values.data_type().clone(), true)), values));
        let record: ArrayRef = Arc::new(StructArray::from(fields.to_vec()));
        RecordBatch::try_from_iter([("record", record)]).unwrap()
    }

    fn sampled(parts: &[&RecordBatch], order: Option<&[u32]>) -> ColumnEncodings {
        let batch = |rows: &&RecordBatch| {
            Arc::new(MemBatch::new((*rows).clone(), rows.num_rows() * 200, (0, 0), &Arc::default()))
        };
        ColumnEncodings::of_rows(&FlushRows::of(&parts.iter().map(batch).collect::<Vec<_>>()).unwrap(), order)
    }

    fn written(rows: &RecordBatch, encodings: &ColumnEncodings) -> ParquetMetaData {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .set_write_batch_size(1_024)
            .set_max_row_group_row_count(Some(8_192));
        let mut file = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut file, rows.schema(), Some(encodings.applied(properties, &rows.schema()).build()))
                .unwrap();
        writer.write(rows).unwrap();
        writer.close().unwrap();
        SerializedFileReader::new(Bytes::from(file)).unwrap().metadata().clone()
    }

    fn of(encodings: &ColumnEncodings, name: &str) -> Option<ColumnEncoding> {
        encodings.0.get(&ColumnPath::new(vec!["record".to_owned(), name.to_owned()])).copied()
    }

    /// A merged segment is written as the ones it is made of, and these as their samples say.
    #[test]
    fn columns_are_written_by_what_their_values_are() {
        let rows = rows();
        let of_one = sampled(&[&rows], None);
        let reversed: Vec<u32> = (0..ROWS as u32).rev().collect();
        let other = sampled(&[&rows], Some(&reversed));
        let parts = [rows.slice(0, 1_000), rows.slice(1_000, ROWS - 1_000)];
        let of_parts = sampled(&parts.each_ref(), Some(&reversed));
        let file = written(&rows, &of_one);
        let merged = ColumnEncodings::of_files([&file, &file].into_iter());
        for encodings in [&of_one, &other, &of_parts, &merged] {
            assert_eq!(of(encodings, "agent"), Some(ColumnEncoding::Few));
            assert_eq!(of(encodings, "status"), Some(ColumnEncoding::Few));
            assert_eq!(of(encodings, "path"), Some(ColumnEncoding::Repeating));
            assert_eq!(of(encodings, "id"), Some(ColumnEncoding::Differing));
            assert_eq!(of(encodings, "none"), None);
        }
        assert_eq!(of(&of_one, "rare"), None);
        let group = file.row_group(0);
        let chunk =
            |name: &str| group.columns().iter().find(|chunk| chunk.column_path().parts().last().unwrap() == name);
        assert_eq!(chunk("agent").unwrap().compression(), Compression::UNCOMPRESSED);
        assert_ne!(chunk("path").unwrap().compression(), Compression::UNCOMPRESSED);
        assert!(chunk("path").unwrap().page_encoding_stats_mask().unwrap().is_only(Encoding::RLE_DICTIONARY));
        assert!(chunk("id").unwrap().dictionary_page_offset().is_none());
    }

    /// What was written without a sample tells of columns that have few values, and nothing of those whose dictionary was
    /// given up.
    #[test]
    fn older_segments_tell_by_their_footers() {
        let rows = rows();
        let old = written(&rows, &ColumnEncodings::default());
        let merged = ColumnEncodings::of_files([&old].into_iter());
        assert_eq!(of(&merged, "agent"), Some(ColumnEncoding::Few));
        assert_eq!(of(&merged, "id"), None);
        let new = written(&rows, &sampled(&[&rows], None));
        let both = ColumnEncodings::of_files([&old, &new].into_iter());
        assert_eq!(of(&both, "status"), Some(ColumnEncoding::Few));
        assert_eq!(of(&both, "id"), None);
        // What most values became.
        let most = ColumnEncodings::of_files([&old, &new, &new].into_iter());
        assert_eq!(of(&most, "id"), Some(ColumnEncoding::Differing));
        assert_eq!(of(&most, "path"), Some(ColumnEncoding::Repeating));
    }
}
