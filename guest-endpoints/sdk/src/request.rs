//! What was asked.

use crate::contract::{self, Value};
use crate::{FromValue, Problem, Timestamp};

/// A request: the parameters that a caller sent, checked and typed by the host.
///
/// What parameters there are, of which kind, which are required and what stands in for those that were not sent is
/// declared in `endpoint.toml`. The host refuses a request that does not keep to it before the endpoint is entered, so
/// here a parameter is either of its kind or, if it is optional and was not sent, null.
///
/// ```no_run
/// use tidegate_sdk::{Problem, Request, Timestamp};
///
/// # fn handle(request: &Request) -> Result<(), Problem> {
/// let project = request.text("project")?;
/// let minutes = request.get_or("minutes", 60)?;
/// let until: Option<Timestamp> = request.get("until")?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Request<'a>(&'a contract::Request);

impl<'a> Request<'a> {
    #[doc(hidden)]
    pub fn of(request: &'a contract::Request) -> Self {
        Self(request)
    }

    /// The parameter `name`. As an `Option` it is `None` where the caller did not send it.
    ///
    /// # Errors
    /// Status 400 if it was not sent and `T` is no `Option`. A failure of the endpoint (500) that says what to mend if
    /// `endpoint.toml` does not declare it, or declares another kind.
    pub fn get<T: FromValue>(&self, name: &str) -> Result<T, Problem> {
        read(name, self.0.argument(name))
    }

    /// The parameter `name`, or `default` if the caller did not send it. A default that is the same for every request
    /// is better declared in `endpoint.toml`, where callers can read it.
    ///
    /// # Errors
    /// As [`get`](Self::get), but never status 400.
    pub fn get_or<T: FromValue>(&self, name: &str, default: T) -> Result<T, Problem> {
        Ok(self.get::<Option<T>>(name)?.unwrap_or(default))
    }

    /// A text that is needed, or the JSON text of a parameter of kind `json`; at most 16 KiB where `endpoint.toml` sets
    /// no other `max_length`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn text(&self, name: &str) -> Result<String, Problem> {
        self.get(name)
    }

    /// An integer that is needed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn int64(&self, name: &str) -> Result<i64, Problem> {
        self.get(name)
    }

    /// A number that is needed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn float64(&self, name: &str) -> Result<f64, Problem> {
        self.get(name)
    }

    /// A truth value that is needed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn boolean(&self, name: &str) -> Result<bool, Problem> {
        self.get(name)
    }

    /// A moment that is needed.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn timestamp(&self, name: &str) -> Result<Timestamp, Problem> {
        self.get(name)
    }

    /// When the request arrived: the only time that there is. An answer for which it was read is neither kept for later
    /// requests nor shared with one that waits, so do without it where a statement's `CURRENT_TIMESTAMP()` does.
    pub fn received_at(&self) -> Timestamp {
        Timestamp::from_micros(self.0.received_at())
    }

    /// The names of all parameters that `endpoint.toml` declares, ascending.
    pub fn names(&self) -> Vec<String> {
        self.0.names()
    }

    /// A parameter as it is in the contract: absent if it is not declared, null if it was not sent.
    pub fn argument(&self, name: &str) -> Option<Value> {
        self.0.argument(name)
    }
}

fn read<T: FromValue>(name: &str, argument: Option<Value>) -> Result<T, Problem> {
    match argument {
        Some(Value::Null) => {
            T::from_null().ok_or_else(|| Problem::invalid_argument(&["parameter '", name, "' is required"].concat()))
        }
        Some(value) => T::from_value(value).ok_or_else(|| {
            Problem::mistake(&["parameter '", name, "' is read as ", T::KIND, ", but endpoint.toml has another kind"])
        }),
        None => Err(Problem::mistake(&["parameter '", name, "' is not declared in endpoint.toml"])),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_typed() {
        assert_eq!(read::<i64>("n", Some(Value::Int64(5))).unwrap(), 5);
        assert_eq!(read::<Option<i64>>("n", Some(Value::Null)).unwrap(), None);
    }

    #[test]
    fn what_is_missing_is_the_callers_and_what_is_wrong_the_authors() {
        let missing = read::<i64>("n", Some(Value::Null)).unwrap_err();
        assert_eq!((missing.code.as_str(), missing.detail.as_str()), ("invalid-argument", "parameter 'n' is required"));
        for mistake in [read::<i64>("n", None), read::<i64>("n", Some(Value::Text("5".to_owned())))] {
            let mistake = mistake.unwrap_err();
            assert_eq!(mistake.code, "endpoint-mistake");
            assert!(mistake.detail.contains("'n'") && mistake.detail.contains("endpoint.toml"), "{}", mistake.detail);
        }
        assert!(read::<Option<i64>>("n", None).is_err(), "a misspelt name is no optional parameter");
    }
}
