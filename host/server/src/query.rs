//! The query route: one request, from the outside in.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use tidegate_compiler::SQL_ARGUMENT;
use tidegate_model::{Arguments, Code, Failure, Value};
use tidegate_runtime::{Body, Request as Call};
use tidegate_sql::Stop;

use crate::answer::{Encoded, Shape, encode_document, encode_rows};
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::observe;
use crate::parameters::{Adhoc, Sent};
use crate::rate::Share;
use crate::registry::Endpoint;
use crate::statements::{Language, RequestStatements};
use crate::tokens::Access;

/// The headers that ask for redaction in their request.
const REDACT_HEADERS: [&str; 2] = ["svc-endpoint-redact-pii", "lf-endpoint-redact-pii"];

/// `GET` and `POST /api/endpoints/query/{id or name}`.
pub(crate) async fn query(
    State(app): State<Arc<App>>,
    Path(id_or_name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let now = chrono::Utc::now().timestamp_micros();
    let (head, body) = request.into_parts();
    let access = authenticate(&app, &head.headers, now)?;
    app.take_share(Share::Queries)?;
    let endpoint = find(&app, &access, &id_or_name)?;
    observe::note(|notes| notes.endpoint = Some(endpoint.manifest.name.to_string()));
    let sent = Sent::read(&head.method, &head.uri, &head.headers, body).await?;
    let arguments = check(&endpoint, &access, &sent)?;
    let redact = redaction(&endpoint, &access, &head.headers)?;
    // Both end with this future: when the time is over, or when the caller hangs up.
    let limit = app.options.limits.wall_clock + Duration::from_millis(100);
    // The stop's own time is later, so that it is not the one that words the refusal.
    let asking = AskOnDrop(Stop::after(limit + Duration::from_secs(1)));
    let permit = app.admission.enter().await?;
    let request = Asked { arguments, adhoc: sent.adhoc, private: access.is_private(), redact, now };
    let running = run(Arc::clone(&app), endpoint, request, asking.0.clone());
    let work = app.compute.run(async move {
        let _permit = permit;
        running.await
    });
    match tokio::time::timeout(limit, work).await {
        Ok(encoded) => Ok(encoded?.respond().into_response()),
        Err(_) => {
            let message = format!(
                "the request took longer than {} s; narrow the time range or select less",
                app.options.limits.wall_clock.as_secs()
            );
            Err(Failure::new(Code::Timeout, message).into())
        }
    }
}

/// The endpoint, if the token may call it. Whether one exists is told only to those who may know.
fn find(app: &App, access: &Access, id_or_name: &str) -> Result<Arc<Endpoint>, Failure> {
    let endpoint = app.registry.find(id_or_name);
    let name = endpoint.as_ref().map_or(id_or_name, |endpoint| endpoint.manifest.name.as_str());
    if !access.may_query(name) {
        let message = "the access token may not query this endpoint; it needs the scope query or private";
        return Err(Failure::new(Code::Forbidden, message));
    }
    endpoint.ok_or_else(|| {
        let names: Vec<String> = app.registry.all().iter().map(|endpoint| endpoint.manifest.name.to_string()).collect();
        let mut message = format!("there is no endpoint {id_or_name}");
        match tidegate_model::nearest(id_or_name, names.iter().map(String::as_str)) {
            Some(near) => message.push_str(&format!("; did you mean {near}?")),
            None if access.is_private() => message.push_str(&format!("; there are {}", names.join(", "))),
            None => {}
        }
        Failure::new(Code::NotFound, message).about(id_or_name)
    })
}

/// The checked arguments. A pinned value is the token's: the caller cannot choose another.
fn check(endpoint: &Endpoint, access: &Access, sent: &Sent) -> Result<Arguments, Failure> {
    let mut values = sent.values.clone();
    for (name, pinned) in &access.pinned {
        match values.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, chosen)) if chosen != pinned => {
                let message = format!("parameter '{name}' is fixed by the access token");
                return Err(Failure::new(Code::Forbidden, message).about(name));
            }
            _ => {
                values.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
                values.push((name.clone(), pinned.clone()));
            }
        }
    }
    endpoint.manifest.check_arguments(&values)
}

/// Whether this request's answer is redacted. Anyone may ask for it; only a private token may
/// turn an endpoint's own redaction off.
fn redaction(endpoint: &Endpoint, access: &Access, headers: &HeaderMap) -> Result<bool, Failure> {
    let own = endpoint.manifest.settings.redact_pii;
    let Some(asked) = REDACT_HEADERS.iter().find_map(|name| headers.get(*name)) else { return Ok(own) };
    let asked = asked.to_str().is_ok_and(|text| text.trim().eq_ignore_ascii_case("true"));
    if own && !asked && !access.is_private() {
        let message = "the endpoint redacts personal data; only a private token may turn that off";
        return Err(Failure::new(Code::Forbidden, message));
    }
    Ok(asked)
}

/// Stops planning when nobody waits for it.
struct AskOnDrop(Stop);

impl Drop for AskOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// What is asked of an endpoint; authenticated and checked.
struct Asked {
    arguments: Arguments,
    adhoc: Option<Adhoc>,
    /// Whether the token may query all sources.
    private: bool,
    redact: bool,
    /// Microseconds.
    now: i64,
}

async fn run(app: Arc<App>, endpoint: Arc<Endpoint>, asked: Asked, stop: Stop) -> Result<Encoded, Failure> {
    let Asked { arguments, adhoc, private, redact, now } = asked;
    let settings = &endpoint.manifest.settings;
    let rows = usize::try_from(settings.max_limit).unwrap_or(usize::MAX).min(app.options.limits.rows);
    let mut component = Arc::clone(&endpoint.component);
    let mut passed = arguments.clone();
    let mut language = Language::Sql;
    let unrestricted = adhoc.is_some() && !settings.sandboxable;
    if unrestricted && !private {
        let message =
            "the endpoint takes no ad-hoc queries: its sandbox is off, and only a private token may query all sources";
        return Err(Failure::new(Code::Forbidden, message));
    }
    if let Some(adhoc) = adhoc {
        component = Arc::clone(&app.registry.adhoc);
        let text = match adhoc {
            Adhoc::Sql(text) => text,
            Adhoc::Lql(text) => {
                language = Language::Lql;
                text
            }
        };
        passed = Arguments::from([(SQL_ARGUMENT.to_owned(), Value::Text(text))]);
    }
    let statements = RequestStatements {
        store: Arc::clone(&app.store),
        engine: Arc::clone(&app.engine),
        arguments: Arc::new(arguments),
        language,
        unrestricted,
        now,
        stop,
        rows: rows.saturating_add(1),
        endpoint,
    };
    let limits = app.options.limits.clone();
    let shape = Shape { rows, bytes: limits.answer_bytes, redact };
    let call = Call { arguments: passed, received_at: now, limits };
    let answer = app.runtime.handle(&component, call, Arc::new(statements)).await?;
    match answer.body {
        Body::Rows(rows) => encode_rows(rows, shape).await,
        Body::Document(document) => encode_document(&document, shape),
        Body::Empty => encode_document("[]", shape),
    }
}
