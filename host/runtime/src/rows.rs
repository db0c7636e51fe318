//! Rows and where they come from: the interface between this crate and the server.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use futures::stream::BoxStream;
use tidegate_model::{Failure, Kind, Value};

/// Runs the statements of one request. The server makes one for each request.
///
/// Each statement runs in a task of its own and never on the stack of the guest. The task is aborted if the request
/// ends early.
#[async_trait]
pub trait Statements: Send + Sync + 'static {
    /// Starts a statement. `arguments` are those that the guest gave. They are added to the parameters of the request,
    /// which the implementation knows, and never have the name of one.
    async fn run(&self, statement: Statement, arguments: Vec<(String, Value)>) -> Result<Rows, Failure>;
}

/// Which statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// A statement of the endpoint by its name; `default` is the body of the saved query.
    Named(String),
    /// SQL text, under the same grants.
    Text(String),
}

/// One column of [`Rows`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name in the result.
    pub name: String,
    /// The type that a guest sees.
    pub kind: Kind,
    /// Whether there may be nulls.
    pub nullable: bool,
    /// The index of the column in the statement that it comes from, which differs from its position after the guest
    /// selected columns. `None` if the guest made it.
    pub origin: Option<usize>,
}

/// A function for the JSON text of one cell: index of the column in the statement, the array of that column in a batch,
/// the row. Called for non-null cells of kind [`Kind::Json`] that a guest reads.
pub type CellJson = Arc<dyn Fn(usize, &ArrayRef, usize) -> Result<String, Failure> + Send + Sync>;

/// The rows of a statement, or rows that a guest made.
pub struct Rows {
    /// The columns, in the order of the batches' arrays.
    pub columns: Vec<Column>,
    /// The rows.
    pub batches: BoxStream<'static, Result<RecordBatch, Failure>>,
    /// Opaque to the runtime and returned with the rows: what the server needs to encode them. [`MadeByGuest`] for rows
    /// that a guest made.
    pub context: Arc<dyn Any + Send + Sync>,
    /// The JSON encoder of nested cells.
    pub json: CellJson,
}

/// The context of rows that a guest made. Their arrays are Boolean, Int64, Float64, Utf8, Binary and
/// Timestamp(microseconds, UTC), and Utf8 holding checked JSON where the kind is [`Kind::Json`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MadeByGuest;

impl Column {
    /// The columns of a statement, in order, by name, kind and nullability.
    pub fn of_statement(columns: impl IntoIterator<Item = (String, Kind, bool)>) -> Vec<Self> {
        let numbered = columns.into_iter().enumerate();
        numbered.map(|(index, (name, kind, nullable))| Self { name, kind, nullable, origin: Some(index) }).collect()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns).finish_non_exhaustive()
    }
}
