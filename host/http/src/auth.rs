//! Authentication: the token of a request, and what it allows.
//!
//! A token of an issuer is taken from two headers only. It is often all that is needed to be somebody for an hour, and
//! whatever stands in an address is written to logs on its way. Other places of a token are for those of this service.

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use tidegate_model::{Code, Failure};
use tidegate_service::Service;
use tidegate_service::tokens::Access;

use crate::failure::TOKEN;
use crate::request_context::note_caller;

/// The access of the request's token, which is in `Authorization: Bearer` or else in `X-API-KEY`: a token of this service or
/// of an issuer. The token is noted for the request log.
///
/// # Errors
/// [`Code::Unauthorized`] without a token or with one that is unknown or expired; of a token of an issuer, those of
/// [`tidegate_service::issuers::Issuers::access`].
pub(crate) fn authenticate(service: &Service, headers: &HeaderMap) -> Result<Arc<Access>, Failure> {
    let Some(token) = token_of(headers) else {
        let message = "an access token is needed: send it as X-API-KEY or as Authorization: Bearer";
        return Err(Failure::new(Code::Unauthorized, message));
    };
    let now = service.clock.now();
    let stored = service.tokens.access(token, now).map(Ok);
    let found = stored.or_else(|| service.issuers.access(token, now)).unwrap_or_else(|| Err(unknown()));
    found.inspect(|access| note_caller(access))
}

/// The access of a token of this service that stands elsewhere.
///
/// # Errors
/// [`Code::Unauthorized`] if it is unknown or expired.
pub(crate) fn authenticate_stored(service: &Service, token: &str) -> Result<Arc<Access>, Failure> {
    let access = service.tokens.access(token, service.clock.now()).ok_or_else(unknown)?;
    note_caller(&access);
    Ok(access)
}

fn unknown() -> Failure {
    Failure::new(Code::Unauthorized, "the access token is unknown, revoked or expired").about(TOKEN)
}

/// The token in the headers that all routes take it in.
pub(crate) fn token_of(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    let bearer = bearer.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let key = headers.get("x-api-key").map(|value| value.to_str().unwrap_or_default());
    bearer.or(key).filter(|token| !token.is_empty())
}
