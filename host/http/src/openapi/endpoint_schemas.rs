//! The schemas of what is known of an endpoint beside its definition: its component, and what it would read.

use serde_json::{Value, json};

use super::schemas::object;

/// All of them, by name.
pub(super) fn schemas() -> [(String, Value); 3] {
    let [grant, statement] = lineage();
    [("Component", component()), ("CheckedGrant", grant), ("CheckedStatement", statement)]
        .map(|(name, schema)| (name.to_owned(), schema))
}

/// The component of an endpoint with code.
fn component() -> Value {
    let text = json!({"type": "string"});
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "description": "The component of an endpoint with code; only where one endpoint is asked for.",
        "properties": {
            "bytes": count,
            "world": {"type": "string", "enum": ["endpoint", "endpoint-adhoc"], "description": "The smallest world of the contract that it fits."},
            "imports": {"type": "array", "items": text, "description": "The interfaces that it imports: what it can do."},
            "initial_memory": {"type": "integer", "minimum": 0, "description": "Bytes of linear memory at the start."},
            "tools": {"type": "array", "items": object(json!({"name": text, "version": text}), &["name", "version"]), "description": "What it says made it."},
        },
        "required": ["bytes", "tools"],
    })
}

/// What an endpoint would read.
fn lineage() -> [Value; 2] {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let reads = |what: &str| json!({"type": "object", "additionalProperties": texts, "description": what});
    let grant = object(
        json!({
            "table": text,
            "parameters": {"type": "array", "items": text, "description": "Those that it uses. Without any, whoever may call the endpoint may read all of it."},
            "reads": reads("Columns by source."),
        }),
        &["table", "parameters", "reads"],
    );
    let statement = object(
        json!({
            "name": {"type": "string", "description": "`default` is the body of the query."},
            "reads": reads("Columns by granted table."),
        }),
        &["name", "reads"],
    );
    [grant, statement]
}
