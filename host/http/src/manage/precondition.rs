//! `If-Match`: a change is made only to the state that its author has seen, so that nobody's change is lost.

use axum::http::{HeaderMap, HeaderValue, header};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tidegate_model::{Code, Failure};
use uuid::Uuid;

/// What a refusal by the header is about.
const IF_MATCH: &str = "if-match";

/// The states that a request may change, by their entity tags; none if it says nothing of that.
#[derive(Debug)]
pub(super) struct Precondition(Option<String>);

impl Precondition {
    /// What the header of a request says.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let sent: Vec<_> = headers.get_all(header::IF_MATCH).iter().collect();
        let text = |value: &&HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Self((!sent.is_empty()).then(|| sent.iter().map(text).collect::<Vec<_>>().join(",")))
    }

    /// Whether a state may be changed. Tags are compared strongly (RFC 9110): a weak one fits nothing.
    fn allows(&self, tag: &str) -> bool {
        let fits = |sent: &String| sent.split(',').map(str::trim).any(|one| one == "*" || one == tag);
        self.0.as_ref().is_none_or(fits)
    }

    /// Checks the state that is there now; `is_now` says what that is, and who made it.
    ///
    /// # Errors
    /// [`Code::PreconditionFailed`] if it is none of those that the request may change.
    pub(super) fn check(&self, tag: &str, is_now: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.allows(tag) {
            return Ok(());
        }
        let message = format!("{}; nothing was changed: read it, and send its ETag as If-Match", is_now());
        Err(Failure::new(Code::PreconditionFailed, message).about(IF_MATCH))
    }

    /// Checks what is not there: a request that names a state means one that is there.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn check_missing(&self, what: &str) -> Result<(), Failure> {
        if self.0.is_none() {
            return Ok(());
        }
        Err(Failure::new(Code::PreconditionFailed, format!("there is no {what} that could match")).about(IF_MATCH))
    }

    /// The failure of a save. A change by somebody else after [`Self::check`] is the same to the client as one before it.
    pub(super) fn of_save(&self, mut failure: Failure) -> Failure {
        if self.0.is_some() && failure.code == Code::Conflict && failure.location.as_deref() == Some("version") {
            failure.code = Code::PreconditionFailed;
            failure.location = Some(IF_MATCH.to_owned());
        }
        failure
    }
}

/// The entity tag of a version. It has the id: a name may be that of another endpoint by now.
pub(super) fn tag_of_version(id: Uuid, version: i64) -> String {
    format!("\"{id}.{version}\"")
}

/// The entity tag of settings that have no versions.
pub(super) fn tag_of_settings(id: Uuid, settings: &impl Serialize) -> String {
    let settings = serde_json::to_string(settings).unwrap_or_default();
    let digest = hex::encode(Sha256::digest(settings));
    format!("\"{id}.{}\"", digest.get(..32).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(sent: &[&str], tag: &str) -> bool {
        let values = sent.iter().filter_map(|text| HeaderValue::from_str(text).ok());
        Precondition::of(&values.map(|value| (header::IF_MATCH, value)).collect()).allows(tag)
    }

    #[test]
    fn only_the_tags_that_were_sent_fit_and_weak_ones_do_not() {
        for (sent, expected) in [
            (vec![], true),
            (vec!["*"], true),
            (vec!["\"a.3\""], true),
            (vec!["\"a.2\" , \"a.3\""], true),
            (vec!["\"a.2\"", "\"a.3\""], true),
            (vec!["\"a.2\""], false),
            (vec!["\"a.33\""], false),
            (vec!["W/\"a.3\""], false),
            (vec!["a.3"], false),
            (vec![""], false),
        ] {
            assert_eq!(allows(&sent, "\"a.3\""), expected, "{sent:?}");
        }
    }
}
