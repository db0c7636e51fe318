//! The tenant that all rows have that a scan reads of a file.
//!
//! The rows of a large tenant lie together, in row groups of their own. For a query of that tenant the condition
//! `project = 'x'`, or the same of another path by which the file was made, is true for each of them, which the statistics of
//! the row groups prove. So it is not computed: the column need not be read, and no row be compared. What was proven is passed
//! on in the metadata of the schema by which the file is read, because that is all that the engine hands to the adapter of its
//! conditions.
//!
//! Uses: `schema`.

use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{Schema, SchemaRef},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        expressions::{BinaryExpr, InListExpr, Literal},
    },
};
use parquet::file::{
    metadata::{ParquetMetaData, RowGroupMetaData},
    statistics::Statistics,
};

use crate::{schema::tenant_path::TenantPath, segment::footer_entry::TENANT_PATH_KEY};

/// The names of the metadata. What a file itself says under them is dropped before ([`file_schemas`](super::file_schemas)).
const TENANT: &str = "tidegate.scan.sole_tenant";
const PATH: &str = "tidegate.scan.sole_tenant.path";

/// The tenants of the row groups of a file.
#[derive(Debug, Default)]
pub(crate) struct GroupTenants {
    /// By which path the file was made.
    path: TenantPath,
    /// Of each row group, the tenant that all of its rows have, if there is one.
    tenants: Vec<Option<Arc<str>>>,
}

impl GroupTenants {
    /// Of a file with this footer.
    pub(crate) fn of(footer: &ParquetMetaData) -> GroupTenants {
        let file = footer.file_metadata();
        let said = file.key_value_metadata().into_iter().flatten().find(|said| said.key == TENANT_PATH_KEY);
        let Ok(path) = TenantPath::of_text(said.and_then(|said| said.value.as_deref())) else {
            return GroupTenants::default();
        };
        // Of a list of records there are several leaves with a value in a row, under other paths.
        let columns = file.schema_descr().columns();
        let is_field = |column: &Arc<parquet::schema::types::ColumnDescriptor>| {
            column.path().parts() == path.names() && column.max_rep_level() == 0
        };
        let Some(column) = columns.iter().position(is_field) else { return GroupTenants::default() };
        let mut last: Option<Arc<str>> = None;
        let of_group = |group: &RowGroupMetaData| {
            let tenant = of_row_group(group, column)?;
            // Neighbours mostly have the same one.
            if last.as_deref() != Some(tenant) {
                last = Some(tenant.into());
            }
            last.clone()
        };
        let tenants = footer.row_groups().iter().map(of_group).collect();
        GroupTenants { path, tenants }
    }

    /// The schema of the file, with the tenant that all rows have of the row groups that are read, if there is one.
    pub(crate) fn schema_of_read(&self, schema: &SchemaRef, is_read: impl Fn(usize) -> bool) -> SchemaRef {
        let read = self.tenants.iter().enumerate().filter(|(group, _)| is_read(*group)).map(|(_, tenant)| tenant);
        match of_all(read) {
            Some(tenant) => with(schema, &self.path, tenant),
            None => Arc::clone(schema),
        }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn held(&self) -> usize {
        let names = self.path.names().iter().map(String::len).sum::<usize>();
        let tenants = self.tenants.iter().map(|of| size_of_val(of) + of.as_ref().map_or(0, |tenant| tenant.len()));
        names + tenants.sum::<usize>()
    }
}

fn of_row_group(group: &RowGroupMetaData, column: usize) -> Option<&str> {
    let Some(Statistics::ByteArray(known)) = group.columns().get(column)?.statistics() else { return None };
    let (least, most) = (known.min_opt()?, known.max_opt()?);
    // A bound that is not exact is a long text that was cut off.
    let is_sole = least == most && known.min_is_exact() && known.max_is_exact() && known.null_count_opt() == Some(0);
    if is_sole { std::str::from_utf8(least.data()).ok() } else { None }
}

/// The tenant that all of these row groups have. `None` if there are none.
fn of_all<'p>(mut groups: impl Iterator<Item = &'p Option<Arc<str>>>) -> Option<&'p str> {
    let first = groups.next()?.as_deref()?;
    groups.all(|tenant| tenant.as_deref() == Some(first)).then_some(first)
}

/// The schema of a file, of whose rows all that are read have this tenant.
fn with(schema: &SchemaRef, path: &TenantPath, tenant: &str) -> SchemaRef {
    let mut schema = Schema::clone(schema);
    schema.metadata.insert(TENANT.to_owned(), tenant.to_owned());
    if let Some(path) = path.to_text() {
        schema.metadata.insert(PATH.to_owned(), path);
    }
    Arc::new(schema)
}

/// The tenant that all rows have that are read, with its path.
#[derive(Debug)]
pub(crate) struct SoleTenant {
    pub(crate) path: TenantPath,
    tenant: String,
}

impl SoleTenant {
    /// As the schema of a file says it.
    pub(crate) fn of(schema: &Schema) -> Option<SoleTenant> {
        let tenant = schema.metadata.get(TENANT)?.clone();
        let path = TenantPath::of_text(schema.metadata.get(PATH).map(String::as_str)).ok()?;
        Some(SoleTenant { path, tenant })
    }

    /// Whether a condition is true for each row. `is_field` tells whether an expression is the field of the tenants.
    pub(crate) fn makes_certain(
        &self,
        condition: &Arc<dyn PhysicalExpr>,
        is_field: impl Fn(&Arc<dyn PhysicalExpr>) -> bool,
    ) -> bool {
        let is_value = |side: &Arc<dyn PhysicalExpr>| {
            let literal = side.downcast_ref::<Literal>();
            literal.and_then(|literal| literal.value().try_as_str().flatten()) == Some(self.tenant.as_str())
        };
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            return !list.negated() && list.list().iter().any(is_value) && is_field(list.expr());
        }
        let Some(binary) = condition.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq) else {
            return false;
        };
        let (left, right) = (binary.left(), binary.right());
        (is_value(right) && is_field(left)) || (is_value(left) && is_field(right))
    }
}
