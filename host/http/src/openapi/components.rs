//! The document's components: refusals, parameters and schemas, and what responses with rows have in common.

use serde_json::{Map, Value, json};
use tidegate_model::Errors;
use tidegate_service::answer::Format;

use super::schemas::reference;
use crate::follow::EVENTS;
use crate::middleware::error_status::STATUS;

/// The status codes of refusals, and the description of each.
const REFUSALS: [(u16, &str); 15] = [
    (400, "A parameter, the statement, or the body is wrong; the message says where and what would be right."),
    (401, "No access token, or one that is unknown, revoked or expired."),
    (403, "The access token may not do this."),
    (404, "There is no such endpoint, source, token or version."),
    (408, "The body did not arrive in time."),
    (409, "The name is taken, or what is asked for contradicts what is there."),
    (412, "What was to be changed is not as the request says (If-Match); the message says who changed it, and when."),
    (413, "The body is too large."),
    (415, "The body is in a format or encoding that is not read here."),
    (422, "What was to be saved is refused, a limit of the request was reached, or its key was used for another body."),
    (429, "Too many requests; try again after the time that is told."),
    (500, "The request failed; the server's log has the details."),
    (503, "The service cannot answer now; try again after the time that is told."),
    (504, "The request took longer than it may."),
    (507, "There is no room to store anything; reads go on."),
];

/// The name prefix of the components that describe refusals of OpenTelemetry requests.
pub(super) const OTLP_REFUSED: &str = "OtlpRefused";

/// The headers of a response with rows.
pub(super) fn answer_headers(errors: Errors) -> Value {
    let mut headers = json!({
        "x-result-truncated": {
            "description": "There if there were more rows than may be given.",
            "schema": {"type": "string", "enum": ["true"]},
        },
        "x-tidegate-cost": {
            "description": "For private tokens, where statements ran for this answer and it is not sent while its rows are \
                            read: statements=N, rows-read=N, bytes-read=N, memory=N (bytes, the most of one statement); \
                            where workers ran parts of them, tasks=N, moves=N (to other machines, after a failure).",
            "schema": {"type": "string"},
        },
    });
    if let (Some(headers), Errors::Ok) = (headers.as_object_mut(), errors) {
        let status = json!({
            "description": "The status of the error, if the answer is one.",
            "schema": {"type": "integer", "minimum": 400, "maximum": 599},
        });
        headers.insert(STATUS.to_string(), status);
    }
    headers
}

/// The content of a response with rows, in all formats. `result` is the schema of the rows in JSON. Where errors are
/// sent with status 200, the JSON schema includes the error. Where callers may send a query, its rows come as events, too.
pub(super) fn rows_content(result: Value, errors: Errors, adhoc: bool) -> Value {
    let content = Format::ALL.map(|format| {
        let schema = match format {
            Format::Json => {
                let rows = json!({"type": "object", "required": ["result"], "properties": {"result": result}});
                match errors {
                    Errors::Status => rows,
                    Errors::Ok => json!({"anyOf": [rows, reference("schemas", "ErrorAsText")]}),
                }
            }
            Format::NdJson => json!({"type": "string", "description": "One row object a line."}),
            Format::Csv => json!({"type": "string", "description": "RFC 4180 with a header line."}),
            Format::Arrow => json!({}),
        };
        let media_type = format.content_type().split(';').next().unwrap_or_default();
        (media_type.to_owned(), json!({"schema": schema}))
    });
    Value::Object(content.into_iter().chain(adhoc.then(events)).collect())
}

/// The content with which a followed query is answered.
fn events() -> (String, Value) {
    let description = "Server-Sent Events, one for each row as a JSON object, until the caller leaves: first the newest rows, \
                       then `live`, then new rows. Beside them `missed`, `gap` and `end`. For a query that selects rows of one table.";
    (EVENTS.to_owned(), json!({"schema": {"type": "string", "description": description}}))
}

/// All components, with the schemas of types.
pub(super) fn components(schemas: Map<String, Value>) -> Value {
    let error = json!({"schema": reference("schemas", "Error")});
    let plain = REFUSALS.map(|refusal| (refusal, "Refused", json!({"application/json": error})));
    // Exporters read `google.rpc.Status`, in the encoding of their request.
    let otlp = json!({"application/json": error, "application/x-protobuf": {"schema": {}}});
    let otlp = REFUSALS.map(|refusal| (refusal, OTLP_REFUSED, otlp.clone()));
    let refusals = plain.into_iter().chain(otlp).map(|((status, description), prefix, content)| {
        let mut response = json!({"description": description, "content": content});
        // Among the errors that an endpoint itself returns, only those have this header that its code marks as
        // retryable.
        if let (Some(fields), 400 | 404 | 409 | 422 | 429 | 500 | 503 | 507) = (response.as_object_mut(), status) {
            let description = "Seconds after which the same request may succeed, where that is so.";
            let seconds = json!({"schema": {"type": "integer", "minimum": 0}, "description": description});
            fields.insert("headers".to_owned(), json!({"Retry-After": seconds}));
        }
        (format!("{prefix}{status}"), response)
    });
    json!({
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-API-KEY"},
            "bearer": {"type": "http", "scheme": "bearer"},
        },
        "parameters": parameters(),
        "responses": Map::from_iter(refusals),
        "schemas": schemas,
    })
}

fn parameters() -> Value {
    let text = &json!({"type": "string"});
    let flag = &json!({"type": "boolean", "default": false});
    let key = &json!({"type": "string", "minLength": 1, "maxLength": 255});
    let number = &json!({"type": "integer", "minimum": 1, "maximum": 1000, "default": 100});
    // An empty value means the same as an absent parameter.
    let formats: Vec<&str> = Format::ALL.map(Format::name).into_iter().chain([""]).collect();
    let formats = &json!({"type": "string", "enum": formats});
    let of = |place: &str, name: &str, description: &str, schema: &Value| json!({"name": name, "in": place, "description": description, "schema": schema});
    let in_query = |name: &str, description: &str, schema: &Value| of("query", name, description, schema);
    let in_header = |name: &str, description: &str, schema: &Value| of("header", name, description, schema);
    let in_path = |name: &str, description: &str| json!({"name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string", "minLength": 1}});
    json!({
        "endpoint": in_path("endpoint", "The id or the name of an endpoint."),
        "dataset": in_path("dataset", "The name of a source."),
        "index": in_path("index", "The name of a source."),
        "id": in_path("id", "The id of a document."),
        "source": in_path("source", "The id or the name of a source."),
        "token": in_path("token", "The id of an access token."),
        "denied": in_path("denied", "The id of an entry of the deny list."),
        "alert": in_path("alert", "The name of an alert."),
        "version": {"name": "version", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}},
        "sql": in_query("sql", "An ad-hoc query in SQL, which is run in place of the saved one over the endpoint's tables.", text),
        "lql": in_query("lql", "An ad-hoc query in LQL; not read if there is `sql`.", text),
        "format": in_query("format", "The format of the answer; without it, Accept decides.", formats),
        "limit": in_query("limit", "How many rows.", number),
        "make_sources": in_query("make_sources", "Whether sources that the component's statements name and that are not there are made.", flag),
        "refuse_wider": in_query("refuse_wider", "Whether the change is refused if tokens would read more than before.", flag),
        "strict": in_query("strict", "Whether a component with warnings is refused.", flag),
        "read_source": in_query("source", "The id or the name of a source: only what reads it is told.", text),
        "rule": in_query("rule", "The name of a rule of an issuer, as main/1: only that is told.", text),
        "widens": in_query("widens", "Whether it is meant that tokens read more of other sources after it.", flag),
        "source_name": in_query("source_name", "The name of the source.", text),
        "source_id": in_query("source", "The id of the source.", text),
        "idempotency-key": in_header("idempotency-key", "A name of the request, 1 to 255 visible characters: sent again within a day, it is answered as before and stores nothing.", key),
        "if-match": in_header("if-match", "The ETag of what was read: what is another one by now is not changed, and the answer is 412. Without it, whatever is there is changed.", text),
        "x-source-name": in_header("x-source-name", "The name of the source.", text),
        "redact": in_header("svc-endpoint-redact-pii", "`true` masks IP addresses in this answer, any other value does not; without it, the endpoint's own setting counts. Turning that off needs a private token.", text),
        // Requests for anything but events ignore these three, whatever they are.
        "follow_rows": in_query("follow_rows", "Where events are asked for: how many of the newest rows come first, 100 if not given.", text),
        "follow_since": in_query("follow_since", "Where events are asked for: only rows from this time on come first; a time, or how long ago (30s, 10m, 2h, 1d).", text),
        "last-event-id": in_header("last-event-id", "The id of the last event: the stream goes on after it, and no other rows come first.", text),
    })
}
