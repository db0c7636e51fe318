//! The answers of Elasticsearch's interface: what became of each event, errors, and what clients ask before they send.
//!
//! Clients look for the header `X-Elastic-Product` in every answer.

use std::borrow::Cow;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::text;

use super::super::credentials::{self, KeyPlace};
use super::super::door::{Delivered, as_unavailable, refusal_with};
use super::super::events::Item;
use super::super::intake::Sender;
use crate::app::App;

/// The path below which the interface is, too, for clients that cannot be given the root.
pub(super) const PREFIX: &str = "/elasticsearch";

/// The version that clients are told. They refuse servers that are older than they are.
const VERSION: &str = "9.2.0";

/// How many refused events the answer describes. The others have their status alone.
const NAMED: usize = 100;

/// The answer to a request, with an item for each of its events. It is written item by item: a tree of all of them would
/// take many times its bytes.
pub(super) fn accepted(delivered: &Delivered) -> Response {
    let mut items = Vec::new();
    let mut refused = 0;
    for item in &delivered.items {
        if !items.is_empty() {
            items.push(b',');
        }
        let told = match failure_of(item, delivered) {
            None => json!({item.action: {"status": 201, "result": "created"}}),
            Some((status, kind, reason)) => {
                refused += 1;
                let reason = if refused > NAMED { Cow::Borrowed("refused, as others before it") } else { reason };
                json!({item.action: {"status": status, "error": {"type": kind, "reason": reason}}})
            }
        };
        items.extend_from_slice(told.to_string().as_bytes());
    }
    let mut body = format!("{{\"took\":0,\"errors\":{},\"items\":[", refused > 0).into_bytes();
    body.append(&mut items);
    body.extend_from_slice(b"]}");
    marked(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Why an event was refused, with the status and the kind of the error; nothing if it is stored.
fn failure_of<'d>(item: &'d Item, delivered: &'d Delivered) -> Option<(u16, &'static str, Cow<'d, str>)> {
    let of = |failure: &'d Failure| {
        let code = as_unavailable(failure.clone()).code;
        Some((code.status(), kind(code), Cow::Borrowed(failure.message.as_str())))
    };
    let place = match &item.fate {
        Ok(place) => place,
        Err(failure) => return of(failure),
    };
    match delivered.outcomes.get(place.source)? {
        Ok(outcome) => {
            let at = outcome.refused.binary_search_by_key(&place.event, |refused| refused.index).ok()?;
            let reason = outcome.refused.get(at).map_or("", |refused| refused.reason.as_str());
            Some((400, "document_parsing_exception", Cow::Borrowed(reason)))
        }
        Err(failure) => of(failure),
    }
}

/// The answer to a request that is refused whole.
pub(super) fn refused(failure: Failure) -> Response {
    let failure = as_unavailable(failure);
    let reason = text(&failure);
    let cause = json!({"type": kind(failure.code), "reason": reason});
    let body = json!({"error": {"root_cause": [cause], "type": kind(failure.code), "reason": reason}, "status": failure.code.status()});
    marked(refusal_with(failure, "application/json", body.to_string().into_bytes()))
}

/// The kind of an error, in the words of Elasticsearch.
fn kind(code: Code) -> &'static str {
    match code.status() {
        401 | 403 => "security_exception",
        404 => "index_not_found_exception",
        409 => "version_conflict_engine_exception",
        413 => "content_too_long_exception",
        415 => "media_type_header_exception",
        429 => "es_rejected_execution_exception",
        503 => "unavailable_shards_exception",
        status if status < 500 => "illegal_argument_exception",
        _ => "exception",
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    marked((status, axum::Json(body)).into_response())
}

fn marked(mut response: Response) -> Response {
    response.headers_mut().insert("x-elastic-product", HeaderValue::from_static("Elasticsearch"));
    response
}

/// The paths at which clients ask something before they send, below the root and below [`PREFIX`].
pub(super) const QUESTIONS: &[&str] = &[
    "/_license",
    "/_xpack",
    "/_cluster/health",
    "/_ilm/policy/{name}",
    "/_template/{name}",
    "/_index_template/{name}",
    "/_component_template/{name}",
    "/_data_stream/{name}",
    "/_ingest/pipeline/{name}",
    "/_cat/templates/{name}",
];

/// Answers what a client asks before it sends. It needs a token, so that nobody else learns of this interface.
/// Templates, policies, streams and pipelines are all said to be there, so that clients do not make them; what is to be
/// made all the same is refused, because nothing would come of it.
pub(crate) async fn question(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    if let Err(failure) = Sender::of(&app, &head, &[KeyPlace::Pair("ApiKey")], &[]) {
        return refused(failure);
    }
    let path = head.uri.path();
    let path = path.strip_prefix(PREFIX).unwrap_or(path).trim_end_matches('/');
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let message = "templates, policies, streams and pipelines are not kept here: have the client not set them up, \
                       and name a source as the index";
        return refused(Failure::new(Code::MethodNotAllowed, message));
    }
    let mut parts = path.trim_start_matches('/').split('/');
    let first = parts.next().unwrap_or_default();
    let name = parts.next_back().unwrap_or_default();
    let body = match first {
        "" => root(),
        "_license" => json!({"license": {"status": "active", "type": "basic", "mode": "basic"}}),
        "_xpack" => json!({
            "license": {"status": "active", "type": "basic", "mode": "basic"},
            "features": {"ilm": {"available": false, "enabled": false}, "security": {"available": true, "enabled": true}},
        }),
        "_cluster" => json!({
            "cluster_name": "tidegate", "status": "green", "timed_out": false, "number_of_nodes": 1,
            "number_of_data_nodes": 1,
        }),
        "_index_template" => {
            json!({"index_templates": [{"name": name, "index_template": {"index_patterns": [], "data_stream": {}}}]})
        }
        "_component_template" => {
            json!({"component_templates": [{"name": name, "component_template": {"template": {}}}]})
        }
        "_data_stream" => json!({"data_streams": [{"name": name, "status": "GREEN"}]}),
        "_cat" => json!([{"name": name}]),
        "_ilm" => json!({name: {"version": 1, "policy": {"phases": {}}}}),
        _ => json!({name: {}}),
    };
    answer(StatusCode::OK, &body)
}

/// Whether a request to `/` is one of a client of Elasticsearch: it has a token, which a browser has not.
pub(crate) fn is_client(head: &axum::http::HeaderMap) -> bool {
    let accept = head.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let has_token = credentials::is_usual(head) || head.contains_key(header::AUTHORIZATION);
    has_token && !accept.contains("text/html")
}

fn root() -> Value {
    json!({
        "name": "tidegate", "cluster_name": "tidegate", "cluster_uuid": "tidegate",
        "version": {
            "number": VERSION, "build_flavor": "default", "build_type": "tar", "build_hash": "unknown",
            "build_snapshot": false, "minimum_wire_compatibility_version": "8.19.0",
            "minimum_index_compatibility_version": "8.0.0",
        },
        "tagline": "You Know, for Search",
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::super::super::batch::Outcome;
    use super::super::super::events::Place;
    use super::*;
    use axum::body::to_bytes;
    use tidegate_store::RefusedEvent;

    async fn body(response: Response) -> Value {
        assert_eq!(response.headers().get("x-elastic-product").unwrap(), "Elasticsearch");
        serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn each_event_has_its_item() {
        let refused = vec![RefusedEvent { index: 1, reason: "bad".to_owned() }];
        let unknown = Arc::new(Failure::new(Code::NotFound, "no such source"));
        let item = |fate| Item { action: "create", fate };
        let at = |source, event| item(Ok(Place { source, event }));
        let delivered = Delivered {
            outcomes: vec![
                Ok(Outcome { accepted: 1, refused, ..Outcome::default() }),
                Err(Failure::new(Code::TooManyRequests, "full")),
                Err(Failure::new(Code::StorageFull, "full")),
            ],
            items: vec![at(0, 0), at(0, 1), at(1, 0), at(2, 0), item(Err(unknown))],
            items_memory: None,
        };
        let body = body(accepted(&delivered)).await;
        let statuses: Vec<_> =
            body["items"].as_array().unwrap().iter().map(|item| item["create"]["status"].as_u64().unwrap()).collect();
        assert_eq!((statuses.as_slice(), &body["errors"]), (&[201, 400, 429, 503, 404][..], &json!(true)));
        assert_eq!(body["items"][1]["create"]["error"]["reason"], "bad");
    }

    #[tokio::test]
    async fn refusals_have_the_form_that_clients_read() {
        let response = refused(Failure::new(Code::TooManyRequests, "too much"));
        assert_eq!(
            (response.status().as_u16(), response.headers().get("retry-after").unwrap().to_str().unwrap()),
            (429, "1")
        );
        let body = body(response).await;
        assert_eq!((&body["error"]["type"], &body["status"]), (&json!("es_rejected_execution_exception"), &json!(429)));
    }
}
