//! Tables that statements are resolved over for their lineage: they know their names and have no rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use tidegate_model::Failure;

use crate::catalog::{SavedTable, Sources, StoredTable};

/// Sources whose tables know their names.
pub(super) struct NamedSources<'s>(pub(super) Box<dyn Sources + 's>);

impl Sources for NamedSources<'_> {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        let named = |StoredTable { provider, policy }| {
            let schema = TableProvider::schema(provider.as_ref());
            let provider: Arc<dyn TableProvider> = Arc::new(EmptyTable { name: self.0.identity(name), schema });
            StoredTable { provider, policy }
        };
        Ok(self.0.table(name)?.map(named))
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }

    fn saved(&self, name: &str) -> Option<SavedTable<'_>> {
        let SavedTable { query, sources } = self.0.saved(name)?;
        Some(SavedTable { query, sources: Box::new(NamedSources(sources)) })
    }
}

/// Tables with the columns of grants.
pub(super) struct Grants(pub(super) BTreeMap<String, Arc<EmptyTable>>);

impl Sources for Grants {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        let any_case = || self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, table)| table);
        let table = self.0.get(name).or_else(any_case);
        Ok(table.map(|table| StoredTable::whole(Arc::clone(table) as _)))
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// A table to resolve over, without rows.
#[derive(Debug)]
pub(super) struct EmptyTable {
    pub(super) name: String,
    pub(super) schema: SchemaRef,
}

#[async_trait]
impl TableProvider for EmptyTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> std::result::Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        Err(DataFusionError::Plan("a table of lineage has no rows".to_owned()))
    }
}
