//! The routes that manage sources.

use serde_json::{Value, json};

use super::route::{CHANGE_REFUSALS, Gives, LIST_REFUSALS, QUERY_REFUSALS, Route, SAVE_REFUSALS, Takes, Who, route};

/// All routes of sources.
pub(super) const ROUTES: &[Route] = &[
    Route {
        success: &[(200, Gives::List("Source"))],
        refusals: LIST_REFUSALS,
        ..route("/api/sources", "get", "list_sources", Who::Private, "All sources")
    },
    Route {
        body: Takes::Json("NewSource"),
        success: &[(201, Gives::Json("Source"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/sources", "post", "create_source", Who::Private, "Make a source")
    },
    Route {
        parameters: &["source"],
        success: &[(200, Gives::Tagged("Source"))],
        ..route("/api/sources/{source}", "get", "show_source", Who::Private, "One source, and how much it holds")
    },
    Route {
        description: "Endpoints that read the source go on reading it under its new name. A change of `tenant` through which tokens \
                      would read more is refused with `conflict` and what they would read, unless the request says `widens`. \
                      The first `tenant` of a source is taken, and warned of.",
        parameters: &["source", "if-match"],
        body: Takes::Json("SourceFields"),
        success: &[(200, Gives::Tagged("Source"))],
        refusals: CHANGE_REFUSALS,
        ..route(
            "/api/sources/{source}",
            "put",
            "update_source",
            Who::Private,
            "Rename a source, change its retention, or say whose its rows are",
        )
    },
    Route {
        description: "As by PUT.",
        parameters: &["source", "if-match"],
        body: Takes::Json("SourceFields"),
        success: &[(200, Gives::Tagged("Source"))],
        refusals: CHANGE_REFUSALS,
        ..route(
            "/api/sources/{source}",
            "patch",
            "change_source",
            Who::Private,
            "Rename a source, change its retention, or say whose its rows are",
        )
    },
    Route {
        description: "Refused while an endpoint reads it; and with `conflict`, unless the request says `widens`, if tokens would \
                      read more of other sources, because a name that they pin is a tenant key of this source alone.",
        parameters: &["source", "widens", "if-match"],
        success: &[(204, Gives::Nothing)],
        refusals: CHANGE_REFUSALS,
        ..route("/api/sources/{source}", "delete", "delete_source", Who::Private, "Delete a source with all its rows")
    },
    Route {
        parameters: &["source"],
        success: &[(200, Gives::Json("SourceSchema"))],
        ..route(
            "/api/sources/{source}/schema",
            "get",
            "show_source_schema",
            Who::Private,
            "Every path that an event had so far, with its type",
        )
    },
    Route {
        description: "From the footers of up to 100 segments, those with the most rows, and the rows in memory. Fields of single values only. \
                      A value that has no column of its own is not counted, so that a rare field may have 0.",
        parameters: &["source"],
        success: &[(200, Gives::Json("FillRates"))],
        ..route(
            "/api/sources/{source}/fill-rates",
            "get",
            "show_fill_rates",
            Who::Private,
            "How often the fields of a source have a value",
        )
    },
    Route {
        parameters: &["source", "limit"],
        success: &[(200, Gives::JsonRows)],
        refusals: QUERY_REFUSALS,
        ..route(
            "/api/sources/{source}/recent",
            "get",
            "show_recent_rows",
            Who::Private,
            "The newest rows, newest first",
        )
    },
];

/// The schema of how often fields have a value.
pub(super) fn fill_rates() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    json!({
        "type": "object",
        "properties": {
            "rows": {"type": "integer", "minimum": 0, "description": "Of the source."},
            "counted_rows": {"type": "integer", "minimum": 0, "description": "Those that were looked at."},
            "fields": {"type": "object", "additionalProperties": count, "description": "Of the counted rows those that have a value, by path."},
        },
        "required": ["rows", "counted_rows", "fields"],
    })
}
