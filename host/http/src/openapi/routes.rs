//! The fixed routes, in one table: what each is for, who may use it, what it takes and what it returns.
//!
//! A new route needs an entry here. A black-box test sends a request to every entry.

use serde_json::{Map, Value, json};
use tidegate_model::Errors;

use super::schemas::{OTLP_REFUSED, answer_headers, reference, rows_content};

/// A route and a method.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) path: &'static str,
    /// In lower case, as OpenAPI requires.
    pub(super) method: &'static str,
    id: &'static str,
    who: Who,
    summary: &'static str,
    description: &'static str,
    /// Names of parameters that the document's components describe.
    parameters: &'static [&'static str],
    body: Takes,
    /// The status codes of success, and the content of each.
    success: &'static [(u16, Gives)],
    refusals: &'static [u16],
}

#[derive(Debug, Clone, Copy)]
enum Who {
    Nobody,
    /// Everyone. With a token, the response contains more.
    Anyone,
    Ingest,
    Query,
    Private,
}

#[derive(Debug, Clone, Copy)]
enum Takes {
    Nothing,
    /// A JSON object of a described schema.
    Json(&'static str),
    /// Parameters, as JSON or as a form.
    Parameters,
    Events,
    Otlp,
    Component,
}

#[derive(Debug, Clone, Copy)]
enum Gives {
    Nothing,
    /// JSON of a described schema.
    Json(&'static str),
    /// A JSON array of a described schema.
    List(&'static str),
    /// Rows in any format.
    Rows,
    /// Rows as JSON.
    JsonRows,
    Otlp,
    Metrics,
    Component,
}

/// The status codes with which a query may be refused.
pub(super) const QUERY_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504];
const LOGS_REFUSALS: &[u16] = &[400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503, 507];
const LIST_REFUSALS: &[u16] = &[401, 403, 429, 500, 503];
const SHOW_REFUSALS: &[u16] = &[401, 403, 404, 429, 500, 503];
const SAVE_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 507];

const fn route(path: &'static str, method: &'static str, id: &'static str, who: Who, summary: &'static str) -> Route {
    Route {
        path,
        method,
        id,
        who,
        summary,
        description: "",
        parameters: &[],
        body: Takes::Nothing,
        success: &[],
        refusals: SHOW_REFUSALS,
    }
}

/// All fixed routes.
pub(super) const ROUTES: &[Route] = &[
    Route {
        description: "Parameters of the endpoint are sent in the query string; what it does not declare is ignored. \
                      `sql` and `lql` run an ad-hoc query over its tables. Also at /endpoints/query/{endpoint}. Remarks of an \
                      endpoint's code are headers x-tidegate-note-KEY, percent-encoded.",
        parameters: &["endpoint", "sql", "lql", "format", "redact", "follow_rows", "follow_since", "last-event-id"],
        success: &[(200, Gives::Rows)],
        refusals: QUERY_REFUSALS,
        ..route("/api/endpoints/query/{endpoint}", "get", "query", Who::Query, "Run an endpoint")
    },
    Route {
        description: "As by GET; parameters in the body count as those in the query string.",
        parameters: &["endpoint", "format", "redact"],
        body: Takes::Parameters,
        success: &[(200, Gives::Rows)],
        refusals: QUERY_REFUSALS,
        ..route("/api/endpoints/query/{endpoint}", "post", "query_by_post", Who::Query, "Run an endpoint")
    },
    Route {
        description: "The events are on stable storage when the answer comes. Also at /logs and /api/events. The body may \
                      be compressed (Content-Encoding: gzip, zstd).",
        parameters: &["source_name", "source_id", "x-source-name", "idempotency-key"],
        body: Takes::Events,
        success: &[(200, Gives::Json("Logged"))],
        refusals: LOGS_REFUSALS,
        ..route("/api/logs", "post", "send_logs", Who::Ingest, "Send events to a source")
    },
    Route {
        description: "OTLP over HTTP, as protobuf or JSON. Name the source in the header x-source-name.",
        parameters: &["source_name", "source_id", "x-source-name", "idempotency-key"],
        body: Takes::Otlp,
        success: &[(200, Gives::Otlp)],
        refusals: LOGS_REFUSALS,
        ..route("/v1/logs", "post", "send_otlp_logs", Who::Ingest, "Send logs with OpenTelemetry")
    },
    Route {
        description: "Of the last hour, or since the start of the process if that is later. Times are rounded up, by a third at most.",
        success: &[(200, Gives::List("EndpointStatistics"))],
        refusals: LIST_REFUSALS,
        ..route(
            "/api/endpoint-statistics",
            "get",
            "list_endpoint_statistics",
            Who::Private,
            "How often each endpoint was called, with what result, and how long it took",
        )
    },
    Route {
        success: &[(200, Gives::List("Endpoint"))],
        refusals: LIST_REFUSALS,
        ..route("/api/endpoints", "get", "list_endpoints", Who::Private, "All saved endpoints")
    },
    Route {
        description: "The query is checked: what cannot run is refused with the reason.",
        body: Takes::Json("NewEndpoint"),
        success: &[(201, Gives::Json("Endpoint"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/endpoints", "post", "create_endpoint", Who::Private, "Save an endpoint")
    },
    Route {
        parameters: &["endpoint"],
        success: &[(200, Gives::Json("Endpoint"))],
        ..route("/api/endpoints/{endpoint}", "get", "show_endpoint", Who::Private, "One endpoint")
    },
    Route {
        description: "Fields that are left out stay as they are.",
        parameters: &["endpoint"],
        body: Takes::Json("EndpointFields"),
        success: &[(200, Gives::Json("Endpoint"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/endpoints/{endpoint}", "put", "update_endpoint", Who::Private, "Save a new version")
    },
    Route {
        description: "As by PUT.",
        parameters: &["endpoint"],
        body: Takes::Json("EndpointFields"),
        success: &[(200, Gives::Json("Endpoint"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/endpoints/{endpoint}", "patch", "change_endpoint", Who::Private, "Save a new version")
    },
    Route {
        parameters: &["endpoint"],
        success: &[(204, Gives::Nothing)],
        refusals: SAVE_REFUSALS,
        ..route("/api/endpoints/{endpoint}", "delete", "delete_endpoint", Who::Private, "Delete an endpoint")
    },
    Route {
        description: "What would become of these fields if they were put, refusals and warnings included. Nothing is saved. \
                      Where there is no such endpoint, they are those of a new one.",
        parameters: &["endpoint"],
        body: Takes::Json("EndpointFields"),
        success: &[(200, Gives::Json("CheckedEndpoint"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/check",
            "post",
            "check_endpoint",
            Who::Private,
            "Check an endpoint without saving it",
        )
    },
    Route {
        description: "A WebAssembly component with its manifest, as `tidegate build` packs it. It is put under the name that \
                      its manifest has, or in place of an endpoint. The one that is there already is no new version.",
        parameters: &["endpoint", "make_sources"],
        body: Takes::Component,
        success: &[(200, Gives::Json("Endpoint")), (201, Gives::Json("Endpoint"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/endpoints/{endpoint}/component", "put", "put_component", Who::Private, "Save a component")
    },
    Route {
        description: "What would become of the same component if it were put, refusals and warnings included. Nothing is \
                      saved.",
        parameters: &["endpoint"],
        body: Takes::Component,
        success: &[(200, Gives::Json("CheckedComponent"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/component/check",
            "post",
            "check_component",
            Who::Private,
            "Check a component without saving it",
        )
    },
    Route {
        description: "As it was put, or as it was made of the saved query.",
        parameters: &["endpoint"],
        success: &[(200, Gives::Component)],
        ..route(
            "/api/endpoints/{endpoint}/component",
            "get",
            "get_component",
            Who::Private,
            "The component of an endpoint",
        )
    },
    Route {
        parameters: &["endpoint"],
        success: &[(200, Gives::List("EndpointVersion"))],
        ..route(
            "/api/endpoints/{endpoint}/versions",
            "get",
            "list_endpoint_versions",
            Who::Private,
            "All versions of an endpoint, the newest first",
        )
    },
    Route {
        parameters: &["endpoint", "version"],
        success: &[(200, Gives::Component)],
        ..route(
            "/api/endpoints/{endpoint}/versions/{version}/component",
            "get",
            "get_version_component",
            Who::Private,
            "The component of a version",
        )
    },
    Route {
        parameters: &["endpoint", "version"],
        success: &[(200, Gives::Json("Endpoint"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/endpoints/{endpoint}/versions/{version}/restore",
            "post",
            "restore_endpoint_version",
            Who::Private,
            "Make what an old version said the newest version",
        )
    },
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
        success: &[(200, Gives::Json("Source"))],
        ..route("/api/sources/{source}", "get", "show_source", Who::Private, "One source, and how much it holds")
    },
    Route {
        description: "Endpoints that read the source go on reading it under its new name.",
        parameters: &["source"],
        body: Takes::Json("SourceFields"),
        success: &[(200, Gives::Json("Source"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/sources/{source}",
            "put",
            "update_source",
            Who::Private,
            "Rename a source, or change its retention",
        )
    },
    Route {
        description: "As by PUT.",
        parameters: &["source"],
        body: Takes::Json("SourceFields"),
        success: &[(200, Gives::Json("Source"))],
        refusals: SAVE_REFUSALS,
        ..route(
            "/api/sources/{source}",
            "patch",
            "change_source",
            Who::Private,
            "Rename a source, or change its retention",
        )
    },
    Route {
        description: "Refused while an endpoint reads it.",
        parameters: &["source"],
        success: &[(204, Gives::Nothing)],
        refusals: SAVE_REFUSALS,
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
    Route {
        success: &[(200, Gives::List("AccessToken"))],
        refusals: LIST_REFUSALS,
        ..route(
            "/api/access-tokens",
            "get",
            "list_access_tokens",
            Who::Private,
            "All access tokens that are not revoked",
        )
    },
    Route {
        description: "The token itself is in this answer only.",
        body: Takes::Json("NewAccessToken"),
        success: &[(201, Gives::Json("MadeAccessToken"))],
        refusals: SAVE_REFUSALS,
        ..route("/api/access-tokens", "post", "create_access_token", Who::Private, "Make an access token")
    },
    Route {
        description: "For every token that is valid.",
        success: &[(200, Gives::Json("CurrentAccessToken"))],
        refusals: &[401, 429, 500, 503],
        ..route(
            "/api/access-tokens/current",
            "get",
            "show_current_access_token",
            Who::Query,
            "What the token of this request may do",
        )
    },
    Route {
        parameters: &["token"],
        success: &[(200, Gives::Json("AccessToken"))],
        ..route("/api/access-tokens/{token}", "get", "show_access_token", Who::Private, "One access token")
    },
    Route {
        description: "At once and for good. Revoking it again is no error.",
        parameters: &["token"],
        success: &[(204, Gives::Nothing)],
        refusals: SAVE_REFUSALS,
        ..route("/api/access-tokens/{token}", "delete", "revoke_access_token", Who::Private, "Revoke an access token")
    },
    Route {
        success: &[(200, Gives::Json("Health"))],
        refusals: &[500],
        ..route("/health", "get", "health", Who::Nobody, "Whether the process answers")
    },
    Route {
        success: &[(200, Gives::Json("Health"))],
        refusals: &[500, 503],
        ..route("/ready", "get", "ready", Who::Nobody, "Whether requests can be served")
    },
    Route {
        success: &[(200, Gives::Metrics)],
        refusals: &[500],
        ..route("/metrics", "get", "metrics", Who::Nobody, "Figures for Prometheus")
    },
    Route {
        description: "With an access token it has the endpoints that the token may query, too.",
        success: &[(200, Gives::Json("OpenApi"))],
        refusals: &[401, 429, 500, 503],
        ..route("/api/openapi", "get", "openapi", Who::Anyone, "This document")
    },
];

/// The responses to refused requests, by status.
pub(super) fn refusals(statuses: &[u16]) -> Map<String, Value> {
    refusals_of("Refused", statuses)
}

fn refusals_of(prefix: &str, statuses: &[u16]) -> Map<String, Value> {
    statuses.iter().map(|status| (status.to_string(), reference("responses", &format!("{prefix}{status}")))).collect()
}

impl Route {
    /// The route as an operation of the document. `errors` is how errors of queries are answered.
    pub(super) fn operation(&self, errors: Errors) -> Value {
        let mut operation = Map::new();
        let mut put = |name: &str, value: Value| drop(operation.insert(name.to_owned(), value));
        put("operationId", self.id.into());
        put("tags", json!([self.tag()]));
        put("summary", self.summary.into());
        if !self.description.is_empty() {
            put("description", self.description.into());
        }
        match self.who {
            Who::Nobody => put("security", json!([])),
            Who::Anyone => put("security", json!([{}, {"key": []}, {"bearer": []}])),
            Who::Ingest | Who::Query | Who::Private => {}
        }
        if !self.parameters.is_empty() {
            put("parameters", self.parameters.iter().map(|name| reference("parameters", name)).collect());
        }
        if let Some(content) = self.body.content() {
            let required = !matches!(self.body, Takes::Parameters);
            put("requestBody", json!({"required": required, "content": content}));
        }
        let mut responses: Map<String, Value> =
            self.success.iter().map(|(status, gives)| (status.to_string(), gives.response(errors))).collect();
        let prefix = if matches!(self.body, Takes::Otlp) { OTLP_REFUSED } else { "Refused" };
        responses.extend(refusals_of(prefix, self.refusals));
        put("responses", responses.into());
        Value::Object(operation)
    }

    fn tag(&self) -> &'static str {
        match self.who {
            Who::Nobody | Who::Anyone => "operation",
            Who::Ingest => "logs",
            Who::Query => "query",
            Who::Private => "management",
        }
    }
}

impl Takes {
    fn content(self) -> Option<Value> {
        let binary = json!({});
        Some(match self {
            Self::Nothing => return None,
            Self::Json(schema) => json!({"application/json": {"schema": reference("schemas", schema)}}),
            Self::Parameters => {
                let schema = reference("schemas", "Parameters");
                json!({"application/json": {"schema": schema}, "application/x-www-form-urlencoded": {"schema": schema}})
            }
            Self::Events => json!({
                "application/json": {"schema": reference("schemas", "Events")},
                "application/x-ndjson": {"schema": {"type": "string", "description": "One event a line."}},
            }),
            Self::Otlp => json!({
                "application/x-protobuf": {"schema": binary},
                "application/json": {"schema": {"type": "object", "description": "ExportLogsServiceRequest"}},
            }),
            Self::Component => {
                json!({"application/wasm": {"schema": binary}, "application/octet-stream": {"schema": binary}})
            }
        })
    }
}

impl Gives {
    fn response(self, errors: Errors) -> Value {
        let json = |schema: Value| json!({"application/json": {"schema": schema}});
        match self {
            Self::Nothing => json!({"description": "Done."}),
            Self::Json(schema) => json!({"description": schema, "content": json(reference("schemas", schema))}),
            Self::List(schema) => {
                let list = json!({"type": "array", "items": reference("schemas", schema)});
                json!({"description": format!("A list of {schema}"), "content": json(list)})
            }
            Self::Rows => {
                let content = rows_content(json!({}), errors, true);
                json!({"description": "The rows.", "headers": answer_headers(errors), "content": content})
            }
            Self::JsonRows => {
                json!({"description": "The rows.", "content": json(reference("schemas", "Rows"))})
            }
            Self::Otlp => json!({
                "description": "ExportLogsServiceResponse, in the encoding of the request.",
                "content": {
                    "application/x-protobuf": {"schema": {}},
                    "application/json": {"schema": {"type": "object"}},
                },
            }),
            Self::Component => json!({
                "description": "A WebAssembly component with its manifest.",
                "headers": {"ETag": {"description": "The SHA-256 of its bytes, in hexadecimal.", "schema": {"type": "string"}}},
                "content": {"application/wasm": {"schema": {}}},
            }),
            Self::Metrics => json!({
                "description": "The text format of Prometheus.",
                "content": {"application/openmetrics-text": {"schema": {"type": "string"}}},
            }),
        }
    }
}
