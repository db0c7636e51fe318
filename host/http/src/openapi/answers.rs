//! What endpoints answer: rows with known columns, or anything.
//!
//! Columns are known when a query is planned, and change when logs bring new fields. So queries are planned again, at most
//! once a minute, and for a bounded time in one request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{Failure, Manifest};
use tidegate_service::ColumnPlanner;
use tidegate_service::registry::{Endpoint, with_parameters_of};
use tidegate_store::EndpointEntry;

use super::columns::{AnswerSchema, CachedSchema, row_schema};
use crate::app::App;

/// How long one request may plan; what is left over then is described without columns.
const PLANNING: Duration = Duration::from_secs(2);
/// The manifest of each endpoint, with the parameters of the endpoints that it reads, and what it answers. Endpoints that
/// cannot be used are left out.
///
/// # Errors
/// While the server shuts down.
pub(super) async fn answers(
    app: &Arc<App>,
    entries: Vec<Arc<EndpointEntry>>,
) -> Result<Vec<(Manifest, AnswerSchema)>, Failure> {
    let all_known = entries
        .iter()
        .all(|entry| app.row_schemas.known(entry.id, entry.version).is_some_and(|(_, is_fresh)| is_fresh));
    let _alone = if all_known { None } else { Some(app.row_schemas.finding.lock().await) };
    let this = Arc::clone(app);
    // Plans may be deep, and take milliseconds each.
    app.service
        .compute
        .run(async move {
            let began = Instant::now();
            let mut answers = Vec::with_capacity(entries.len());
            for entry in &entries {
                let Ok(endpoint) = this.service.registry.peek(&this.service.store, entry) else { continue };
                let Ok(reads) = this.service.registry.load_reads(&this.service.store, &endpoint.tables) else {
                    continue;
                };
                let answer = answer(&this, &endpoint, began.elapsed() < PLANNING);
                answers.push((with_parameters_of(&endpoint.manifest, &reads).into_owned(), answer));
                tokio::task::yield_now().await;
            }
            Ok(answers)
        })
        .await
}

fn answer(app: &App, endpoint: &Endpoint, may_plan: bool) -> AnswerSchema {
    let is_generated = match app.row_schemas.known(endpoint.id, endpoint.version) {
        Some((answer, is_fresh)) if is_fresh || !may_plan => return answer,
        None if !may_plan => return AnswerSchema::Any,
        Some(_) => true,
        // Only a saved query answers the rows of its own, whatever its code is.
        None => app.service.columns.answers_rows(endpoint),
    };
    let answer = if is_generated { planned(&app.service.columns, endpoint) } else { AnswerSchema::Any };
    let mut known = app.row_schemas.lock();
    // Endpoints that are gone go from here too.
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
