//! What a request would do, without running it: what its statement reads of granted tables and of sources, what is left
//! of these after the catalog's statistics, and what of it would go to workers.
//!
//! The figures tell about all rows of a source, so they are for callers who may know of all.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_compiler::DEFAULT_STATEMENT;
use tidegate_model::{Code, Failure};
use tidegate_runtime::Statement;
use tidegate_sql::{Binding, Reads, Stop};
use tidegate_store::{ScanOutline, TableOutline};

use super::parameters::AdhocQuery;
use super::request::QueryRequest;
use super::statements::RequestStatements;
use super::{Executor, STOP_DELAY, StopOnDrop, lql};
use crate::deadline::{GRACE, late};
use crate::failures::of_store;
use crate::tables::StoredTables;

/// What the statement of a request would do.
#[derive(Debug)]
pub struct Explanation {
    /// What it reads of the granted tables; empty for a text over the sources.
    pub tables: Reads,
    /// The sources that it reads, each once, by name.
    pub sources: Vec<TableOutline>,
    /// The condition on the rows of each source, for a tenant; empty for who reads all rows.
    pub rows: BTreeMap<String, String>,
    /// Its scans, after what the catalog excludes is left out. Of a source of which nothing is left there is none.
    pub scans: Vec<ScanOutline>,
    /// What of it would go to workers, as a JSON object; `None` on a server without workers.
    pub workers: Option<String>,
}

impl Executor {
    /// What a request would do that arrived at `arrived`, in microseconds since 1970: its ad-hoc text, or the body of the
    /// saved query. It takes a permit like a query, and nothing of it runs. That the endpoint has no code which chooses
    /// statements is for the caller to check.
    ///
    /// # Errors
    /// Those of planning the statement; no permit is free in time; the time of a request.
    pub async fn explain(self: Arc<Self>, request: Arc<QueryRequest>, arrived: i64) -> Result<Explanation, Failure> {
        let permit = Arc::new(self.admission.enter(request.account).await?);
        let limit = request.limits.wall_clock;
        let stopping = StopOnDrop(Stop::after(limit + STOP_DELAY));
        let stop = stopping.0.clone();
        let statements = self.statements(request, arrived, stop.clone(), Arc::clone(&permit));
        let work = async move { stop.cover(explained(&statements)).await };
        let work = self.compute.run_in(permit, work);
        tokio::time::timeout(limit + GRACE, work).await.unwrap_or_else(|_| Err(late(limit)))
    }
}

async fn explained(statements: &RequestStatements) -> Result<Explanation, Failure> {
    let statement = match &statements.request.adhoc {
        Some(AdhocQuery::Sql(text) | AdhocQuery::Lql(text)) => Statement::Text(text.clone()),
        None => Statement::Named(DEFAULT_STATEMENT.to_owned()),
    };
    let plan = statements.plan(statement, Vec::new())?;
    let tables = reads(statements)?;
    let plan =
        statements.engine.explained(plan, Some(super::answer_rows(&statements.request).saturating_add(1))).await?;
    let found = plan.tables.iter().filter_map(|table| TableOutline::of(table.as_ref()));
    let sources: BTreeMap<_, _> = found.map(|source| (Arc::clone(&source.source), source)).collect();
    let rows = rows(statements, sources.keys().map(AsRef::as_ref))?;
    Ok(Explanation {
        tables,
        sources: sources.into_values().collect(),
        rows,
        scans: plan.leaves.iter().filter_map(|leaf| ScanOutline::of(leaf.as_ref())).collect(),
        workers: plan.report.map(|report| report.json()),
    })
}

/// The condition that the store puts on the rows of each source for a tenant.
fn rows<'n>(
    statements: &RequestStatements,
    sources: impl Iterator<Item = &'n str>,
) -> Result<BTreeMap<String, String>, Failure> {
    let audience = &statements.request.audience;
    if audience.pins().is_empty() {
        return Ok(BTreeMap::new());
    }
    let found = sources.filter_map(|name| statements.store.source(name));
    let row = found.map(|source| {
        let policy = statements.store.table_for(source.id, audience).map_err(of_store)?.policy;
        Ok((source.name, policy.map_or_else(|| "ALL (shared)".to_owned(), |policy| policy.to_string())))
    });
    row.collect()
}

/// What the statement reads of the granted tables.
fn reads(statements: &RequestStatements) -> Result<Reads, Failure> {
    let RequestStatements { store, registry, engine, request, now, .. } = statements;
    let QueryRequest { endpoint, arguments, adhoc, unrestricted, audience, .. } = request.as_ref();
    if *unrestricted {
        return Ok(Reads::new());
    }
    let saved = endpoint.saved()?;
    let sources = StoredTables::of(store, registry, endpoint, true, audience);
    let binding = Binding::new(&sources, arguments, *now);
    let text = match adhoc {
        None => None,
        Some(AdhocQuery::Sql(text)) => Some(text.clone()),
        Some(AdhocQuery::Lql(text)) => {
            let plan = |query: &_| engine.plan_query(query, binding.granted(saved));
            Some(lql::translate(text, &saved.tables(), *now, plan)?.to_string())
        }
    };
    engine.reads_of_statement(saved, text.as_deref(), binding)
}

/// The refusal for an endpoint whose code would have to run.
pub fn code_is_not_explained() -> Failure {
    let message =
        "the endpoint's code chooses its statements when it runs; send one of them as sql to have it explained";
    Failure::new(Code::InvalidParameter, message).about("sql")
}
