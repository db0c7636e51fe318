//! `/api/endpoints/{id or name}/component`: an author uploads a component, and downloads it unchanged.

use std::sync::Arc;

use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::json;
use tidegate_compiler::pack;
use tidegate_model::{Code, Failure, Manifest};
use tidegate_service::tokens::Access;
use tidegate_service::{SaveRequest, Service, blocking, inspect, meanings};

use super::endpoint_view::{EndpointView, known, shown, version_of};
use super::precondition::{Precondition, tag_of_version};
use super::saving::{Saving, saved_and_widened};
use super::{ManageResult, answer_room, created, found, memory_of, private, tagged};
use crate::app::App;
use crate::failure::Refusal;
use crate::request_body::RequestBody;
use tidegate_service::off_connections;

/// Reports an error in a saved query as a refusal of the field `query`.
pub(super) fn on_save(mut failure: Failure) -> Failure {
    if failure.code.status() == 400 {
        failure.location = Some("query".to_owned());
        failure.code = Code::Refused;
    }
    failure
}

/// The stored component with a changed definition. Its code stays the same, even if it was generated.
///
/// # Errors
/// Those of the store; [`Code::Refused`] for a definition that breaks its rules.
pub(super) async fn repacked(service: &Service, digest: &str, manifest: &Manifest) -> Result<Vec<u8>, Failure> {
    let stored = stored(service, digest.to_owned()).await?;
    pack(&stored, manifest).map_err(|error| Failure::new(Code::Refused, error.to_string()))
}

/// The bytes of a stored component.
///
/// # Errors
/// Those of the store.
pub(super) async fn stored(service: &Service, digest: String) -> Result<Vec<u8>, Failure> {
    let component = blocking(&service.store, move |store| store.catalog().component(&digest)).await?;
    component.ok_or_else(|| Failure::new(Code::Internal, "the component of the endpoint is missing"))
}

/// `GET /api/endpoints/{id or name}/component`: the current component.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    private(&app.service, &headers)?;
    Ok(sent(&app.service, known(&app.service, &id).await?.digest).await?)
}

/// `GET /api/endpoints/{id or name}/versions/{version}/component`.
pub(crate) async fn get_version(
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    private(&app.service, &headers)?;
    let record = version_of(&app.service, &known(&app.service, &id).await?, &version).await?;
    Ok(sent(&app.service, record.component).await?)
}

/// The response with a component. Its entity tag is the SHA-256 of its bytes, in hexadecimal.
async fn sent(service: &Service, digest: String) -> Result<Response, Failure> {
    let tag = format!("\"{digest}\"");
    let bytes = stored(service, digest).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/wasm".to_owned()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// A component that was uploaded, and the endpoint that it replaces, if there is one.
struct Received {
    component: Bytes,
    manifest: Manifest,
    digest: String,
    old: Option<EndpointView>,
    same_query: bool,
    /// What the endpoint must be.
    wanted: Precondition,
}

impl Received {
    async fn read(service: &Service, access: &Access, id: &str, request: Request) -> Result<Self, Failure> {
        let limit = tidegate_compiler::MAX_COMPONENT_BYTES;
        let (head, body) = request.into_parts();
        let component =
            RequestBody::read(&head.headers, body, limit, &memory_of(service, access), "the component").await?;
        let (component, held) = component.into_parts();
        let bytes = component.clone();
        let inspected = move || Ok((inspect(&bytes)?, held));
        let (declared, held) = off_connections(component.len(), inspected).await?;
        // The component is needed until the answer is made, and no longer.
        answer_room::keep(service, held).await?;
        let wanted = Precondition::of(&head.headers);
        let old = known(service, id).await.ok();
        match &old {
            Some(old) => old.allow(&wanted)?,
            None => wanted.check_missing("endpoint")?,
        }
        let name = declared.manifest.name.as_str();
        if old.is_none() && name != id {
            let message = format!("the component calls itself {name}; put it under that name");
            return Err(Failure::new(Code::Refused, message).about("name"));
        }
        let before = old.as_ref().and_then(|old| old.manifest.as_ref());
        let same_query = before.is_some_and(|before| before.query == declared.manifest.query);
        let digest = hex::encode(declared.digest);
        Ok(Self { component, manifest: declared.manifest, digest, old, same_query, wanted })
    }

    /// Whether the endpoint has this component already and can be used. Then nothing changes, and no version is made.
    fn is_there(&self, service: &Service) -> bool {
        let usable = |id| service.registry.check_result(id).is_none_or(|found| found.broken.is_none());
        self.old.as_ref().is_some_and(|old| old.digest == self.digest && usable(old.id))
    }

    fn saving<'a>(&self, author: &'a str) -> SaveRequest<'a> {
        SaveRequest {
            id: self.old.as_ref().map(|old| old.id),
            author,
            known: self.old.as_ref().map(|old| old.tables.clone()).unwrap_or_default(),
            same_query: self.same_query,
            from: self.old.as_ref().map(|old| old.version),
            for_author: true,
            ..SaveRequest::default()
        }
    }
}

/// `PUT /api/endpoints/{id or name}/component`: saves a packed component, as a new endpoint or as a new version. With
/// `make_sources=true`, the sources that it names and that do not exist are created first.
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(how): Query<Saving>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let (make_sources, refuse_wider, strict) = (how.make_sources()?, how.refuse_wider()?, how.strict()?);
    let received = Received::read(&app.service, &access, &id, request).await?;
    if received.is_there(&app.service)
        && let Some(old) = received.old
    {
        let tag = old.tag();
        return tagged(found(shown(&app.service, old).await?), &tag);
    }
    let mut saving = SaveRequest { refuse_wider, strict, make_sources, ..received.saving(&access.who) };
    if make_sources {
        saving.known = meanings(&app.service.store, &app.service.registry, &saving.known);
    }
    let saved = app.service.registrar.save_component(&received.component, saving).await.map_err(on_save);
    let saved = saved.map_err(|failure| received.wanted.of_save(failure))?;
    let mut shown = saved_and_widened(&app.service, &saved).await?;
    if let (false, Some(fields)) = (saved.made.is_empty(), shown.as_object_mut()) {
        fields.insert("made_sources".to_owned(), saved.made.into());
    }
    let tag = tag_of_version(saved.endpoint.id, saved.endpoint.version);
    tagged(if received.old.is_none() { created(shown) } else { found(shown) }, &tag)
}

/// `POST /api/endpoints/{id or name}/component/check`: the result that a `PUT` of the same component would have.
/// Nothing is saved.
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(how): Query<Saving>,
    request: Request,
) -> ManageResult {
    let access = private(&app.service, request.headers())?;
    let (make_sources, refuse_wider, strict) = (how.make_sources()?, how.refuse_wider()?, how.strict()?);
    let received = Received::read(&app.service, &access, &id, request).await?;
    let mut saving = SaveRequest { refuse_wider, strict, make_sources, ..received.saving("") };
    if make_sources {
        saving.known = meanings(&app.service.store, &app.service.registry, &saving.known);
    }
    let warnings = app.service.registrar.try_component(&received.component, saving).await.map_err(on_save)?;
    found(json!({
        "name": received.manifest.name,
        "digest": received.digest,
        "version": received.old.as_ref().map(|old| old.version),
        "unchanged": received.is_there(&app.service),
        "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    }))
}
