//! The query route: one request, from the outside in.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tidegate_model::{Arguments, Code, Failure, Format as PatternFormat, Manifest, Parameter, whole_word};

use crate::admission::Tenant;
use crate::answer::Format;
use crate::app::App;
use crate::auth::authenticate;
use crate::cache::{Found, uncached, unkept};
use crate::execute::{Asked, execute, execute_streamed};
use crate::failure::Refusal;
use crate::observe;
use crate::parameters::{Adhoc, Arrived, Sent};
use crate::rate::Share;
use crate::registry::{Endpoint, with_parameters_of};
use crate::tokens::Access;

/// The headers that ask for redaction in their request.
pub(crate) const REDACT_HEADERS: [&str; 2] = ["svc-endpoint-redact-pii", "lf-endpoint-redact-pii"];

/// The longest text, in bytes, that is told to be plain by looking at it.
const MOST_PLAIN: usize = 1 << 10;

/// `GET` and `POST /api/endpoints/query/{id or name}`.
pub(crate) async fn query(
    State(app): State<Arc<App>>,
    Path(id_or_name): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let now = app.clock.now();
    let (head, body) = request.into_parts();
    let access = authenticate(&app, &head.headers, now)?;
    observe::note(|notes| notes.errors = access.errors);
    app.take_share(Share::Queries)?;
    let endpoint = find(&app, &access, &id_or_name).await?;
    observe::note(|notes| {
        notes.endpoint = Some(endpoint.manifest.name.to_string());
        notes.errors = access.errors.or(endpoint.manifest.settings.errors);
    });
    let arrived = Arrived::wait(&head.method, &head.uri, &head.headers, body).await?;
    let mut sent = if arrived.is_large() {
        in_a_place(&app, Tenant::Token(access.identity), move |_| arrived.read()).await?
    } else {
        arrived.read()?
    };
    let format = Format::take(&mut sent.values, &endpoint.manifest, &head.headers)?;
    observe::note(|notes| notes.format = Some(format));
    let redact = redaction(&endpoint, &access, &head.headers)?;
    let reads = app.reads(&endpoint).await?;
    let asked = if takes_time(&endpoint.manifest, &reads, &sent) {
        let tenant = Tenant::Token(access.identity);
        let checked = move |app: &App| check(app, endpoint, &reads, &access, sent, format, redact);
        in_a_place(&app, tenant, checked).await?
    } else {
        check(&app, endpoint, &reads, &access, sent, format, redact)?
    };
    let asked = Arc::new(asked);
    // What a private token asks of all sources may read anything: nothing tells when it changes.
    let cached = asked.endpoint.manifest.settings.cache_duration_seconds > 0 && !asked.unrestricted;
    if !cached && format == Format::NdJson {
        return Ok(uncached(execute_streamed(&app, asked, now).await?));
    }
    let make = execute(Arc::clone(&app), Arc::clone(&asked), now, asked.tenant);
    if !cached {
        return Ok(uncached(make.await?.respond()));
    }
    let found = app.cache.answer(&asked, make).await?;
    app.metrics.cache_lookup(found.name());
    observe::note(|notes| notes.cache = Some(found.name()));
    let (entry, how) = match found {
        Found::Kept(entry, how) => (entry, how),
        Found::Unkept(answer) => return Ok(unkept(answer.respond())),
    };
    let wanted = head.headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    Ok(entry.respond(&app.answers.of(asked.tenant), how, wanted).await?)
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
    let used = Used::of(&manifest, adhoc.as_ref());
    values.retain(|(name, _)| used.has(name));
    let arguments: Arguments = manifest.check_arguments(&values)?;
    let reads = reads.iter().map(|endpoint| (endpoint.id, endpoint.version)).collect();
    drop(manifest);
    let tenant = Tenant::Token(access.identity);
    // A caller can be held to less than the endpoint, and never gets more.
    let limits = app.options.limits.lowered_by(&endpoint.manifest.limits).lowered_by(&access.limits);
    let pinned = access.pinned.clone();
    Ok(Asked { endpoint, arguments, pinned, adhoc, unrestricted, reads, redact, format, limits, tenant })
}

/// Does work that a caller's text makes long in one of the places of its tenant, on the threads that
/// compute. The place goes with the work.
async fn in_a_place<T: Send + 'static>(
    app: &Arc<App>,
    tenant: Tenant,
    work: impl FnOnce(&App) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let permit = app.admission.enter(tenant).await?;
    let own = Arc::clone(app);
    let work = async move {
        let _permit = permit;
        work(&own)
    };
    app.compute.run(work).await
}

/// Whether checking the parameters may take long: a short text can be a regular expression that is compiled for
/// a tenth of a second. Plain words, which nearly all of them are, cannot.
fn takes_time(manifest: &Manifest, reads: &[Arc<Endpoint>], sent: &Sent) -> bool {
    let is_plain = |text: &str| {
        text.len() <= MOST_PLAIN && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:/ ".contains(&b))
    };
    let long = |name: &str| sent.values.iter().any(|(known, text)| known == name && !is_plain(text));
    let parameters = reads.iter().flat_map(|endpoint| &endpoint.manifest.parameters).chain(&manifest.parameters);
    parameters.filter(|own| own.format == Some(PatternFormat::Regex)).any(|own| long(&own.name))
}

/// Which parameters an answer can depend on: those that are declared, and those that the ad-hoc text may name.
#[derive(Debug)]
pub(crate) struct Used<'a> {
    declared: HashSet<&'a str>,
    /// What stands behind an `@` in the text, in lower case.
    named: HashSet<String>,
}

impl<'a> Used<'a> {
    pub(crate) fn of(manifest: &'a Manifest, adhoc: Option<&Adhoc>) -> Self {
        let declared = manifest.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let text = match adhoc {
            Some(Adhoc::Sql(text)) => text.as_str(),
            _ => "",
        };
        // As the parser reads names; one that goes on with other signs cannot be written in SQL.
        let word = |rest: &str| {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            rest.get(..end).unwrap_or_default().to_lowercase()
        };
        let named = text.split('@').skip(1).map(word).collect();
        Self { declared, named }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.declared.contains(name) || self.named.contains(&name.to_lowercase())
    }
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
