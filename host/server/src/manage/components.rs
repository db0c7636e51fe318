//! `/api/endpoints/{id or name}/component`: what an author pushed, and gets back as it was.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tidegate_compiler::{inspect, is_generated, pack};
use tidegate_model::{Code, Failure, Manifest};
use tidegate_store::StoreError;

use super::endpoints::{Known, known, on_save, saved_shown, shown, version_of};
use super::{Answer, found, private};
use crate::admit::Saving;
use crate::app::App;
use crate::demand;
use crate::doors::off_connections;
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

/// A component that was sent, and the endpoint in whose place it goes.
struct Received {
    component: Bytes,
    manifest: Manifest,
    digest: String,
    old: Option<Known>,
    same_query: bool,
}

impl Received {
    async fn read(app: &App, id: &str, body: Body) -> Result<Self, Failure> {
        let limit = tidegate_compiler::MAX_COMPONENT_BYTES;
        let too_large = |_| Failure::new(Code::TooLarge, format!("the component is larger than {limit} bytes"));
        let component = to_bytes(body, limit).await.map_err(too_large)?;
        let bytes = component.clone();
        let inspected = move || inspect(&bytes).map_err(|error| Failure::new(Code::Refused, error.to_string()));
        let declared = off_connections(component.len(), inspected).await?;
        let old = known(app, id).ok();
        let name = declared.manifest.name.as_str();
        if old.is_none() && name != id {
            let message = format!("the component calls itself {name}; put it under that name");
            return Err(Failure::new(Code::Refused, message).about("name"));
        }
        let before = old.as_ref().and_then(|old| old.manifest.as_ref());
        let same_query = before.is_some_and(|before| before.query == declared.manifest.query);
        Ok(Self { component, manifest: declared.manifest, digest: hex(&declared.digest), old, same_query })
    }

    /// Whether it is there already, and can be used: then nothing is changed, and that is no version.
    fn is_there(&self, app: &App) -> bool {
        let usable = |id| app.registry.found(id).is_none_or(|found| found.broken.is_none());
        self.old.as_ref().is_some_and(|old| old.digest == self.digest && usable(old.id))
    }

    fn saving<'a>(&self, author: &'a str) -> Saving<'a> {
        Saving {
            id: self.old.as_ref().map(|old| old.id),
            author,
            known: self.old.as_ref().map(|old| old.tables.clone()).unwrap_or_default(),
            same_query: self.same_query,
            from: self.old.as_ref().map(|old| old.version),
        }
    }
}

/// How a component is put.
#[derive(Deserialize)]
pub(crate) struct Put {
    make_sources: Option<String>,
}

/// `PUT /api/endpoints/{id or name}/component`: a packed component, new or a new version. With `make_sources=true`
/// the sources that it names and that are not there are made first.
pub(crate) async fn put(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Query(Put { make_sources }): Query<Put>,
    request: Request,
) -> Answer {
    let access = private(&app, request.headers())?;
    let make_sources = match make_sources.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => {
            let message = "make_sources is true or false";
            return Err(Failure::new(Code::InvalidParameter, message).about("make_sources").into());
        }
    };
    let received = Received::read(&app, &id, request.into_body()).await?;
    if received.is_there(&app)
        && let Some(old) = received.old
    {
        return found(shown(&app, old).await?);
    }
    let mut saving = received.saving(&access.who);
    let mut made = Vec::new();
    if make_sources {
        saving.known = demand::meant(&app, &saving.known);
        made = demand::make(&app, &received.manifest, &saving.known).await?;
    }
    let endpoint = app.register_component(&received.component, saving).await.map_err(on_save)?;
    let status = if received.old.is_none() { StatusCode::CREATED } else { StatusCode::OK };
    let mut shown = saved_shown(&app, &endpoint).await?;
    if let (false, Some(fields)) = (made.is_empty(), shown.as_object_mut()) {
        fields.insert("made_sources".to_owned(), made.into());
    }
    Ok((status, Json(shown)))
}

/// `POST /api/endpoints/{id or name}/component/check`: what would become of a `PUT` of the same component.
/// Nothing is saved.
pub(crate) async fn check(State(app): State<Arc<App>>, Path(id): Path<String>, request: Request) -> Answer {
    private(&app, request.headers())?;
    let received = Received::read(&app, &id, request.into_body()).await?;
    let warnings = app.try_component(&received.component, received.saving("")).await.map_err(on_save)?;
    found(json!({
        "name": received.manifest.name,
        "digest": received.digest,
        "version": received.old.as_ref().map(|old| old.version),
        "unchanged": received.is_there(&app),
        "warnings": warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    }))
}
