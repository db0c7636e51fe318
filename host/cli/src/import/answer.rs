//! What the server says about a batch that it took.

use serde_json::Value;

/// How many events of a batch are stored, and which are not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) accepted: u64,
    pub(super) rejected: u64,
    /// Some of the events that were not stored: the index in the batch, and the reason.
    pub(super) named: Vec<(usize, String)>,
}

/// Why an answer with the status 200 does not say that the events are stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoCounts {
    #[error("the server answers 200, but not how many events it stored; is a Tidegate server at that address?")]
    Absent,
    #[error("the server answers for {told} events, and {sent} were sent; is a Tidegate server at that address?")]
    Wrong { told: u64, sent: u64 },
}

impl Stored {
    /// Reads the answer to so many events. Anybody may answer 200, such as the page where a proxy asks for a password: only
    /// counts for all events say that they are stored.
    ///
    /// # Errors
    /// There are no counts, or they are those of another number of events.
    pub(super) fn read(body: &[u8], sent: u64) -> Result<Self, NoCounts> {
        let body: Value = serde_json::from_slice(body).map_err(|_| NoCounts::Absent)?;
        let count = |name: &str| body.get(name).and_then(Value::as_u64).ok_or(NoCounts::Absent);
        let (accepted, rejected) = (count("accepted")?, count("rejected")?);
        let told = accepted.saturating_add(rejected);
        if told != sent {
            return Err(NoCounts::Wrong { told, sent });
        }
        let errors = body.get("errors").and_then(Value::as_array).into_iter().flatten();
        let named = errors.filter_map(|error| {
            let index = usize::try_from(error.get("index")?.as_u64()?).ok()?;
            Some((index, error.get("message")?.as_str()?.to_owned()))
        });
        Ok(Self { accepted, rejected, named: named.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counts_of_all_events_say_that_they_are_stored() {
        let read = |body: &str| Stored::read(body.as_bytes(), 3);
        for body in [
            "",
            "<!doctype html><title>Login</title>",
            "{}",
            "3",
            "[]",
            r#"{"status": "ok"}"#,
            r#"{"accepted": 3}"#,
            r#"{"accepted": "3", "rejected": 0}"#,
            r#"{"accepted": -1, "rejected": 4}"#,
        ] {
            assert_eq!(read(body), Err(NoCounts::Absent), "{body}");
        }
        assert_eq!(read(r#"{"accepted": 0, "rejected": 0}"#), Err(NoCounts::Wrong { told: 0, sent: 3 }));
        let good = r#"{"accepted": 2, "rejected": 1, "errors": [{"index": 1, "message": "no"}]}"#;
        assert_eq!(read(good), Ok(Stored { accepted: 2, rejected: 1, named: vec![(1, "no".to_owned())] }));
        let told = Stored::read(b"<html>", 1).map_err(|error| error.to_string());
        assert!(told.is_err_and(|error| error.contains("is a Tidegate server at that address?")));
    }
}
