//! Where the access token of an ingest request stands.
//!
//! Every door takes it in `X-API-KEY` and in `Authorization: Bearer`, as the other routes do, and as the password of
//! `Authorization: Basic`, which is what senders can be given in the address of a service. A protocol may have one more
//! place of its own.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, header};

/// A place of a protocol for the token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum KeyPlace {
    /// `Authorization: SCHEME TOKEN`.
    Scheme(&'static str),
    /// `Authorization: SCHEME BASE64`, where the Base64 text is `ID:TOKEN`.
    Pair(&'static str),
    /// A header of its own.
    Header(&'static str),
}

/// Whether the request has its token where all routes take it.
pub(crate) fn is_usual(headers: &HeaderMap) -> bool {
    headers.contains_key("x-api-key") || authorization(headers, "bearer").is_some()
}

/// The token in one of the places of a protocol, or in the password of `Authorization: Basic`.
pub(crate) fn token(headers: &HeaderMap, places: &[KeyPlace]) -> Option<String> {
    let at = |place: &KeyPlace| match place {
        KeyPlace::Scheme(scheme) => authorization(headers, scheme).map(str::to_owned),
        KeyPlace::Pair(scheme) => password(authorization(headers, scheme)?),
        KeyPlace::Header(name) => Some(headers.get(*name)?.to_str().ok()?.trim().to_owned()),
    };
    let found = places.iter().find_map(at).or_else(|| at(&KeyPlace::Pair("basic")));
    found.filter(|token| !token.is_empty())
}

/// What follows this scheme in the header `Authorization`.
fn authorization<'h>(headers: &'h HeaderMap, scheme: &str) -> Option<&'h str> {
    let (own, rest) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim().split_once(' ')?;
    own.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

/// The second part of a pair in Base64.
fn password(pair: &str) -> Option<String> {
    let pair = String::from_utf8(BASE64_STANDARD.decode(pair).ok()?).ok()?;
    Some(pair.split_once(':')?.1.to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn found(name: &'static str, value: &str, places: &[KeyPlace]) -> (bool, Option<String>) {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        (is_usual(&headers), token(&headers, places))
    }

    #[test]
    fn tokens_are_found_in_every_place() {
        let basic = format!("Basic {}", BASE64_STANDARD.encode("somebody:key:1"));
        let pair = format!("apikey {}", BASE64_STANDARD.encode("id:key"));
        let key = |text: &str| Some(text.to_owned());
        assert_eq!(found("authorization", "bearer key", &[]), (true, None));
        assert_eq!(found("x-api-key", "key", &[]), (true, None));
        assert_eq!(found("authorization", &basic, &[]), (false, key("key:1")));
        assert_eq!(found("authorization", "Splunk key", &[KeyPlace::Scheme("splunk")]), (false, key("key")));
        assert_eq!(found("authorization", "Splunk key", &[]), (false, None));
        assert_eq!(found("authorization", &pair, &[KeyPlace::Pair("ApiKey")]), (false, key("key")));
        assert_eq!(found("dd-api-key", " key", &[KeyPlace::Header("dd-api-key")]), (false, key("key")));
        let in_basic = |value: &[u8]| {
            let value = http::HeaderValue::from_bytes(value).unwrap();
            token(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]), &[])
        };
        assert_eq!(in_basic(b"bAsIc  OmtleQ== "), key("key"));
        // No pair, no Base64, no colon, an empty token, bytes that are no text, another scheme.
        for bad in [
            &b"Basic"[..],
            b"Basic ====",
            b"Basic a2V5",
            b"Basic a2V5Og==",
            b"Basic \xff",
            b"Basic Ov8=",
            b"Bearer OmtleQ==",
        ] {
            assert_eq!(in_basic(bad), None, "{}", bad.escape_ascii());
        }
    }
}
