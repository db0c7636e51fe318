//! Authentication: the token of a request, and what it allows.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::tokens::Access;

use crate::notes::note_caller;

/// The access of the request's token, which is in `Authorization: Bearer` or else in `X-API-KEY`. The token is noted for
/// the request log.
///
/// # Errors
/// [`Code::Unauthorized`] without a token or with one that is unknown or expired.
pub(crate) fn authenticate(service: &Service, headers: &HeaderMap) -> Result<Arc<Access>, Failure> {
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
    match service.tokens.access(token, service.clock.now()) {
        Some(access) => {
            note_caller(access.identity, access.id);
            Ok(access)
        }
        None => unauthorized("the access token is unknown, revoked or expired"),
    }
}
