//! `/api/endpoints/{id or name}/component`: what an author pushed, and gets back as it was.

use std::sync::Arc;

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate_compiler::{inspect, is_generated, pack};
use tidegate_model::{Code, Failure, Manifest};
use tidegate_store::StoreError;

use super::endpoints::{Known, known, on_save, saved_shown, shown, version_of};
use super::{Answer, private};
use crate::admit::Saving;
use crate::app::App;
use crate::failure::Refusal;
use crate::tokens::hex;

/// What an endpoint is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A saved query; its component is generated.
    Sql,
    /// Code that an author built.
    Wasm,
}

impl Kind {
    /// Its name in the interface.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sql => "sql",
            Self::Wasm => "wasm",
        }
    }
}

/// The kinds of components, by digest: a component is looked into once.
pub(crate) type Kinds = moka::sync::Cache<String, Kind>;

/// What the components with these digests are, in their order.
///
/// # Errors
/// The store's.
pub(super) async fn kinds(app: &Arc<App>, digests: Vec<String>) -> Result<Vec<Kind>, Failure> {
    let known: Option<Vec<Kind>> = digests.iter().map(|digest| app.kinds.get(digest)).collect();
    if let Some(known) = known {
        return Ok(known);
    }
    app.blocking(move |app| digests.iter().map(|digest| kind(app, digest)).collect()).await
}

/// The same for one. Blocks where it is not known.
///
/// # Errors
/// The store's.
pub(crate) fn kind(app: &App, digest: &str) -> Result<Kind, StoreError> {
    if let Some(kind) = app.kinds.get(digest) {
        return Ok(kind);
    }
    let component = app.store.catalog().component(digest)?;
    let generated = component.is_none_or(|component| is_generated(&component));
    let kind = if generated { Kind::Sql } else { Kind::Wasm };
    app.kinds.insert(digest.to_owned(), kind);
    Ok(kind)
}

/// The component of a definition that was changed: its code stays what it was, a generated one too.
///
/// # Errors
/// The store's; [`Code::Refused`] for a definition that breaks its rules.
pub(super) async fn repacked(app: &Arc<App>, digest: &str, manifest: &Manifest) -> Result<Vec<u8>, Failure> {
    let stored = stored(app, digest.to_owned()).await?;
    pack(&stored, manifest).map_err(|error| Failure::new(Code::Refused, error.to_string()))
}

async fn stored(app: &Arc<App>, digest: String) -> Result<Vec<u8>, Failure> {
    let component = app.blocking(move |app| app.store.catalog().component(&digest)).await?;
    component.ok_or_else(|| Failure::new(Code::Internal, "the component of the endpoint is missing"))
}

/// `GET /api/endpoints/{id or name}/component`: the current one.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    private(&app, &headers)?;
    Ok(sent(&app, known(&app, &id)?.digest).await?)
}

/// `GET /api/endpoints/{id or name}/versions/{version}/component`.
pub(crate) async fn get_version(
    State(app): State<Arc<App>>,
    Path((id, version)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    private(&app, &headers)?;
    let record = version_of(&app, &known(&app, &id)?, &version).await?;
    Ok(sent(&app, record.component).await?)
}

/// A component as an answer. Its tag is the SHA-256 of its bytes, in hexadecimal.
async fn sent(app: &Arc<App>, digest: String) -> Result<Response, Failure> {
    let tag = format!("\"{digest}\"");
    let bytes = stored(app, digest).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/wasm".to_owned()),
        (header::ETAG, tag),
        (header::CACHE_CONTROL, "private, no-cache".to_owned()),
    ];
    Ok((headers, bytes).into_response())
}

/// `PUT /api/endpoints/{id or name}/component`: a packed component, new or a new version.
pub(crate) async fn put(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> Answer {
    let access = private(&app, request.headers())?;
    let limit = tidegate_compiler::MAX_COMPONENT_BYTES;
    let too_large = |_| Failure::new(Code::TooLarge, format!("the component is larger than {limit} bytes"));
    let component = to_bytes(request.into_body(), limit).await.map_err(too_large)?;
    let declared = inspect(&component).map_err(|error| Failure::new(Code::Refused, error.to_string()))?;
    let old = known(&app, &id).ok();
    let name = declared.manifest.name.as_str();
    if old.is_none() && name != id {
        let message = format!("the component calls itself {name}; put it under that name");
        return Err(Failure::new(Code::Refused, message).about("name").into());
    }
    let usable = |old: &Known| app.registry.found(old.id).is_none_or(|found| found.broken.is_none());
    let old = match old {
        // Nothing is changed: that is no version.
        Some(old) if old.digest == hex(&declared.digest) && usable(&old) => {
            return Ok((StatusCode::OK, Json(shown(&app, old).await?)));
        }
        old => old,
    };
    let saving = Saving {
        id: old.as_ref().map(|old| old.id),
        author: &access.who,
        known: old.as_ref().map(|old| old.tables.clone()).unwrap_or_default(),
        same_query: old
            .as_ref()
            .and_then(|old| old.manifest.as_ref())
            .is_some_and(|old| old.query == declared.manifest.query),
        from: old.as_ref().map(|old| old.version),
    };
    let endpoint = app.register_component(&component, saving).await.map_err(on_save)?;
    let status = if old.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(saved_shown(&app, &endpoint).await?)))
}
