//! The schema of what a query would read.

use serde_json::{Map, Value, json};

use super::schemas::{object, reference};

/// It, by its name.
pub(super) fn schemas() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let flag = |description: &str| json!({"type": "boolean", "description": description});
    let count = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
    let list = |of: Value| json!({"type": "array", "items": of});
    let segments = count("Segments that are left, or all of a source.");
    let runs = count("Runs of them: the rows of one project in a segment are one.");
    let rows = count("The rows of these runs, or of batches in memory.");
    let bytes = count("Of these runs, about: as they are stored, with all columns.");
    let table = object(json!({"name": text, "columns": list(text.clone())}), &["name", "columns"]);
    let source = object(
        json!({
            "name": text, "segments": segments, "runs": runs, "rows": rows, "bytes": bytes,
            "memory_rows": count("Rows that are in no segment yet."),
            "of_tenant": {"type": "string", "description": "With `as`: the condition on its rows, such as `project = 'abc'`, or ALL (shared)."},
        }),
        &["name", "segments", "runs", "rows", "bytes", "memory_rows"],
    );
    let index = json!({"type": "string", "enum": ["ids", "texts"]});
    let scan = object(
        json!({
            "source": text,
            "place": {"type": "string", "enum": ["segments", "memory"]},
            "segments": segments, "runs": runs, "rows": rows, "bytes": bytes,
            "conditions": list(text.clone()),
            "learns_conditions": flag("Whether a join or a limit tells it more conditions while it runs."),
            "in_order": flag("Whether it gives the newest rows first."),
            "limit": {"type": ["integer", "null"], "minimum": 0, "description": "The most rows of a partition."},
            "partitions": count("In how many parts it is read at once."),
            "indexes": {"type": "array", "items": index, "description": "What excludes more when a segment is opened."},
        }),
        &["source", "place", "rows", "conditions", "learns_conditions", "in_order", "limit", "partitions", "indexes"],
    );
    let explanation = object(
        json!({
            "tables": {"type": "array", "items": table, "description": "Granted tables that it reads; empty for a text over the sources."},
            "sources": {"type": "array", "items": source, "description": "The sources that it reads, with all that they have."},
            "scans": {"type": "array", "items": scan, "description": "What is left to read. Of a source of which nothing is left there is none."},
            "as": {"type": "object", "additionalProperties": text, "description": "The tenant as which it is explained; absent for all rows."},
            "left_out": count("Scans that are not listed."),
            "workers": reference("schemas", "StatementWorkers"),
        }),
        &["tables", "sources", "scans"],
    );
    Map::from_iter([("Explanation".to_owned(), explanation)])
}
