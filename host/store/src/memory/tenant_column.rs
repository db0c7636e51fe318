//! The tenants of rows, as far as the columns of the rows tell them.
//!
//! What is said here leaves out rows for a query of one tenant. So a value that may be elsewhere than in the column of the path
//! makes all of them unknown: one of another type, one in a list of records, and one in the overflow.

use datafusion::arrow::{
    array::{Array, AsArray, RecordBatch, StringViewArray},
    datatypes::{DataType, Schema},
};

use crate::{
    arrays::{column_path::column_at, packed_uuids::PACKED},
    field_names::OVERFLOW,
    overflow::sparse_paths::SparsePaths,
    schema::{run_tenants::RunTenants, tenant_path::TenantPath},
};

/// What a schema of rows has at the path of their tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TenantField {
    /// Nothing. Where the rows have an overflow, a value may be there.
    Missing,
    /// A column of texts, which may be packed.
    Text,
    /// Something else, or a column from which values were moved.
    Unknown,
}

impl TenantField {
    pub(crate) fn of(schema: &Schema, path: &TenantPath) -> TenantField {
        if SparsePaths::of_schema(schema).has_at_or_below(&path.pointer()) {
            return TenantField::Unknown;
        }
        let (column, fields) = path.split();
        let Ok(column) = schema.field_with_name(column) else { return TenantField::Missing };
        let mut ty = column.data_type();
        for name in fields {
            let DataType::Struct(inner) = ty else { return TenantField::Unknown };
            match inner.find(name) {
                Some((_, field)) => ty = field.data_type(),
                None => return TenantField::Missing,
            }
        }
        match ty {
            DataType::Utf8View => TenantField::Text,
            ty if *ty == PACKED => TenantField::Text,
            _ => TenantField::Unknown,
        }
    }
}

/// The tenants of some rows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TenantColumn<'r> {
    /// No row has one.
    Missing,
    /// Of each row.
    Texts(&'r StringViewArray),
    /// A row may have one elsewhere, or one that is no text.
    Unknown,
}

impl<'r> TenantColumn<'r> {
    /// Of rows whose texts are not packed.
    pub(crate) fn of(rows: &'r RecordBatch, path: &TenantPath) -> TenantColumn<'r> {
        match TenantField::of(rows.schema_ref(), path) {
            TenantField::Missing => TenantColumn::without_column(rows, path),
            TenantField::Text => {
                let texts = column_at(rows, path.names()).and_then(|column| column.as_string_view_opt());
                texts.map_or(TenantColumn::Unknown, TenantColumn::Texts)
            }
            TenantField::Unknown => TenantColumn::Unknown,
        }
    }

    /// Of rows that have no column at the path.
    pub(crate) fn without_column(rows: &RecordBatch, path: &TenantPath) -> TenantColumn<'r> {
        let overflow = rows.column_by_name(OVERFLOW);
        let is_empty = overflow.is_none_or(|overflow| overflow.null_count() == overflow.len());
        // `project` gets a column with its first value, whatever else events have.
        if is_empty || path.is_default() { TenantColumn::Missing } else { TenantColumn::Unknown }
    }

    /// Which they are.
    pub(crate) fn listed(self) -> RunTenants {
        match self {
            TenantColumn::Missing => RunTenants::of_texts([]),
            TenantColumn::Texts(texts) => RunTenants::of_texts(texts.iter().flatten()),
            TenantColumn::Unknown => RunTenants::Any,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::{
        array::{ArrayRef, Int64Array, StructArray},
        datatypes::{Field, Fields},
    };

    use super::*;

    fn path() -> TenantPath {
        TenantPath::try_from(vec!["m".to_owned(), "p".to_owned()]).unwrap()
    }

    fn record(name: &str, values: ArrayRef) -> ArrayRef {
        let fields = Fields::from(vec![Field::new(name, values.data_type().clone(), true)]);
        Arc::new(StructArray::new(fields, vec![values], None))
    }

    fn tenants(columns: Vec<(&str, ArrayRef)>) -> RunTenants {
        TenantColumn::of(&RecordBatch::try_from_iter(columns).unwrap(), &path()).listed()
    }

    #[test]
    fn only_texts_in_their_column_are_known() {
        let texts = || -> ArrayRef { Arc::new(StringViewArray::from(vec![Some("a"), None])) };
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let overflow: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some("{\"/m/p\":\"b\"}")]));
        let none: ArrayRef = Arc::new(StringViewArray::new_null(2));
        let a = RunTenants::Listed(vec!["a".to_owned()]);
        assert_eq!(tenants(vec![("m", record("p", texts()))]), a);
        assert_eq!(tenants(vec![("m", record("q", texts()))]), RunTenants::Listed(vec![]));
        assert_eq!(tenants(vec![("m", record("q", texts())), (OVERFLOW, none)]), RunTenants::Listed(vec![]));
        assert_eq!(tenants(vec![("m", record("q", texts())), (OVERFLOW, overflow)]), RunTenants::Any);
        assert_eq!(tenants(vec![("m", record("p", numbers))]), RunTenants::Any);
        assert_eq!(tenants(vec![("m", texts())]), RunTenants::Any, "a text in the place of a record");
        assert_eq!(tenants(vec![("m", record("p", record("x", texts())))]), RunTenants::Any);
    }

    /// Values were moved from the column, which has others.
    #[test]
    fn a_sparse_column_is_unknown() {
        let batch =
            RecordBatch::try_from_iter([("m", record("p", Arc::new(StringViewArray::from(vec!["a"]))))]).unwrap();
        let mut sparse = SparsePaths::default();
        sparse.insert("/m/p".to_owned());
        let schema = Schema::clone(batch.schema_ref()).with_metadata(sparse.metadata());
        assert_eq!(TenantField::of(&schema, &path()), TenantField::Unknown);
        assert_eq!(TenantField::of(batch.schema_ref(), &path()), TenantField::Text);
    }
}
