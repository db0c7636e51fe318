//! `/api/endpoints`: the definitions of endpoints, and all their versions. The routes of their components are in
//! `components`.

use std::sync::LazyLock;

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Path, Query, Request};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_compiler::compile_sql;
use tidegate_model::{Code, EndpointName, Failure, Manifest, Parameter, Settings};
use tidegate_service::failures::of_manifest;
use tidegate_service::registration::{Grant, Lineage, taken};
use tidegate_service::{ComponentKind, SaveRequest, Service};

use super::component_view::component_shown;
use super::components::repacked;
use super::endpoint_view::{
    Endpoint, EndpointFields, EndpointVersion, EndpointView, all_shown, known, shown, version_of, version_shown,
};
use super::fields::{Definition as _, Fields, shown_names};
use super::saving::{Saving, on_save, saved_answer, unchanged};
use super::{Admin, ManageResult, answer_room, found, tagged};
use crate::call_statistics::EndpointStatistics;
use crate::failure::Refusal;
use crate::slow_queries::SlowQuery;

/// What saving an endpoint would do.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedEndpoint {
    name: String,
    /// The version that is there now.
    version: Option<i64>,
    /// Whether it is what is there now.
    unchanged: bool,
    /// What may not be meant as it is written, and what tokens would read more than before.
    warnings: Vec<String>,
    grants: Vec<Grant>,
    statements: Vec<CheckedStatement>,
}

/// A statement of an endpoint.
#[derive(Debug, Serialize, JsonSchema)]
struct CheckedStatement {
    /// `default` is the body of the query.
    name: String,
    /// Columns by granted table.
    reads: BTreeMap<String, BTreeSet<String>>,
}

/// Reads an endpoint from the fields of a request. Fields that are left out keep their value on an update, and have
/// their default on creation.
fn manifest_of(fields: &mut Fields, base: Option<&Manifest>) -> Option<Manifest> {
    let new = Settings::default();
    let sent = EndpointFields::take(fields).or(base.cloned().map(EndpointFields::from).unwrap_or_default());
    let name = match sent.name.map(EndpointName::try_from) {
        Some(Ok(name)) => Some(name),
        Some(Err(error)) => {
            fields.refuse("name", error.to_string());
            None
        }
        None => None,
    };
    let settings = Settings {
        max_limit: sent.max_limit.unwrap_or(new.max_limit),
        cache_duration_seconds: sent.cache_duration_seconds.unwrap_or(new.cache_duration_seconds),
        proactive_requerying_seconds: sent.proactive_requerying_seconds.unwrap_or(new.proactive_requerying_seconds),
        sandboxable: sent.sandboxable.unwrap_or(new.sandboxable),
        redact_pii: sent.redact_pii.unwrap_or(new.redact_pii),
        errors: sent.errors.unwrap_or(new.errors),
        enable_auth: sent.enable_auth.unwrap_or(new.enable_auth),
        labels: sent.labels.unwrap_or(new.labels),
    };
    if !settings.enable_auth {
        fields.refuse("enable_auth", "enable_auth: false is not supported; every call needs a token");
    }
    // The name of the dialect, as clients of the compatible API send it. There is only this one.
    if let Some(language) = sent.language
        && language != "bq_sql"
    {
        fields.refuse("language", format!("the language {language} is not supported; saved queries are bq_sql"));
    }
    let manifest = Manifest {
        description: sent.description.unwrap_or_default(),
        parameters: sent.parameters.unwrap_or_default(),
        statements: base.map(|base| base.statements.clone()).unwrap_or_default(),
        settings,
        limits: sent.limits.flatten().unwrap_or_default(),
        alerts: sent.alerts.unwrap_or_default(),
        ..Manifest::new(name.clone().or_else(placeholder)?, sent.query.unwrap_or_default())
    };
    if base.is_none() && name.is_none() && !fields.has_refused("name") {
        fields.refuse("name", "an endpoint needs a name");
    }
    for problem in manifest.problems() {
        if !fields.has_refused(problem.field()) {
            fields.fail(of_manifest(&problem));
        }
    }
    Some(manifest)
}

/// A name in place of one that was refused, so that the other fields can be checked.
fn placeholder() -> Option<EndpointName> {
    EndpointName::try_from("unnamed".to_owned()).ok()
}

/// Removes the parameters that were only inferred from the old query. Those that the new query uses are inferred again.
fn forget_inferred(manifest: &mut Manifest) {
    manifest.parameters.retain(|own| *own != Parameter { name: own.name.clone(), ..Parameter::default() });
}

/// The fields that answers show.
static SHOWN: LazyLock<Vec<String>> = LazyLock::new(shown_names::<Endpoint>);

/// The definition of these fields.
fn defined_by(service: &Service, fields: &mut Fields, old: Option<&EndpointView>) -> Result<Manifest, Failure> {
    fields.ignore_shown(&SHOWN);
    fields.ignore("token");
    fields.ignore("source_mapping");
    let manifest = manifest_of(fields, old.and_then(|old| old.manifest.as_ref()));
    if let Some(manifest) = &manifest {
        let name = manifest.name.as_str();
        if service.registry.find(name).is_some_and(|other| old.is_none_or(|old| old.id != other.id)) {
            fields.fail(taken(name));
        }
    }
    fields.done()?;
    manifest.ok_or_else(|| Failure::new(Code::Internal, "the definition could not be read"))
}

/// An endpoint, if there is one of this name or id.
pub(super) async fn known_if_there(service: &Service, id_or_name: &str) -> Result<Option<EndpointView>, Failure> {
    match service.registry.find(id_or_name) {
        Some(_) => known(service, id_or_name).await.map(Some),
        None => Ok(None),
    }
}

/// What fields would become of an endpoint, or as a new one.
pub(super) struct Draft {
    manifest: Manifest,
    pub(super) component: Vec<u8>,
    /// Whether the query is that of the version before.
    pub(super) same_query: bool,
    /// Whether the whole is.
    is_same: bool,
}

/// Reads a draft from fields.
pub(super) async fn draft_of(
    service: &Service,
    fields: &mut Fields,
    old: Option<&EndpointView>,
) -> Result<Draft, Failure> {
    let mut manifest = defined_by(service, fields, old)?;
    let before = old.and_then(|old| old.manifest.as_ref());
    let is_same = before == Some(&manifest);
    let same_query = before.is_some_and(|before| before.query == manifest.query);
    if old.is_some() && !same_query {
        forget_inferred(&mut manifest);
    }
    let component = match old {
        Some(old) => repacked(service, &old.digest, &manifest).await?,
        None => compiled(&manifest)?,
    };
    Ok(Draft { manifest, component, same_query, is_same })
}

/// `GET /api/endpoints`.
pub(crate) async fn list(admin: Admin) -> ManageResult<Vec<Endpoint>> {
    let records = admin.endpoint_records().await?;
    let known = records.into_iter().map(|record| {
        let found = admin.registry.check_result(record.id);
        EndpointView::of_record(record, found.as_deref())
    });
    let known: Vec<EndpointView> = known.collect();
    found(all_shown(&admin, &known).await?)
}

/// `GET /api/endpoint-statistics`: how each endpoint was called in the last hour.
pub(crate) async fn statistics(admin: Admin) -> ManageResult<Vec<EndpointStatistics>> {
    let entries = admin.registry.all();
    let known: Vec<_> = entries.iter().map(|entry| (entry.id, entry.name.to_string())).collect();
    found(admin.app.calls.of(&known))
}

/// `GET /api/slow-queries`: the slowest queries of the last hour.
pub(crate) async fn slow_queries(admin: Admin) -> ManageResult<Vec<SlowQuery>> {
    found(admin.app.slow_queries.shown(admin.clock.now()))
}

/// `GET /api/endpoints/{id or name}`.
pub(crate) async fn show(admin: Admin, Path(id): Path<String>) -> ManageResult<Endpoint> {
    let known = known(&admin, &id).await?;
    let (digest, tag) = (known.digest.clone(), known.tag());
    let mut endpoint = shown(&admin, known).await?;
    if endpoint.version.kind == ComponentKind::Wasm {
        endpoint.component = Some(component_shown(&admin, &digest).await?);
    }
    tagged(found(endpoint), &tag)
}

/// `POST /api/endpoints`.
pub(crate) async fn create(admin: Admin, Query(saving): Query<Saving>, request: Request) -> ManageResult<Endpoint> {
    let refuse_wider = saving.refuse_wider()?;
    let mut fields = Fields::read(&admin, &admin.caller, request).await?;
    let draft = draft_of(&admin, &mut fields, None).await?;
    let saving = SaveRequest { author: &admin.caller.who, refuse_wider, ..SaveRequest::default() };
    saved_answer(&admin, admin.save(&draft.component, saving).await?, true).await
}

fn compiled(manifest: &Manifest) -> Result<Vec<u8>, Failure> {
    compile_sql(manifest).map_err(|error| on_save(Failure::new(Code::Refused, error.to_string())))
}

/// `PUT` and `PATCH /api/endpoints/{id or name}`.
pub(crate) async fn update(
    admin: Admin,
    Path(id): Path<String>,
    Query(saving): Query<Saving>,
    request: Request,
) -> ManageResult<Endpoint> {
    let refuse_wider = saving.refuse_wider()?;
    let old = known(&admin, &id).await?;
    old.allow(&admin.precondition)?;
    let mut fields = Fields::read(&admin, &admin.caller, request).await?;
    let Draft { component, same_query, is_same, .. } = draft_of(&admin, &mut fields, Some(&old)).await?;
    if is_same && old.is_usable(&admin) {
        return unchanged(&admin, old).await;
    }
    let saving = SaveRequest { same_query, refuse_wider, ..old.saving(&admin.caller.who) };
    saved_answer(&admin, admin.save(&component, saving).await?, false).await
}

/// `POST /api/endpoints/{id or name}/check`: what saving these fields would do, refusals and warnings included. Nothing is
/// saved. Where there is no such endpoint, the fields are those of a new one.
pub(crate) async fn check(
    admin: Admin,
    Path(id): Path<String>,
    Query(saving): Query<Saving>,
    request: Request,
) -> ManageResult<CheckedEndpoint> {
    let refuse_wider = saving.refuse_wider()?;
    let old = known_if_there(&admin, &id).await?;
    match &old {
        Some(old) => old.allow(&admin.precondition)?,
        None => admin.precondition.check_missing("endpoint")?,
    }
    let mut fields = Fields::read(&admin, &admin.caller, request).await?;
    let Draft { manifest, component, same_query, is_same } = draft_of(&admin, &mut fields, old.as_ref()).await?;
    let version = old.as_ref().map(|old| old.version);
    let saving = old.as_ref().map(|old| old.saving("")).unwrap_or_default();
    let saving = SaveRequest { same_query, refuse_wider, ..saving };
    let warnings = admin.registrar.try_component(&component, saving).await.map_err(on_save)?;
    let Lineage { grants, statements } = admin.registrar.lineage(&manifest, &component).await.map_err(on_save)?;
    let statements = statements.into_iter().map(|(name, reads)| CheckedStatement { name, reads });
    found(CheckedEndpoint {
        name: manifest.name.to_string(),
        version,
        unchanged: is_same,
        warnings: warnings.iter().map(ToString::to_string).collect(),
        grants,
        statements: statements.collect(),
    })
}

/// `DELETE /api/endpoints/{id or name}`.
pub(crate) async fn delete(admin: Admin, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    let endpoint = known(&admin, &id).await?;
    endpoint.allow(&admin.precondition)?;
    admin.registrar.unregister(endpoint.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/endpoints/{id or name}/versions`: all versions, newest first.
pub(crate) async fn versions(admin: Admin, Path(id): Path<String>) -> ManageResult<Vec<EndpointVersion>> {
    let endpoint = known(&admin, &id).await?;
    let versions = admin.endpoint_versions(endpoint.id).await?;
    let kinds = admin.kinds.of(versions.iter().map(|record| record.component.clone()).collect()).await?;
    found(versions.into_iter().zip(kinds).map(|(record, kind)| version_shown(record, kind)).collect())
}

/// `POST /api/endpoints/{id or name}/versions/{version}/restore`: the content of the version becomes the newest
/// version, through the same gate as any other, unless the newest has the same content.
pub(crate) async fn restore(
    admin: Admin,
    Path((id, version)): Path<(String, String)>,
    Query(saving): Query<Saving>,
) -> ManageResult<Endpoint> {
    let refuse_wider = saving.refuse_wider()?;
    answer_room::take(&admin, &admin.caller).await?;
    let endpoint = known(&admin, &id).await?;
    endpoint.allow(&admin.precondition)?;
    let record = version_of(&admin, &endpoint, &version).await?;
    if record.version == endpoint.version {
        let message = format!("version {version} is the current one");
        return Err(Failure::new(Code::Refused, message).about("version").into());
    }
    let is_same = record.component == endpoint.digest && record.sources == endpoint.tables;
    if is_same && endpoint.is_usable(&admin) {
        return unchanged(&admin, endpoint).await;
    }
    let component = admin.component(record.component).await?;
    let saving =
        SaveRequest { known: record.sources, same_query: true, refuse_wider, ..endpoint.saving(&admin.caller.who) };
    saved_answer(&admin, admin.save(&component, saving).await?, false).await
}
