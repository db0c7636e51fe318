//! What a query is resolved to: a plan, and what its columns are called.

use datafusion::common::Column;
use datafusion::logical_expr::LogicalPlan;

use crate::types::Type;

/// A column of a resolved query.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// Its name in the result, which no other column has.
    pub(crate) name: String,
    /// The name that the text gives it, which others may have; none of `1 + 1`.
    pub(crate) written: Option<String>,
    /// Its unique name in the plan.
    pub(crate) column: Column,
    pub(crate) ty: Type,
}

/// What a row of a query is where the query is used as a value or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    /// Its columns.
    Columns,
    /// `SELECT AS STRUCT`: a struct of its columns.
    Struct,
    /// `SELECT AS VALUE`: the value of its one column.
    Value,
}

/// A resolved query.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) plan: LogicalPlan,
    pub(crate) columns: Vec<Output>,
    pub(super) row: Row,
}

/// Whether the order of a query's rows matters to its reader. An ORDER BY without LIMIT whose order does not
/// matter is not planned: the rows would be sorted for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Kept,
    Dropped,
}
