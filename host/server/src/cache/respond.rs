//! The answer of a cached request: `ETag`, `Age`, `Cache-Status` (RFC 9211), 304.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};

use tidegate_model::Failure;

use super::{Entry, How};
use crate::answer::Share;

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// What an answer depends on beside its address.
const VARY: &str = "authorization, x-api-key, accept, accept-encoding, svc-endpoint-redact-pii, lf-endpoint-redact-pii";

impl Entry {
    /// The answer to a caller who has the versions in `If-None-Match` already, in the room that the caller's token has.
    ///
    /// # Errors
    /// There is no room for answers that are not yet read.
    pub(crate) async fn respond(
        &self,
        share: &Share,
        how: How,
        wanted: Option<&str>,
    ) -> Result<Response<Body>, Failure> {
        // Weak, because the same rows may be sent in several encodings.
        let tag = format!("W/\"{}\"", self.digest);
        let mut response = if wanted.is_some_and(|wanted| matches(wanted, &self.digest)) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            self.answer.respond(share, &self.held(share).await?)
        };
        let headers = response.headers_mut();
        self.answer.told.write(headers);
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::AGE, HeaderValue::from(self.age().as_secs()));
        // Callers may keep it and must ask whether it still holds: an endpoint can change at any time.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static(VARY));
        let status = match how {
            How::Hit { stale: false } => format!("tidegate; hit; ttl={}", self.remaining().as_secs()),
            How::Hit { stale: true } => format!("tidegate; hit; ttl={}; detail=stale", self.remaining().as_secs()),
            How::Miss { collapsed: false } => "tidegate; fwd=miss; stored".to_owned(),
            How::Miss { collapsed: true } => "tidegate; fwd=miss; collapsed".to_owned(),
        };
        if let Ok(status) = HeaderValue::from_str(&status) {
            headers.insert(CACHE_STATUS, status);
        }
        Ok(response)
    }
}

/// The answer of an endpoint that does not cache.
pub(crate) fn uncached(mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(CACHE_STATUS, HeaderValue::from_static("tidegate; fwd=bypass"));
    response
}

/// The answer of an endpoint that caches, whose component lets this one not be kept.
pub(crate) fn unkept(mut response: Response<Body>) -> Response<Body> {
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
