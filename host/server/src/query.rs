//! The query route: one request, from the outside in.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tidegate_model::{Arguments, Code, Failure, Format as PatternFormat, Manifest, Parameter, whole_word};

use crate::admission::Tenant;
use crate::answer::Format;
use crate::app::App;
use crate::auth::authenticate;
use crate::cache::uncached;
use crate::execute::{Asked, execute, execute_streamed};
use crate::failure::Refusal;
use crate::observe;
use crate::parameters::{Adhoc, Sent};
use crate::rate::Share;
use crate::registry::{Endpoint, with_parameters_of};
use crate::tokens::Access;

/// The headers that ask for redaction in their request.
pub(crate) const REDACT_HEADERS: [&str; 2] = ["svc-endpoint-redact-pii", "lf-endpoint-redact-pii"];

/// `GET` and `POST /api/endpoints/query/{id or name}`.
pub(crate) async fn query(
    State(app): State<Arc<App>>,
    Path(id_or_name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let now = app.clock.now();
    let (head, body) = request.into_parts();
    let access = authenticate(&app, &head.headers, now)?;
    app.take_share(Share::Queries)?;
    let endpoint = find(&app, &access, &id_or_name).await?;
    observe::note(|notes| notes.endpoint = Some(endpoint.manifest.name.to_string()));
    let mut sent = Sent::read(&head.method, &head.uri, &head.headers, body).await?;
    let format = Format::take(&mut sent.values, &endpoint.manifest, &head.headers)?;
    let redact = redaction(&endpoint, &access, &head.headers)?;
    let reads = app.reads(&endpoint).await?;
    let asked = Arc::new(check(&app, endpoint, &reads, &access, sent, format, redact)?);
    // What a private token asks of all sources may read anything: nothing tells when it changes.
    let cached = asked.endpoint.manifest.settings.cache_duration_seconds > 0 && !asked.unrestricted;
    if !cached && format == Format::NdJson {
        return Ok(uncached(execute_streamed(&app, asked).await?));
    }
    let make = execute(Arc::clone(&app), Arc::clone(&asked), asked.tenant);
    if !cached {
        return Ok(uncached(make.await?.respond()));
    }
    let (entry, how) = app.cache.answer(&asked, make).await?;
    app.metrics.cache_lookup(how.name());
    observe::note(|notes| notes.cache = Some(how.name()));
    let wanted = head.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    Ok(entry.respond(how, wanted))
}

/// The endpoint, if the token may call it. Whether one exists is told only to those who may know.
async fn find(app: &Arc<App>, access: &Access, id_or_name: &str) -> Result<Arc<Endpoint>, Failure> {
    let entry = app.registry.find(id_or_name);
    let (name, id) = match &entry {
        Some(entry) => (entry.name.as_str(), Some(entry.id)),
        None => (id_or_name, None),
    };
    if !access.may_query(name, id) {
        let message =
            "the access token may not query this endpoint; it needs the scope query, query:endpoint:NAME or private";
        return Err(Failure::new(Code::Forbidden, message));
    }
    match entry {
        Some(entry) => app.endpoint(entry).await,
        None => Err(unknown(app, access, id_or_name)),
    }
}

/// The most endpoints that are named to who asks for one that there is not.
const MOST_NAMES: usize = 50;

fn unknown(app: &App, access: &Access, id_or_name: &str) -> Failure {
    let entries = app.registry.all();
    let names = entries.iter().map(|entry| entry.name.as_str()).filter(|name| access.may_query(name, None));
    let names: Vec<&str> = names.collect();
    let mut message = format!("there is no endpoint {id_or_name}");
    match tidegate_model::nearest(id_or_name, names.iter().copied()) {
        Some(near) => message.push_str(&format!("; did you mean {near}?")),
        None if access.is_private() && names.len() <= MOST_NAMES => {
            message.push_str(&format!("; there are {}", names.join(", ")));
        }
        None => {}
    }
    Failure::new(Code::NotFound, message).about(id_or_name)
}

/// What is asked, with the checked arguments. A pinned value is the token's: the caller cannot
/// choose another, and an endpoint that does not ask for it cannot be called, because its answer
/// would not be bound to it.
pub(crate) fn check(
    app: &App,
    endpoint: Arc<Endpoint>,
    reads: &[Arc<Endpoint>],
    access: &Access,
    sent: Sent,
    format: Format,
    redact: bool,
) -> Result<Asked, Failure> {
    let Sent { mut values, adhoc } = sent;
    let manifest = with_parameters_of(&endpoint.manifest, reads);
    let settings = &endpoint.manifest.settings;
    let unrestricted = adhoc.is_some() && !settings.sandboxable;
    if unrestricted && !access.is_private() {
        let message =
            "the endpoint takes no ad-hoc queries: its sandbox is off, and only a private token may query all sources";
        return Err(Failure::new(Code::Forbidden, message));
    }
    for (name, pinned) in &access.pinned {
        if !manifest.parameters.iter().any(|parameter| parameter.name == *name) {
            let message = format!(
                "the access token fixes the parameter '{name}', and this endpoint has none of that name: \
                 its answer would not be bound to it"
            );
            return Err(Failure::new(Code::Forbidden, message).about(name));
        }
        if values.iter().any(|(known, chosen)| known.eq_ignore_ascii_case(name) && chosen != pinned) {
            let message = format!("parameter '{name}' is fixed by the access token");
            return Err(Failure::new(Code::Forbidden, message).about(name));
        }
        values.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        // A parameter that is a regular expression would find the tenant in the names of others.
        let is_pattern = |own: &Parameter| own.name == *name && own.format == Some(PatternFormat::Regex);
        let value = if manifest.parameters.iter().any(is_pattern) { whole_word(pinned) } else { pinned.clone() };
        values.push((name.clone(), value));
    }
    values.retain(|(name, _)| is_used(&manifest, adhoc.as_ref(), name));
    let arguments: Arguments = manifest.check_arguments(&values)?;
    let reads = reads.iter().map(|endpoint| (endpoint.id, endpoint.version)).collect();
    drop(manifest);
    let tenant = Tenant::Token(access.identity);
    // A caller can be held to less than the endpoint, and never gets more.
    let limits = app.options.limits.lowered_by(&endpoint.manifest.limits).lowered_by(&access.limits);
    let pinned = access.pinned.clone();
    Ok(Asked { endpoint, arguments, pinned, adhoc, unrestricted, reads, redact, format, limits, tenant })
}

/// Whether the answer can depend on a parameter: it is declared, or the ad-hoc text may name it.
pub(crate) fn is_used(manifest: &Manifest, adhoc: Option<&Adhoc>, name: &str) -> bool {
    let named = |text: &str| text.to_lowercase().contains(&format!("@{}", name.to_lowercase()));
    manifest.parameters.iter().any(|parameter| parameter.name == name)
        || matches!(adhoc, Some(Adhoc::Sql(text)) if named(text))
}

/// Whether this request's answer is redacted. Anyone may ask for it; only a private token may
/// turn an endpoint's own redaction off.
fn redaction(endpoint: &Endpoint, access: &Access, headers: &HeaderMap) -> Result<bool, Failure> {
    let own = endpoint.manifest.settings.redact_pii;
    let mut asked = None;
    for value in REDACT_HEADERS.iter().flat_map(|name| headers.get_all(*name)) {
        let text = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
        match text.as_str() {
            "true" | "1" | "yes" | "on" => asked = Some(true),
            // Where two headers contradict each other, the safer one holds.
            "false" | "0" | "no" | "off" | "" => asked = asked.or(Some(false)),
            _ => {
                let message = "the header that asks for redaction is true or false";
                return Err(Failure::new(Code::InvalidParameter, message).about("svc-endpoint-redact-pii"));
            }
        }
    }
    let Some(asked) = asked else { return Ok(own) };
    if own && !asked && !access.is_private() {
        let message = "the endpoint redacts personal data; only a private token may turn that off";
        return Err(Failure::new(Code::Forbidden, message));
    }
    Ok(asked)
}
