//! The body of a message, and its signature.

use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::Number;
use serde_json::value::RawValue;
use sha2::Sha256;
use tidegate_model::Alert;
use uuid::Uuid;

use super::evaluation::Finding;
use super::report::iso;

/// The body of a message, as JSON.
#[derive(Serialize)]
struct Body<'a> {
    alert: &'a str,
    endpoint: &'a str,
    endpoint_id: String,
    /// The same in the message that it fires, in the one that it is over, and in repetitions of both.
    occurrence: String,
    /// `firing`, `resolved` or `test`.
    state: &'a str,
    condition: String,
    /// What was compared; null where there was nothing.
    value: Option<&'a Number>,
    rows: usize,
    rows_truncated: bool,
    /// The first rows.
    sample: &'a [Box<RawValue>],
    /// When the occurrence began.
    since: Option<String>,
    /// When the endpoint was asked.
    at: Option<String>,
}

/// What a message is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) alert: &'a Alert,
    /// The name of the endpoint.
    pub(super) endpoint: &'a str,
    pub(super) endpoint_id: Uuid,
    pub(super) finding: &'a Finding,
    /// When the endpoint was asked.
    pub(super) at: i64,
}

/// The body of a message.
///
/// # Errors
/// None that are expected.
pub(super) fn body(
    subject: Subject<'_>,
    state: &str,
    occurrence: Uuid,
    since: i64,
) -> Result<String, serde_json::Error> {
    let Subject { alert, endpoint, endpoint_id, finding, at } = subject;
    serde_json::to_string(&Body {
        alert: &alert.name,
        endpoint,
        endpoint_id: endpoint_id.to_string(),
        occurrence: occurrence.to_string(),
        state,
        condition: alert.condition.to_string(),
        value: finding.value.as_ref(),
        rows: finding.rows,
        rows_truncated: finding.truncated,
        sample: &finding.sample,
        since: iso(since),
        at: iso(at),
    })
}

/// The signature of a message: `v1=` and the HMAC-SHA256 of the time in seconds, a dot, and the body, in hexadecimal. The
/// time is a part of it, so that a message that somebody has recorded cannot be sent again later.
pub(super) fn signature(secret: &str, seconds: i64, body: &str) -> String {
    // A key may have any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return String::new() };
    mac.update(seconds.to_string().as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    format!("v1={}", hex::encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_other_programs_compute() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac secret
        let expected = "v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686";
        assert_eq!(signature("secret", 1_700_000_000, "{\"a\":1}"), expected);
    }
}
