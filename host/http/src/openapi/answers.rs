//! The schema of each endpoint's answer: rows with known columns, or anything.
//!
//! The columns of a query are known when it is planned, and change when logs add new fields. So queries are planned
//! again, at most once a minute, and one request plans for a bounded time only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{Failure, Manifest};
use tidegate_service::catalog::EndpointEntry;
use tidegate_service::registry::{Endpoint, with_parameters_of};
use tidegate_service::{Account, ColumnPlanner};
use tokio::time::timeout;

use super::columns::row_schema;
use super::row_schemas::{AnswerSchema, CachedSchema};
use super::state::OpenApi;

/// How long one request may plan queries. Endpoints that are not planned by then are described without columns.
const PLANNING: Duration = Duration::from_secs(2);

/// What the document says of an endpoint.
#[derive(Debug)]
pub(super) struct Described {
    /// With the parameters of the endpoints that it reads.
    pub(super) manifest: Manifest,
    pub(super) answer: AnswerSchema,
    /// The tables of ad-hoc queries.
    pub(super) tables: Vec<String>,
}

/// The descriptions of these endpoints. Those that cannot be used are left out.
///
/// # Errors
/// No permit of the account is free in time; the time of a request; while the server shuts down.
pub(super) async fn answers(
    app: &Arc<OpenApi>,
    account: Account,
    entries: Vec<Arc<EndpointEntry>>,
) -> Result<Vec<Described>, Failure> {
    let (this, limit) = (Arc::clone(app), app.service.executor.limits().wall_clock);
    // Planning may recurse deeply and takes milliseconds for each query, so it runs on the compute threads, with a permit and
    // in turns as a query does.
    let describing = async move {
        let all_known = entries
            .iter()
            .all(|entry| this.row_schemas.known(entry.id, entry.version).is_some_and(|(_, is_fresh)| is_fresh));
        // The rest is described in the other half of the time.
        let planning = PLANNING.min(limit / 2);
        // Asked for with the permit in hand, so that nobody who plans waits for one. Who plans waits for the turns of its own
        // account, so the others do not wait for long: they are told what is known.
        let alone = if all_known { None } else { timeout(planning, this.row_schemas.finding.lock()).await.ok() };
        let (began, plans) = (Instant::now(), all_known || alone.is_some());
        let mut answers = Vec::with_capacity(entries.len());
        for entry in &entries {
            let Ok(endpoint) = this.service.registry.peek(&this.service.store, entry) else { continue };
            let Ok(reads) = this.service.registry.load_reads(&this.service.store, &endpoint.tables) else {
                continue;
            };
            let answer = answer(&this, &endpoint, plans && began.elapsed() < planning);
            let tables = endpoint.saved().map(|saved| saved.tables()).unwrap_or_default();
            let manifest = with_parameters_of(&endpoint.manifest, &reads).into_owned();
            answers.push(Described { manifest, answer, tables });
            tokio::task::yield_now().await;
        }
        Ok(answers)
    };
    app.service.executor.run_with_permit(account, limit, describing).await
}

fn answer(app: &OpenApi, endpoint: &Endpoint, may_plan: bool) -> AnswerSchema {
    let is_generated = match app.row_schemas.known(endpoint.id, endpoint.version) {
        Some((answer, is_fresh)) if is_fresh || !may_plan => return answer,
        None if !may_plan => return AnswerSchema::Any,
        Some(_) => true,
        // Only a saved query answers with the rows of its own query, whatever the code of its component is.
        None => app.service.columns.answers_rows(endpoint),
    };
    let answer = if is_generated { planned(&app.service.columns, endpoint) } else { AnswerSchema::Any };
    let mut known = app.row_schemas.lock();
    // Entries of deleted endpoints stay in the map, so it is emptied when it grows too large.
    if known.len() > 2 * app.service.registry.all().len() + 16 {
        known.clear();
    }
    let entry = CachedSchema { version: endpoint.version, since: Instant::now(), answer: answer.clone() };
    known.insert(endpoint.id, entry);
    answer
}

fn planned(planner: &ColumnPlanner, endpoint: &Endpoint) -> AnswerSchema {
    match planner.columns(endpoint) {
        Ok(columns) => AnswerSchema::Rows(row_schema(&columns)),
        Err(_) => AnswerSchema::SomeRows,
    }
}
