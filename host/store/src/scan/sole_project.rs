//! The project that all rows have that a scan reads of a file.
//!
//! The rows of a large project lie together, in row groups of their own. For a query of that project the condition
//! `project = 'x'` is true for each of them, which the statistics of the row groups prove. So it is not computed: the column
//! need not be read, and no row be compared. What was proven is passed on in the metadata of the schema by which the file is
//! read, because that is all that the engine hands to the adapter of its conditions.
//!
//! Uses: nothing.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, Column, Literal},
    },
};
use parquet::file::{
    metadata::{ParquetMetaData, RowGroupMetaData},
    statistics::Statistics,
};

/// The column.
pub(crate) const PROJECT: &str = "project";
/// Its path in the overflow of an event.
pub(crate) const POINTER: &str = "/project";

/// The name of the metadata. What a file itself says under it is dropped before ([`file_schemas`](super::file_schemas)).
const METADATA_KEY: &str = "tidegate.scan.sole_project";

/// Of each row group of a file, the project that all of its rows have, if there is one.
pub(crate) fn of_row_groups(footer: &ParquetMetaData) -> Vec<Option<Arc<str>>> {
    let columns = footer.file_metadata().schema_descr().columns();
    let Some(column) = columns.iter().position(|column| column.path().parts() == [PROJECT]) else { return Vec::new() };
    let mut last: Option<Arc<str>> = None;
    let of_group = |group: &RowGroupMetaData| {
        let project = of_row_group(group, column)?;
        // Neighbours mostly have the same one.
        if last.as_deref() != Some(project) {
            last = Some(project.into());
        }
        last.clone()
    };
    footer.row_groups().iter().map(of_group).collect()
}

fn of_row_group(group: &RowGroupMetaData, column: usize) -> Option<&str> {
    let Some(Statistics::ByteArray(known)) = group.columns().get(column)?.statistics() else { return None };
    let (least, most) = (known.min_opt()?, known.max_opt()?);
    // A bound that is not exact is a long text that was cut off.
    let is_sole = least == most && known.min_is_exact() && known.max_is_exact() && known.null_count_opt() == Some(0);
    if is_sole { std::str::from_utf8(least.data()).ok() } else { None }
}

/// The project that all of these row groups have. `None` if there are none.
pub(crate) fn of_all<'p>(mut groups: impl Iterator<Item = &'p Option<Arc<str>>>) -> Option<&'p str> {
    let first = groups.next()?.as_deref()?;
    groups.all(|project| project.as_deref() == Some(first)).then_some(first)
}

/// The schema of a file, of whose rows all that are read have this project.
pub(crate) fn with(schema: &SchemaRef, project: &str) -> SchemaRef {
    let mut schema = Schema::clone(schema);
    schema.metadata.insert(METADATA_KEY.to_owned(), project.to_owned());
    Arc::new(schema)
}

/// Whether a condition says that the project is the one that all rows have.
pub(crate) fn is_certain(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let Some(project) = schema.metadata.get(METADATA_KEY) else { return false };
    let Some(binary) = condition.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq) else {
        return false;
    };
    let is_column =
        |side: &Arc<dyn PhysicalExpr>| side.downcast_ref::<Column>().is_some_and(|column| column.name() == PROJECT);
    let is_value = |side: &Arc<dyn PhysicalExpr>| {
        let literal = side.downcast_ref::<Literal>();
        literal.and_then(|literal| literal.value().try_as_str().flatten()) == Some(project.as_str())
    };
    (is_column(binary.left()) && is_value(binary.right())) || (is_value(binary.left()) && is_column(binary.right()))
}
