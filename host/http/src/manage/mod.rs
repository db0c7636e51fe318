//! The management routes: endpoints and their versions, sources, access tokens, denied tokens. They require a private token.

pub(crate) mod access;
mod access_view;
pub(crate) mod alerts;
mod answer_room;
mod component_view;
pub(crate) mod components;
mod endpoint_view;
pub(crate) mod endpoints;
mod fields;
pub(crate) mod issuers;
mod precondition;
mod saving;
pub(crate) mod sources;
pub(crate) mod tokens;
pub(crate) mod trial;

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::answer::TenantMemory;
use tidegate_service::tokens::Access;

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
type ManageResult = Result<(StatusCode, HeaderMap, Json<Value>), Refusal>;

/// Authenticates a request to a management route.
///
/// # Errors
/// [`Code::Unauthorized`]; [`Code::Forbidden`] for a token without the scope `private`.
fn private(service: &Service, headers: &HeaderMap) -> Result<Arc<Access>, Failure> {
    let access = authenticate(service, headers)?;
    if access.is_private() {
        return Ok(access);
    }
    Err(Failure::new(Code::Forbidden, "management needs an access token with the scope private"))
}

/// The memory for the bodies of a token's requests.
fn memory_of(service: &Service, access: &Access) -> TenantMemory {
    service.executor.answers().of(access.tenant())
}

fn found(value: Value) -> ManageResult {
    Ok((StatusCode::OK, HeaderMap::new(), Json(value)))
}

fn created(value: Value) -> ManageResult {
    Ok((StatusCode::CREATED, HeaderMap::new(), Json(value)))
}

/// An answer with the entity tag of what it shows.
fn tagged(answer: ManageResult, tag: &str) -> ManageResult {
    let (status, mut headers, value) = answer?;
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok((status, headers, value))
}

/// A time in microseconds since 1970 as ISO 8601 text.
fn time(micros: i64) -> Value {
    chrono::DateTime::from_timestamp_micros(micros)
        .map_or(Value::Null, |time| time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true).into())
}
