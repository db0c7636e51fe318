//! Which columns of a segment keep their texts as UUIDs of 16 bytes ([`packed_uuids`](crate::arrays::packed_uuids)).
//!
//! Those of texts all of which are UUIDs, and which a dictionary does not hold. Texts of a dictionary are made once, and read
//! faster than packed ones.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::{Array, AsArray, RecordBatch},
        datatypes::{DataType, Field, Fields, Schema, SchemaRef},
    },
    common::HashSet,
};
use parquet::{
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
    schema::types::ColumnPath,
};

use crate::{
    arrays::{
        column_path::{column_at, type_at},
        packed_uuids::{PACKED, packed, packed_field, without_extension},
    },
    field_names::{ID, MESSAGE},
    memory::flush_rows::FlushRows,
    segment::column_encoding::{ColumnEncodings, REPEATING_BYTES},
};

/// The schema of a segment with these rows, which are written in this order or in their own, a row group after the other.
/// `plain` texts stay texts, besides messages.
pub(crate) fn schema_of_rows(
    rows: &FlushRows,
    order: Option<&[u32]>,
    group_rows: usize,
    encodings: &ColumnEncodings,
    plain: &[ColumnPath],
) -> SchemaRef {
    let first: Vec<(usize, usize)> = match order {
        Some(order) => order.iter().take(group_rows).map(|row| rows.place(*row as usize)).collect(),
        None => (0..rows.count().min(group_rows)).map(|row| rows.place(row)).collect(),
    };
    let differs = |path: &[String]| {
        let is_id = matches!(path, [column] if column == ID);
        is_id || encodings.differs(path) || exceed_dictionary(rows.parts(), path, &first)
    };
    with_packed(&rows.file_schema(), plain, &|path| are_uuids(rows.parts(), path) && differs(path))
}

/// The schema of a segment that is merged of `inputs`, each with its schema and its footer. `joined` holds the rows of all.
/// `plain` is as above.
pub(crate) fn schema_of_inputs(
    joined: &SchemaRef,
    inputs: &[(&SchemaRef, &ParquetMetaData)],
    plain: &[ColumnPath],
) -> SchemaRef {
    let is_packed = |schema: &SchemaRef, path: &[String]| type_at(schema, path) == Some(&PACKED);
    let fits = |schema: &SchemaRef, footer: &ParquetMetaData, path: &[String]| match type_at(schema, path) {
        None => true,
        Some(DataType::Utf8View) => has_no_value(footer, path),
        Some(other) => *other == PACKED,
    };
    with_packed(joined, plain, &|path| {
        inputs.iter().any(|(schema, _)| is_packed(schema, path))
            && inputs.iter().all(|(schema, footer)| fits(schema, footer, path))
    })
}

/// The schema in which the texts are packed of which `is_packed` says so, and no others.
fn with_packed(schema: &SchemaRef, plain: &[ColumnPath], is_packed: &dyn Fn(&[String]) -> bool) -> SchemaRef {
    let is_packed = |path: &[String]| {
        let is_message = matches!(path, [column] if column == MESSAGE);
        !is_message && !plain.iter().any(|text| text.parts() == path) && is_packed(path)
    };
    let fields = fields_with_packed(schema.fields(), &mut Vec::new(), &is_packed);
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn fields_with_packed(fields: &Fields, path: &mut Vec<String>, is_packed: &dyn Fn(&[String]) -> bool) -> Fields {
    let mut changed = Vec::with_capacity(fields.len());
    for field in fields {
        path.push(field.name().clone());
        let field = Field::clone(field);
        changed.push(match field.data_type() {
            DataType::Struct(inner) => {
                let inner = fields_with_packed(inner, path, is_packed);
                field.with_data_type(DataType::Struct(inner))
            }
            DataType::List(item) => {
                // Elements stay texts.
                let item = fields_with_packed(&Fields::from(vec![Arc::clone(item)]), path, &|_| false);
                match item.first() {
                    Some(item) => field.with_data_type(DataType::List(Arc::clone(item))),
                    None => field,
                }
            }
            DataType::Utf8View | DataType::FixedSizeBinary(_) if is_packed(path) => packed_field(&field),
            DataType::FixedSizeBinary(_) => without_extension(field.with_data_type(DataType::Utf8View)),
            _ => field,
        });
        path.pop();
    }
    changed.into()
}

/// Whether a column of texts has values, all of which are UUIDs.
fn are_uuids(parts: &[RecordBatch], path: &[String]) -> bool {
    let mut has_values = false;
    for part in parts {
        let Some(texts) = column_at(part, path).and_then(|column| column.as_string_view_opt()) else { return false };
        if texts.iter().flatten().any(|text| packed(text).is_none()) {
            return false;
        }
        has_values |= texts.null_count() < texts.len();
    }
    has_values
}

/// Whether the dictionary of a row group with the texts at these places, each of a part and a row, would be given up.
fn exceed_dictionary(parts: &[RecordBatch], path: &[String], places: &[(usize, usize)]) -> bool {
    let texts: Vec<_> =
        parts.iter().map(|part| column_at(part, path).and_then(|column| column.as_string_view_opt())).collect();
    let mut bytes = 0;
    let mut seen = HashSet::new();
    for (part, row) in places {
        let Some(Some(texts)) = texts.get(*part) else { return false };
        if *row < texts.len() && texts.is_valid(*row) {
            let text = texts.value(*row);
            if seen.insert(text) {
                bytes += text.len() + size_of::<u32>();
            }
        }
    }
    bytes > REPEATING_BYTES
}

/// Whether a file is known to have no value in the column at a path.
fn has_no_value(footer: &ParquetMetaData, path: &[String]) -> bool {
    let is_empty = |chunk: &ColumnChunkMetaData| {
        let nulls = chunk.statistics().and_then(|statistics| statistics.null_count_opt());
        nulls.and_then(|nulls| i64::try_from(nulls).ok()).is_some_and(|nulls| nulls >= chunk.num_values())
    };
    let chunks = footer.row_groups().iter().flat_map(|group| group.columns());
    chunks.filter(|chunk| chunk.column_path().parts() == path).all(is_empty)
}
