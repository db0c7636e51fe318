//! What a component says about its answer besides the body: how long it may be cached, and notes for the caller.
//!
//! Both stay with the body on the way to the caller, also through the cache. An answer without them would be cached too
//! long, or lack what its author says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::redact::redact_text;

/// What a component says about its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerMetadata {
    /// For how long the answer may be cached, if the component said so; zero is not at all.
    pub max_age: Option<Duration>,
    /// Notes for the caller by their keys; redacted where the answer is.
    pub notes: BTreeMap<String, String>,
}

impl AnswerMetadata {
    /// The metadata of an answer. `saw_time` says that the component read the time of the request: such an answer is
    /// for this request alone, and is not cached.
    pub fn new(max_age: Option<Duration>, saw_time: bool, mut notes: BTreeMap<String, String>, redact: bool) -> Self {
        if redact {
            for note in notes.values_mut() {
                if let Cow::Owned(masked) = redact_text(note) {
                    *note = masked;
                }
            }
        }
        Self { max_age: if saw_time { Some(Duration::ZERO) } else { max_age }, notes }
    }

    /// For how long the answer may be cached, where its endpoint allows `most`.
    pub fn lifetime(&self, most: Duration) -> Duration {
        self.max_age.map_or(most, |own| own.min(most))
    }

    /// Roughly the bytes that this holds.
    pub fn bytes(&self) -> usize {
        self.notes.iter().map(|(key, note)| key.len() + note.len() + 64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_time_holds() {
        let of = |max_age: Option<u64>, saw_time| {
            let metadata = AnswerMetadata::new(max_age.map(Duration::from_secs), saw_time, BTreeMap::new(), false);
            metadata.lifetime(Duration::from_secs(60)).as_secs()
        };
        assert_eq!([of(None, false), of(Some(5), false), of(Some(600), false), of(Some(0), false)], [60, 5, 60, 0]);
        assert_eq!([of(None, true), of(Some(5), true)], [0, 0]);
    }
}
