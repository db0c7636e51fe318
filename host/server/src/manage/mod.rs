//! The management routes: endpoints and their versions, sources, access tokens. For private tokens.

pub(crate) mod components;
pub(crate) mod endpoints;
mod fields;
pub(crate) mod sources;
pub(crate) mod tokens;

use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use tidegate_model::{Code, Failure, ManifestError};

use crate::app::App;
use crate::auth::authenticate;
use crate::failure::Refusal;
use crate::tokens::Access;

/// The longest body of a management request, in bytes.
const MAX_BODY: usize = 1 << 20;

/// What the field `limits` of endpoints and tokens must be.
const LIMITS_ARE: &str =
    "an object of limits and their values, such as {\"rows\": 500, \"request_time\": \"5 s\"}, or null";

/// What the field `errors` of endpoints and tokens must be.
const ERRORS_ARE: &str = "\"status\", \"ok\", or null";

type Answer = Result<(StatusCode, Json<Value>), Refusal>;

/// Who manages.
fn private(app: &App, headers: &HeaderMap) -> Result<Arc<Access>, Failure> {
    let access = authenticate(app, headers, app.clock.now())?;
    if access.is_private() {
        return Ok(access);
    }
    Err(Failure::new(Code::Forbidden, "management needs an access token with the scope private"))
}

fn found(value: Value) -> Answer {
    Ok((StatusCode::OK, Json(value)))
}

fn created(value: Value) -> Answer {
    Ok((StatusCode::CREATED, Json(value)))
}

/// A time in microseconds as ISO 8601 text.
fn time(micros: i64) -> Value {
    chrono::DateTime::from_timestamp_micros(micros)
        .map_or(Value::Null, |time| time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true).into())
}

/// A broken rule of a definition, as the refusal of its field.
pub(crate) fn of_manifest(error: &ManifestError) -> Failure {
    Failure::new(Code::Refused, error.to_string()).about(error.field())
}
