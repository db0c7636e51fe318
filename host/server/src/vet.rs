//! What can be known of an endpoint's statements before anyone calls it: they are resolved over their
//! grants, with example values, when the endpoint is saved, after a start, and by its author.

use std::collections::BTreeMap;

use tidegate_model::{Arguments, Code, Failure, Manifest, Parameter, Value};
use tidegate_sql::{Binding, SavedQuery, Sources, Weak};
use uuid::Uuid;

use crate::admit::refused;
use crate::app::App;
use crate::registry::with_parameters_of;
use crate::tables::StoredTables;

impl App {
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
            let statement = SavedQuery::parse_within(&sql, &self.options.limits.text).map_err(of_statement)?;
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

/// Warnings of parameters that would bind a tenant to nothing if a token fixed them: they only stand in for another one,
/// or are only searched for in a text. The latter is what a search box does, so it is told where a call must have the
/// parameter, or `fixed` says that a token fixes it.
pub(crate) fn weak_pins(
    manifest: &Manifest,
    saved: &SavedQuery,
    named: &BTreeMap<String, Uuid>,
    fixed: impl Fn(&str) -> bool,
) -> Vec<Failure> {
    let required = |name: &str| {
        manifest.parameters.iter().any(|own| own.required && own.name.eq_ignore_ascii_case(name)) || fixed(name)
    };
    let warning = |(name, weak, piece): (String, Weak, Option<&str>)| {
        let piece = piece.map_or_else(|| "the query".to_owned(), |table| format!("the granted table {table}"));
        let message = match weak {
            Weak::Default => format!(
                "{piece} takes @{name} only where another parameter is not sent, so that its sender chooses the rows: \
                 a token that fixes {name} cannot read it; write COALESCE(@{name}, ...)"
            ),
            Weak::Searched if required(&name) => format!(
                "{piece} only searches for @{name} in a text, where others may be named too: a token that fixes {name} \
                 reads only rows whose column {name} is what it fixes; write {name} = @{name} to say so for all"
            ),
            Weak::Searched => return None,
        };
        Some(refused(message).about(name))
    };
    saved.weakly_bound(named.keys().map(String::as_str)).into_iter().filter_map(warning).collect()
}

/// A warning of a body that reads more than the granted tables: whoever wrote conditions into these may
/// believe that they hold for all that is answered.
pub(crate) fn past_grants(saved: &SavedQuery, named: &BTreeMap<String, Uuid>) -> Option<Failure> {
    let grants = saved.tables();
    let past = saved.names_in_body(named.keys().map(String::as_str));
    if grants.is_empty() || past.is_empty() {
        return None;
    }
    let message = format!(
        "beside its granted tables ({}) the query reads {} itself: conditions of the grants do not hold for that",
        grants.join(", "),
        past.join(", ")
    );
    Some(refused(message).about(past.join(", ")))
}

/// A statement for each granted table, that reads all of it.
pub(crate) fn granted_whole(saved: &SavedQuery) -> impl Iterator<Item = String> {
    saved.tables().into_iter().map(|table| format!("SELECT * FROM `{}`", table.replace('`', "\\`")))
}

/// Parameters that the saved query uses and the manifest does not declare are optional texts. Not so those of other
/// statements: only the component runs these, and it binds what the request does not.
pub(crate) fn declare_used(manifest: &mut Manifest, saved: &SavedQuery) {
    for name in saved.parameters() {
        if !manifest.parameters.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(&name)) {
            manifest.parameters.push(Parameter { name, ..Parameter::default() });
        }
    }
}

/// Values with which a statement can be resolved before anyone calls it: defaults, the first
/// allowed value, else nothing.
pub(crate) fn example_arguments(manifest: &Manifest) -> Arguments {
    let example = |parameter: &Parameter| {
        let text = parameter.default.clone().or_else(|| parameter.allowed.first().cloned());
        text.and_then(|text| parameter.check(Some(&text)).ok()).unwrap_or(Value::Null)
    };
    manifest.parameters.iter().map(|parameter| (parameter.name.clone(), example(parameter))).collect()
}
