//! The answers of Elasticsearch's interface: what became of each event, errors, and what clients ask before they send.
//!
//! Clients look for the header `X-Elastic-Product` in every answer.

use crate::answer::{Answer, as_unavailable};
use crate::door::Delivered;
use crate::service::DoorService;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use std::borrow::Cow;

use serde_json::{Value, json};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::text;

use crate::credentials::{self, KeyPlace};
use crate::events::Item;
use crate::intake::Sender;

/// The path below which the interface is, too, for clients that cannot be given the root.
pub(super) const PREFIX: &str = "/elasticsearch";

/// The place of the token that its clients have.
pub(super) const KEYS: &[KeyPlace] = &[KeyPlace::Pair("ApiKey")];

/// The version that clients are told. They refuse servers that are older than they are.
const VERSION: &str = "9.2.0";

/// How many refused events the answer describes. The others have their status alone.
const NAMED: usize = 100;

/// The answer to a request, with an item for each of its events. It is written item by item: a tree of all of them would
/// take many times its bytes.
pub(super) fn accepted(delivered: &Delivered) -> Answer {
    let mut items = Vec::new();
    let (mut refused, mut retry_after) = (0, None);
    for (place, item) in delivered.items.iter().enumerate() {
        if !items.is_empty() {
            items.push(b',');
        }
        let told = match failure_of(item, delivered) {
            None => json!({item.action: of_stored(item, place)}),
            Some(failure) => {
                refused += 1;
                retry_after = retry_after.max(after(&failure));
                let many = "refused, as others before it";
                let reason = if refused > NAMED { many } else { failure.message.as_str() };
                let error = json!({"type": kind(failure.code), "reason": reason});
                json!({item.action: {"_index": item.index, "_id": id_of(item), "status": status(failure.code), "error": error}})
            }
        };
        items.extend_from_slice(told.to_string().as_bytes());
    }
    let mut body = format!("{{\"took\":0,\"errors\":{},\"items\":[", refused > 0).into_bytes();
    body.append(&mut items);
    body.extend_from_slice(b"]}");
    let answer = marked(Answer::with(StatusCode::OK, "application/json", body));
    match retry_after {
        Some(seconds) => answer.header("retry-after", HeaderValue::from(seconds)),
        None => answer,
    }
}

/// The answer to a request of one document.
pub(super) fn stored(delivered: &Delivered) -> Answer {
    match delivered.items.first().map(|item| (item, failure_of(item, delivered))) {
        Some((item, None)) => answer(StatusCode::CREATED, &of_stored(item, 0)),
        Some((_, Some(failure))) => refused(failure.into_owned()),
        None => refused(Failure::new(Code::InvalidBody, "request body is required")),
    }
}

/// What is told of a stored document. Clients in Java demand all of these fields.
fn of_stored(item: &Item, place: usize) -> Value {
    json!({
        "_index": item.index, "_id": id_of(item), "_version": 1, "result": "created",
        "_shards": {"total": 1, "successful": 1, "failed": 0}, "_seq_no": place, "_primary_term": 1, "status": 201,
    })
}

fn id_of(item: &Item) -> Option<&str> {
    Some(&*item.id).filter(|id| !id.is_empty())
}

/// The status of a refused document. Clients send again what was too much, and know it by one status.
fn status(code: Code) -> u16 {
    if code == Code::Overloaded { 429 } else { code.status() }
}

fn after(failure: &Failure) -> Option<u64> {
    failure.retry_after.or(failure.code.retry_after())
}

/// Why an event was refused; nothing if it is stored.
fn failure_of<'d>(item: &'d Item, delivered: &'d Delivered) -> Option<Cow<'d, Failure>> {
    let of = |failure: &'d Failure| {
        let is_full = failure.code == Code::StorageFull;
        Some(if is_full { Cow::Owned(as_unavailable(failure.clone())) } else { Cow::Borrowed(failure) })
    };
    let place = match &item.fate {
        Ok(place) => place,
        Err(failure) => return of(failure),
    };
    match delivered.outcomes.get(place.source)? {
        Ok(outcome) => {
            let at = outcome.refused.binary_search_by_key(&place.event, |refused| refused.index).ok()?;
            let refused = outcome.refused.get(at)?;
            let code = if refused.is_conflict { Code::Conflict } else { Code::InvalidBody };
            Some(Cow::Owned(Failure::new(code, refused.reason.clone())))
        }
        Err(failure) => of(failure),
    }
}

/// The answer to a request that is refused whole.
pub(super) fn refused(failure: Failure) -> Answer {
    marked(Answer::refused_json(failure, |failure| {
        let (kind, reason) = (kind(failure.code), text(failure));
        let cause = json!({"type": kind, "reason": reason});
        json!({"error": {"root_cause": [cause], "type": kind, "reason": reason}, "status": failure.code.status()})
    }))
}

/// The kind of an error, in the words of Elasticsearch.
fn kind(code: Code) -> &'static str {
    match status(code) {
        400 if code == Code::InvalidBody => "document_parsing_exception",
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

fn answer(status: StatusCode, body: &Value) -> Answer {
    marked(Answer::json(status, body))
}

fn marked(answer: Answer) -> Answer {
    answer.header("x-elastic-product", "Elasticsearch")
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
    "/_cat/health",
];

/// Answers what a client asks before it sends. It needs a token, so that nobody else learns of this interface.
/// Templates, policies, streams and pipelines are all said to be there, so that clients do not make them; what is to be
/// made all the same is refused, because nothing would come of it.
pub(crate) fn question(service: &dyn DoorService, head: &Parts) -> Answer {
    let asked = Sender::of(service, head, KEYS, &[]);
    if let Err(failure) = asked.and_then(|sender| sender.limited.map_or(Ok(()), Err)) {
        return refused(failure).offering_basic();
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
pub(crate) fn is_client(head: &HeaderMap) -> bool {
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
    use super::*;
    use crate::events::Place;
    use std::sync::Arc;
    use tidegate_store::{Ingested, RefusedEvent};

    fn body(answer: &Answer) -> Value {
        assert_eq!(answer.headers["x-elastic-product"], "Elasticsearch");
        serde_json::from_slice(&answer.body).unwrap()
    }

    #[test]
    fn each_event_has_its_item() {
        let refused = vec![RefusedEvent { index: 1, reason: "bad".to_owned(), is_conflict: false }];
        let unknown = Arc::new(Failure::new(Code::NotFound, "no such source"));
        let item = |fate| Item { action: "create", index: "a".into(), id: "7".into(), fate };
        let at = |source, event| item(Ok(Place { source, event }));
        let delivered = Delivered {
            outcomes: vec![
                Ok(Ingested { stored: 1, refused, ..Ingested::default() }),
                Err(Failure::new(Code::TooManyRequests, "full")),
                Err(Failure::new(Code::StorageFull, "full")),
            ],
            items: vec![at(0, 0), at(0, 1), at(1, 0), at(2, 0), item(Err(unknown))],
            items_memory: None,
        };
        let body = body(&accepted(&delivered));
        let statuses: Vec<_> =
            body["items"].as_array().unwrap().iter().map(|item| item["create"]["status"].as_u64().unwrap()).collect();
        assert_eq!((statuses.as_slice(), &body["errors"]), (&[201, 400, 429, 503, 404][..], &json!(true)));
        assert_eq!(body["items"][1]["create"]["error"]["reason"], "bad");
    }

    #[test]
    fn refusals_have_the_form_that_clients_read() {
        let response = refused(Failure::new(Code::TooManyRequests, "too much"));
        assert_eq!(response.status.as_u16(), 429);
        let body = body(&response);
        assert_eq!((&body["error"]["type"], &body["status"]), (&json!("es_rejected_execution_exception"), &json!(429)));
    }
}
