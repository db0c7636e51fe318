//! An endpoint as its author sees it: every mistake and not only the first, and what each piece reads.

use std::collections::BTreeSet;

use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Arguments, Audience, Code, Failure, Manifest, Parameter, SourceTenancy};
use tidegate_sql::{Binding, Reads, SavedQuery};

use super::Gate;
use super::examples::example_arguments;
use super::findings::{Findings, Part};
use super::warnings::warn_of_query;
use crate::tables::StoredTables;

/// What is known of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Explanation {
    pub(crate) findings: Findings,
    /// What each granted table reads of the sources, in the order of the query.
    pub(crate) grants: Vec<(String, Reads)>,
    /// What each statement reads of the granted tables; the body of the query first, as `default`.
    pub(crate) statements: Vec<(String, Reads)>,
}

impl Gate {
    /// Resolves the statements of an endpoint piece by piece, over all tables that there are. `computed` says that code
    /// runs instead of the body of the query, and may use parameters by itself.
    pub(crate) fn explain(&self, mut manifest: Manifest, computed: bool) -> Explanation {
        let mut explanation = Explanation::default();
        let findings = &mut explanation.findings;
        let saved = match SavedQuery::parse_within(&manifest.query, &self.limits.text) {
            Ok(saved) => saved,
            Err(failure) => {
                findings.error(Part::Query, failure);
                return explanation;
            }
        };
        let own: BTreeSet<String> = saved.parameters().into_iter().collect();
        let mut used = own.clone();
        for (name, sql) in &manifest.statements {
            match SavedQuery::parse_within(sql, &self.limits.text) {
                Ok(statement) => used.extend(statement.parameters()),
                Err(failure) => findings.error(Part::Statement(name.clone()), failure),
            }
        }
        parameter_findings(&manifest, if computed { &own } else { &used }, &used, computed, findings);
        // Parameters that are used and not declared: those of the query are optional texts, as on save, and those of
        // other statements are bound by the component. Both are null here.
        for name in used {
            if !manifest.parameters.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(&name)) {
                manifest.parameters.push(Parameter { name, ..Parameter::default() });
            }
        }
        let tables = StoredTables::all(&self.store, &self.registry, &Audience::All);
        let arguments = example_arguments(&manifest);
        self.query_findings(&saved, &tables, &arguments, findings);
        self.explain_pieces(&manifest, &saved, &tables, &arguments, &mut explanation);
        explanation
    }

    fn query_findings(
        &self,
        saved: &SavedQuery,
        tables: &StoredTables<'_>,
        arguments: &Arguments,
        findings: &mut Findings,
    ) {
        // A failure is found again in the piece that it is about.
        if let Ok(remarks) = self.engine.check(saved, Binding::new(tables, arguments, self.clock.now())) {
            remarks.into_iter().for_each(|remark| findings.warn(Part::Query, remark));
            warn_of_query(saved, &tables.named(), findings);
        }
    }

    /// Whether each of these is a source with tenant keys, so that a token that pins one reads its own rows only.
    fn knows_tenants(&self, reads: &Reads) -> bool {
        let is_keyed = |name: &String| {
            let tenant = self.store.source(name).and_then(|source| source.tenant);
            matches!(tenant, Some(SourceTenancy::Keyed(_)))
        };
        !reads.is_empty() && reads.keys().all(is_keyed)
    }

    fn explain_pieces(
        &self,
        manifest: &Manifest,
        saved: &SavedQuery,
        tables: &StoredTables<'_>,
        arguments: &Arguments,
        explanation: &mut Explanation,
    ) {
        let Explanation { findings, grants, statements } = explanation;
        let (engine, binding) = (&self.engine, Binding::new(tables, arguments, self.clock.now()));
        for grant in saved.tables() {
            match engine.reads_of_grant(saved, &grant, binding) {
                Ok(reads) => grants.push((grant, reads)),
                Err(failure) => findings.failed(Part::Query, failure),
            }
        }
        for (grant, reads) in grants.iter() {
            if saved.parameters_of(grant).is_empty() && !self.knows_tenants(reads) {
                let message = format!(
                    "no parameter narrows the grant {grant}, and not all of its sources have a tenant key: whoever may call \
                     the endpoint may read all of it"
                );
                findings.warn(Part::Query, Failure::new(Code::Refused, message).about(grant));
            }
        }
        let named = manifest.statements.iter().map(|(name, sql)| (name.as_str(), Some(sql.as_str())));
        for (name, sql) in std::iter::once((DEFAULT_STATEMENT, None)).chain(named) {
            let part = sql.map_or(Part::Query, |_| Part::Statement(name.to_owned()));
            let resolved = match sql {
                Some(sql) => self.check_statement(sql, saved, tables, arguments),
                None => engine.plan_saved(saved, binding).map(|_| Vec::new()),
            };
            let reads = resolved.and_then(|remarks| {
                remarks.into_iter().for_each(|remark| findings.warn(part.clone(), remark));
                engine.reads_of_statement(saved, sql, binding)
            });
            match reads {
                Ok(reads) => statements.push((name.to_owned(), reads)),
                Err(failure) if findings.has_of_query(&failure) => {}
                Err(failure) => findings.failed(part, failure),
            }
        }
    }
}

/// Warns of parameters that are used and not declared, and of those that are declared and not used. `to_declare` are the
/// parameters that the manifest should declare, `used` those of all statements.
fn parameter_findings(
    manifest: &Manifest,
    to_declare: &BTreeSet<String>,
    used: &BTreeSet<String>,
    computed: bool,
    findings: &mut Findings,
) {
    for name in to_declare {
        if !manifest.parameters.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(name)) {
            let message = format!("@{name} is used and not declared: it is an optional text");
            findings.warn(Part::Manifest, Failure::new(Code::Refused, message).about(name));
        }
    }
    for parameter in &manifest.parameters {
        if !computed && !used.iter().any(|name| name.eq_ignore_ascii_case(&parameter.name)) {
            let message = format!("the parameter {} is declared, and no statement uses it", parameter.name);
            findings.warn(Part::Manifest, Failure::new(Code::Refused, message).about(&parameter.name));
        }
    }
}
