//! The statements of an endpoint, resolved over its granted tables with example values.

use std::collections::BTreeMap;

use tidegate_model::{Arguments, Code, Failure, Manifest, Value};
use tidegate_sql::{Binding, SavedQuery, Sources};
use uuid::Uuid;

use super::Gate;
use super::examples::{example_arguments, granted_whole};
use super::findings::{Findings, Part};
use super::warnings::warn_of_query;
use crate::failures::with_way_to_create;
use crate::registry::with_parameters_of;
use crate::tables::StoredTables;

/// A table that a saved query lacks may be a source that was never created. How to create one is told before the names of
/// the tables that exist, which may be many.
fn told_how_to_create(mut failure: Failure) -> Failure {
    if failure.code == Code::UnknownTable {
        failure.message = match failure.message.split_once("; there are ") {
            Some((lacks, names)) => format!("{}; there are {names}", with_way_to_create(lacks.to_owned())),
            None => with_way_to_create(failure.message),
        };
    }
    failure
}

impl Gate {
    /// Resolves every statement of an endpoint.
    pub(crate) fn statement_findings(
        &self,
        manifest: &Manifest,
        saved: &SavedQuery,
        tables: &StoredTables<'_>,
    ) -> Findings {
        let mut findings = Findings::default();
        let own = example_arguments(manifest);
        let checked = self.engine.check(saved, Binding::new(tables, &own, self.clock.now()));
        findings.checked(&Part::Query, checked.map_err(told_how_to_create));
        // The tables that the query reads are known now, and with them the parameters of endpoints among them. Resolving
        // has ended at the first unknown column, so tables after it are looked up by their names.
        for relation in saved.relations() {
            if !tables.table(relation).is_ok_and(|table| table.is_some()) {
                let _ = tables.saved(relation);
            }
        }
        let named = tables.named();
        let reads = match self.registry.load_reads(&self.store, &named) {
            Ok(reads) => reads,
            Err(failure) => {
                findings.error(Part::Query, failure);
                return findings;
            }
        };
        let arguments = example_arguments(&with_parameters_of(manifest, &reads));
        for sql in granted_whole(saved) {
            let checked = self.check_statement(&sql, saved, tables, &arguments);
            findings.checked(&Part::Query, checked.map_err(told_how_to_create));
        }
        for (name, sql) in &manifest.statements {
            let checked = self.check_statement(sql, saved, tables, &arguments);
            findings.checked(&Part::Statement(name.clone()), checked);
        }
        warn_of_query(saved, &named, &mut findings);
        findings
    }

    /// Resolves one statement over the granted tables. Returns remarks about names that may be misspelt.
    pub(super) fn check_statement(
        &self,
        sql: &str,
        saved: &SavedQuery,
        tables: &StoredTables<'_>,
        arguments: &Arguments,
    ) -> Result<Vec<Failure>, Failure> {
        let statement = SavedQuery::parse_within(sql, &self.limits.text)?;
        let mut arguments = arguments.clone();
        // Parameters that neither the manifest nor the saved query has are bound by the component.
        for name in statement.parameters() {
            arguments.entry(name).or_insert(Value::Null);
        }
        self.engine.check(&statement, Binding::new(tables, &arguments, self.clock.now()).granted(saved))
    }

    /// Tells the sources what a saved query reads: each field that it names gets a column, and texts that it searches an
    /// index.
    pub(crate) fn prepare_sources(&self, saved: &SavedQuery, tables: &BTreeMap<String, Uuid>) {
        let (fields, texts) = (saved.wanted_fields(), saved.searched_texts());
        for table in tables.values() {
            let reserved = self.store.reserve_fields(*table, fields.iter().cloned());
            // The others are endpoints.
            if let Err(error) = reserved.and_then(|()| self.store.index_texts(*table, texts.iter().cloned())) {
                tracing::debug!(%table, %error, "no source");
            }
        }
    }
}
