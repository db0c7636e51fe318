//! Which conditions the engine's reader applies to the rows of every segment.
//!
//! The reader takes a condition where the *table* has a leaf at its path. When it opens a file that has a list or a record
//! there, it ignores the condition, and all rows of the file pass. Segments keep the columns that they were written with
//! ([`kind`](crate::schema::kind)): a path that is text for the table may be a list in a segment, and a list of records may be
//! one record. Conditions on such paths stay above the scan. A file that has one all the same is an error: rows
//! that no condition looked at could be those of another tenant.

use std::{iter::once, mem::discriminant, sync::Arc};

use datafusion::{
    arrow::datatypes::{DataType, Schema},
    common::{
        exec_err,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
};

use crate::{
    arrays::column_path::type_at,
    scan::expr_adapter::field_chain,
    schema::{
        kind::Kind,
        shape::{PathTarget, Shape},
    },
};

/// Whether the reader applies a condition over the columns of the table to each row of each segment.
pub(crate) fn is_applied(condition: &Arc<dyn PhysicalExpr>, shape: &Shape) -> bool {
    paths(condition).iter().all(|path| {
        let mut names = path.iter().map(String::as_str);
        match shape.resolve(names.next().unwrap_or_default(), names) {
            Some(PathTarget::Value(Kind::List { mixed, .. })) => !mixed,
            Some(PathTarget::Value(Kind::Record { many, .. })) => !many,
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
        ConditionPaths(condition.map(paths).unwrap_or_default())
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

/// The paths of an expression: columns, and fields of records below them.
fn paths(expr: &Arc<dyn PhysicalExpr>) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    let all = expr.apply(|expr| {
        let (column, fields) = match (expr.downcast_ref::<Column>(), field_chain(expr)) {
            (Some(column), _) => (column, Vec::new()),
            (None, Some((_, column, fields))) => (column, fields),
            (None, None) => return Ok(TreeNodeRecursion::Continue),
        };
        paths.push(once(column.name()).chain(fields).map(str::to_owned).collect());
        Ok(TreeNodeRecursion::Jump)
    });
    debug_assert!(all.is_ok(), "nothing above fails");
    paths
}
