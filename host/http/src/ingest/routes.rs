//! `POST /api/logs` and its aliases: logs as JSON.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};

use super::batch::Outcome;
use super::intake::{self, Sender, begin, cut, find_source};
use super::key::Name;
use super::{body, json};
use crate::app::App;
use crate::failure::Refusal;

/// How many refused events the response describes. All of them are counted.
const NAMED: usize = 100;

/// The handler of `POST /api/logs` and its aliases.
pub(crate) async fn logs(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, Refusal> {
    let (head, mut body) = request.into_parts();
    match take(&app, &head, &mut body).await {
        Ok(outcome) => Ok(Json(answer(&outcome))),
        Err(failure) => {
            body::drain(&mut body).await;
            Err(failure.into())
        }
    }
}

async fn take(app: &App, head: &Parts, body: &mut Body) -> Result<Outcome, Failure> {
    let sender = Sender::of(app, head)?;
    let store = &app.service.store;
    let source = sender.source.as_ref().map(|named| find_source(store, &sender.access, named)).transpose()?;
    let name = Name::of(&head.headers, &sender.access.identity)?;
    let received = body::read(&app.bodies, &head.headers, body, app.service.options.ingest.max_body).await?;
    let by_line = is_by_line(&head.headers);
    let count = received.bytes.len();
    let (bytes, batch) = begin(&app.service, received);
    let parse = move || Ok((name.map(|name| name.with(&bytes)), json::parse(&bytes, by_line, batch)?));
    let (key, parsed) = cut(&app.bodies, count, parse).await?;
    let source = match (source, parsed.source) {
        (Some(source), _) => source,
        (None, Some(named)) => find_source(store, &sender.access, &named)?,
        (None, None) => return Err(no_source()),
    };
    let outcome = intake::store(store, &source, parsed.batch, key).await?;
    outcome.count(&app.metrics, count);
    Ok(outcome)
}

/// The response body. Fields that say nothing are left out, so that clients that know only the first three fields see
/// no others.
fn answer(outcome: &Outcome) -> Value {
    let errors = outcome.refused.iter().take(NAMED);
    let errors: Vec<Value> = errors.map(|refused| json!({"index": refused.index, "message": refused.reason})).collect();
    let fields = [
        ("message", Some(Value::from("Logged!"))),
        ("accepted", Some(outcome.accepted.into())),
        ("rejected", Some(outcome.refused.len().into())),
        ("unread_times", (outcome.unread_times > 0).then(|| outcome.unread_times.into())),
        ("future_times", (outcome.future_times > 0).then(|| outcome.future_times.into())),
        ("errors", (!errors.is_empty()).then(|| errors.into())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn no_source() -> Failure {
    let message = "name the source: ?source_name=NAME, ?source=UUID, or the header x-source-name";
    Failure::new(Code::InvalidParameter, message).about("source_name")
}

fn is_by_line(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-lines",
    ]
    .contains(&kind.as_str())
}
