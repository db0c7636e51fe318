//! `/api/endpoints`: the definitions of endpoints, and all their versions. Their components are
//! beside this, in `components`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tidegate_model::{Code, EndpointName, Failure, LimitSet, Manifest, Parameter, Settings};

use tidegate_store::EndpointRecord;
use uuid::Uuid;

use super::components::{self, Kind};
use super::fields::Fields;
use super::{Answer, ERRORS_ARE, LIMITS_ARE, created, found, private, time};
use crate::admit::{Saving, taken};
use crate::app::App;
use crate::failure::{Refusal, of_store};
use crate::registry::{Endpoint, Found};

/// What is shown of an endpoint and not taken: it may be sent back as it was shown.
const SHOWN_ONLY: [&str; 11] = [
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
];

/// An endpoint as the management API takes it. Fields that are left out keep their value on an
/// update and have their default on creation.
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
    if !settings.enable_auth {
        fields.refuse("enable_auth", "enable_auth: false is not supported; every call needs a token");
    }
    // The incumbent's name for the dialect; there is one.
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
        ..Manifest::new(name.clone().or_else(placeholder)?, query.clone().unwrap_or_default())
    };
    if base.is_none() && name.is_none() && !fields.has_refused("name") {
        fields.refuse("name", "an endpoint needs a name");
    }
    for problem in manifest.problems() {
        if !fields.has_refused(problem.field()) {
            fields.fail(super::of_manifest(&problem));
        }
    }
    Some(manifest)
}

/// Stands for a name that was refused, so that the other fields can be checked.
fn placeholder() -> Option<EndpointName> {
    EndpointName::try_from("unnamed".to_owned()).ok()
}

/// Takes out the parameters that were only inferred from the old query; what the new one uses is inferred
/// again.
fn forget_inferred(manifest: &mut Manifest) {
    manifest.parameters.retain(|own| *own != Parameter { name: own.name.clone(), ..Parameter::default() });
}

/// The definition that a request sends, checked as far as its fields go.
async fn definition(app: &App, old: Option<&Known>, request: Request) -> Result<Manifest, Failure> {
    let mut fields = Fields::read(request).await?;
    fields.ignore(&SHOWN_ONLY);
    let manifest = manifest_of(&mut fields, old.and_then(|old| old.manifest.as_ref()));
    if let Some(manifest) = &manifest {
        let name = manifest.name.as_str();
        if app.registry.find(name).is_some_and(|other| old.is_none_or(|old| old.id != other.id)) {
            fields.fail(taken(name));
        }
    }
    fields.done()?;
    manifest.ok_or_else(|| Failure::new(Code::Internal, "the definition could not be read"))
}

/// An endpoint as management sees it, whether it can be called or no longer passes the gate.
pub(super) struct Known {
    pub(super) id: Uuid,
    pub(super) version: i64,
    /// Nothing if it cannot be read.
    pub(super) manifest: Option<Manifest>,
    pub(super) name: String,
    /// Of its component.
    pub(super) digest: String,
    pub(super) tables: BTreeMap<String, Uuid>,
    author: String,
    created_at: i64,
    updated_at: i64,
    warnings: Vec<String>,
}

impl Known {
    fn of(endpoint: &Endpoint, found: Option<&Found>) -> Self {
        Self {
            id: endpoint.id,
            version: endpoint.version,
            manifest: Some(endpoint.manifest.clone()),
            name: endpoint.manifest.name.to_string(),
            digest: endpoint.component.clone(),
            tables: endpoint.tables.clone(),
            author: endpoint.author.clone(),
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
            warnings: warnings(endpoint.version, found),
        }
    }

    fn of_record(record: EndpointRecord, found: Option<&Found>) -> Self {
        Self {
            id: record.id,
            version: record.version,
            // What cannot even be read is shown by its name.
            manifest: serde_json::from_str(&record.manifest).ok(),
            name: record.name,
            digest: record.component,
            tables: record.sources,
            author: record.author,
            created_at: record.created_at,
            updated_at: record.updated_at,
            warnings: warnings(record.version, found),
        }
    }

    fn shown(&self, kind: Kind) -> Value {
        let mut value = self.manifest.as_ref().map_or_else(|| json!({"name": self.name}), described);
        if let Value::Object(fields) = &mut value {
            fields.insert("id".to_owned(), self.id.to_string().into());
            fields.insert("version".to_owned(), self.version.into());
            fields.insert("author".to_owned(), self.author.clone().into());
            fields.insert("inserted_at".to_owned(), time(self.created_at));
            fields.insert("updated_at".to_owned(), time(self.updated_at));
            fields.insert("warnings".to_owned(), self.warnings.clone().into());
            fields.insert("kind".to_owned(), kind.name().into());
            fields.insert("digest".to_owned(), self.digest.clone().into());
        }
        value
    }
}

/// What the gate, or the check after the start, has to tell of a version.
fn warnings(version: i64, found: Option<&Found>) -> Vec<String> {
    let Some(found) = found.filter(|found| found.version == version) else { return Vec::new() };
    let broken = found.broken.iter().map(|failure| format!("it cannot be used: {failure}"));
    broken.chain(found.warnings.iter().map(ToString::to_string)).collect()
}

/// All of these, as they are shown.
async fn all_shown(app: &Arc<App>, known: &[Known]) -> Result<Vec<Value>, Failure> {
    let kinds = components::kinds(app, known.iter().map(|one| one.digest.clone()).collect()).await?;
    Ok(known.iter().zip(kinds).map(|(one, kind)| one.shown(kind)).collect())
}

pub(super) async fn shown(app: &Arc<App>, known: Known) -> Result<Value, Failure> {
    Ok(all_shown(app, &[known]).await?.pop().unwrap_or_default())
}

/// An endpoint that was just saved, as it is shown.
pub(super) async fn saved_shown(app: &Arc<App>, endpoint: &Endpoint) -> Result<Value, Failure> {
    shown(app, Known::of(endpoint, app.registry.found(endpoint.id).as_deref())).await
}

/// What a definition says, in the names of the interface.
fn described(manifest: &Manifest) -> Value {
    let Manifest { name, description, query, statements, parameters, settings, limits } = manifest;
    json!({
        "name": name,
        "description": description,
        "query": query,
        "statements": statements,
        "parameters": parameters,
        "max_limit": settings.max_limit,
        "cache_duration_seconds": settings.cache_duration_seconds,
        "proactive_requerying_seconds": settings.proactive_requerying_seconds,
        "sandboxable": settings.sandboxable,
        "redact_pii": settings.redact_pii,
        "errors": settings.errors,
        "enable_auth": settings.enable_auth,
        "labels": settings.labels,
        "limits": limits,
    })
}

/// What is wrong with a saved query is told as a refusal of that field.
pub(super) fn on_save(mut failure: Failure) -> Failure {
    if failure.code.status() == 400 {
        failure.location = Some("query".to_owned());
        failure.code = Code::Refused;
    }
    failure
}

pub(super) fn known(app: &App, id_or_name: &str) -> Result<Known, Failure> {
    let entry = app.registry.find(id_or_name);
    let record = match &entry {
        Some(entry) => app.store.catalog().endpoint_by_id(entry.id).map_err(of_store)?,
        None => None,
    };
    let unknown = || Failure::new(Code::NotFound, format!("there is no endpoint {id_or_name}")).about(id_or_name);
    let record = record.ok_or_else(unknown)?;
    let found = app.registry.found(record.id);
    Ok(Known::of_record(record, found.as_deref()))
}

/// `GET /api/endpoints`.
pub(crate) async fn list(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer {
    private(&app, &headers)?;
    let records = app.blocking(|app| app.store.catalog().endpoints()).await?;
    let known = records.into_iter().map(|record| {
        let found = app.registry.found(record.id);
        Known::of_record(record, found.as_deref())
    });
    let known: Vec<Known> = known.collect();
    found(all_shown(&app, &known).await?.into())
}

/// `GET /api/endpoints/{id or name}`.
pub(crate) async fn show(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    private(&app, &headers)?;
    found(shown(&app, known(&app, &id)?).await?)
}

/// `POST /api/endpoints`.
pub(crate) async fn create(State(app): State<Arc<App>>, request: Request) -> Answer {
    let access = private(&app, request.headers())?;
    let manifest = definition(&app, None, request).await?;
    let saving = Saving { author: &access.who, ..Saving::default() };
    let endpoint = app.register_query(&manifest, saving).await.map_err(on_save)?;
    created(saved_shown(&app, &endpoint).await?)
}

/// `PUT` and `PATCH /api/endpoints/{id or name}`.
pub(crate) async fn update(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> Answer {
    let access = private(&app, request.headers())?;
    let old = known(&app, &id)?;
    let mut manifest = definition(&app, Some(&old), request).await?;
    let same_query = old.manifest.as_ref().is_some_and(|old| old.query == manifest.query);
    let usable = app.registry.found(old.id).is_none_or(|found| found.broken.is_none());
    if old.manifest.as_ref() == Some(&manifest) && usable {
        // Nothing is changed: that is no version.
        return found(shown(&app, old).await?);
    }
    if !same_query {
        forget_inferred(&mut manifest);
    }
    let component = components::repacked(&app, &old.digest, &manifest).await?;
    let saving =
        Saving { id: Some(old.id), author: &access.who, known: old.tables, same_query, from: Some(old.version) };
    let endpoint = app.register_component(&component, saving).await.map_err(on_save)?;
    found(saved_shown(&app, &endpoint).await?)
}

/// `DELETE /api/endpoints/{id or name}`.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    private(&app, &headers)?;
    app.unregister(known(&app, &id)?.id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A version on record.
fn version_shown(record: &EndpointRecord, kind: Kind) -> Value {
    let mut value = match serde_json::from_str::<Manifest>(&record.manifest) {
        Ok(manifest) => described(&manifest),
        // Written by a version that knew other fields: what is there is shown as it is.
        Err(_) => json!({"name": record.name}),
    };
    if let Value::Object(fields) = &mut value {
        fields.insert("id".to_owned(), record.id.to_string().into());
        fields.insert("version".to_owned(), record.version.into());
        fields.insert("author".to_owned(), record.author.clone().into());
        fields.insert("kind".to_owned(), kind.name().into());
        fields.insert("digest".to_owned(), record.component.clone().into());
        fields.insert("inserted_at".to_owned(), time(record.updated_at));
    }
    value
}

/// A version of an endpoint, by its number.
///
/// # Errors
/// [`Code::NotFound`].
pub(super) async fn version_of(app: &Arc<App>, endpoint: &Known, version: &str) -> Result<EndpointRecord, Failure> {
    let id = endpoint.id;
    let wanted = match version.parse() {
        Ok(number) => app.blocking(move |app| app.store.catalog().endpoint_version(id, number)).await?,
        Err(_) => None,
    };
    wanted.ok_or_else(|| {
        let message =
            format!("the endpoint {} has no version {version}; its newest is {}", endpoint.name, endpoint.version);
        Failure::new(Code::NotFound, message).about("version")
    })
}

/// `GET /api/endpoints/{id or name}/versions`: newest first.
pub(crate) async fn versions(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    private(&app, &headers)?;
    let endpoint = known(&app, &id)?;
    let versions = app.blocking(move |app| app.store.catalog().endpoint_versions(endpoint.id)).await?;
    let kinds = components::kinds(&app, versions.iter().map(|record| record.component.clone()).collect()).await?;
    found(versions.iter().zip(kinds).map(|(record, kind)| version_shown(record, kind)).collect())
}

/// `POST /api/endpoints/{id or name}/versions/{version}/restore`: what the version said becomes the
/// newest version, through the same gate as any other, unless the newest says the same.
pub(crate) async fn restore(
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let access = private(&app, &headers)?;
    let endpoint = known(&app, &id)?;
    let record = version_of(&app, &endpoint, &version).await?;
    if record.version == endpoint.version {
        let message = format!("version {version} is the current one");
        return Err(Failure::new(Code::Refused, message).about("version").into());
    }
    let is_same = record.component == endpoint.digest && record.sources == endpoint.tables;
    if is_same && app.registry.found(endpoint.id).is_none_or(|found| found.broken.is_none()) {
        // It is what it would become: that is no version.
        return found(shown(&app, endpoint).await?);
    }
    let component = app.stored_component(&record.component)?;
    let saving = Saving {
        id: Some(endpoint.id),
        author: &access.who,
        known: record.sources.clone(),
        same_query: true,
        from: Some(endpoint.version),
    };
    let endpoint = app.register_component(&component, saving).await.map_err(on_save)?;
    found(saved_shown(&app, &endpoint).await?)
}
