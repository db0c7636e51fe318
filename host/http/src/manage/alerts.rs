//! `/api/endpoints/{id or name}/alerts`: the alerts of an endpoint, their state and their last runs.
//!
//! An alert is a part of the endpoint's definition, so creating, changing and deleting one saves a new version of the
//! endpoint, through the same gate. The secret of an alert is no part of it: it is in the answer that creates the alert or
//! that gives it another secret, and in no other.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tidegate_model::{Alert, Code, Condition, Failure, Manifest, nearest};
use tidegate_service::tokens::{Access, generate_alert_secret};
use tidegate_service::{SaveRequest, Service, blocking};
use tidegate_store::AlertRecord;
use uuid::Uuid;

use super::components::{on_save, repacked};
use super::endpoint_view::{EndpointView, known};
use super::fields::Fields;
use super::precondition::{Precondition, tag_of_settings};
use super::{ManageResult, answer_room, created, found, private, tagged, time};
use crate::app::App;
use crate::failure::Refusal;

/// The fields of an alert that are shown, and ignored when they are sent.
const SHOWN_ONLY: [&str; 8] =
    ["firing", "since", "occurrence", "next_run", "last_run", "last_delivery", "secret", "warnings"];
/// The most alerts in the list of all.
const MOST_LISTED: usize = 1_000;
/// The lengths that a secret may have, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 16..=256;

/// An alert with its state.
fn shown(record: &AlertRecord, last_run: Option<&String>) -> Value {
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    // With the defaults, which the stored definition leaves out.
    let mut value = match serde_json::from_str::<Alert>(&record.definition) {
        Ok(alert) => described(&alert),
        Err(_) => json!({"name": record.name}),
    };
    if let Value::Object(fields) = &mut value {
        let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        let (occurrence, since) = record.state.occurrence.unzip();
        put("firing", occurrence.is_some().into());
        put("since", since.map_or(Value::Null, time));
        put("occurrence", occurrence.map(|id| id.to_string()).into());
        put("next_run", record.next_run.map_or(Value::Null, time));
        put("last_run", last_run.map_or(Value::Null, |run| read(run)));
        put("last_delivery", record.last_delivery.as_deref().map_or(Value::Null, read));
    }
    value
}

fn described(alert: &Alert) -> Value {
    let Alert {
        name,
        description,
        every_minutes,
        condition,
        url,
        parameters,
        tenant,
        again_after_minutes,
        notify_resolved,
        paused,
    } = alert;
    json!({
        "name": name,
        "description": description,
        "every_minutes": every_minutes,
        "condition": condition.to_string(),
        "url": url,
        "parameters": parameters,
        "tenant": tenant,
        "again_after_minutes": again_after_minutes,
        "notify_resolved": notify_resolved,
        "paused": paused,
    })
}

/// An alert from the fields of a request. Fields that are left out keep their value on a change, and have their default on
/// creation.
fn alert_of(fields: &mut Fields, base: Option<&Alert>) -> Option<Alert> {
    fields.ignore(&SHOWN_ONLY);
    for (name, is_missing) in [("name", base.is_none()), ("every_minutes", base.is_none()), ("url", base.is_none())] {
        if is_missing && !fields.has(name) {
            fields.refuse(name, format!("an alert needs {name}"));
        }
    }
    let condition = match fields.text("condition") {
        Some(text) => match Condition::try_from(text) {
            Ok(condition) => Some(condition),
            Err(error) => {
                fields.refuse("condition", error.to_string());
                None
            }
        },
        None => base.map(|base| base.condition.clone()),
    };
    if condition.is_none() && !fields.has_refused("condition") {
        fields.refuse("condition", "an alert needs a condition, such as \"rows > 0\"");
    }
    let name = fields.text("name").or_else(|| base.map(|base| base.name.clone()));
    let description = fields.text("description").or_else(|| base.map(|base| base.description.clone()));
    let every_minutes = fields.count("every_minutes").or_else(|| base.map(|base| base.every_minutes));
    let url = fields.text("url").or_else(|| base.map(|base| base.url.clone()));
    let parameters = fields
        .take("parameters", "an object of parameters and their texts")
        .or_else(|| base.map(|base| base.parameters.clone()));
    let tenant =
        fields.take("tenant", "an object of tenant keys and values").or_else(|| base.map(|base| base.tenant.clone()));
    let again = fields.count("again_after_minutes").or_else(|| base.map(|base| base.again_after_minutes));
    let notify_resolved = fields.flag("notify_resolved").or_else(|| base.map(|base| base.notify_resolved));
    let paused = fields.flag("paused").or_else(|| base.map(|base| base.paused));
    Some(Alert {
        name: name?,
        description: description.unwrap_or_default(),
        every_minutes: every_minutes?,
        condition: condition?,
        url: url?,
        parameters: parameters.unwrap_or_default(),
        tenant: tenant.unwrap_or_default(),
        again_after_minutes: again.unwrap_or_default(),
        notify_resolved: notify_resolved.unwrap_or(true),
        paused: paused.unwrap_or_default(),
    })
}

/// The definition of an endpoint, to be changed.
fn manifest_of(endpoint: &EndpointView) -> Result<Manifest, Failure> {
    endpoint
        .manifest
        .clone()
        .ok_or_else(|| Failure::new(Code::Internal, "the definition of the endpoint cannot be read"))
}

/// The place of an alert among those of an endpoint.
fn place_of(manifest: &Manifest, name: &str) -> Result<usize, Failure> {
    let names = || manifest.alerts.iter().map(|alert| alert.name.as_str());
    names().position(|known| known == name).ok_or_else(|| {
        let hint = match nearest(name, names()) {
            Some(near) => format!("; did you mean {near}?"),
            None => String::new(),
        };
        Failure::new(Code::NotFound, format!("the endpoint {} has no alert {name}{hint}", manifest.name)).about("alert")
    })
}

/// Saves a version of the endpoint with other alerts. Returns the warnings. `change` says which alert is renamed,
/// deleted or made.
async fn save(
    service: &Service,
    access: &Access,
    old: EndpointView,
    manifest: &Manifest,
    change: SaveRequest<'_>,
) -> Result<Vec<String>, Failure> {
    let component = repacked(service, &old.digest, manifest).await?;
    let id = old.id;
    let saving = SaveRequest {
        id: Some(id),
        author: &access.who,
        known: old.tables,
        same_query: true,
        from: Some(old.version),
        ..change
    };
    let saved = service.registrar.save_component(&component, saving).await.map_err(on_save)?;
    service.alerts.wake();
    let result = service.registry.check_result(id);
    let warnings = result.iter().flat_map(|result| &result.warnings).map(ToString::to_string);
    Ok(warnings.chain(saved.widened.lines()).collect())
}

/// An alert as it is now, with its last run.
async fn current(service: &Service, endpoint: Uuid, name: &str) -> Result<Value, Failure> {
    let key = name.to_owned();
    let read = move |store: &tidegate_store::Store| {
        let catalog = store.catalog();
        Ok((catalog.alert(endpoint, &key)?, catalog.alert_runs(endpoint, &key)?.into_iter().next()))
    };
    let (record, run) = blocking(&service.store, read).await?;
    let record =
        record.ok_or_else(|| Failure::new(Code::NotFound, format!("there is no alert {name}")).about("alert"))?;
    Ok(shown(&record, run.as_ref()))
}

/// The entity tag of an alert: that of its definition, because another change of its endpoint is none of it.
fn tag_of(endpoint: &EndpointView, alert: &Alert) -> String {
    tag_of_settings(endpoint.id, &described(alert))
}

/// Checks that an alert is the one that a request wants to change.
///
/// # Errors
/// Those of [`Precondition::check`].
fn allow(wanted: &Precondition, endpoint: &EndpointView, manifest: &Manifest, place: usize) -> Result<(), Failure> {
    let Some(alert) = manifest.alerts.get(place) else { return Ok(()) };
    let is_now = || {
        format!("the alert {} was changed meanwhile; its endpoint {}: {}", alert.name, endpoint.name, endpoint.newest())
    };
    wanted.check(&tag_of(endpoint, alert), is_now)
}

/// The endpoint and the alert of a path.
async fn wanted(service: &Service, endpoint: &str, alert: &str) -> Result<(EndpointView, Manifest, usize), Failure> {
    let endpoint = known(service, endpoint).await?;
    let manifest = manifest_of(&endpoint)?;
    let place = place_of(&manifest, alert)?;
    Ok((endpoint, manifest, place))
}

fn with(mut value: Value, name: &str, of: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.insert(name.to_owned(), of);
    }
    value
}

/// `GET /api/alerts`: the alerts of all endpoints, those that fire first.
pub(crate) async fn list_all(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let all = blocking(&app.service.store, |store| store.catalog().alerts(MOST_LISTED)).await?;
    let of = |(endpoint, record, run): &(String, AlertRecord, Option<String>)| {
        let about = json!({"id": record.endpoint.to_string(), "name": endpoint});
        with(shown(record, run.as_ref()), "endpoint", about)
    };
    found(all.iter().map(of).collect())
}

/// `GET /api/endpoints/{endpoint}/alerts`.
pub(crate) async fn list(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let id = known(&app.service, &id).await?.id;
    let read = move |store: &tidegate_store::Store| {
        let catalog = store.catalog();
        let records = catalog.alerts_of(id)?;
        let with_runs = records.into_iter().map(|record| {
            let run = catalog.alert_runs(id, &record.name)?.into_iter().next();
            Ok((record, run))
        });
        with_runs.collect::<Result<Vec<_>, _>>()
    };
    let all = blocking(&app.service.store, read).await?;
    found(all.iter().map(|(record, run)| shown(record, run.as_ref())).collect())
}

/// `GET /api/endpoints/{endpoint}/alerts/{alert}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> ManageResult {
    private(&app.service, &headers)?;
    let (endpoint, manifest, place) = wanted(&app.service, &id, &name).await?;
    let tag = manifest.alerts.get(place).map(|alert| tag_of(&endpoint, alert)).unwrap_or_default();
    tagged(found(current(&app.service, endpoint.id, &name).await?), &tag)
}

/// `POST /api/endpoints/{endpoint}/alerts`: a version of the endpoint with one more alert. The answer has its secret.
pub(crate) async fn create(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let endpoint = known(&app.service, &id).await?;
    let mut fields = Fields::read(&app.service, &access, request).await?;
    let alert = alert_of(&mut fields, None);
    fields.done()?;
    let alert = alert.ok_or_else(|| Failure::new(Code::Internal, "the alert could not be read"))?;
    let (id, name, mut manifest) = (endpoint.id, alert.name.clone(), manifest_of(&endpoint)?);
    manifest.alerts.push(alert);
    let anew = SaveRequest { forgotten_alert: Some(&name), ..SaveRequest::default() };
    let warnings = save(&app.service, &access, endpoint, &manifest, anew).await?;
    let key = name.clone();
    let secret = blocking(&app.service.store, move |store| store.catalog().alert_secret(id, &key)).await?;
    let shown = with(current(&app.service, id, &name).await?, "secret", secret.into());
    created(with(shown, "warnings", warnings.into()))
}

/// `PUT` and `PATCH /api/endpoints/{endpoint}/alerts/{alert}`.
pub(crate) async fn update(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let precondition = Precondition::of(request.headers());
    let (endpoint, mut manifest, place) = wanted(&app.service, &id, &name).await?;
    allow(&precondition, &endpoint, &manifest, place)?;
    let former = name;
    let mut fields = Fields::read(&app.service, &access, request).await?;
    let alert = alert_of(&mut fields, manifest.alerts.get(place));
    fields.done()?;
    let alert = alert.ok_or_else(|| Failure::new(Code::Internal, "the alert could not be read"))?;
    let (id, name, tag) = (endpoint.id, alert.name.clone(), tag_of(&endpoint, &alert));
    let mut warnings = Vec::new();
    if manifest.alerts.get(place) != Some(&alert) {
        if let Some(old) = manifest.alerts.get_mut(place) {
            *old = alert;
        }
        let renamed_alert = (former != name).then_some((former.as_str(), name.as_str()));
        let renamed = SaveRequest { renamed_alert, ..SaveRequest::default() };
        let saved = save(&app.service, &access, endpoint, &manifest, renamed).await;
        warnings = saved.map_err(|failure| precondition.of_save(failure))?;
    }
    tagged(found(with(current(&app.service, id, &name).await?, "warnings", warnings.into())), &tag)
}

/// `DELETE /api/endpoints/{endpoint}/alerts/{alert}`: a version of the endpoint without it. Its secret is forgotten.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    let access = private(&app.service, &headers)?;
    let precondition = Precondition::of(&headers);
    let (endpoint, mut manifest, place) = wanted(&app.service, &id, &name).await?;
    allow(&precondition, &endpoint, &manifest, place)?;
    manifest.alerts.remove(place);
    let deleted = SaveRequest { forgotten_alert: Some(&name), ..SaveRequest::default() };
    let saved = save(&app.service, &access, endpoint, &manifest, deleted).await;
    saved.map_err(|failure| precondition.of_save(failure))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/endpoints/{endpoint}/alerts/{alert}/runs`: the last runs, the newest first.
pub(crate) async fn runs(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> ManageResult {
    private(&app.service, &headers)?;
    let (endpoint, ..) = wanted(&app.service, &id, &name).await?;
    let runs = blocking(&app.service.store, move |store| store.catalog().alert_runs(endpoint.id, &name)).await?;
    found(runs.iter().filter_map(|run| serde_json::from_str::<Value>(run).ok()).collect())
}

/// `POST /api/endpoints/{endpoint}/alerts/{alert}/runs`: runs it now, as if its time had come.
pub(crate) async fn run(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> ManageResult {
    let access = private(&app.service, &headers)?;
    answer_room::take(&app.service, &access).await?;
    let (endpoint, ..) = wanted(&app.service, &id, &name).await?;
    let run = app.service.alerts.run_now(endpoint.id, &name).await?;
    found(serde_json::to_value(run).unwrap_or_default())
}

/// `POST /api/endpoints/{endpoint}/alerts/{alert}/test`: sends a message with the state `test`, once.
pub(crate) async fn test(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> ManageResult {
    let access = private(&app.service, &headers)?;
    answer_room::take(&app.service, &access).await?;
    let (endpoint, ..) = wanted(&app.service, &id, &name).await?;
    let (holds, delivery) = app.service.alerts.test(endpoint.id, &name).await?;
    found(with(serde_json::to_value(delivery).unwrap_or_default(), "holds", holds.into()))
}

/// `POST /api/endpoints/{endpoint}/alerts/{alert}/secret`: another secret, a given one or a new one. The old one counts no
/// more. A request without a body asks for a new one.
pub(crate) async fn set_secret(
    State(app): State<Arc<App>>,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let (endpoint, ..) = wanted(&app.service, &id, &name).await?;
    let mut fields = Fields::read_if_sent(&app.service, &access, request).await?.unwrap_or_default();
    let secret = fields.take::<Option<String>>("secret", "a text, or null").flatten();
    if secret.as_ref().is_some_and(|secret| {
        !SECRET_BYTES.contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic())
    }) {
        fields.refuse("secret", "a secret is 16 to 256 visible ASCII characters");
    }
    fields.done()?;
    let secret = secret.unwrap_or_else(generate_alert_secret);
    let (key, new) = (name.clone(), secret.clone());
    let set = move |store: &tidegate_store::Store| store.catalog().set_alert_secret(endpoint.id, &key, &new);
    if !blocking(&app.service.store, set).await? {
        return Err(Failure::new(Code::NotFound, format!("there is no alert {name}")).about("alert").into());
    }
    found(json!({"secret": secret}))
}
