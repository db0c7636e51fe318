//! `/api/endpoints`: the definitions of endpoints, and all their versions. The routes of their components are in
//! `components`.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tidegate_compiler::compile_sql;
use tidegate_model::{Code, EndpointName, Failure, LimitSet, Manifest, Parameter, Settings};
use tidegate_service::failures::of_manifest;
use tidegate_service::registration::{Grant, Lineage, Saved, taken};
use tidegate_service::tokens::Access;
use tidegate_service::{ComponentKind, SaveRequest, Service, blocking};

use super::component_view::component_shown;
use super::components::{on_save, repacked, stored};
use super::endpoint_view::{EndpointView, all_shown, known, shown, version_of, version_shown};
use super::fields::Fields;
use super::precondition::{Precondition, tag_of_version};
use super::saving::{Saving, saved_and_widened};
use super::{ALERTS_ARE, ERRORS_ARE, LIMITS_ARE, ManageResult, answer_room, created, found, private, tagged, time};
use crate::app::App;
use crate::failure::Refusal;

/// The fields of an endpoint that are shown, and ignored when they are sent: an endpoint may be sent back as it was
/// shown.
const SHOWN_ONLY: [&str; 12] = [
    "id",
    "token",
    "version",
    "author",
    "inserted_at",
    "updated_at",
    "warnings",
    "source_mapping",
    "statements",
    "kind",
    "digest",
    "component",
];

/// Reads an endpoint from the fields of a request. Fields that are left out keep their value on an update, and have
/// their default on creation.
fn manifest_of(fields: &mut Fields, base: Option<&Manifest>) -> Option<Manifest> {
    let old = base.map(|base| base.settings.clone()).unwrap_or_default();
    let name = match (fields.text("name"), base) {
        (Some(name), _) => match EndpointName::try_from(name) {
            Ok(name) => Some(name),
            Err(error) => {
                fields.refuse("name", error.to_string());
                None
            }
        },
        (None, base) => base.map(|base| base.name.clone()),
    };
    let query = fields.text("query").or_else(|| base.map(|base| base.query.clone()));
    let description = fields.text("description").or_else(|| base.map(|base| base.description.clone()));
    let parameters = fields
        .take("parameters", "a list of parameters (name, kind, required, default, enum, format, description)")
        .or_else(|| base.map(|base| base.parameters.clone()));
    let settings = Settings {
        max_limit: fields.count("max_limit").unwrap_or(old.max_limit),
        cache_duration_seconds: fields.count("cache_duration_seconds").unwrap_or(old.cache_duration_seconds),
        proactive_requerying_seconds: fields
            .optional_count("proactive_requerying_seconds")
            .unwrap_or(old.proactive_requerying_seconds),
        sandboxable: fields.flag("sandboxable").unwrap_or(old.sandboxable),
        redact_pii: fields.flag("redact_pii").unwrap_or(old.redact_pii),
        errors: fields.take("errors", ERRORS_ARE).unwrap_or(old.errors),
        enable_auth: fields.flag("enable_auth").unwrap_or(old.enable_auth),
        labels: fields.text("labels").unwrap_or(old.labels),
    };
    let limits = fields
        .take::<Option<LimitSet>>("limits", LIMITS_ARE)
        .map_or_else(|| base.map(|base| base.limits.clone()), |sent| Some(sent.unwrap_or_default()));
    let alerts = fields.take("alerts", ALERTS_ARE).or_else(|| base.map(|base| base.alerts.clone()));
    if !settings.enable_auth {
        fields.refuse("enable_auth", "enable_auth: false is not supported; every call needs a token");
    }
    // The name of the dialect, as clients of the compatible API send it. There is only this one.
    if let Some(language) = fields.text("language")
        && language != "bq_sql"
    {
        fields.refuse("language", format!("the language {language} is not supported; saved queries are bq_sql"));
    }
    let manifest = Manifest {
        description: description.unwrap_or_default(),
        parameters: parameters.unwrap_or_default(),
        statements: base.map(|base| base.statements.clone()).unwrap_or_default(),
        settings,
        limits: limits.unwrap_or_default(),
        alerts: alerts.unwrap_or_default(),
        ..Manifest::new(name.clone().or_else(placeholder)?, query.clone().unwrap_or_default())
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

/// The definition that a request sends. Only its fields are checked here.
async fn definition(
    service: &Service,
    access: &Access,
    old: Option<&EndpointView>,
    request: Request,
) -> Result<Manifest, Failure> {
    let mut fields = Fields::read(service, access, request).await?;
    defined_by(service, &mut fields, old)
}

/// The definition of these fields.
fn defined_by(service: &Service, fields: &mut Fields, old: Option<&EndpointView>) -> Result<Manifest, Failure> {
    fields.ignore(&SHOWN_ONLY);
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
    unchanged: bool,
}

/// Reads a draft from fields.
pub(super) async fn draft_of(
    service: &Service,
    fields: &mut Fields,
    old: Option<&EndpointView>,
) -> Result<Draft, Failure> {
    let mut manifest = defined_by(service, fields, old)?;
    let before = old.and_then(|old| old.manifest.as_ref());
    let unchanged = before == Some(&manifest);
    let same_query = before.is_some_and(|before| before.query == manifest.query);
    if !same_query {
        forget_inferred(&mut manifest);
    }
    let component = match old {
        Some(old) => repacked(service, &old.digest, &manifest).await?,
        None => compiled(&manifest)?,
    };
    Ok(Draft { manifest, component, same_query, unchanged })
}

/// `GET /api/endpoints`.
pub(crate) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let records = blocking(&app.service.store, |store| store.catalog().endpoints()).await?;
    let known = records.into_iter().map(|record| {
        let found = app.service.registry.check_result(record.id);
        EndpointView::of_record(record, found.as_deref())
    });
    let known: Vec<EndpointView> = known.collect();
    found(all_shown(&app.service, &known).await?.into())
}

/// `GET /api/endpoint-statistics`: how each endpoint was called in the last hour.
pub(crate) async fn statistics(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let entries = app.service.registry.all();
    let known: Vec<_> = entries.iter().map(|entry| (entry.id, entry.name.to_string())).collect();
    found(app.calls.of(&known).into())
}

/// `GET /api/slow-queries`: the slowest queries of the last hour.
pub(crate) async fn slow_queries(State(app): State<Arc<App>>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    found(app.slow_queries.shown(app.service.clock.now(), time).into())
}

/// `GET /api/endpoints/{id or name}`.
pub(crate) async fn show(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let known = known(&app.service, &id).await?;
    let (digest, tag) = (known.digest.clone(), known.tag());
    let mut endpoint = shown(&app.service, known).await?;
    if let Value::Object(fields) = &mut endpoint
        && fields.get("kind").and_then(Value::as_str) == Some(ComponentKind::Wasm.name())
    {
        fields.insert("component".to_owned(), component_shown(&app.service, &digest).await?);
    }
    tagged(found(endpoint), &tag)
}

/// `POST /api/endpoints`.
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Query(saving): Query<Saving>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let refuse_wider = saving.refuse_wider()?;
    let manifest = definition(&app.service, &access, None, request).await?;
    let component = compiled(&manifest)?;
    let saving = SaveRequest { author: &access.who, refuse_wider, ..SaveRequest::default() };
    let saved = app.service.registrar.save_component(&component, saving).await.map_err(on_save)?;
    tagged(created(saved_and_widened(&app.service, &saved).await?), &tag_of(&saved))
}

/// The entity tag of a version that was just saved.
fn tag_of(saved: &Saved) -> String {
    tag_of_version(saved.endpoint.id, saved.endpoint.version)
}

fn compiled(manifest: &Manifest) -> Result<Vec<u8>, Failure> {
    compile_sql(manifest).map_err(|error| on_save(Failure::new(Code::Refused, error.to_string())))
}

/// `PUT` and `PATCH /api/endpoints/{id or name}`.
pub(crate) async fn update(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(saving): Query<Saving>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let refuse_wider = saving.refuse_wider()?;
    let wanted = Precondition::of(request.headers());
    let old = known(&app.service, &id).await?;
    old.allow(&wanted)?;
    let mut manifest = definition(&app.service, &access, Some(&old), request).await?;
    let same_query = old.manifest.as_ref().is_some_and(|old| old.query == manifest.query);
    let usable = app.service.registry.check_result(old.id).is_none_or(|found| found.broken.is_none());
    if old.manifest.as_ref() == Some(&manifest) && usable {
        // Nothing has changed, so no version is made.
        let tag = old.tag();
        return tagged(found(shown(&app.service, old).await?), &tag);
    }
    if !same_query {
        forget_inferred(&mut manifest);
    }
    let component = repacked(&app.service, &old.digest, &manifest).await?;
    let saving = SaveRequest {
        id: Some(old.id),
        author: &access.who,
        known: old.tables,
        same_query,
        from: Some(old.version),
        refuse_wider,
        ..SaveRequest::default()
    };
    let saved = app.service.registrar.save_component(&component, saving).await.map_err(on_save);
    let saved = saved.map_err(|failure| wanted.of_save(failure))?;
    tagged(found(saved_and_widened(&app.service, &saved).await?), &tag_of(&saved))
}

/// `POST /api/endpoints/{id or name}/check`: what saving these fields would do, refusals and warnings included. Nothing is
/// saved. Where there is no such endpoint, the fields are those of a new one.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(saving): Query<Saving>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let refuse_wider = saving.refuse_wider()?;
    let wanted = Precondition::of(request.headers());
    let old = known_if_there(&app.service, &id).await?;
    match &old {
        Some(old) => old.allow(&wanted)?,
        None => wanted.check_missing("endpoint")?,
    }
    let mut fields = Fields::read(&app.service, &access, request).await?;
    let Draft { manifest, component, same_query, unchanged } =
        draft_of(&app.service, &mut fields, old.as_ref()).await?;
    let version = old.as_ref().map(|old| old.version);
    let saving = SaveRequest {
        id: old.as_ref().map(|old| old.id),
        author: "",
        known: old.map(|old| old.tables).unwrap_or_default(),
        same_query,
        from: version,
        refuse_wider,
        ..SaveRequest::default()
    };
    let warnings = app.service.registrar.try_component(&component, saving).await.map_err(on_save)?;
    let Lineage { grants, statements } = app.service.registrar.lineage(&manifest, &component).await.map_err(on_save)?;
    let granted =
        |Grant { table, parameters, reads }: &Grant| json!({"table": table, "parameters": parameters, "reads": reads});
    let stated = |(name, reads): &(String, _)| json!({"name": name, "reads": reads});
    found(json!({
        "name": manifest.name,
        "version": version,
        "unchanged": unchanged,
        "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "grants": grants.iter().map(granted).collect::<Vec<_>>(),
        "statements": statements.iter().map(stated).collect::<Vec<_>>(),
    }))
}

/// `DELETE /api/endpoints/{id or name}`.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    private(&app.service, &headers)?;
    let endpoint = known(&app.service, &id).await?;
    endpoint.allow(&Precondition::of(&headers))?;
    app.service.registrar.unregister(endpoint.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/endpoints/{id or name}/versions`: all versions, newest first.
pub(crate) async fn versions(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> ManageResult {
    private(&app.service, &headers)?;
    let endpoint = known(&app.service, &id).await?;
    let versions = blocking(&app.service.store, move |store| store.catalog().endpoint_versions(endpoint.id)).await?;
    let kinds = app.service.kinds.of(versions.iter().map(|record| record.component.clone()).collect()).await?;
    found(versions.iter().zip(kinds).map(|(record, kind)| version_shown(record, kind)).collect())
}

/// `POST /api/endpoints/{id or name}/versions/{version}/restore`: the content of the version becomes the newest
/// version, through the same gate as any other, unless the newest has the same content.
pub(crate) async fn restore(
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(String, String)>,
    Query(saving): Query<Saving>,
    headers: HeaderMap,
) -> ManageResult {
    let access = private(&app.service, &headers)?;
    let refuse_wider = saving.refuse_wider()?;
    answer_room::take(&app.service, &access).await?;
    let wanted = Precondition::of(&headers);
    let endpoint = known(&app.service, &id).await?;
    endpoint.allow(&wanted)?;
    let record = version_of(&app.service, &endpoint, &version).await?;
    if record.version == endpoint.version {
        let message = format!("version {version} is the current one");
        return Err(Failure::new(Code::Refused, message).about("version").into());
    }
    let is_same = record.component == endpoint.digest && record.sources == endpoint.tables;
    if is_same && app.service.registry.check_result(endpoint.id).is_none_or(|found| found.broken.is_none()) {
        // The newest version has this content already, so no version is made.
        let tag = endpoint.tag();
        return tagged(found(shown(&app.service, endpoint).await?), &tag);
    }
    let component = stored(&app.service, record.component).await?;
    let saving = SaveRequest {
        id: Some(endpoint.id),
        author: &access.who,
        known: record.sources.clone(),
        same_query: true,
        from: Some(endpoint.version),
        refuse_wider,
        ..SaveRequest::default()
    };
    let saved = app.service.registrar.save_component(&component, saving).await.map_err(on_save);
    let saved = saved.map_err(|failure| wanted.of_save(failure))?;
    tagged(found(saved_and_widened(&app.service, &saved).await?), &tag_of(&saved))
}
