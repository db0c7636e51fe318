//! Which conditions the engine's reader applies to the rows of every segment.
//!
//! The reader applies a condition on leaves of the file, and on lists where a function that it knows looks at them. Whether
//! it does is decided twice: for the table, when the condition is taken, and for each file, after the condition was rewritten
//! for its columns. A condition that is no longer fit there is *ignored*, and all rows of the file pass. That happens
//!
//! - where the file has a list or a record, and the table a leaf or a list of records: segments keep the columns that they were
//!   written with ([`kind`](crate::schema::kind));
//! - where rewriting leaves a list without the function that made the condition fit: of `tags IS NULL OR ARRAY_LENGTH(tags) > 2`
//!   the first half goes where each row has tags.
//!
//! Such conditions stay above the scan. A file with another kind of column all the same is an error: rows that no condition
//! looked at could be those of another tenant.

use std::{iter::once, mem::discriminant, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Schema},
    common::exec_err,
    error::Result,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{Column, IsNotNullExpr, IsNullExpr},
    },
};

use crate::{
    arrays::column_path::type_at,
    scan::expr_adapter::field_chain,
    schema::{
        kind::Kind,
        shape::{PathTarget, Shape},
    },
};

/// The functions of lists that the reader knows, besides tests for NULL (`supported_predicates.rs` of the engine's reader).
const OF_LISTS: [&str; 3] = ["array_has", "array_has_all", "array_has_any"];

/// Whether the reader applies a condition over the columns of the table to each row of each segment.
pub(crate) fn is_applied(condition: &Arc<dyn PhysicalExpr>, shape: &Shape) -> bool {
    looks(condition).iter().all(|Look { path, of_list }| {
        let mut names = path.iter().map(String::as_str);
        match shape.resolve(names.next().unwrap_or_default(), names) {
            Some(PathTarget::Value(Kind::List { mixed, .. })) => !mixed && *of_list,
            Some(PathTarget::Value(Kind::Record { .. })) => false,
            Some(_) => true,
            // Columns that no event has, such as places, are leaves.
            None => path.len() == 1,
        }
    })
}

/// The paths at which the conditions of a scan look.
#[derive(Debug, Clone)]
pub(crate) struct ConditionPaths(Vec<Vec<String>>);

impl ConditionPaths {
    pub(crate) fn of(condition: Option<&Arc<dyn PhysicalExpr>>) -> Self {
        let looks = condition.map(looks).unwrap_or_default();
        ConditionPaths(looks.into_iter().map(|look| look.path).collect())
    }

    /// Makes sure that the reader applies the conditions to a file.
    ///
    /// # Errors
    /// A path at which the file has a list or a record, and the table has not.
    pub(crate) fn check(&self, table: &Schema, file: &Schema) -> Result<()> {
        let ConditionPaths(paths) = self;
        for path in paths {
            let Some(kind) = type_at(file, path).filter(|kind| kind.is_nested()) else { continue };
            let shown = type_at(table, path).map(discriminant::<DataType>);
            if shown != Some(discriminant(kind)) {
                return exec_err!("a condition on {} is lost on a segment that has {kind} there", path.join("."));
            }
        }
        Ok(())
    }
}

/// Where an expression looks at a value.
struct Look {
    /// A column, and fields of records below it.
    path: Vec<String>,
    /// Whether it is the argument of a function of lists that the reader knows.
    of_list: bool,
}

fn looks(expr: &Arc<dyn PhysicalExpr>) -> Vec<Look> {
    let mut looks = Vec::new();
    let mut todo = vec![(expr, false)];
    while let Some((expr, of_list)) = todo.pop() {
        let (column, fields) = match (expr.downcast_ref::<Column>(), field_chain(expr)) {
            (Some(column), _) => (column, Vec::new()),
            (None, Some((_, column, fields))) => (column, fields),
            (None, None) => {
                let call = expr.downcast_ref::<ScalarFunctionExpr>();
                let knows = expr.downcast_ref::<IsNullExpr>().is_some()
                    || expr.downcast_ref::<IsNotNullExpr>().is_some()
                    || call.is_some_and(|call| OF_LISTS.contains(&call.name()));
                todo.extend(expr.children().into_iter().map(|child| (child, knows)));
                continue;
            }
        };
        looks.push(Look { path: once(column.name()).chain(fields).map(str::to_owned).collect(), of_list });
    }
    looks
}
