//! The management routes: endpoints and their versions, sources, access tokens, denied tokens. They require a private token.

pub(crate) mod access;
pub(crate) mod access_view;
pub(crate) mod alert_view;
pub(crate) mod alerts;
mod answer_room;
pub(crate) mod component_view;
pub(crate) mod components;
pub(crate) mod endpoint_view;
pub(crate) mod endpoints;
mod fields;
pub(crate) mod issuers;
mod precondition;
mod saving;
pub(crate) mod sources;
pub(crate) mod tokens;
pub(crate) mod trial;

use std::ops::Deref;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::answer::AccountMemory;
use tidegate_service::tokens::Access;

use self::precondition::Precondition;
use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;

/// The longest body of a management request, in bytes.
const MAX_BODY: usize = 1 << 20;

/// The error text for the field `limits` of endpoints and tokens: what it must be.
const LIMITS_ARE: &str =
    "an object of limits and their values, such as {\"rows\": 500, \"request_time\": \"5 s\"}, or null";

/// The error text for the field `errors` of endpoints and tokens: what it must be.
const ERRORS_ARE: &str = "\"status\", \"ok\", or null";

/// The error text for the field `alerts` of endpoints: what it must be.
const ALERTS_ARE: &str = "a list of alerts (name, every_minutes, condition, url, parameters, again_after_minutes, notify_resolved, \
                          paused, description)";

/// The answer of a management route.
type ManageResult<T> = Result<(StatusCode, HeaderMap, Json<T>), Refusal>;

/// A request that may manage the service: one with a private token. A handler that takes it cannot be reached without.
#[derive(Debug)]
pub(crate) struct Admin {
    app: Arc<App>,
    /// What its token allows.
    caller: Arc<Access>,
    /// What it says of the state that it changes.
    precondition: Precondition,
}

impl Deref for Admin {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.app.service
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let access = authenticate(&app.service, &parts.headers)?;
        if !access.is_private() {
            let message = "management needs an access token with the scope private";
            return Err(Failure::new(Code::Forbidden, message).into());
        }
        Ok(Self { app: Arc::clone(app), caller: access, precondition: Precondition::of(&parts.headers) })
    }
}

/// The memory for the bodies of a token's requests.
fn memory_of(service: &Service, access: &Access) -> AccountMemory {
    service.executor.answers().of(access.account())
}

fn found<T>(value: T) -> ManageResult<T> {
    Ok((StatusCode::OK, HeaderMap::new(), Json(value)))
}

fn created<T>(value: T) -> ManageResult<T> {
    Ok((StatusCode::CREATED, HeaderMap::new(), Json(value)))
}

/// An answer with the entity tag of what it shows.
fn tagged<T>(answer: ManageResult<T>, tag: &str) -> ManageResult<T> {
    let (status, mut headers, value) = answer?;
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok((status, headers, value))
}
