//! What can be known of an endpoint before anyone calls it: its statements are resolved one by one over
//! their grants, so that every mistake is told, and not only the first; and what each of them reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Code, Failure, Manifest, Parameter};
use tidegate_sql::{Binding, Reads, SavedQuery};

use super::{Scene, Stage, TrialError, Workbench};
use crate::gate::examples::example_arguments;
use crate::gate::warnings::{past_grants, weak_pins};
use crate::service::Service;
use crate::tables::StoredTables;

/// A part of an endpoint, as it stands in a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The manifest.
    Manifest,
    /// The saved query.
    Query,
    /// A named statement.
    Statement(String),
}

/// Something to tell about a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The part.
    pub part: Part,
    /// What, and where in its text.
    pub failure: Failure,
}

/// What is known of an endpoint.
#[derive(Debug, Default)]
pub struct Checked {
    /// Why it would be refused.
    pub errors: Vec<Finding>,
    /// What may be meant, and may not.
    pub warnings: Vec<Finding>,
    /// What each granted table reads of the sources, in the order of the query.
    pub grants: Vec<(String, Reads)>,
    /// What each statement reads of the granted tables; the body of the query first, as `default`.
    pub statements: Vec<(String, Reads)>,
    /// Sources that it names and that exist nowhere.
    pub unknown_sources: Vec<String>,
}

impl Workbench {
    /// Checks an endpoint over the logs of a scene, which tell what columns there are. `computed` says
    /// that code stands in for the body of the query, and may use parameters by itself.
    ///
    /// # Errors
    /// Logs that are no logs; no room. Whatever is wrong with the endpoint is in what is returned.
    pub async fn check(&self, manifest: &Manifest, computed: bool, scene: Scene) -> Result<Checked, TrialError> {
        let stage = self.stage(manifest, scene).await?;
        let (service, manifest) = (Arc::clone(&stage.service), manifest.clone());
        // Where statements are planned: plans may be deep.
        let work = stage.service.compute.run(async move { Ok(check(&service, manifest, computed)) });
        let mut checked = work.await.map_err(TrialError::Refused)?;
        let Stage { unknown, .. } = &stage;
        checked.unknown_sources.clone_from(unknown);
        stage.close().await?;
        Ok(checked)
    }
}

fn check(service: &Service, mut manifest: Manifest, computed: bool) -> Checked {
    let mut checked = Checked::default();
    let limits = &service.options.limits.text;
    let saved = match SavedQuery::parse_within(&manifest.query, limits) {
        Ok(saved) => saved,
        Err(failure) => {
            checked.error(Part::Query, failure);
            return checked;
        }
    };
    let own: BTreeSet<String> = saved.parameters().into_iter().collect();
    let mut used = own.clone();
    for (name, sql) in &manifest.statements {
        match SavedQuery::parse_within(sql, limits) {
            Ok(statement) => used.extend(statement.parameters()),
            Err(failure) => checked.error(Part::Statement(name.clone()), failure),
        }
    }
    checked.parameters(&manifest, &own, &used, computed);
    // As on save: what the query uses and nothing declares is an optional text, and what only other statements use is
    // bound by the component. Both are null here.
    for name in used {
        if !manifest.parameters.iter().any(|parameter| parameter.name == name) {
            manifest.parameters.push(Parameter { name, ..Parameter::default() });
        }
    }
    let sources = StoredTables::all(&service.store, &service.registry);
    let statements = Statements { service, manifest: &manifest, saved: &saved, sources: &sources };
    statements.check(&mut checked);
    checked
}

/// The statements of an endpoint and what they are resolved over.
struct Statements<'a> {
    service: &'a Service,
    manifest: &'a Manifest,
    saved: &'a SavedQuery,
    sources: &'a StoredTables<'a>,
}

impl Statements<'_> {
    fn check(&self, checked: &mut Checked) {
        let Self { service, manifest, saved, sources } = *self;
        let (arguments, now) = (example_arguments(manifest), service.clock.now());
        let (engine, binding) = (&service.executor.engine, Binding::new(sources, &arguments, now));
        // What fails is told below, piece by piece.
        if let Ok(remarks) = engine.check(saved, binding) {
            remarks.into_iter().for_each(|remark| checked.warn(Part::Query, remark));
            checked
                .warnings
                .extend(past_grants(saved, &sources.named()).map(|failure| Finding { part: Part::Query, failure }));
            let weak = weak_pins(manifest, saved, &sources.named(), |_| false);
            weak.into_iter().for_each(|warning| checked.warn(Part::Query, warning));
        }
        for grant in saved.tables() {
            match engine.reads_of_grant(saved, &grant, binding) {
                Ok(reads) => {
                    checked.grants.push((grant, reads));
                }
                Err(failure) => checked.tell(Part::Query, failure),
            }
        }
        for grant in saved.tables() {
            if saved.parameters_of(&grant).is_empty() {
                let message =
                    format!("no parameter narrows the grant {grant}: whoever may call the endpoint may read all of it");
                checked.warn(Part::Query, Failure::new(Code::Refused, message).about(grant));
            }
        }
        let named = manifest.statements.iter().map(|(name, sql)| (name.as_str(), Some(sql.as_str())));
        for (name, sql) in std::iter::once((DEFAULT_STATEMENT, None)).chain(named) {
            let part = sql.map_or(Part::Query, |_| Part::Statement(name.to_owned()));
            let resolved = match sql {
                Some(sql) => SavedQuery::parse_within(sql, &service.options.limits.text)
                    .and_then(|statement| engine.check(&statement, binding.granted(saved)))
                    .map(|remarks| remarks.into_iter().for_each(|remark| checked.warn(part.clone(), remark))),
                None => engine.plan_saved(saved, binding).map(drop),
            };
            let reads = resolved.and_then(|_| engine.reads_of_statement(saved, sql, binding));
            match reads {
                Ok(reads) => checked.statements.push((name.to_owned(), reads)),
                // A mistake in a grant is met again by each statement that reads it.
                Err(failure) if checked.knows(&failure) => {}
                Err(failure) => checked.tell(part, failure),
            }
        }
    }
}

impl Checked {
    fn error(&mut self, part: Part, failure: Failure) {
        self.errors.push(Finding { part, failure });
    }

    fn warn(&mut self, part: Part, failure: Failure) {
        self.warnings.push(Finding { part, failure });
    }

    /// As on save, columns that no log has had are no mistake: they may come.
    fn tell(&mut self, part: Part, failure: Failure) {
        if failure.code == Code::UnknownColumn { self.warn(part, failure) } else { self.error(part, failure) }
    }

    fn knows(&self, failure: &Failure) -> bool {
        self.errors
            .iter()
            .chain(&self.warnings)
            .any(|finding| finding.part == Part::Query && finding.failure == *failure)
    }

    /// `own` are the parameters of the query, `used` those of all statements.
    fn parameters(&mut self, manifest: &Manifest, own: &BTreeSet<String>, used: &BTreeSet<String>, computed: bool) {
        for name in if computed { own } else { used } {
            if !manifest.parameters.iter().any(|parameter| parameter.name == *name) {
                let message = format!("@{name} is used and not declared: it is an optional text");
                self.warn(Part::Manifest, Failure::new(Code::Refused, message).about(name));
            }
        }
        for parameter in &manifest.parameters {
            if !computed && !used.contains(&parameter.name) {
                let message = format!("the parameter {} is declared, and no statement uses it", parameter.name);
                self.warn(Part::Manifest, Failure::new(Code::Refused, message).about(&parameter.name));
            }
        }
    }
}
