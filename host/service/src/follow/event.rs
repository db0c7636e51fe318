//! The events of a stream in the form of Server-Sent Events, and why a stream ends.

use serde_json::json;
use tidegate_model::Failure;

use super::position::Position;
use crate::failures::document;

/// Why a stream ends.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// The endpoint was deleted.
    Deleted,
    /// The endpoint, or one that it reads, has a new version.
    Changed,
    /// The token was revoked, has expired or may do something else now.
    Revoked,
    /// A source says otherwise whose its rows are.
    TenancyChanged,
    /// As many missed rows were sent as an answer may have.
    Limit,
    /// The source was deleted.
    SourceDeleted,
    /// The server stops.
    Shutdown,
    /// The statement failed for a new row.
    Failed(Box<Failure>),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl End {
    fn reason(&self) -> (&'static str, &'static str) {
        match self {
            Self::Deleted => ("endpoint_deleted", "the endpoint was deleted"),
            Self::Changed => ("endpoint_changed", "the endpoint has a new version; ask again"),
            Self::Revoked => ("token_revoked", "the access token was revoked, has expired, or has other rights now"),
            Self::TenancyChanged => (
                "tenancy_changed",
                "what a source says of whose its rows are has changed; ask again with Last-Event-ID",
            ),
            Self::Limit => (
                "limit",
                "as many of the missed rows were sent as an answer may have; ask again with Last-Event-ID for the others",
            ),
            Self::SourceDeleted => ("source_deleted", "the source was deleted"),
            Self::Shutdown => ("shutdown", "the server stops; ask again with Last-Event-ID"),
            Self::Failed(_) => ("failed", "the query failed for a new row"),
        }
    }
}

/// Appends a row to the events of a stream.
pub(super) fn row(out: &mut Vec<u8>, id: &str, json: &[u8]) {
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    out.extend_from_slice(json);
    out.extend_from_slice(b"\n\n");
}

/// An event of another kind than a row.
fn named(name: &str, id: Option<Position>, data: &serde_json::Value) -> String {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!("event: {name}\n{id}data: {data}\n\n")
}

/// The first rows are all there; what follows is new.
pub(super) fn live(position: Position, rows: usize) -> String {
    named("live", Some(position), &json!({"rows": rows}))
}

/// So many rows were not sent, because the reader is too slow.
pub(super) fn missed(rows: u64) -> String {
    named("missed", None, &json!({"rows": rows}))
}

/// Rows may be missing, and it is not known how many.
pub(super) fn gap(message: &str) -> String {
    named("gap", None, &json!({"message": message}))
}

/// The last event of a stream.
pub(super) fn end(end: &End, position: Position) -> String {
    let (reason, message) = end.reason();
    let mut data = json!({"reason": reason, "message": message});
    if let (End::Failed(failure), Some(data)) = (end, data.as_object_mut()) {
        let failure = document(failure);
        data.insert("error".to_owned(), failure.get("error").cloned().unwrap_or(failure));
    }
    named("end", Some(position), &data)
}

/// A comment that keeps the connection open, and the position so far.
pub(super) fn heartbeat(position: Position) -> String {
    format!(": alive\nid: {position}\n\n")
}
