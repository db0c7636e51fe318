//! A fixed route as the document describes it: what it is for, who may use it, what it takes and what it returns.
//!
//! The routes are tables in the files `*_routes`. A new route needs an entry in one of them; a black-box test sends a
//! request to every entry.

use serde_json::{Map, Value, json};
use tidegate_model::Errors;

use super::components::{OTLP_REFUSED, answer_headers, rows_content};
use super::schemas::reference;

/// A route and a method.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) path: &'static str,
    /// In lower case, as OpenAPI requires.
    pub(super) method: &'static str,
    pub(super) id: &'static str,
    pub(super) who: Who,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// Names of parameters that the document's components describe.
    pub(super) parameters: &'static [&'static str],
    pub(super) body: Takes,
    /// The status codes of success, and the content of each.
    pub(super) success: &'static [(u16, Gives)],
    pub(super) refusals: &'static [u16],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Who {
    Nobody,
    /// Everyone. With a token, the response contains more.
    Anyone,
    Ingest,
    Query,
    Private,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    Nothing,
    /// A JSON object of a described schema.
    Json(&'static str),
    /// As [`Takes::Json`]; no body means the same as an object without fields.
    JsonOrNothing(&'static str),
    /// Parameters, as JSON or as a form.
    Parameters,
    Events,
    Otlp,
    Component,
    /// A body of another protocol, in these media types. Its refusals have the form of that protocol, too.
    Foreign(&'static [&'static str]),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Gives {
    Nothing,
    /// JSON of a described schema.
    Json(&'static str),
    /// As [`Gives::Json`], with its entity tag.
    Tagged(&'static str),
    /// A JSON array of a described schema.
    List(&'static str),
    /// Rows in any format.
    Rows,
    /// Rows as JSON.
    JsonRows,
    Otlp,
    Metrics,
    Component,
    /// An answer of another protocol.
    Foreign(&'static str),
    /// The same as plain text.
    Text(&'static str),
}

/// The status codes with which a query may be refused.
pub(super) const QUERY_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504];
pub(super) const LOGS_REFUSALS: &[u16] = &[400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 507];
pub(super) const LIST_REFUSALS: &[u16] = &[401, 403, 429, 500, 503];
pub(super) const SHOW_REFUSALS: &[u16] = &[401, 403, 404, 429, 500, 503];
pub(super) const SAVE_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 507];
/// The same where `If-Match` is read.
pub(super) const CHANGE_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 412, 413, 422, 429, 500, 503, 507];

pub(super) const fn route(
    path: &'static str,
    method: &'static str,
    id: &'static str,
    who: Who,
    summary: &'static str,
) -> Route {
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
            // An empty body of another protocol is mostly one without events.
            let required = !matches!(self.body, Takes::JsonOrNothing(_) | Takes::Parameters | Takes::Foreign(_));
            put("requestBody", json!({"required": required, "content": content}));
        }
        let mut responses: Map<String, Value> =
            self.success.iter().map(|(status, gives)| (status.to_string(), gives.response(errors))).collect();
        let prefix = if matches!(self.body, Takes::Otlp) { OTLP_REFUSED } else { "Refused" };
        if matches!(self.body, Takes::Foreign(_)) {
            let refused = json!({"description": "Refused, in the form of the protocol."});
            responses.extend(["4XX", "5XX"].map(|status| (status.to_owned(), refused.clone())));
        } else {
            responses.extend(refusals_of(prefix, self.refusals));
        }
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
            Self::Json(schema) | Self::JsonOrNothing(schema) => {
                json!({"application/json": {"schema": reference("schemas", schema)}})
            }
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
            Self::Foreign(kinds) => kinds.iter().map(|kind| ((*kind).to_owned(), json!({"schema": binary}))).collect(),
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
            Self::Tagged(schema) => {
                let tag = json!({"description": "Which state this is, for If-Match.", "schema": {"type": "string"}});
                let content = json(reference("schemas", schema));
                json!({"description": schema, "headers": {"ETag": tag}, "content": content})
            }
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
            Self::Foreign(description) => json!({"description": description, "content": json(json!({}))}),
            Self::Text(description) => {
                json!({"description": description, "content": {"text/plain": {"schema": {"type": "string"}}}})
            }
            Self::Metrics => json!({
                "description": "The text format of Prometheus.",
                "content": {"application/openmetrics-text": {"schema": {"type": "string"}}},
            }),
        }
    }
}
