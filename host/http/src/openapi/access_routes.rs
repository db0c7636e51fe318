//! The routes that tell who reads what, and the schemas of their answers.

use serde_json::{Map, Value, json};

use super::route::{Gives, Route, Who, route};
use super::schemas::{object, reference};

/// The status codes with which a report may be refused: it is planned, and takes a place like a query.
const REFUSALS: &[u16] = &[401, 403, 404, 422, 429, 500, 503, 504];

/// All routes of reports.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "Tokens with the same scopes, names of pinned values and limits are one class. So are those of each rule of \
                      an issuer; alerts read for themselves. Made of the plans of all endpoints that they may query. Sorted, and without times, so that it can be compared.",
        parameters: &["read_source", "rule"],
        success: &[(200, Gives::Json("AccessOfClasses"))],
        refusals: REFUSALS,
        ..route("/api/access", "get", "show_access", Who::Private, "Who reads what, by classes of access tokens")
    },
    Route {
        description: "For every token that is valid, without the names of sources that it is refused.",
        success: &[(200, Gives::Json("AccessOfToken"))],
        refusals: REFUSALS,
        ..route(
            "/api/access-tokens/current/access",
            "get",
            "show_current_access",
            Who::Query,
            "What the token of this request reads, by endpoint, source and column",
        )
    },
    Route {
        parameters: &["token", "read_source"],
        success: &[(200, Gives::Json("AccessOfToken"))],
        refusals: REFUSALS,
        ..route(
            "/api/access-tokens/{token}/access",
            "get",
            "show_access_of_token",
            Who::Private,
            "What an access token reads, by endpoint, source and column",
        )
    },
];

/// The schemas, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let reason = |what: &str| json!({"type": ["string", "null"], "description": what});
    let shown = |name: &str| reference("schemas", name);
    let list = |name: &str| json!({"type": "array", "items": shown(name)});
    let writes = object(
        json!({
            "all": {"type": "boolean", "description": "Whether events may be sent to every source."},
            "sources": {"type": "array", "items": text, "description": "Else those to which they may be sent."},
        }),
        &["all", "sources"],
    );
    let source = object(
        json!({
            "id": {"type": "string", "format": "uuid"},
            "source": {"type": "string", "description": "Absent for a token that asks about itself and is refused it."},
            "rows": {"type": "string", "description": "The condition on its rows, such as `project = 'abc'` or `project = own`; ALL; or REFUSED."},
            "access": {"type": "string", "enum": ["bound", "all", "refused"]},
            "shared": {"type": "boolean", "description": "Whether the source says that all tenants may read all of its rows."},
            "reason": reason("Why it is refused."),
            "by_policy": {"type": "array", "items": text, "description": "The fields by which its rows are bound."},
            "columns": {"type": "array", "items": text, "description": "What is read, with fields in records as column.field; none where rows are only counted."},
        }),
        &["rows", "access", "shared", "reason", "by_policy"],
    );
    let table = object(
        json!({
            "table": text,
            "kind": {"type": "string", "enum": ["grant", "body", "statement"]},
            "read_by": {"type": "string", "enum": ["caller", "code", "query"], "description": "Who may read it: ad-hoc text of a caller, code of the endpoint, or the saved query only."},
            "parameters": {"type": "array", "items": text, "description": "The parameters that its text uses. They prove nothing."},
            "failed": reason("Why it cannot be planned."),
            "sources": list("AccessOfSource"),
        }),
        &["table", "kind", "read_by", "parameters", "failed", "sources"],
    );
    let endpoint = object(
        json!({
            "id": {"type": "string", "format": "uuid"},
            "endpoint": text,
            "refused": reason("Why the token may not ask it at all."),
            "adhoc": {"type": "string", "enum": ["nothing", "tables", "sources"], "description": "What ad-hoc text may read."},
            "redaction": {"type": "string", "enum": ["always", "unless_turned_off", "on_request"]},
            "limits": {"type": "object", "additionalProperties": text, "description": "What one request may use: the least of what server, endpoint and token say."},
            "tables": list("AccessOfTable"),
        }),
        &["id", "endpoint", "refused", "adhoc", "redaction", "limits", "tables"],
    );
    let of_token = object(
        json!({
            "token": shown("CurrentAccessToken"),
            "private": {"type": "boolean", "description": "Whether it may read and change everything, whatever is listed."},
            "writes": shown("AccessToWrite"),
            "endpoints": list("AccessOfEndpoint"),
        }),
        &["token", "private", "writes", "endpoints"],
    );
    let class = object(
        json!({
            "scopes": text,
            "pinned": texts,
            "limits": shown("Limits"),
            "tokens": {"type": "integer", "minimum": 1},
            "private": {"type": "boolean"},
            "writes": shown("AccessToWrite"),
            "endpoints": list("AccessOfEndpoint"),
        }),
        &["scopes", "pinned", "limits", "tokens", "private", "writes", "endpoints"],
    );
    let rule = object(
        json!({
            "rule": {"type": "string", "description": "The names of the issuer and of its rule, as main/1."},
            "scopes": text,
            "pinned": {"type": "object", "additionalProperties": text, "description": "Names that are pinned, with JSON pointers to the claims that have the values."},
            "limits": shown("Limits"),
            "private": {"type": "boolean"},
            "writes": shown("AccessToWrite"),
            "endpoints": list("AccessOfEndpoint"),
        }),
        &["rule", "scopes", "pinned", "limits", "private", "writes", "endpoints"],
    );
    let alert = object(
        json!({
            "alert": text,
            "endpoint": text,
            "receiver": {"type": "string", "description": "The scheme and the host of the address to which its rows are sent."},
            "tenant": {"type": "object", "additionalProperties": text, "description": "The tenant for which it asks; without any, it reads the rows of all."},
            "paused": {"type": "boolean"},
            "endpoints": list("AccessOfEndpoint"),
        }),
        &["alert", "endpoint", "receiver", "tenant", "paused", "endpoints"],
    );
    let array = |items: &Value| json!({"type": "array", "items": items});
    let of_classes = object(
        json!({"classes": array(&class), "rules": array(&rule), "alerts": array(&alert)}),
        &["classes", "rules", "alerts"],
    );
    Map::from_iter([
        ("AccessOfClasses".to_owned(), of_classes),
        ("AccessOfToken".to_owned(), of_token),
        ("AccessOfEndpoint".to_owned(), endpoint),
        ("AccessOfTable".to_owned(), table),
        ("AccessOfSource".to_owned(), source),
        ("AccessToWrite".to_owned(), writes),
    ])
}
