//! Lineage: which columns, and which fields within them, a statement reads of which table.
//!
//! In a resolved plan every column has a name of its own, so a value can be followed from its use down to
//! the table that it comes from by names alone, whatever operators lie in between. Followed are the
//! expressions that decide about rows (conditions, keys, orders) and the columns of the result; a column
//! that is handed on and never used is not read.
//!
//! A statement over granted tables is resolved over tables of the same columns as the grants, so that
//! its lineage has the names that its author wrote.

mod follower;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};

use self::follower::reads;
use self::tables::{EmptyTable, Grants, NamedSources};
use crate::catalog::{Binding, Tables};
use crate::engine::{Engine, Plan};
use crate::fail::Result;
use crate::saved_query::SavedQuery;

/// What is read of each table: columns, and fields within them as `column.field.field`, in order. A
/// column that stands alone is read as a whole.
pub type Reads = BTreeMap<String, BTreeSet<String>>;

impl Engine {
    /// What a granted table of `saved` reads of the sources. The tables of the binding are not used.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn reads_of_grant(&self, saved: &SavedQuery, grant: &str, binding: Binding<'_>) -> Result<Reads> {
        let sources = NamedSources(Box::new(binding.sources));
        let plan = self.plan(&whole(grant), Binding { sources: &sources, ..binding }.granted(saved))?;
        reads(&plan.logical)
    }

    /// What a statement reads of the sources, through the granted tables of `saved` and past them: `sql`, or without it the
    /// body of the saved query. The tables of the binding are not used.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn reads_of_sources(&self, saved: &SavedQuery, sql: Option<&str>, binding: Binding<'_>) -> Result<Reads> {
        let sources = NamedSources(Box::new(binding.sources));
        let granted = Binding { sources: &sources, ..binding }.granted(saved);
        let plan = match sql {
            Some(sql) => self.plan(sql, granted)?,
            None => self.plan_saved(saved, granted)?,
        };
        reads(&plan.logical)
    }

    /// What a statement reads of the granted tables of `saved`: `sql`, or without it the body of the saved query. Where a
    /// grant has a column that no table can have, such as an interval, this gives what the statement reads of the sources.
    /// The tables of the binding are not used.
    ///
    /// # Errors
    /// As [`Engine::plan`].
    pub fn reads_of_statement(&self, saved: &SavedQuery, sql: Option<&str>, binding: Binding<'_>) -> Result<Reads> {
        let sources = NamedSources(Box::new(binding.sources));
        let granted = Binding { sources: &sources, ..binding }.granted(saved);
        let mut grants = Grants(BTreeMap::new());
        for name in saved.tables() {
            let plan = self.plan(&whole(&name), granted)?;
            grants.0.insert(name.clone(), Arc::new(EmptyTable { name, schema: plan.schema() }));
        }
        let over_grants = Binding { sources: &grants, ..binding }.over(Tables::Sources);
        let plan = match sql {
            Some(sql) => self.plan(sql, over_grants).or_else(|_| self.plan(sql, granted)),
            None => self.plan_query(&saved.body, over_grants).or_else(|_| self.plan_saved(saved, granted)),
        };
        reads(&plan?.logical)
    }
}

/// The statement that reads all columns of a table.
fn whole(table: &str) -> String {
    format!("SELECT * FROM `{}`", table.replace('`', "\\`"))
}

impl Plan {
    /// The columns under the names that the statement gives them, with their Arrow types.
    fn schema(&self) -> SchemaRef {
        let held = self.logical.schema().fields();
        let fields = held.iter().zip(self.columns());
        let fields = fields.map(|(field, (name, _))| Field::new(name, field.data_type().clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}
