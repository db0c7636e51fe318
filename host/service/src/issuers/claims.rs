//! The claims of a token whose signature is right: whether it is for this service, and for now.
//!
//! Nothing is optional by omission: a token without `exp`, `aud` or `sub` is refused, and so is a number that is written as
//! a text.

use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::issuer_options::IssuerOptions;

/// The longest subject in bytes: OpenID Connect allows 255 characters of ASCII.
const MOST_SUBJECT: usize = 255;
/// The last second that is a time: the end of the year 9999.
const LAST_SECOND: i64 = 253_402_300_799;

/// What of a token is needed after the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checked {
    pub(super) subject: String,
    /// Seconds since 1970.
    pub(super) expires_at: i64,
}

/// Checks the claims at `now`, in seconds since 1970.
///
/// # Errors
/// A claim is missing, of the wrong type, or not what the options say.
pub(super) fn check(claims: &Map<String, Value>, options: &IssuerOptions, now: i64) -> Result<Checked, Refusal> {
    check_audience(claims.get("aud"), &options.audience)?;
    let subject = claims.get("sub").and_then(Value::as_str).ok_or(Refusal::Claim("sub"))?;
    if subject.is_empty() || subject.len() > MOST_SUBJECT || subject.contains(char::is_control) {
        return Err(Refusal::Claim("sub"));
    }
    let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(LAST_SECOND);
    let (leeway, longest) = (seconds(options.leeway), seconds(options.longest_life));
    let expires_at = time(claims, "exp")?.ok_or(Refusal::Claim("exp"))?;
    let issued_at = time(claims, "iat")?;
    if now >= expires_at.saturating_add(leeway) {
        return Err(Refusal::Expired);
    }
    let is_later = |time: i64| time > now.saturating_add(leeway);
    if time(claims, "nbf")?.is_some_and(is_later) {
        return Err(Refusal::NotYet("nbf"));
    }
    if issued_at.is_some_and(is_later) {
        return Err(Refusal::NotYet("iat"));
    }
    // Without the time of issue, what is left of its life is all that is known of it.
    if expires_at.saturating_sub(issued_at.unwrap_or(now)) > longest {
        return Err(Refusal::TooLongLife);
    }
    if let Some(first) = options.not_before
        && issued_at.is_none_or(|issued_at| issued_at < first)
    {
        return Err(Refusal::Revoked);
    }
    Ok(Checked { subject: subject.to_owned(), expires_at })
}

/// `aud` is a text or a list of texts.
fn check_audience(claim: Option<&Value>, wanted: &[String]) -> Result<(), Refusal> {
    let is_wanted = |value: &Value| value.as_str().is_some_and(|text| wanted.iter().any(|own| own == text));
    let is_for_us = match claim {
        Some(Value::Array(list)) => list.iter().all(Value::is_string) && list.iter().any(is_wanted),
        Some(value) => is_wanted(value),
        None => false,
    };
    if is_for_us { Ok(()) } else { Err(Refusal::Audience) }
}

/// A time in whole seconds since 1970. A fraction is dropped.
fn time(claims: &Map<String, Value>, name: &'static str) -> Result<Option<i64>, Refusal> {
    let Some(claim) = claims.get(name) else { return Ok(None) };
    let whole = match claim {
        Value::Number(number) => number.as_i64().or_else(|| whole_of(number.as_f64()?)),
        _ => None,
    };
    match whole {
        Some(time) if (0..=LAST_SECOND).contains(&time) => Ok(Some(time)),
        _ => Err(Refusal::Claim(name)),
    }
}

/// The whole part of a number of seconds.
fn whole_of(seconds: f64) -> Option<i64> {
    let time = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    i64::try_from(time.as_secs()).ok()
}
