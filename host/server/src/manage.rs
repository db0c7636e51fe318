//! The management routes: sources and endpoints. For private tokens.

use std::sync::Arc;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::{Code, EndpointName, Failure, Manifest, Parameter, Settings};

use crate::app::App;
use crate::auth::authenticate;
use crate::failure::{Refusal, of_store};
use crate::registry::Endpoint;

/// The longest body of a management request, in bytes.
const MAX_BODY: usize = 1 << 20;

type Answer = Result<(StatusCode, Json<Value>), Refusal>;

fn private(app: &App, headers: &HeaderMap) -> Result<(), Failure> {
    if authenticate(app, headers, chrono::Utc::now().timestamp_micros())?.is_private() {
        return Ok(());
    }
    Err(Failure::new(Code::Forbidden, "management needs an access token with the scope private"))
}

async fn body<T: serde::de::DeserializeOwned>(request: Request) -> Result<T, Failure> {
    let too_large = |_| Failure::new(Code::TooLarge, format!("the body is larger than {MAX_BODY} bytes"));
    let bytes = to_bytes(request.into_body(), MAX_BODY).await.map_err(too_large)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let code = if error.is_data() { Code::Refused } else { Code::InvalidBody };
        Failure::new(code, format!("the body cannot be used: {error}"))
    })
}

/// `GET /api/sources`.
pub(crate) async fn list_sources(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer {
    private(&app, &headers)?;
    let sources: Vec<Value> = app
        .store
        .sources()
        .into_iter()
        .map(|source| json!({"id": source.id.to_string(), "name": source.name}))
        .collect();
    Ok((StatusCode::OK, Json(Value::Array(sources))))
}

#[derive(Deserialize)]
struct NewSource {
    name: String,
}

/// `POST /api/sources`.
pub(crate) async fn create_source(State(app): State<Arc<App>>, request: Request) -> Answer {
    private(&app, request.headers())?;
    let NewSource { name } = body(request).await?;
    let source = app.store.create_source(&name).map_err(of_store)?;
    Ok((StatusCode::CREATED, Json(json!({"id": source.id.to_string(), "name": source.name}))))
}

/// An endpoint as the management API takes it. Fields that are left out keep their value on an
/// update and have their default on creation.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct EndpointBody {
    name: Option<String>,
    description: Option<String>,
    query: Option<String>,
    parameters: Option<Vec<Parameter>>,
    max_limit: Option<u64>,
    cache_duration_seconds: Option<u64>,
    #[serde(deserialize_with = "present")]
    proactive_requerying_seconds: Option<Option<u64>>,
    sandboxable: Option<bool>,
    redact_pii: Option<bool>,
    enable_auth: Option<bool>,
    labels: Option<String>,
}

/// Tells `null` (switch off) from a field that is not there (leave as it is).
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl EndpointBody {
    fn apply(self, base: Option<&Manifest>) -> Result<Manifest, Failure> {
        let refused = |message: String, field: &str| Failure::new(Code::Refused, message).about(field);
        let name = match (self.name, base) {
            (Some(name), _) => EndpointName::try_from(name).map_err(|error| refused(error.to_string(), "name"))?,
            (None, Some(base)) => base.name.clone(),
            (None, None) => return Err(refused("an endpoint needs a name".to_owned(), "name")),
        };
        let query = match (self.query, base) {
            (Some(query), _) => query,
            (None, Some(base)) => base.query.clone(),
            (None, None) => return Err(refused("an endpoint needs a query".to_owned(), "query")),
        };
        let old = base.map(|base| base.settings.clone()).unwrap_or_default();
        let mut manifest = Manifest::new(name, query);
        manifest.description = self.description.or_else(|| base.map(|b| b.description.clone())).unwrap_or_default();
        manifest.parameters = self.parameters.or_else(|| base.map(|b| b.parameters.clone())).unwrap_or_default();
        manifest.statements = base.map(|b| b.statements.clone()).unwrap_or_default();
        manifest.settings = Settings {
            max_limit: self.max_limit.unwrap_or(old.max_limit),
            cache_duration_seconds: self.cache_duration_seconds.unwrap_or(old.cache_duration_seconds),
            proactive_requerying_seconds: self.proactive_requerying_seconds.unwrap_or(old.proactive_requerying_seconds),
            sandboxable: self.sandboxable.unwrap_or(old.sandboxable),
            redact_pii: self.redact_pii.unwrap_or(old.redact_pii),
            enable_auth: self.enable_auth.unwrap_or(old.enable_auth),
            labels: self.labels.unwrap_or(old.labels),
        };
        if !manifest.settings.enable_auth {
            return Err(refused(
                "enable_auth: false is not supported; every call needs a token".to_owned(),
                "enable_auth",
            ));
        }
        Ok(manifest)
    }
}

fn shown(endpoint: &Endpoint) -> Value {
    let Manifest { name, description, query, parameters, settings, .. } = &endpoint.manifest;
    json!({
        "id": endpoint.id.to_string(),
        "name": name,
        "description": description,
        "query": query,
        "parameters": parameters,
        "max_limit": settings.max_limit,
        "cache_duration_seconds": settings.cache_duration_seconds,
        "proactive_requerying_seconds": settings.proactive_requerying_seconds,
        "sandboxable": settings.sandboxable,
        "redact_pii": settings.redact_pii,
        "enable_auth": settings.enable_auth,
        "labels": settings.labels,
        "version": endpoint.version,
        "warnings": endpoint.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// What is wrong with a saved query is told as a refusal, with the reason and place kept.
fn on_save(mut failure: Failure) -> Failure {
    if failure.code.status() == 400 {
        failure.location.get_or_insert_with(|| "query".to_owned());
        failure.code = Code::Refused;
    }
    failure
}

fn known(app: &App, id_or_name: &str) -> Result<Arc<Endpoint>, Failure> {
    let missing = || Failure::new(Code::NotFound, format!("there is no endpoint {id_or_name}")).about(id_or_name);
    app.registry.find(id_or_name).ok_or_else(missing)
}

/// `GET /api/endpoints`.
pub(crate) async fn list_endpoints(State(app): State<Arc<App>>, headers: HeaderMap) -> Answer {
    private(&app, &headers)?;
    let endpoints = app.registry.all().iter().map(|endpoint| shown(endpoint)).collect();
    Ok((StatusCode::OK, Json(Value::Array(endpoints))))
}

/// `GET /api/endpoints/{id}`.
pub(crate) async fn show_endpoint(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    private(&app, &headers)?;
    Ok((StatusCode::OK, Json(shown(&*known(&app, &id)?))))
}

/// `POST /api/endpoints`.
pub(crate) async fn create_endpoint(State(app): State<Arc<App>>, request: Request) -> Answer {
    private(&app, request.headers())?;
    let manifest = body::<EndpointBody>(request).await?.apply(None)?;
    let endpoint = app.register_query(None, &manifest).await.map_err(on_save)?;
    Ok((StatusCode::CREATED, Json(shown(&endpoint))))
}

/// `PUT` and `PATCH /api/endpoints/{id}`.
pub(crate) async fn update_endpoint(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> Answer {
    private(&app, request.headers())?;
    let old = known(&app, &id)?;
    let manifest = body::<EndpointBody>(request).await?.apply(Some(&old.manifest))?;
    let endpoint = app.register_query(Some(old.id), &manifest).await.map_err(on_save)?;
    Ok((StatusCode::OK, Json(shown(&endpoint))))
}

/// `DELETE /api/endpoints/{id}`.
pub(crate) async fn delete_endpoint(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    private(&app, &headers)?;
    app.unregister(known(&app, &id)?.id)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /api/endpoints/{name}/component`: a packed component, new or a new version.
pub(crate) async fn put_component(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> Answer {
    private(&app, request.headers())?;
    let limit = tidegate_compiler::MAX_COMPONENT_BYTES;
    let too_large = |_| Failure::new(Code::TooLarge, format!("the component is larger than {limit} bytes"));
    let component = to_bytes(request.into_body(), limit).await.map_err(too_large)?;
    let declared =
        tidegate_compiler::inspect(&component).map_err(|error| Failure::new(Code::Refused, error.to_string()))?;
    let old = app.registry.find(&id);
    let name = declared.manifest.name.as_str();
    if old.is_none() && name != id {
        let message = format!("the component calls itself {name}; put it under that name");
        return Err(Failure::new(Code::Refused, message).about("name").into());
    }
    let created = old.is_none();
    let endpoint = app.register_component(old.map(|old| old.id), &component).await.map_err(on_save)?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(shown(&endpoint))))
}
