use std::collections::BTreeMap;

use datafusion::arrow::{
    array::{Array, AsArray, RecordBatch, StringViewArray},
    datatypes::{Field, Int64Type, Schema},
};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ArrowReaderMetadata},
    basic::Compression,
    file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion},
};

use super::*;

/// A small generator of numbers, by a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A file of one column, and its footer.
fn file(values: &ArrayRef, nullable: bool, properties: WriterPropertiesBuilder) -> (Bytes, ArrowReaderMetadata) {
    let schema = Arc::new(Schema::new(vec![Field::new("value", values.data_type().clone(), nullable)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(values)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let bytes = Bytes::from(bytes);
    let footer = ArrowReaderMetadata::load(&bytes, Default::default()).unwrap();
    (bytes, footer)
}

fn chunk_bytes(file: &Bytes, chunk: &ColumnChunkMetaData) -> Bytes {
    let (start, length) = chunk.byte_range();
    file.slice(start as usize..(start + length) as usize)
}

/// How often each value stands in an array, as texts.
fn counted(values: &ArrayRef, counts: impl Iterator<Item = i64>) -> BTreeMap<String, i64> {
    let text = |row: usize| match values.data_type() {
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row).to_string(),
        _ => values.as_string_view().value(row).to_owned(),
    };
    let mut all = BTreeMap::new();
    for (row, count) in (0..values.len()).zip(counts) {
        *all.entry(text(row)).or_default() += count;
    }
    all
}

#[test]
fn counts_are_those_of_the_values() {
    let mut numbers = Numbers(7);
    for round in 0..60_u64 {
        let distinct = [1, 2, 3, 17, 200, 256, 257, 1_000, 5_000][(round % 9) as usize];
        let rows = 1 + numbers.below(9_000);
        let longest = 1 + numbers.below(40);
        let mut drawn = Vec::new();
        while (drawn.len() as u64) < rows {
            let value = numbers.below(distinct);
            let run = 1 + numbers.below(longest);
            drawn.extend(std::iter::repeat_n(value, run.min(rows - drawn.len() as u64) as usize));
        }
        let values: ArrayRef = match round % 2 {
            0 => Arc::new(drawn.iter().map(|value| *value as i64 - 3).collect::<Int64Array>()),
            _ => Arc::new(StringViewArray::from_iter_values(
                drawn.iter().map(|value| format!("{}-{value}", "ä".repeat((*value % 9) as usize))),
            )),
        };
        let properties = WriterProperties::builder()
            .set_writer_version([WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][(round / 2 % 2) as usize])
            .set_compression([Compression::UNCOMPRESSED, Compression::LZ4_RAW][(round / 4 % 2) as usize])
            .set_data_page_row_count_limit(1 + numbers.below(3_000) as usize)
            .set_write_batch_size(64)
            .set_max_row_group_row_count(Some(4_000));
        let (bytes, footer) = file(&values, false, properties);
        let mut found = BTreeMap::new();
        for group in footer.metadata().row_groups() {
            let chunk = group.column(0);
            assert!(is_countable(chunk, values.data_type()), "round {round}");
            let (values, counts) = value_counts(chunk, chunk_bytes(&bytes, chunk)).unwrap();
            for (value, count) in counted(&values, counts.values().iter().copied()) {
                assert!(count > 0);
                *found.entry(value).or_default() += count;
            }
        }
        assert_eq!(found, counted(&values, std::iter::repeat(1)), "round {round}");
    }
}

#[test]
fn what_is_not_numbers_of_one_dictionary_is_not_counted() {
    let texts = |count: u64| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..count).map(|number| format!("text number {number}"))))
    };
    let countable = |values: &ArrayRef, nullable, properties| {
        let (_, footer) = file(values, nullable, properties);
        is_countable(footer.metadata().row_group(0).column(0), values.data_type())
    };
    assert!(countable(&texts(500), false, WriterProperties::builder()));
    // Rows without a value; a dictionary that was given up; none at all.
    assert!(!countable(&texts(500), true, WriterProperties::builder()));
    let small = WriterProperties::builder().set_dictionary_page_size_limit(1_000).set_write_batch_size(64);
    assert!(!countable(&texts(5_000), false, small));
    assert!(!countable(&texts(500), false, WriterProperties::builder().set_dictionary_enabled(false)));
    // Another type in the table.
    let (_, footer) = file(&texts(5), false, WriterProperties::builder());
    assert!(!is_countable(footer.metadata().row_group(0).column(0), &DataType::Int64));
}

#[test]
fn bytes_that_are_no_chunk_are_an_error_or_counted_and_never_worse() {
    let mut numbers = Numbers(3);
    let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(
        (0..3_000).map(|_| format!("value {}", numbers.below(40))).collect::<Vec<_>>(),
    ));
    let (bytes, footer) = file(&values, false, WriterProperties::builder().set_data_page_row_count_limit(700));
    let chunk = footer.metadata().row_group(0).column(0);
    let whole = chunk_bytes(&bytes, chunk);
    let mut refused = 0;
    for _ in 0..3_000 {
        let mut damaged = whole.to_vec();
        for _ in 0..1 + numbers.below(3) {
            let place = numbers.below(damaged.len() as u64) as usize;
            damaged[place] = numbers.below(256) as u8;
        }
        damaged.truncate(damaged.len() - numbers.below(2) as usize * numbers.below(200) as usize);
        match value_counts(chunk, damaged.into()) {
            Ok((_, counts)) => assert_eq!(counts.values().iter().sum::<i64>(), 3_000),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn wide_numbers_and_runs_of_nothing() {
    // Two numbers of 20 bits, packed: 5 and 70,000.
    let mut counts = vec![[0; LANES]; 100_000];
    let packed = (5_u64 | 70_000 << 20).to_le_bytes();
    let page = [&[20, 0b11][..], &packed, &[0; 12]].concat();
    assert_eq!(count(&page, 2, &mut counts).unwrap(), 2);
    assert_eq!((counts[5], counts[70_000]), ([1, 0, 0, 0], [1, 0, 0, 0]));
    // The same number five times, as a run.
    assert_eq!(count(&[20, 10, 5, 0, 0], 5, &mut counts).unwrap(), 5);
    assert_eq!(counts[5], [6, 0, 0, 0]);
    for page in [&[20, 0, 5, 0, 0][..], &[20, 1], &[33, 10, 5, 0, 0, 0, 0], &[20, 10, 5], &[], &[20], &[20, 0xff]] {
        assert!(count(page, 5, &mut counts).is_err(), "{page:?}");
    }
    // A number that the dictionary does not have.
    assert!(count(&[8, 4, 9], 2, &mut [[0; LANES]; 9]).is_err());
}
