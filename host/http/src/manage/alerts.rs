//! `/api/endpoints/{id or name}/alerts`: the alerts of an endpoint, their state and their last runs.
//!
//! An alert is a part of the endpoint's definition, so creating, changing and deleting one saves a new version of the
//! endpoint, through the same gate. The secret of an alert is no part of it: it is in the answer that creates the alert or
//! that gives it another secret, and in no other.

use axum::extract::{Path, Request};
use axum::http::StatusCode;
use tidegate_model::{Alert, Code, Failure, Manifest, nearest};
use tidegate_service::alerts::{AlertRun, KnownAlert};
use tidegate_service::tokens::generate_alert_secret;
use tidegate_service::{SaveRequest, Service};

use super::alert_view::{
    AlertFields, AlertOfEndpoint, AlertSecret, AlertSecretFields, AlertTest, AlertView, EndpointName, MadeAlert,
    SECRET_BYTES, alert_of, shown,
};
use super::components::repacked;
use super::endpoint_view::{EndpointView, known};
use super::fields::{Definition as _, Fields};
use super::precondition::{Precondition, tag_of_settings};
use super::{Admin, ManageResult, answer_room, created, found, tagged};
use crate::failure::Refusal;
use crate::shown::Id;

/// The most alerts in the list of all.
const MOST_LISTED: usize = 1_000;

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
    admin: &Admin,
    old: &EndpointView,
    manifest: &Manifest,
    change: SaveRequest<'_>,
) -> Result<Vec<String>, Failure> {
    let component = repacked(admin, &old.digest, manifest).await?;
    let SaveRequest { id, author, known, from, .. } = old.saving(&admin.caller.who);
    let saved = admin.save(&component, SaveRequest { id, author, known, from, same_query: true, ..change }).await?;
    admin.alerts.wake();
    let result = admin.registry.check_result(old.id);
    let warnings = result.iter().flat_map(|result| &result.warnings).map(ToString::to_string);
    Ok(warnings.chain(saved.widened.lines()).collect())
}

/// The entity tag of an alert: that of its definition, because another change of its endpoint is none of it.
fn tag_of(endpoint: &EndpointView, alert: &Alert) -> String {
    tag_of_settings(endpoint.id, &AlertFields::from(alert.clone()))
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

/// `GET /api/alerts`: the alerts of all endpoints, those that fire first.
pub(crate) async fn list_all(admin: Admin) -> ManageResult<Vec<AlertOfEndpoint>> {
    let of = |(name, known): (String, KnownAlert)| AlertOfEndpoint {
        endpoint: EndpointName { id: Id(known.endpoint), name },
        alert: shown(known),
    };
    found(admin.alerts.all(MOST_LISTED).await?.into_iter().map(of).collect())
}

/// `GET /api/endpoints/{endpoint}/alerts`.
pub(crate) async fn list(admin: Admin, Path(id): Path<String>) -> ManageResult<Vec<AlertView>> {
    let id = known(&admin, &id).await?.id;
    found(admin.alerts.of(id).await?.into_iter().map(shown).collect())
}

/// `GET /api/endpoints/{endpoint}/alerts/{alert}`.
pub(crate) async fn show(admin: Admin, Path((id, name)): Path<(String, String)>) -> ManageResult<AlertView> {
    let (endpoint, manifest, place) = wanted(&admin, &id, &name).await?;
    let tag = manifest.alerts.get(place).map(|alert| tag_of(&endpoint, alert)).unwrap_or_default();
    tagged(found(shown(admin.alerts.one(endpoint.id, &name).await?)), &tag)
}

/// `POST /api/endpoints/{endpoint}/alerts`: a version of the endpoint with one more alert. The answer has its secret.
pub(crate) async fn create(admin: Admin, Path(id): Path<String>, request: Request) -> ManageResult<MadeAlert> {
    let endpoint = known(&admin, &id).await?;
    let mut fields = Fields::read(&admin, &admin.caller, request).await?;
    let alert = alert_of(&mut fields, None);
    fields.done()?;
    let alert = alert.ok_or_else(|| Failure::new(Code::Internal, "the alert could not be read"))?;
    let (id, name, mut manifest) = (endpoint.id, alert.name.clone(), manifest_of(&endpoint)?);
    manifest.alerts.push(alert);
    let anew = SaveRequest { forgotten_alert: Some(&name), ..SaveRequest::default() };
    let warnings = save(&admin, &endpoint, &manifest, anew).await?;
    let secret = admin.alerts.secret(id, &name).await?;
    let mut alert = shown(admin.alerts.one(id, &name).await?);
    alert.warnings = Some(warnings);
    created(MadeAlert { alert, secret })
}

/// `PUT` and `PATCH /api/endpoints/{endpoint}/alerts/{alert}`.
pub(crate) async fn update(
    admin: Admin,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> ManageResult<AlertView> {
    let (endpoint, mut manifest, place) = wanted(&admin, &id, &name).await?;
    allow(&admin.precondition, &endpoint, &manifest, place)?;
    let former = name;
    let mut fields = Fields::read(&admin, &admin.caller, request).await?;
    let alert = alert_of(&mut fields, manifest.alerts.get(place).cloned());
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
        warnings = save(&admin, &endpoint, &manifest, renamed).await?;
    }
    let mut alert = shown(admin.alerts.one(id, &name).await?);
    alert.warnings = Some(warnings);
    tagged(found(alert), &tag)
}

/// `DELETE /api/endpoints/{endpoint}/alerts/{alert}`: a version of the endpoint without it. Its secret is forgotten.
pub(crate) async fn delete(admin: Admin, Path((id, name)): Path<(String, String)>) -> Result<StatusCode, Refusal> {
    let (endpoint, mut manifest, place) = wanted(&admin, &id, &name).await?;
    allow(&admin.precondition, &endpoint, &manifest, place)?;
    manifest.alerts.remove(place);
    let deleted = SaveRequest { forgotten_alert: Some(&name), ..SaveRequest::default() };
    save(&admin, &endpoint, &manifest, deleted).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/endpoints/{endpoint}/alerts/{alert}/runs`: the last runs, the newest first.
pub(crate) async fn runs(admin: Admin, Path((id, name)): Path<(String, String)>) -> ManageResult<Vec<AlertRun>> {
    let (endpoint, ..) = wanted(&admin, &id, &name).await?;
    found(admin.alerts.last_runs(endpoint.id, &name).await?)
}

/// `POST /api/endpoints/{endpoint}/alerts/{alert}/runs`: runs it now, as if its time had come.
pub(crate) async fn run(admin: Admin, Path((id, name)): Path<(String, String)>) -> ManageResult<AlertRun> {
    answer_room::take(&admin, &admin.caller).await?;
    let (endpoint, ..) = wanted(&admin, &id, &name).await?;
    found(admin.alerts.run_now(endpoint.id, &name).await?)
}

/// `POST /api/endpoints/{endpoint}/alerts/{alert}/test`: sends a message with the state `test`, once.
pub(crate) async fn test(admin: Admin, Path((id, name)): Path<(String, String)>) -> ManageResult<AlertTest> {
    answer_room::take(&admin, &admin.caller).await?;
    let (endpoint, ..) = wanted(&admin, &id, &name).await?;
    let (holds, delivery) = admin.alerts.test(endpoint.id, &name).await?;
    found(AlertTest { delivery, holds })
}

/// `POST /api/endpoints/{endpoint}/alerts/{alert}/secret`: another secret, a given one or a new one. The old one counts no
/// more. A request without a body asks for a new one.
pub(crate) async fn set_secret(
    admin: Admin,
    Path((id, name)): Path<(String, String)>,
    request: Request,
) -> ManageResult<AlertSecret> {
    let (endpoint, ..) = wanted(&admin, &id, &name).await?;
    let mut fields = Fields::read_if_sent(&admin, &admin.caller, request).await?.unwrap_or_default();
    let secret = AlertSecretFields::take(&mut fields).secret.flatten();
    if secret.as_ref().is_some_and(|secret| {
        !SECRET_BYTES.contains(&secret.len()) || !secret.bytes().all(|byte| byte.is_ascii_graphic())
    }) {
        fields.refuse("secret", "a secret is 16 to 256 visible ASCII characters");
    }
    fields.done()?;
    let secret = secret.unwrap_or_else(generate_alert_secret);
    admin.alerts.set_secret(endpoint.id, &name, &secret).await?;
    found(AlertSecret { secret })
}
