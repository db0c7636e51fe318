//! The statements of an endpoint, resolved over its granted tables with example values.

use std::collections::BTreeMap;

use tidegate_model::{Code, Failure, Manifest, Value};
use tidegate_sql::{Binding, SavedQuery, Sources};
use uuid::Uuid;

use super::Gate;
use super::examples::{example_arguments, granted_whole};
use super::warnings::{past_grants, weak_pins};
use crate::registry::with_parameters_of;
use crate::tables::StoredTables;

impl Gate {
    /// Resolves every statement over its grants, so that a mistake is told on save.
    ///
    /// An unknown column does not refuse: columns come with the logs, so it may exist tomorrow. It
    /// is returned, to be shown as a warning.
    pub(crate) fn check_statements(
        &self,
        manifest: &Manifest,
        saved: &SavedQuery,
        sources: &StoredTables<'_>,
    ) -> Result<Vec<Failure>, Failure> {
        let mut warnings = Vec::new();
        let mut note = |checked: Result<Vec<Failure>, Failure>| match checked {
            Ok(remarks) => {
                warnings.extend(remarks);
                Ok(())
            }
            Err(failure) if failure.code == Code::UnknownColumn => {
                warnings.push(failure);
                Ok(())
            }
            Err(failure) => Err(failure),
        };
        let now = self.clock.now();
        let own = example_arguments(manifest);
        note(self.engine.check(saved, Binding::new(sources, &own, now)))?;
        // Now it is known which tables are read, and which parameters endpoints among them bring. Resolving
        // has ended at the first unknown column, so that tables behind it are looked up by their names.
        for relation in saved.relations() {
            if sources.table(relation).is_none() {
                let _ = sources.saved(relation);
            }
        }
        let named = sources.named();
        let reads = self.registry.load_reads(&self.store, &named)?;
        let arguments = example_arguments(&with_parameters_of(manifest, &reads));
        let whole = granted_whole(saved).map(|sql| (None, sql));
        let fixed = manifest.statements.iter().map(|(name, sql)| (Some(name), sql.clone()));
        for (name, sql) in whole.chain(fixed) {
            let of_statement = |mut failure: Failure| {
                if let Some(name) = name {
                    failure.message = format!("in the statement {name}: {}", failure.message);
                }
                failure
            };
            let statement = SavedQuery::parse_within(&sql, &self.limits.text).map_err(of_statement)?;
            let mut arguments = arguments.clone();
            // What neither the manifest nor the saved query has is for the component to bind.
            for name in statement.parameters() {
                arguments.entry(name).or_insert(Value::Null);
            }
            let checked = self.engine.check(&statement, Binding::new(sources, &arguments, now).granted(saved));
            note(checked.map_err(of_statement).map(|remarks| remarks.into_iter().map(of_statement).collect()))?;
        }
        warnings.extend(past_grants(saved, &named));
        warnings.extend(weak_pins(manifest, saved, &named, |name| self.tokens.fix(name)));
        Ok(warnings)
    }
}

impl Gate {
    /// Reserves a column in the sources for each field that a saved query names.
    pub(crate) fn reserve_fields(&self, saved: &SavedQuery, tables: &BTreeMap<String, Uuid>) {
        let fields = saved.wanted_fields();
        for table in tables.values() {
            // The others are endpoints.
            if let Err(error) = self.store.reserve_fields(*table, fields.iter().cloned()) {
                tracing::debug!(%table, %error, "no source");
            }
        }
    }
}
