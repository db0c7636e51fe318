//! `/api/endpoints/{id or name}/component`: an author uploads a component, and downloads it unchanged.

use axum::extract::{Path, Query, Request};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_compiler::pack;
use tidegate_model::{Code, Failure, Manifest};
use tidegate_service::{SaveRequest, Service, inspect, meanings};

use super::endpoint_view::{Endpoint, EndpointView, known, version_of};
use super::saving::{Saving, on_save, saved_answer, unchanged};
use super::{Admin, ManageResult, answer_room, found, memory_of};
use crate::failure::Refusal;
use crate::request_body::RequestBody;
use tidegate_service::off_connections;

/// The stored component with a changed definition. Its code stays the same, even if it was generated.
///
/// # Errors
/// Those of the store; [`Code::Refused`] for a definition that breaks its rules.
pub(super) async fn repacked(service: &Service, digest: &str, manifest: &Manifest) -> Result<Vec<u8>, Failure> {
    let stored = service.component(digest.to_owned()).await?;
    pack(&stored, manifest).map_err(|error| Failure::new(Code::Refused, error.to_string()))
}

/// The result that a `PUT` of a component would have.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedComponent {
    name: String,
    /// The SHA-256 of the component.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    digest: String,
    /// The version that is there now.
    version: Option<i64>,
    /// Whether it is what is there now.
    unchanged: bool,
    /// What may not be meant as it is written, and what tokens would read more than before.
    warnings: Vec<String>,
}

/// `GET /api/endpoints/{id or name}/component`: the current component.
pub(crate) async fn get(admin: Admin, Path(id): Path<String>) -> Result<Response, Refusal> {
    Ok(sent(&admin, known(&admin, &id).await?.digest).await?)
}

/// `GET /api/endpoints/{id or name}/versions/{version}/component`.
pub(crate) async fn get_version(
    admin: Admin,
    Path((id, version)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let record = version_of(&admin, &known(&admin, &id).await?, &version).await?;
    Ok(sent(&admin, record.component).await?)
}

/// The response with a component. Its entity tag is the SHA-256 of its bytes, in hexadecimal.
async fn sent(service: &Service, digest: String) -> Result<Response, Failure> {
    let tag = format!("\"{digest}\"");
    let bytes = service.component(digest).await?;
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
}

impl Received {
    async fn read(admin: &Admin, id: &str, request: Request) -> Result<Self, Failure> {
        let limit = tidegate_compiler::MAX_COMPONENT_BYTES;
        let (head, body) = request.into_parts();
        let component =
            RequestBody::read(&head.headers, body, limit, &memory_of(admin, &admin.caller), "the component").await?;
        let (component, held) = component.into_parts();
        let bytes = component.clone();
        let inspected = move || Ok((inspect(&bytes)?, held));
        let (declared, held) = off_connections(component.len(), inspected).await?;
        // The component is needed until the answer is made, and no longer.
        answer_room::keep(admin, held).await?;
        let old = known(admin, id).await.ok();
        match &old {
            Some(old) => old.allow(&admin.precondition)?,
            None => admin.precondition.check_missing("endpoint")?,
        }
        let name = declared.manifest.name.as_str();
        if old.is_none() && name != id {
            let message = format!("the component calls itself {name}; put it under that name");
            return Err(Failure::new(Code::Refused, message).about("name"));
        }
        let before = old.as_ref().and_then(|old| old.manifest.as_ref());
        let same_query = before.is_some_and(|before| before.query == declared.manifest.query);
        let digest = hex::encode(declared.digest);
        Ok(Self { component, manifest: declared.manifest, digest, old, same_query })
    }

    /// Whether the endpoint has this component already and can be used. Then nothing changes, and no version is made.
    fn is_there(&self, service: &Service) -> bool {
        self.old.as_ref().is_some_and(|old| old.digest == self.digest && old.is_usable(service))
    }

    /// How it is saved, as the query string says it.
    fn saving<'a>(&self, admin: &'a Admin, how: &Saving) -> Result<SaveRequest<'a>, Failure> {
        let (make_sources, refuse_wider, strict) = (how.make_sources()?, how.refuse_wider()?, how.strict()?);
        let author = &admin.caller.who;
        let new = || SaveRequest { author, ..SaveRequest::default() };
        let mut saving = self.old.as_ref().map_or_else(new, |old| old.saving(author));
        if make_sources {
            saving.known = meanings(&admin.store, &admin.registry, &saving.known);
        }
        Ok(SaveRequest { same_query: self.same_query, for_author: true, refuse_wider, strict, make_sources, ..saving })
    }
}

/// `PUT /api/endpoints/{id or name}/component`: saves a packed component, as a new endpoint or as a new version. With
/// `make_sources=true`, the sources that it names and that do not exist are created first.
pub(crate) async fn put(
    admin: Admin,
    Path(id): Path<String>,
    Query(how): Query<Saving>,
    request: Request,
) -> ManageResult<Endpoint> {
    how.check()?;
    let received = Received::read(&admin, &id, request).await?;
    if received.is_there(&admin)
        && let Some(old) = received.old
    {
        return unchanged(&admin, old).await;
    }
    let saved = admin.save(&received.component, received.saving(&admin, &how)?).await?;
    saved_answer(&admin, saved, received.old.is_none()).await
}

/// `POST /api/endpoints/{id or name}/component/check`: the result that a `PUT` of the same component would have.
/// Nothing is saved.
pub(crate) async fn check(
    admin: Admin,
    Path(id): Path<String>,
    Query(how): Query<Saving>,
    request: Request,
) -> ManageResult<CheckedComponent> {
    how.check()?;
    let received = Received::read(&admin, &id, request).await?;
    let saving = received.saving(&admin, &how)?;
    let warnings = admin.registrar.try_component(&received.component, saving).await.map_err(on_save)?;
    found(CheckedComponent {
        unchanged: received.is_there(&admin),
        name: received.manifest.name.to_string(),
        digest: received.digest,
        version: received.old.as_ref().map(|old| old.version),
        warnings: warnings.iter().map(ToString::to_string).collect(),
    })
}
