//! The rows of a statement with the types of their columns, from which the guest's view and the encoders are derived.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use futures::StreamExt;
use futures::stream::BoxStream;
use tidegate_model::{Code, Failure, Kind};
use tidegate_runtime::{Column, Rows};
use tidegate_sql::{ColumnEncoder, ResultStream, Style, Type};

/// The types of a statement's columns. They are passed along with the rows, as the context of [`Rows`].
pub(super) type ColumnTypes = Vec<Type>;

/// Converts the rows of a statement for the component runtime, and keeps the types for the encoders.
pub(crate) fn rows_of(stream: ResultStream) -> Rows {
    let columns = stream.columns();
    rows_with(&columns, stream.boxed())
}

/// The same for batches of these columns.
pub(super) fn rows_with(columns: &[(String, Type)], batches: BoxStream<'static, Result<RecordBatch, Failure>>) -> Rows {
    let types: Arc<ColumnTypes> = Arc::new(columns.iter().map(|(_, ty)| ty.clone()).collect());
    let described = columns.iter().map(|(name, ty)| (name.clone(), kind_of(ty), true));
    let cells = Arc::clone(&types);
    Rows {
        columns: Column::of_statement(described),
        batches,
        context: types,
        json: Arc::new(move |column, array, row| cell(cells.get(column), array, row)),
    }
}

/// The kind under which a guest sees a type.
fn kind_of(ty: &Type) -> Kind {
    match ty {
        Type::Bool => Kind::Boolean,
        Type::Int64 => Kind::Int64,
        Type::Float64 => Kind::Float64,
        Type::Bytes => Kind::Bytes,
        Type::Timestamp => Kind::Timestamp,
        Type::String | Type::Null => Kind::Text,
        _ => Kind::Json,
    }
}

/// The type of a kind, for rows that a guest produced.
pub(super) fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Boolean => Type::Bool,
        Kind::Int64 => Type::Int64,
        Kind::Float64 => Type::Float64,
        Kind::Bytes => Type::Bytes,
        Kind::Timestamp => Type::Timestamp,
        Kind::Text => Type::String,
        Kind::Json => Type::Json,
    }
}

fn cell(ty: Option<&Type>, array: &ArrayRef, row: usize) -> Result<String, Failure> {
    let internal = |detail: String| {
        tracing::error!(detail, "a cell cannot be encoded");
        Failure::new(Code::Internal, "a value could not be encoded")
    };
    let ty = ty.ok_or_else(|| internal("there is no such column".to_owned()))?;
    let encoder =
        ColumnEncoder::new(&array.slice(row, 1), ty, Style::Result).map_err(|error| internal(error.to_string()))?;
    let mut text = Vec::new();
    encoder.write(0, &mut text);
    String::from_utf8(text).map_err(|error| internal(error.to_string()))
}
