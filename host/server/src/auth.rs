//! Who is calling: the token of a request and what it allows.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use tidegate_model::{Code, Failure};

use crate::app::App;
use crate::tokens::Access;

/// The access of the request's token: `Authorization: Bearer`, else `X-API-KEY`.
///
/// # Errors
/// [`Code::Unauthorized`] without a token or with one that is unknown or expired.
pub(crate) fn authenticate(app: &App, headers: &HeaderMap, now: i64) -> Result<Arc<Access>, Failure> {
    let unauthorized = |message: &str| Err(Failure::new(Code::Unauthorized, message));
    let bearer = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    let bearer = bearer.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let key = headers.get("x-api-key").map(|value| value.to_str().unwrap_or_default());
    let Some(token) = bearer.or(key).filter(|token| !token.is_empty()) else {
        return unauthorized("an access token is needed: send it as X-API-KEY or as Authorization: Bearer");
    };
    match app.tokens.access(token, now) {
        Some(access) => {
            crate::observe::note_caller(access.identity, access.id);
            Ok(access)
        }
        None => unauthorized("the access token is unknown, revoked or expired"),
    }
}
