//! The state of a rate limit as headers of the answer: `RateLimit` and `RateLimit-Policy`
//! (draft-ietf-httpapi-ratelimit-headers).

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_service::rate::RateStatus;

/// Writes both headers.
pub(crate) fn write(status: RateStatus, headers: &mut HeaderMap) {
    let RateStatus { class, remaining, reset, burst, window } = status;
    let name = class.name();
    for (header, text) in [
        ("ratelimit", format!("\"{name}\";r={remaining};t={reset}")),
        ("ratelimit-policy", format!("\"{name}\";q={burst};w={window}")),
    ] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(HeaderName::from_static(header), value);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use tidegate_service::rate::RequestClass;

    use super::*;

    #[test]
    fn a_status_is_written_as_limit_and_policy() {
        let status = RateStatus { class: RequestClass::Queries, remaining: 0, reset: 2, burst: 20, window: 2 };
        let mut headers = HeaderMap::new();
        write(status, &mut headers);
        let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header("ratelimit"), "\"queries\";r=0;t=2");
        assert_eq!(header("ratelimit-policy"), "\"queries\";q=20;w=2");
    }
}
