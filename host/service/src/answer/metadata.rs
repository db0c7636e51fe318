//! What a component says about its answer besides the body: the time for which it may be cached, and notes for the
//! caller.
//!
//! Both stay with the body on its way to the caller, and also in the cache. Without them, an answer would be cached for
//! too long, or would lack the notes of its author.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_runtime::{Answer, Body};

use crate::redact::redact_text;

/// What a component says about its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerMetadata {
    /// The time for which the answer may be cached, if the component sets it. Zero means that it may not be cached.
    pub max_age: Option<Duration>,
    /// The notes for the caller, by key. They are redacted if the answer is.
    pub notes: BTreeMap<String, String>,
}

impl AnswerMetadata {
    /// The body of an answer, and its metadata. An answer for which the component read the time of the request is valid for
    /// this request only, so it is not cached.
    pub fn of(answer: Answer, redact: bool) -> (Body, Self) {
        let Answer { body, max_age, mut notes, saw_time, usage: _ } = answer;
        if redact {
            for note in notes.values_mut() {
                if let Cow::Owned(masked) = redact_text(note) {
                    *note = masked;
                }
            }
        }
        (body, Self { max_age: if saw_time { Some(Duration::ZERO) } else { max_age }, notes })
    }

    /// The time for which the answer may be cached, if its endpoint allows `most`.
    pub fn lifetime(&self, most: Duration) -> Duration {
        self.max_age.map_or(most, |own| own.min(most))
    }

    /// The approximate size in memory, in bytes.
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
            let answer = Answer { max_age: max_age.map(Duration::from_secs), saw_time, ..Answer::from(Body::Empty) };
            AnswerMetadata::of(answer, false).1.lifetime(Duration::from_secs(60)).as_secs()
        };
        assert_eq!([of(None, false), of(Some(5), false), of(Some(600), false), of(Some(0), false)], [60, 5, 60, 0]);
        assert_eq!([of(None, true), of(Some(5), true)], [0, 0]);
    }
}
