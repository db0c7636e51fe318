//! The ingest route: events in, acknowledged when they are on stable storage.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};

use crate::app::App;
use crate::auth::authenticate;
use crate::failure::{Refusal, of_store};
use crate::rate::Share;

/// `POST /api/logs` and its other names.
pub(crate) async fn ingest(
    State(app): State<Arc<App>>,
    Query(query): Query<HashMap<String, String>>,
    request: Request,
) -> Result<Json<Value>, Refusal> {
    let (head, body) = request.into_parts();
    let access = authenticate(&app, &head.headers, chrono::Utc::now().timestamp_micros())?;
    app.take_share(Share::Ingest)?;
    let asked = source_of(&query, &head.headers)?;
    let source = app.store.source(&asked);
    if !access.may_ingest(source.as_ref().map_or(asked.as_str(), |source| source.name.as_str())) {
        let message = "the access token may not send events to this source; it needs the scope ingest or private";
        return Err(Failure::new(Code::Forbidden, message).into());
    }
    let source = source.ok_or_else(|| {
        let names: Vec<String> = app.store.sources().into_iter().map(|source| source.name).collect();
        let mut message = format!("there is no source {asked}");
        if let Some(near) = tidegate_model::nearest(&asked, names.iter().map(String::as_str)) {
            message.push_str(&format!("; did you mean {near}?"));
        }
        Failure::new(Code::NotFound, message).about(&asked)
    })?;
    let limit = app.options.ingest.max_body;
    let body = to_bytes(body, limit).await.map_err(|error| {
        use std::error::Error;
        let mut cause = error.source();
        while let Some(inner) = cause {
            if inner.to_string().contains("length limit") {
                return Failure::new(
                    Code::TooLarge,
                    format!("the body is larger than {limit} bytes; send smaller batches"),
                );
            }
            cause = inner.source();
        }
        Failure::new(Code::InvalidBody, format!("the body cannot be read: {error}"))
    })?;
    let events = events(&body, &head.headers)?;
    if !events.is_empty() {
        let count = app.store.ingest(&source.name, events).await.map_err(of_store)?;
        app.metrics.ingested(count, body.len());
    }
    Ok(Json(json!({"message": "Logged!"})))
}

/// The source that a request names: by name or UUID, in the query string or a header.
fn source_of(query: &HashMap<String, String>, headers: &HeaderMap) -> Result<String, Failure> {
    let in_query =
        ["source_name", "collection_name", "source", "collection"].iter().find_map(|name| query.get(*name).cloned());
    let in_header = || {
        ["x-source-name", "x-source", "x-collection"]
            .iter()
            .find_map(|name| Some(headers.get(*name)?.to_str().ok()?.to_owned()))
    };
    in_query.or_else(in_header).filter(|source| !source.is_empty()).ok_or_else(|| {
        Failure::new(
            Code::InvalidParameter,
            "name the source: ?source_name=NAME, ?source=UUID, or the header x-source-name",
        )
        .about("source_name")
    })
}

/// One event, an array, `{"batch": [...]}`, or one event a line.
fn events(body: &[u8], headers: &HeaderMap) -> Result<Vec<Value>, Failure> {
    let bad = |message: String| Failure::new(Code::InvalidBody, message);
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let by_line = kind.starts_with("application/x-ndjson") || kind.starts_with("application/jsonl");
    if !by_line {
        match serde_json::from_slice(body) {
            Ok(Value::Array(events)) => return Ok(events),
            Ok(Value::Object(mut object)) => {
                return match object.get_mut("batch") {
                    Some(Value::Array(events)) => Ok(std::mem::take(events)),
                    _ => Ok(vec![Value::Object(object)]),
                };
            }
            Ok(_) => {
                return Err(bad(
                    "an event is a JSON object; send one, an array of them, or {\"batch\": [...]}".to_owned()
                ));
            }
            // Lines of JSON sent as plain JSON are common enough to be taken.
            Err(error) if error.is_syntax() && error.line() > 1 => {}
            Err(error) => return Err(bad(format!("the body is not valid JSON: {error}"))),
        }
    }
    let mut events = Vec::new();
    for (i, line) in body.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let event =
            serde_json::from_slice(line).map_err(|error| bad(format!("line {} is not valid JSON: {error}", i + 1)))?;
        events.push(event);
    }
    Ok(events)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn count(body: &str) -> Result<usize, Failure> {
        events(body.as_bytes(), &HeaderMap::new()).map(|events| events.len())
    }

    #[test]
    fn every_shape_of_body_is_taken() {
        assert_eq!(count(r#"{"a": 1}"#).unwrap(), 1);
        assert_eq!(count(r#"[{"a": 1}, {"a": 2}]"#).unwrap(), 2);
        assert_eq!(count(r#"{"batch": [{"a": 1}, {"a": 2}]}"#).unwrap(), 2);
        assert_eq!(count(r#"{"batch": "x"}"#).unwrap(), 1);
        assert_eq!(count("[]").unwrap(), 0);
        assert_eq!(count("{\"a\": 1}\n{\"a\": 2}\n\n").unwrap(), 2);
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for body in ["", "5", "\"x\"", "{", "{\"a\": 1}\n{\"a\": "] {
            assert_eq!(count(body).unwrap_err().code, Code::InvalidBody, "{body}");
        }
    }
}
