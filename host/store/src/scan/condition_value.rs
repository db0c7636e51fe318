//! The one value at which the conditions of a scan look.
//!
//! Rows that are only counted have no column. Where their conditions look at one value only, such as the status of requests that
//! failed, they are counted by that value, and the conditions are applied to the values
//! ([`counting`](super::counting)). Conditions on times and tenants, and on records being there, are mostly decided for a row
//! group as a whole, and so are left out of account here: where they are not, the rows are read.

use std::sync::Arc;

use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource},
    error::Result,
    physical_expr::{
        PhysicalExpr,
        expressions::Column,
        projection::{ProjectionExpr, ProjectionExprs},
    },
};
use tidegate_model::PRESENCE_FIELD;

use crate::{field_names::TIMESTAMP, scan::expr_adapter::field_chain, schema::tenant_path::TenantPath};

/// The column, or the path of fields below one, at which a condition looks; `None` for several or none.
/// `tenant_path` is the path of the tenants of the source.
pub(crate) fn value_of(
    condition: &Arc<dyn PhysicalExpr>,
    tenant_path: &TenantPath,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut values: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    condition.apply(|expr| {
        let (name, fields) = match (expr.downcast_ref::<Column>(), field_chain(expr)) {
            (Some(column), _) => (column.name(), Vec::new()),
            (None, Some((_, column, fields))) => (column.name(), fields),
            (None, None) => return Ok(TreeNodeRecursion::Continue),
        };
        let is_of_group = match fields.last() {
            _ if tenant_path.is(name, &fields) => true,
            None => name == TIMESTAMP,
            Some(field) => *field == PRESENCE_FIELD,
        };
        if !is_of_group && !values.contains(expr) {
            values.push(Arc::clone(expr));
        }
        Ok(TreeNodeRecursion::Jump)
    })?;
    let mut values = values.into_iter();
    Ok(values.next().filter(|_| values.next().is_none()))
}

/// A scan of files that has the value at which its conditions look as its only column; `None` if there is not one value.
pub(crate) fn with_value(files: &FileScanConfig, tenant_path: &TenantPath) -> Result<Option<FileScanConfig>> {
    let Some(source) = files.file_source.downcast_ref::<ParquetSource>() else { return Ok(None) };
    let (Some(condition), Some(readers)) = (files.file_source.filter(), source.parquet_file_reader_factory()) else {
        return Ok(None);
    };
    let Some(value) = value_of(&condition, tenant_path)? else { return Ok(None) };
    let all = ParquetSource::new(files.file_source.table_schema().clone())
        .with_table_parquet_options(source.table_parquet_options().clone())
        .with_parquet_file_reader_factory(Arc::clone(readers))
        .with_predicate(condition);
    let column = ProjectionExprs::new([ProjectionExpr::new(value, "value")]);
    let Some(projected) = all.try_pushdown_projection(&column)? else {
        return Ok(None);
    };
    let mut scan = FileScanConfigBuilder::from(files.clone()).with_source(projected).build();
    scan.output_ordering.clear();
    Ok(Some(scan))
}
