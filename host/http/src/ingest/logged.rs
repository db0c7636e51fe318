//! The answer of the doors that have no protocol of their own, and what their heads say about the body.

use axum::http::request::Parts;
use serde_json::{Value, json};

use super::batch::Outcome;
use super::door::content_type;

/// How many refused events the answer describes. All of them are counted.
const NAMED: usize = 100;

/// The body of the answer. Fields that say nothing are left out, so that clients that know only the first three fields
/// see no others.
pub(super) fn logged(outcome: &Outcome) -> Value {
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

/// Whether the head declares one event per line.
pub(super) fn is_by_line(head: &Parts) -> bool {
    [
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/x-jsonlines",
        "application/json-lines",
    ]
    .contains(&content_type(head).as_str())
}
