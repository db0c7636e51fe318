//! The statements of one request: planned over the endpoint's granted tables, with the request's values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use sqlparser::ast::Query;
use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Code, Failure, TextLimits, Value};
use tidegate_runtime::{Rows, Statement, Statements};
use tidegate_sql::{Binding, Engine, Plan, Stop};
use tidegate_store::Store;

use super::lql;
use super::request::QueryRequest;
use crate::admission::Permit;
use crate::answer::rows_of;
use crate::compute::AbortOnDrop;
use crate::in_turn::InTurn;
use crate::registry::Registry;
use crate::tables::StoredTables;
use crate::tenancy::Tenancy;

/// The language of a request's ad-hoc text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Sql,
    Lql,
}

/// The statements of one request.
#[derive(Debug, Clone)]
pub(crate) struct RequestStatements {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) engine: Arc<Engine>,
    /// Limits of the text of statements.
    pub(crate) text: TextLimits,
    pub(crate) request: Arc<QueryRequest>,
    /// The language of ad-hoc text.
    pub(crate) language: Language,
    /// The time of the request, in microseconds since 1970, UTC.
    pub(crate) now: i64,
    /// Stops planning when nobody waits for it any more.
    pub(crate) stop: Stop,
    /// The most rows that a statement returns: one more than the limit of the answer, to know whether there are more.
    pub(crate) rows: usize,
    /// The place of the request, in whose turns its statements compute.
    pub(crate) place: Arc<Permit>,
    /// Warnings for the caller, about text that may not mean what was intended.
    pub(crate) warnings: Warnings,
}

/// The warnings of a request's statements, each text once.
pub(crate) type Warnings = Arc<Mutex<BTreeSet<String>>>;

/// The key of the note in which an answer has its warnings.
const WARNING: &str = "warning";

/// Adds the warnings of the statements to the notes of an answer, after what the component wrote under the same key.
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
        // Planning recurses deeply and scans compute: not on the fiber that the guest waits on.
        let this = self.clone();
        let work = async move {
            let stop = this.stop.clone();
            stop.cover(this.start(statement, arguments)).await
        };
        let mut task = AbortOnDrop(tokio::spawn(InTurn::new(Arc::clone(&self.place), work.boxed())));
        (&mut task.0).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a statement's task ended early");
            Err(Failure::new(Code::Internal, "the statement ended unexpectedly; the server's log has the details"))
        })
    }
}

impl RequestStatements {
    async fn start(&self, statement: Statement, extra: Vec<(String, Value)>) -> Result<Rows, Failure> {
        let plan = self.plan(statement, extra)?;
        let never_seen = plan.never_seen().iter().map(ToString::to_string);
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(never_seen);
        let stream = self.engine.run_within(plan, Some(self.rows), self.request.limits.statement_memory).await?;
        let Rows { columns, batches, context, json } = rows_of(stream);
        // A guest may ask for them in a task of its own.
        let batches = InTurn::new(Arc::clone(&self.place), batches).boxed();
        Ok(Rows { columns, batches, context, json })
    }

    fn plan(&self, statement: Statement, extra: Vec<(String, Value)>) -> Result<Plan, Failure> {
        let QueryRequest { endpoint, arguments, pinned, unrestricted, .. } = self.request.as_ref();
        let mut arguments = arguments.clone();
        for (name, value) in extra {
            // The grants filter by these: who writes components chooses no other tenant either.
            if pinned.keys().any(|fixed| fixed.eq_ignore_ascii_case(&name)) {
                let message = format!("parameter '{name}' is fixed by the access token");
                return Err(Failure::new(Code::Forbidden, message).about(name));
            }
            arguments.insert(name, value);
        }
        let saved = endpoint.saved()?;
        let text_limits = &self.text;
        let tenancy = match pinned.is_empty() {
            true => Tenancy::default(),
            false => {
                let reads = self.registry.load_reads(&self.store, &endpoint.tables)?;
                Tenancy::of(&self.store, &self.registry, pinned, endpoint, &reads)?
            }
        };
        // A caller's text that may read all sources names them as they are called now.
        let bound = !(*unrestricted && matches!(statement, Statement::Text(_)));
        let sources = StoredTables::of(&self.store, &self.registry, endpoint, bound).filtered_by(tenancy.row_filters());
        let binding = Binding::new(&sources, &arguments, self.now);
        // What ad-hoc text may read.
        let of_text = if *unrestricted { binding } else { binding.granted(saved) };
        match statement {
            Statement::Named(name) if name == DEFAULT_STATEMENT => {
                tenancy.allow_body()?;
                self.engine.plan_saved(saved, binding)
            }
            Statement::Named(name) => match endpoint.manifest.statements.get(&name) {
                Some(sql) => {
                    tenancy.allow_fixed(sql, text_limits)?;
                    self.engine.plan(sql, binding.granted(saved))
                }
                None => {
                    let message = format!("the endpoint has no statement {name}");
                    Err(Failure::new(Code::UnknownStatement, message).about(name))
                }
            },
            Statement::Text(sql) if self.language == Language::Sql => {
                tenancy.allow_text(&sql, text_limits)?;
                self.engine.plan(&sql, of_text)
            }
            Statement::Text(text) => {
                let tables = if *unrestricted {
                    self.store.sources().into_iter().map(|source| source.name).collect()
                } else {
                    saved.tables()
                };
                let plan = |query: &Query| {
                    tenancy.allow_query(query)?;
                    self.engine.plan_query(query, of_text)
                };
                plan(&lql::translate(&text, &tables, self.now, plan)?)
            }
        }
    }
}
