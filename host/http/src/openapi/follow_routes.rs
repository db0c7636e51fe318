//! What following adds to the routes of queries: its parameters, and the events that they answer with.

use serde_json::{Value, json};

use crate::follow::EVENTS;

/// The names of the parameters among the components of the document.
pub(super) const PARAMETERS: [&str; 3] = ["follow_rows", "follow_since", "last-event-id"];

/// The parameters, by these names.
pub(super) fn parameters() -> [(&'static str, Value); 3] {
    // Requests for anything but events ignore them, whatever they are.
    let text = json!({"type": "string"});
    let of = |name: &str, place: &str, description: &str, schema: &Value| json!({"name": name, "in": place, "description": description, "schema": schema});
    [
        (
            "follow_rows",
            of(
                "follow_rows",
                "query",
                "Where events are asked for: how many of the newest rows come first, 100 if not given.",
                &text,
            ),
        ),
        (
            "follow_since",
            of(
                "follow_since",
                "query",
                "Where events are asked for: only rows from this time on come first; a time, or how long ago (30s, 10m, 2h, 1d).",
                &text,
            ),
        ),
        (
            "last-event-id",
            of(
                "last-event-id",
                "header",
                "The id of the last event: the stream goes on after it, and no other rows come first.",
                &text,
            ),
        ),
    ]
}

/// The content with which a followed query is answered.
pub(super) fn content() -> (String, Value) {
    let description = "Server-Sent Events, one for each row as a JSON object, until the caller leaves: first the newest rows, \
                       then `live`, then new rows. Beside them `missed`, `gap` and `end`. For a query that selects rows of one table.";
    (EVENTS.to_owned(), json!({"schema": {"type": "string", "description": description}}))
}
