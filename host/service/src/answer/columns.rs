//! The rows of a statement with the types of their columns, from which the guest's view and the encoders are derived.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use futures::StreamExt;
use futures::stream::BoxStream;
use tidegate_model::{Code, Failure, Kind};
use tidegate_runtime::{Column, Rows};
use tidegate_sql::{ColumnEncoder, ResultStream, Style, Type};

/// What the encoders know of the rows of a statement. It is passed along with the rows, as the context of [`Rows`].
pub(super) struct StatementContext {
    /// The types of the statement's columns.
    pub(super) types: Vec<Type>,
    pub(super) limit: RowLimit,
}

/// The limit on the rows of a statement that starts with its first read. Who reads them is known only then: a component
/// reads as many as fit into its own limits, and an answer takes fewer, which the engine plans for.
#[derive(Debug, Clone)]
pub(crate) struct RowLimit(Arc<AtomicUsize>);

impl RowLimit {
    pub(crate) fn new(rows: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(rows)))
    }

    /// For a reader of at most so many rows. Without effect on a statement that has started.
    pub(super) fn lower(&self, rows: usize) {
        self.0.fetch_min(rows, Ordering::Relaxed);
    }

    pub(crate) fn rows(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Converts the rows of a running statement for the component runtime, and keeps the types for the encoders.
pub(crate) fn rows_of(stream: ResultStream) -> Rows {
    let columns = stream.columns();
    rows_with(&columns, RowLimit::new(usize::MAX), stream.boxed())
}

/// The same for batches of these columns, which look at the limit when the first of them is read.
pub(crate) fn rows_with(
    columns: &[(String, Type)],
    limit: RowLimit,
    batches: BoxStream<'static, Result<RecordBatch, Failure>>,
) -> Rows {
    let types = columns.iter().map(|(_, ty)| ty.clone()).collect();
    let context = Arc::new(StatementContext { types, limit });
    let described = columns.iter().map(|(name, ty)| (name.clone(), kind_of(ty), true));
    let cells = Arc::clone(&context);
    Rows {
        columns: Column::of_statement(described),
        batches,
        context,
        json: Arc::new(move |column, array, row| cell(cells.types.get(column), array, row)),
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
