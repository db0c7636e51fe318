//! The schemas of what the routes take and return: those of the types that handlers read and write, and of what has no type.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use tidegate_model::Code;

/// A reference to a component.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The schemas of the types that routes name. A type is described as it is read where requests send it, and as it is written
/// where answers show it.
#[derive(Debug)]
pub(super) struct Schemas {
    sent: SchemaGenerator,
    shown: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = || {
            let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(plain));
            settings.with(|settings| settings.definitions_path = "/components/schemas".into())
        };
        let (sent, shown) = (settings().for_deserialize(), settings().for_serialize());
        Self { sent: sent.into_generator(), shown: shown.into_generator() }
    }

    /// A type of requests.
    pub(super) fn sent<T: JsonSchema>(&mut self) -> Value {
        self.sent.subschema_for::<T>().to_value()
    }

    /// A type of answers.
    pub(super) fn shown<T: JsonSchema>(&mut self) -> Value {
        self.shown.subschema_for::<T>().to_value()
    }

    /// All schemas by name. What both directions name is told as it is read, which asks for less.
    pub(super) fn into_all(mut self) -> Map<String, Value> {
        let mut all = untyped();
        all.extend(self.shown.take_definitions(true));
        all.extend(self.sent.take_definitions(true));
        all
    }
}

/// Says a schema as this document does: a description is one line, a set of words is a list of them, and numbers have no
/// width.
fn plain(schema: &mut Schema) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    let is_width = |format: &str| ["int", "uint", "double"].iter().any(|number| format.starts_with(number));
    if fields.get("format").and_then(Value::as_str).is_some_and(is_width) {
        fields.shift_remove("format");
    }
    let words: Option<Vec<Value>> = fields
        .get("oneOf")
        .and_then(Value::as_array)
        .and_then(|all| all.iter().map(|one| one.get("const").filter(|word| word.is_string()).cloned()).collect());
    if let Some(words) = words {
        fields.shift_remove("oneOf");
        fields.insert("type".to_owned(), "string".into());
        fields.insert("enum".to_owned(), words.into());
    }
}

/// The schemas of what is no type of ours: errors, rows, parameters, events, and the answers of doors and probes.
fn untyped() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let count = json!({"type": "integer", "minimum": 0});
    let shown = |name: &str| reference("schemas", name);
    let list = |of: Value| json!({"type": "array", "items": of});
    let location = "What it is about: a parameter, a field, a table, or a place in the statement.";
    let problem = json!({
        "reason": text,
        "location": {"type": ["string", "null"], "description": location},
        "message": text,
    });
    let message = json!({"type": "string", "description": "What is wrong, where, and what would be right."});
    let codes = Code::ALL.map(Code::name);
    let error = json!({
        "code": {"type": "string", "enum": codes.to_vec(), "description": "A word for programs, such as unknown_table."},
        "message": message,
        "status": {"type": "integer"},
        "errors": list(object(problem, &["reason", "location", "message"])),
    });
    let error = object(error, &["code", "message", "status", "errors"]);
    let worker = json!({"name": text, "used": {"type": "boolean"}, "reason": {"type": ["string", "null"]}});
    let workers =
        "Of GET /ready on a server with workers: how many are used. A private token is told which, and why one is not.";
    let workers = json!({"type": "array", "description": workers, "items": object(worker, &["used"])});
    let event = "Any JSON object. `timestamp` is its time (ISO 8601, or a number since 1970), `event_message` its text, `id` its own id.";
    let logged = json!({
        "message": text,
        "accepted": count,
        "rejected": count,
        "unread_times": count,
        "future_times": count,
        "early_times": count,
        "errors": list(object(json!({"index": count, "message": text}), &["index", "message"])),
    });
    let all = [
        ("Error", object(json!({"error": error}), &["error"])),
        ("ErrorAsText", object(json!({"result": {"type": "null"}, "error": message}), &["result", "error"])),
        ("Row", json!({"type": "object", "description": "The columns of a query, by name."})),
        ("Rows", object(json!({"result": list(shown("Row"))}), &["result"])),
        (
            "Parameters",
            json!({
                "type": "object",
                "description": "Parameters of the endpoint; `sql` and `lql` for an ad-hoc query.",
                "properties": {"sql": {"type": ["string", "null"]}, "lql": {"type": ["string", "null"]}},
                "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
            }),
        ),
        ("Event", json!({"type": "object", "description": event})),
        (
            "Events",
            json!({"anyOf": [
                list(shown("Event")),
                object(json!({"batch": list(shown("Event"))}), &["batch"]),
                shown("Event"),
            ]}),
        ),
        ("Logged", object(logged, &["message"])),
        ("Health", object(json!({"status": text, "workers": workers}), &["status"])),
        ("OpenApi", object(json!({"openapi": text, "paths": {"type": "object"}}), &["openapi", "paths"])),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}
