//! The response to a cached request: `ETag`, `Age`, `Cache-Status` (RFC 9211), 304.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use tidegate_model::Failure;
use tidegate_service::answer::AccountMemory;
use tidegate_service::cache::{CacheEntry, CacheStatus};

use crate::note_headers;
use crate::response::whole;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// The request headers on which a response depends.
const VARY: &str = "authorization, x-api-key, accept, accept-encoding, svc-endpoint-redact-pii, lf-endpoint-redact-pii";

/// The response from a cache entry, within the memory budget of the caller's account. `if_none_match` lists the versions
/// that the caller has already: if the entry's version is among them, the response is 304 without a body.
///
/// # Errors
/// If the budget for answers that clients have not read yet is used up.
pub(crate) async fn respond(
    entry: &CacheEntry,
    memory: &AccountMemory,
    status: CacheStatus,
    if_none_match: Option<&str>,
) -> Result<Response<Body>, Failure> {
    // Weak, because the same rows may be sent in several encodings.
    let tag = format!("W/\"{}\"", entry.digest);
    let mut response = if if_none_match.is_some_and(|versions| matches(versions, &entry.digest)) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        whole(entry.outgoing(memory).await?)
    };
    let headers = response.headers_mut();
    note_headers::write(&entry.answer.metadata, headers);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::AGE, HeaderValue::from(entry.age().as_secs()));
    // Clients may store the response, and must ask whether it is still valid: an endpoint can change at any time.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static(VARY));
    let status = match status {
        CacheStatus::Hit { stale: false } => format!("tidegate; hit; ttl={}", entry.remaining().as_secs()),
        CacheStatus::Hit { stale: true } => format!("tidegate; hit; ttl={}; detail=stale", entry.remaining().as_secs()),
        CacheStatus::Miss { collapsed: false } => "tidegate; fwd=miss; stored".to_owned(),
        CacheStatus::Miss { collapsed: true } => "tidegate; fwd=miss; collapsed".to_owned(),
    };
    if let Ok(status) = HeaderValue::from_str(&status) {
        headers.insert(CACHE_STATUS, status);
    }
    Ok(response)
}

/// The response of an endpoint that does not cache.
pub(crate) fn bypassed(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static("tidegate; fwd=bypass"));
    response
}

/// The response of an endpoint that caches, where its component does not allow this answer to be cached.
pub(crate) fn uncacheable(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static("tidegate; fwd=miss"));
    response
}

/// Whether `If-None-Match` names the version, compared weakly.
fn matches(wanted: &str, digest: &str) -> bool {
    wanted.split(',').map(str::trim).any(|tag| {
        tag == "*"
            || tag.strip_prefix("W/").unwrap_or(tag).strip_prefix('"').and_then(|tag| tag.strip_suffix('"'))
                == Some(digest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        for (wanted, expected) in [
            ("\"abc\"", true),
            ("W/\"abc\"", true),
            ("\"x\", W/\"abc\"", true),
            ("*", true),
            ("abc", false),
            ("\"abcd\"", false),
            ("", false),
        ] {
            assert_eq!(matches(wanted, "abc"), expected, "{wanted}");
        }
    }
}
