//! Runs the statements of one request: plans them over the granted tables of the endpoint, with the arguments of the
//! request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use sqlparser::ast::Query;
use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Code, Failure, Value};
use tidegate_runtime::{Rows, Statement, Statements};
use tidegate_sql::{Binding, CostCounter, Engine, Plan, Stop};
use tidegate_store::Store;

use super::lql;
use super::request::QueryRequest;
use crate::admission::Permit;
use crate::answer::{RowLimit, rows_with};
use crate::in_turn::InTurn;
use crate::registry::Registry;
use crate::tables::StoredTables;

/// The language of the ad-hoc query of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Sql,
    Lql,
}

/// The context in which the statements of one request run.
#[derive(Debug, Clone)]
pub(crate) struct RequestStatements {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) request: Arc<QueryRequest>,
    /// The language of the ad-hoc query.
    pub(crate) language: Language,
    /// The time of the request, in microseconds since 1970, UTC.
    pub(crate) now: i64,
    /// Stops planning when the request is dropped.
    pub(crate) stop: Stop,
    /// The permit of the request. Its statements run in the turns of this permit.
    pub(crate) permit: Arc<Permit>,
    /// Warnings for the caller about texts that may not mean what was intended.
    pub(crate) warnings: Warnings,
    /// What the statements cost.
    pub(crate) cost: Arc<CostCounter>,
}

/// The warnings of a request's statements, without duplicates.
pub(crate) type Warnings = Arc<Mutex<BTreeSet<String>>>;

/// The key of the note that contains the warnings.
const WARNING: &str = "warning";

/// Adds the warnings of the statements to the notes of an answer, after the component's own note under that key.
pub(crate) fn warn(notes: &mut BTreeMap<String, String>, warnings: &Warnings) {
    let warnings = std::mem::take(&mut *warnings.lock().unwrap_or_else(PoisonError::into_inner));
    if !warnings.is_empty() {
        let own = notes.remove(WARNING);
        let all: Vec<String> = own.into_iter().chain(warnings).collect();
        notes.insert(WARNING.to_owned(), all.join("; "));
    }
}

#[async_trait]
impl Statements for RequestStatements {
    async fn run(&self, statement: Statement, arguments: Vec<(String, Value)>) -> Result<Rows, Failure> {
        // The runtime polls this in a task of its own: planning recurses deeply, which the stack of a guest is too small for.
        let (this, stop) = (self.clone(), self.stop.clone());
        let work = async move { stop.cover(async { this.start(statement, arguments) }).await };
        InTurn::new(Arc::clone(&self.permit), work.boxed()).await
    }
}

impl RequestStatements {
    fn start(&self, statement: Statement, extra: Vec<(String, Value)>) -> Result<Rows, Failure> {
        let plan = self.plan(statement, extra)?;
        let never_seen = plan.never_seen().iter().map(ToString::to_string);
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(never_seen);
        let columns = plan.columns().to_vec();
        // One more row than a component may read, so that it is told when there are more.
        let limit =
            RowLimit::new(usize::try_from(self.request.limits.guest_rows).unwrap_or(usize::MAX).saturating_add(1));
        let (this, rows) = (self.clone(), limit.clone());
        let started = stream::once(async move {
            let memory = this.request.limits.statement_memory;
            let started = this.stop.cover(this.engine.run_within(plan, Some(rows.rows()), memory)).await?;
            Ok::<_, Failure>(started.counted_in(this.cost))
        });
        // A guest may read the batches in a task of its own, so reading them takes turns too.
        let batches = InTurn::new(Arc::clone(&self.permit), started.try_flatten().boxed()).boxed();
        Ok(rows_with(&columns, limit, batches))
    }

    /// The plan of a statement, with arguments that the component adds.
    ///
    /// # Errors
    /// What the token does not allow; what is wrong with the statement.
    pub(crate) fn plan(&self, statement: Statement, extra: Vec<(String, Value)>) -> Result<Plan, Failure> {
        let QueryRequest {
            endpoint,
            arguments,
            audience,
            unrestricted,
            adhoc: _,
            reads: _,
            redact: _,
            format: _,
            limits: _,
            account: _,
            tenancy_generation: _,
        } = self.request.as_ref();
        let mut arguments = arguments.clone();
        let mut spelt: BTreeMap<String, String> = match extra.is_empty() {
            true => BTreeMap::new(),
            false => arguments.keys().map(|name| (name.to_ascii_lowercase(), name.clone())).collect(),
        };
        for (name, value) in extra {
            // The author of a component cannot choose another value of what is pinned either.
            if audience.pins().keys().any(|fixed| fixed.eq_ignore_ascii_case(&name)) {
                let message = format!("parameter '{name}' is fixed by the access token");
                return Err(Failure::new(Code::Forbidden, message).about(name));
            }
            // SQL has one parameter of a name, in any spelling: the component's value takes the place of the caller's.
            let name = spelt.entry(name.to_ascii_lowercase()).or_insert(name);
            arguments.insert(name.clone(), value);
        }
        let saved = endpoint.saved()?;
        // An ad-hoc query that may read all sources uses their current names. Other statements use the ids that were
        // saved with the endpoint.
        let bound = !(*unrestricted && matches!(statement, Statement::Text(_)));
        let sources = StoredTables::of(&self.store, &self.registry, endpoint, bound, audience);
        let binding = Binding::new(&sources, &arguments, self.now);
        // The tables that an ad-hoc query may read.
        let text_binding = if *unrestricted { binding } else { binding.granted(saved) };
        match statement {
            Statement::Named(name) if name == DEFAULT_STATEMENT => self.engine.plan_saved(saved, binding),
            Statement::Named(name) => match endpoint.manifest.statements.get(&name) {
                Some(sql) => self.engine.plan(sql, binding.granted(saved)),
                None => {
                    let message = format!("the endpoint has no statement {name}");
                    Err(Failure::new(Code::UnknownStatement, message).about(name))
                }
            },
            Statement::Text(sql) if self.language == Language::Sql => self.engine.plan_sent(&sql, text_binding, saved),
            Statement::Text(text) => {
                let tables = if *unrestricted {
                    self.store.sources().into_iter().map(|source| source.name).collect()
                } else {
                    saved.tables()
                };
                let plan = |query: &Query| self.engine.plan_query(query, text_binding);
                plan(&lql::translate(&text, &tables, self.now, plan)?)
            }
        }
    }
}
