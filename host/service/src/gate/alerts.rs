//! The alerts of an endpoint against its parameters and the columns of its answer.

use std::sync::Arc;

use tidegate_model::{Alert, Arguments, Failure, Manifest, Subject, Value, nearest};
use tidegate_sql::{Binding, SavedQuery, Type};

use super::Gate;
use crate::failures::refused;
use crate::registry::{Endpoint, with_parameters_of};
use crate::tables::StoredTables;

/// The most columns that a message names.
const MOST_NAMED: usize = 30;

impl Gate {
    /// Checks each alert: its parameters are those of the endpoint and have their types, and its condition is about a number
    /// that the answer has. `answers_rows` says that the answer is the rows of the saved query; otherwise code decides what it is.
    /// Returns warnings.
    ///
    /// # Errors
    /// Everything that is wrong, in one failure.
    pub(crate) fn check_alerts(
        &self,
        manifest: &Manifest,
        saved: &SavedQuery,
        tables: &StoredTables<'_>,
        answers_rows: bool,
    ) -> Result<Vec<Failure>, Failure> {
        if manifest.alerts.is_empty() {
            return Ok(Vec::new());
        }
        let reads: Vec<Arc<Endpoint>> = self.registry.load_reads(&self.store, &tables.named())?;
        let declared = with_parameters_of(manifest, &reads);
        let (mut wrong, mut warnings) = (Vec::new(), Vec::new());
        for alert in &manifest.alerts {
            let of = |message: String| refused(format!("the alert '{}': {message}", alert.name)).about("alerts");
            let arguments = match arguments(alert, &declared) {
                Ok(arguments) => arguments,
                Err(problems) => {
                    wrong.extend(problems.into_iter().map(of));
                    continue;
                }
            };
            let is_known = |name: &str| {
                self.store.is_tenant_key(name)
                    || declared.parameters.iter().any(|own| own.name.eq_ignore_ascii_case(name))
            };
            for name in alert.tenant.keys().filter(|name| !is_known(name)) {
                wrong.push(of(format!(
                    "'{name}' in its tenant is a tenant key of no source and no parameter of the endpoint"
                )));
            }
            let Subject::Column(column) = &alert.condition.subject else { continue };
            if !answers_rows {
                let message = format!(
                    "what the endpoint's code answers is not known before it runs, so whether there is a column {column} is \
                     seen at the first run"
                );
                warnings.push(of(message));
                continue;
            }
            // What is wrong with the query itself is told elsewhere.
            let binding = Binding::new(tables, &arguments, self.clock.now());
            let Ok(plan) = self.engine.plan_saved(saved, binding) else { continue };
            if let Some(problem) = column_problem(column, plan.columns()) {
                wrong.push(of(problem));
            }
        }
        Failure::of_all(wrong).map_or(Ok(warnings), Err)
    }
}

/// The parameters of an alert with their types.
fn arguments(alert: &Alert, declared: &Manifest) -> Result<Arguments, Vec<String>> {
    let (mut arguments, mut problems) = (Arguments::new(), Vec::new());
    let names = || declared.parameters.iter().map(|parameter| parameter.name.as_str());
    for name in alert.parameters.keys().filter(|name| names().all(|known| known != name.as_str())) {
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean {near}?"),
            None if names().next().is_none() => "it has none".to_owned(),
            None => format!("it has {}", names().collect::<Vec<_>>().join(", ")),
        };
        problems.push(format!("the endpoint has no parameter {name}; {hint}"));
    }
    for parameter in &declared.parameters {
        match parameter.check(alert.parameters.get(&parameter.name).map(String::as_str)) {
            Ok(value) => drop(arguments.insert(parameter.name.clone(), value)),
            Err(failure) => {
                problems.push(failure.message);
                arguments.insert(parameter.name.clone(), Value::Null);
            }
        }
    }
    if problems.is_empty() { Ok(arguments) } else { Err(problems) }
}

/// What is wrong with the column of a condition.
fn column_problem(column: &str, columns: &[(String, Type)]) -> Option<String> {
    let names = || columns.iter().map(|(name, _)| name.as_str());
    let Some((_, ty)) = columns.iter().find(|(name, _)| name == column) else {
        let hint = match nearest(column, names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}", names().take(MOST_NAMED).collect::<Vec<_>>().join(", ")),
        };
        return Some(format!("the answer has no column {column}; {hint}"));
    };
    match ty {
        Type::Int64 | Type::Float64 | Type::Numeric | Type::BigNumeric | Type::Json | Type::Null => None,
        other => {
            let number = match other {
                Type::Timestamp => format!("UNIX_SECONDS({column})"),
                Type::Datetime | Type::Date => format!("UNIX_SECONDS(TIMESTAMP({column}))"),
                Type::Bool => format!("IF({column}, 1, 0)"),
                Type::String => format!("SAFE_CAST({column} AS FLOAT64)"),
                Type::Array(_) => format!("ARRAY_LENGTH({column})"),
                _ => {
                    return Some(format!(
                        "the column {column} is {other}, and a condition compares numbers; compare another column"
                    ));
                }
            };
            Some(format!(
                "the column {column} is {other}, and a condition compares numbers: write {number} in the query, or compare \
                 another column"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_a_column_is_of_its_type() {
        for (ty, advice) in [
            (Type::Timestamp, "UNIX_SECONDS(c)"),
            (Type::Datetime, "UNIX_SECONDS(TIMESTAMP(c))"),
            (Type::Date, "UNIX_SECONDS(TIMESTAMP(c))"),
            (Type::Bool, "IF(c, 1, 0)"),
            (Type::String, "SAFE_CAST(c AS FLOAT64)"),
            (Type::Interval, "compare another column"),
        ] {
            let problem = column_problem("c", &[("c".to_owned(), ty)]).unwrap_or_default();
            assert!(problem.contains(advice), "{problem}");
        }
        for ty in [Type::Int64, Type::Float64, Type::Numeric, Type::BigNumeric, Type::Json, Type::Null] {
            assert_eq!(column_problem("c", &[("c".to_owned(), ty)]), None);
        }
    }
}
