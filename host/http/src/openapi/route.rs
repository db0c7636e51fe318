//! A fixed route as the document describes it: what it is for, who may use it, what it takes and what it returns.
//!
//! The routes are lists in the files `*_routes`. A new route needs an entry in one of them; a black-box test sends a
//! request to every entry. What follows from path and method is not written: parameters of the path, and the refusals that
//! most routes of the kind have. A route is for private tokens unless it says otherwise.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use tidegate_model::Errors;

use super::components::{OTLP_REFUSED, answer_headers, rows_content};
use super::schemas::{Schemas, reference};

/// A route and a method.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) path: &'static str,
    /// In lower case, as OpenAPI requires.
    pub(super) method: &'static str,
    /// The id of the operation that does the same by PATCH, if there is one.
    pub(super) patch: Option<&'static str>,
    id: &'static str,
    who: Who,
    summary: &'static str,
    description: &'static str,
    /// Names of parameters that the document's components describe.
    parameters: Vec<&'static str>,
    body: Takes,
    /// The status codes of success, and the content of each.
    success: Vec<(u16, Gives)>,
    refusals: &'static [u16],
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

/// Makes the schema of a type, or a reference to it.
type MakeSchema = fn(&mut Schemas) -> Value;

#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    Nothing,
    /// A JSON object; `true` if no body means the same as an object without fields.
    Json(MakeSchema, bool),
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
    /// JSON of a type.
    Json(MakeSchema, Form),
    /// JSON of a schema that is no type.
    Untyped(&'static str),
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

/// How a type is answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    Plain,
    /// With its entity tag.
    Tagged,
    /// As a list.
    List,
}

/// The status codes with which a query may be refused.
pub(super) const QUERY_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 504];
pub(super) const LOGS_REFUSALS: &[u16] = &[400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 507];
const LIST_REFUSALS: &[u16] = &[401, 403, 429, 500, 503];
const SHOW_REFUSALS: &[u16] = &[401, 403, 404, 429, 500, 503];
const SAVE_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 507];
/// The same where `If-Match` is read.
const CHANGE_REFUSALS: &[u16] = &[400, 401, 403, 404, 409, 412, 413, 422, 429, 500, 503, 507];

/// A route that shows something.
pub(super) fn get(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    let refusals = if path.contains('{') { SHOW_REFUSALS } else { LIST_REFUSALS };
    route("get", path, id, summary).refuses(refusals)
}

/// A route that makes or does something.
pub(super) fn post(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    route("post", path, id, summary)
}

/// A route that puts something in the place of what is there.
pub(super) fn put(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    route("put", path, id, summary)
}

/// A route that deletes something.
pub(super) fn delete(path: &'static str, id: &'static str, summary: &'static str) -> Route {
    route("delete", path, id, summary).answers(204, Gives::Nothing)
}

fn route(method: &'static str, path: &'static str, id: &'static str, summary: &'static str) -> Route {
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    Route {
        path,
        method,
        patch: None,
        id,
        who: Who::Private,
        summary,
        description: "",
        parameters: in_path.collect(),
        body: Takes::Nothing,
        success: Vec::new(),
        refusals: SAVE_REFUSALS,
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
    pub(super) fn by(self, who: Who) -> Self {
        Self { who, ..self }
    }

    /// What there is to know beside the summary.
    pub(super) fn tells(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// With these parameters beside those of the path.
    pub(super) fn with(mut self, parameters: &[&'static str]) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// It changes what an entity tag names.
    pub(super) fn changes(self) -> Self {
        self.with(&["if-match"]).refuses(CHANGE_REFUSALS)
    }

    /// PATCH does the same.
    pub(super) fn or_patch(self, id: &'static str) -> Self {
        Self { patch: Some(id), ..self }
    }

    pub(super) fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        self.body(Takes::Json(Schemas::sent::<T>, false))
    }

    /// As [`Self::takes`]; no body means the same as an object without fields.
    pub(super) fn may_take<T: JsonSchema>(self) -> Self {
        self.body(Takes::Json(Schemas::sent::<T>, true))
    }

    pub(super) fn body(self, body: Takes) -> Self {
        Self { body, ..self }
    }

    pub(super) fn gives<T: JsonSchema>(self) -> Self {
        self.answers(200, Gives::Json(Schemas::shown::<T>, Form::Plain))
    }

    pub(super) fn gives_tagged<T: JsonSchema>(self) -> Self {
        self.answers(200, Gives::Json(Schemas::shown::<T>, Form::Tagged))
    }

    pub(super) fn lists<T: JsonSchema>(self) -> Self {
        self.answers(200, Gives::Json(Schemas::shown::<T>, Form::List))
    }

    pub(super) fn makes<T: JsonSchema>(self) -> Self {
        self.answers(201, Gives::Json(Schemas::shown::<T>, Form::Plain))
    }

    pub(super) fn makes_tagged<T: JsonSchema>(self) -> Self {
        self.answers(201, Gives::Json(Schemas::shown::<T>, Form::Tagged))
    }

    pub(super) fn answers(mut self, status: u16, gives: Gives) -> Self {
        self.success.push((status, gives));
        self
    }

    /// The route as an operation of the document. `errors` is how errors of queries are answered.
    pub(super) fn operation(&self, schemas: &mut Schemas, errors: Errors) -> Value {
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
        if let Some(content) = self.body.content(schemas) {
            // An empty body of another protocol is mostly one without events.
            let required = !matches!(self.body, Takes::Json(_, true) | Takes::Parameters | Takes::Foreign(_));
            put("requestBody", json!({"required": required, "content": content}));
        }
        let answers = self.success.iter();
        let mut responses: Map<String, Value> =
            answers.map(|(status, gives)| (status.to_string(), gives.response(schemas, errors))).collect();
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

    /// The operation that does the same by PATCH, if there is one.
    pub(super) fn patched(&self, operation: &Value) -> Option<Value> {
        let mut operation = operation.clone();
        operation
            .as_object_mut()?
            .extend([("operationId".to_owned(), self.patch?.into()), ("description".to_owned(), "As by PUT.".into())]);
        Some(operation)
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
    fn content(self, schemas: &mut Schemas) -> Option<Value> {
        let binary = json!({});
        Some(match self {
            Self::Nothing => return None,
            Self::Json(schema, _) => json!({"application/json": {"schema": schema(schemas)}}),
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
    fn response(self, schemas: &mut Schemas, errors: Errors) -> Value {
        let json = |schema: Value| json!({"application/json": {"schema": schema}});
        match self {
            Self::Nothing => json!({"description": "Done."}),
            Self::Json(schema, form) => {
                let schema = schema(schemas);
                let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
                let name = name.unwrap_or_default().to_owned();
                match form {
                    Form::Plain => json!({"description": name, "content": json(schema)}),
                    Form::Tagged => {
                        let tag =
                            json!({"description": "Which state this is, for If-Match.", "schema": {"type": "string"}});
                        json!({"description": name, "headers": {"ETag": tag}, "content": json(schema)})
                    }
                    Form::List => {
                        let list = json!({"type": "array", "items": schema});
                        json!({"description": format!("A list of {name}"), "content": json(list)})
                    }
                }
            }
            Self::Untyped(name) => json!({"description": name, "content": json(reference("schemas", name))}),
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
