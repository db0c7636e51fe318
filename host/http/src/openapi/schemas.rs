//! The schemas of what the routes take and return, and what such schemas are made of.

use serde_json::{Value, json};
use tidegate_model::{Code, LIMITS, LimitSet, MOST_ALERTS};

use crate::middleware::error_status::STATUS;

/// A reference to a component.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

/// The schema of an object that accepts no other fields.
pub(super) fn closed(properties: Value, required: &[&str]) -> Value {
    let mut schema = object(properties, required);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}

/// The limits that an endpoint or a token may lower, by name.
fn limits() -> Value {
    let described = LimitSet::names().filter_map(|name| {
        let what = LIMITS.iter().find(|setting| setting.name == name)?.what;
        Some((name.to_owned(), json!({"type": ["string", "integer"], "minimum": 0, "description": what})))
    });
    let mut schema = closed(Value::Object(described.collect()), &[]);
    if let Some(fields) = schema.as_object_mut() {
        fields.insert("type".to_owned(), json!(["object", "null"]));
        let description = "What one request may use, where that is less than the server's limits: a number, or a text \
                           with its unit such as \"5 s\" or \"16 MiB\".";
        fields.insert("description".to_owned(), description.into());
    }
    schema
}

/// The schema of the setting for how errors of queries are answered.
fn errors(absent: &str) -> Value {
    let description = format!(
        "Errors of queries have their own status, or 200 with `\"result\": null` and `error` as a text, where the answer \
         would be JSON; the true status is then in {STATUS}. {absent}"
    );
    json!({"type": ["string", "null"], "enum": ["status", "ok", null], "default": null, "description": description})
}

/// The schemas by name, but those that have a file of their own.
pub(super) fn schemas() -> Value {
    let text = json!({"type": "string"});
    let id = json!({"type": "string", "format": "uuid"});
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let count = json!({"type": "integer", "minimum": 0});
    let milliseconds = json!({"type": ["number", "null"], "minimum": 0, "description": "Null without a call."});
    let some_count = json!({"type": ["integer", "null"], "minimum": 0});
    let shown = |name: &str| reference("schemas", name);
    let days = json!({"type": ["integer", "null"], "minimum": 0, "maximum": 36_500, "description": "0 keeps for ever, null is the server's setting."});
    let bytes = json!({"type": ["integer", "null"], "minimum": 0, "description": "0 is without limit, null is the server's setting."});
    let tenant =
        "Whose its rows are: \"shared\", or the tenant keys with the field that holds each; null where nobody says it.";
    let tenant = json!({"type": ["object", "string", "null"], "additionalProperties": text, "description": tenant});
    let source_fields = json!({
        "name": {"type": "string", "minLength": 1}, "retention_days": days, "retention_bytes": bytes, "tenant": tenant,
        "widens": {"type": "boolean", "default": false, "description": "Whether it is meant that tokens read more by that."},
    });
    let endpoint_fields = json!({
        "name": {"type": "string", "minLength": 1, "maxLength": 128},
        "description": text,
        "query": {"type": "string", "minLength": 1, "description": "The saved query, with parameters as @name. Its top-level CTEs are the tables of ad-hoc queries."},
        "parameters": {"type": "array", "items": shown("Parameter")},
        "max_limit": {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 1000},
        "cache_duration_seconds": {"type": "integer", "minimum": 0, "maximum": 86_400, "default": 0},
        "proactive_requerying_seconds": {"type": ["integer", "null"], "minimum": 1, "maximum": 86_400, "default": null},
        "sandboxable": {"type": "boolean", "default": false},
        "redact_pii": {"type": "boolean", "default": false},
        "errors": errors("The server's choice, if null."),
        "enable_auth": {"type": "boolean", "const": true, "default": true},
        "labels": text,
        "limits": shown("Limits"),
        "alerts": {"type": "array", "maxItems": MOST_ALERTS, "items": shown("AlertDefinition")},
    });
    let mut endpoint = endpoint_fields.clone();
    let mut endpoint_fields = endpoint_fields;
    if let Some(fields) = endpoint_fields.as_object_mut() {
        fields.insert("language".to_owned(), json!({"type": "string", "const": "bq_sql"}));
    }
    if let Some(fields) = endpoint.as_object_mut() {
        fields.insert("author".to_owned(), json!({"type": "string", "description": "Who saved this version."}));
        fields.insert("inserted_at".to_owned(), time.clone());
        fields.insert("updated_at".to_owned(), time.clone());
        fields.insert("id".to_owned(), id.clone());
        fields.insert("version".to_owned(), json!({"type": "integer", "minimum": 1}));
        fields.insert("statements".to_owned(), json!({"type": "object", "additionalProperties": text, "description": "Statements of the component beside the query, by name."}));
        fields.insert(
            "kind".to_owned(),
            json!({"type": "string", "enum": ["sql", "wasm"], "description": "A saved query, or code."}),
        );
        fields.insert(
            "digest".to_owned(),
            json!({"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "The SHA-256 of the component."}),
        );
        fields.insert("component".to_owned(), shown("Component"));
        let warning = "What may not be meant as it is written, such as names that no log has had so far; after a change, also what tokens read more than before.";
        fields.insert("warnings".to_owned(), json!({"type": "array", "items": text, "description": warning}));
        let made = "Sources that were made because the request asked for it (`make_sources`); absent where none was.";
        fields.insert("made_sources".to_owned(), json!({"type": "array", "items": text, "description": made}));
    }
    let mut tried_fields = endpoint_fields.clone();
    if let Some(fields) = tried_fields.as_object_mut() {
        fields.insert("arguments".to_owned(), json!({"type": "object", "additionalProperties": true, "description": "The parameters of the request, as a query takes them."}));
    }
    let token_fields = json!({
        "description": text,
        "scopes": {"type": "string", "minLength": 1, "description": "ingest, ingest:source:NAME, query, query:endpoint:NAME, private; separated by blanks."},
        "pinned": {"type": ["object", "null"], "additionalProperties": text, "description": "Values of parameters that the holder cannot choose."},
        "limits": shown("Limits"),
        "errors": errors("The endpoint's choice, else the server's, if null."),
        "expires_at": time,
    });
    let mut current = token_fields.clone();
    if let Some(fields) = current.as_object_mut() {
        let description = "Null for the tokens of the server's environment.";
        fields
            .insert("id".to_owned(), json!({"type": ["string", "null"], "format": "uuid", "description": description}));
    }
    let mut token = token_fields.clone();
    if let Some(fields) = token.as_object_mut() {
        fields.insert("id".to_owned(), id.clone());
        fields.insert("inserted_at".to_owned(), time.clone());
        fields.insert("revoked_at".to_owned(), time.clone());
        let description = "Null if it was never used. A crash of the server forgets the uses of the last minute.";
        let last_used = json!({"type": ["string", "null"], "format": "date-time", "description": description});
        fields.insert("last_used_at".to_owned(), last_used);
    }
    let mut made = token.clone();
    if let Some(fields) = made.as_object_mut() {
        fields.insert("token".to_owned(), json!({"type": "string", "description": "Shown once."}));
        let warning = "Endpoints that a scope names and that are not there so far, and what the token reads that no other of its kind did.";
        fields.insert("warnings".to_owned(), json!({"type": "array", "items": text, "description": warning}));
    }
    let source = object(
        json!({
            "id": id,
            "name": text,
            "retention_days": days,
            "retention_bytes": bytes,
            "tenant": tenant,
            "warnings": {"type": "array", "items": text, "description": "What a change of the tenant keys widens."},
            "effective_retention_days": some_count,
            "effective_retention_bytes": some_count,
            "rows": count,
            "bytes": count,
            "segments": count,
            "memory_rows": count,
            "memory_bytes": count,
            "oldest": time,
            "newest": time,
            "fields": count,
            "max_fields": count,
            "overflows": {"type": "boolean"},
            "inserted_at": time,
        }),
        &["id", "name"],
    );
    json!({
        "Error": object(json!({"error": object(json!({
            "code": {"type": "string", "enum": Code::ALL.map(Code::name).to_vec(), "description": "A word for programs, such as unknown_table."},
            "message": {"type": "string", "description": "What is wrong, where, and what would be right."},
            "status": {"type": "integer"},
            "errors": {"type": "array", "items": object(json!({
                "reason": text,
                "location": {"type": ["string", "null"], "description": "What it is about: a parameter, a field, a table, or a place in the statement."},
                "message": text,
            }), &["reason", "location", "message"])},
        }), &["code", "message", "status", "errors"])}), &["error"]),
        "ErrorAsText": object(json!({
            "result": {"type": "null"},
            "error": {"type": "string", "description": "What is wrong, where, and what would be right."},
        }), &["result", "error"]),
        "Row": {"type": "object", "description": "The columns of a query, by name."},
        "Rows": object(json!({"result": {"type": "array", "items": shown("Row")}}), &["result"]),
        "Parameters": {
            "type": "object",
            "description": "Parameters of the endpoint; `sql` and `lql` for an ad-hoc query.",
            "properties": {"sql": {"type": ["string", "null"]}, "lql": {"type": ["string", "null"]}},
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
        "Event": {
            "type": "object",
            "description": "Any JSON object. `timestamp` is its time (ISO 8601, or a number since 1970), `event_message` its text, `id` its own id.",
        },
        "Events": {"anyOf": [
            {"type": "array", "items": shown("Event")},
            object(json!({"batch": {"type": "array", "items": shown("Event")}}), &["batch"]),
            shown("Event"),
        ]},
        "Logged": object(json!({
            "message": text,
            "accepted": count,
            "rejected": count,
            "unread_times": count,
            "future_times": count,
            "early_times": count,
            "errors": {"type": "array", "items": object(json!({"index": count, "message": text}), &["index", "message"])},
        }), &["message"]),
        "Health": object(json!({
            "status": text,
            "workers": {
                "type": "array",
                "description": "Of GET /ready on a server with workers: how many are used. A private token is told which, and why one is not.",
                "items": object(
                    json!({"name": text, "used": {"type": "boolean"}, "reason": {"type": ["string", "null"]}}),
                    &["used"],
                ),
            },
        }), &["status"]),
        "OpenApi": object(json!({"openapi": text, "paths": {"type": "object"}}), &["openapi", "paths"]),
        "Parameter": closed(json!({
            "name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "kind": {"type": "string", "enum": ["boolean", "int64", "float64", "text", "bytes", "timestamp", "json"], "default": "text"},
            "required": {"type": "boolean", "default": false},
            "default": {"type": ["string", "null"]},
            "enum": {"type": "array", "items": text},
            "format": {"type": ["string", "null"], "enum": ["regex", "timestamp", null]},
            "max_length": {"type": ["integer", "null"], "minimum": 0},
            "description": text,
        }), &["name"]),
        "Limits": limits(),
        "EndpointFields": closed(endpoint_fields.clone(), &[]),
        "TriedEndpoint": closed(tried_fields, &[]),
        "NewEndpoint": closed(endpoint_fields, &["name", "query"]),
        "Endpoint": object(endpoint.clone(), &["id", "name", "query", "version"]),
        "CheckedComponent": object(json!({
            "name": text,
            "digest": endpoint.get("digest"),
            "version": {"type": ["integer", "null"], "description": "The version that is there now."},
            "unchanged": {"type": "boolean", "description": "Whether it is what is there now."},
            "warnings": endpoint.get("warnings"),
        }), &["name", "digest", "version", "unchanged", "warnings"]),
        "CheckedEndpoint": object(json!({
            "name": text,
            "version": {"type": ["integer", "null"], "description": "The version that is there now."},
            "unchanged": {"type": "boolean", "description": "Whether it is what is there now."},
            "warnings": endpoint.get("warnings"),
            "grants": {"type": "array", "items": shown("CheckedGrant")},
            "statements": {"type": "array", "items": shown("CheckedStatement")},
        }), &["name", "version", "unchanged", "warnings", "grants", "statements"]),
        "EndpointStatistics": object(json!({
            "id": id,
            "name": text,
            "calls": count,
            "refused": {"type": "integer", "minimum": 0, "description": "Those with a status from 400 to 499."},
            "failed": {"type": "integer", "minimum": 0, "description": "Those with a status of 500 and above."},
            "cache_lookups": {"type": "integer", "minimum": 0, "description": "Calls that could be answered from the cache."},
            "cache_hits": {"type": "integer", "minimum": 0, "description": "Those that were."},
            "p50_milliseconds": milliseconds,
            "p95_milliseconds": milliseconds,
        }), &["id", "name", "calls", "refused", "failed", "cache_lookups", "cache_hits", "p50_milliseconds", "p95_milliseconds"]),
        "SlowQuery": object(json!({
            "arrived_at": time,
            "milliseconds": {"type": "number", "minimum": 0, "description": "Until the answer was complete."},
            "endpoint": {"type": "object", "required": ["id", "name"], "properties": {"id": id, "name": text}},
            "status": {"type": "integer"},
            "token": {"type": ["string", "null"], "description": "The token's id."},
            "cache": {"type": ["string", "null"]},
            "language": {"type": ["string", "null"], "enum": ["sql", "lql", null], "description": "Null for the saved query."},
            "text": {"type": ["string", "null"], "description": "The ad-hoc query, its first 2000 bytes."},
            "text_is_cut": {"type": "boolean"},
            "statements": count,
            "rows_read": {"type": "integer", "minimum": 0, "description": "Rows of sources that were looked at; those that statistics leave out are not."},
            "bytes_read": {"type": "integer", "minimum": 0, "description": "Bytes of segments."},
            "memory": {"type": "integer", "minimum": 0, "description": "The most bytes that one statement held at a time."},
            "tasks": {"type": "integer", "minimum": 0, "description": "Parts of its statements that were given to workers."},
            "moves": {"type": "integer", "minimum": 0, "description": "How often such a part ran elsewhere because a worker failed."},
            "workers": {"type": "array", "items": shown("StatementWorkers"), "description": "Where the scans of its statements ran, of the first ones, up to 64 KiB; empty on a server without workers."},
        }), &["arrived_at", "milliseconds", "endpoint", "status", "statements", "rows_read", "bytes_read", "memory", "tasks", "moves", "workers"]),
        "EndpointVersion": object(endpoint, &["id", "name", "version"]),
        "SourceFields": closed(source_fields.clone(), &[]),
        "NewSource": closed(source_fields, &["name"]),
        "Source": source,
        "SourceSchema": {"type": "object", "description": "Types by path.", "additionalProperties": text},
        "CurrentAccessToken": object(current, &["id", "description", "scopes", "pinned", "expires_at"]),
        "AccessToken": object(token, &["id", "scopes"]),
        "NewAccessToken": closed(token_fields, &["scopes"]),
        "MadeAccessToken": object(made, &["id", "scopes", "token"]),
    })
}
