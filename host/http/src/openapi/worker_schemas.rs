//! The schemas of what ran on workers.

use serde_json::{Map, Value, json};

use super::schemas::{object, reference};

/// All of them, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let count = json!({"type": "integer", "minimum": 0});
    let list = |of: Value| json!({"type": "array", "items": of});
    let described = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
    let attempt = object(
        json!({
            "worker": {"type": ["string", "null"], "description": "Null is the server itself."},
            "failure": {"type": "string", "description": "Why it failed there; not there where it did not."},
        }),
        &["worker"],
    );
    let ran = object(
        json!({
            "milliseconds": {"type": "number", "minimum": 0, "description": "From its start until its last row, or until nobody read it any more."},
            "rows_sent": count,
            "rows_read": described("Rows that its scan looked at."),
            "bytes_read": described("Bytes of segments."),
            "memory": described("The most bytes that the statement held on the worker."),
            "attempts": {"type": "array", "items": attempt, "description": "Where it ran, one after the other; more than one where a worker failed."},
        }),
        &["milliseconds", "rows_sent", "rows_read", "bytes_read", "memory"],
    );
    let mut ran = ran;
    if let Some(fields) = ran.as_object_mut() {
        fields.insert("description".to_owned(), "What it did. Not there if it was not started.".into());
    }
    let task = object(
        json!({
            "worker": {"type": "string", "description": "The worker that it was planned for."},
            "segments": count,
            "partitions": count,
            "bytes": described("Of its segments, about, with all columns."),
            "rows": described("Before any condition, about."),
            "plan_bytes": described("The length of the plan that is sent."),
            "ran": ran,
        }),
        &["worker", "segments", "partitions", "bytes", "rows", "plan_bytes"],
    );
    let scan = object(
        json!({
            "source": text,
            "operators": {"type": "array", "items": text, "description": "What workers run, the scan last."},
            "tasks": list(reference("schemas", "WorkerTask")),
            "left_out": described("Tasks that are not listed: those that took least."),
        }),
        &["source", "operators", "tasks"],
    );
    let stay = object(
        json!({
            "reason": {"type": "string", "description": "A word for programs."},
            "message": text,
        }),
        &["reason", "message"],
    );
    let statement = object(
        json!({
            "remote": {"type": "array", "items": scan, "description": "Scans whose segments workers read."},
            "local": {"type": "array", "items": stay, "description": "Why the server reads other scans itself."},
            "left_out": described("Scans that are not listed."),
        }),
        &["remote", "local"],
    );
    Map::from_iter([("WorkerTask".to_owned(), task), ("StatementWorkers".to_owned(), statement)])
}
