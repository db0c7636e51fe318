//! Reads a definition field by field, so that all its errors are reported at once.

use axum::extract::Request;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tidegate_model::{Code, Failure, json_fault, nearest};
use tidegate_service::Service;
use tidegate_service::tokens::Access;

use super::{MAX_BODY, answer_room, memory_of};
use crate::request_body::RequestBody;
use tidegate_service::off_connections;

/// The most unknown fields that are reported by name.
const MOST_TOLD: usize = 50;

/// The fields of a JSON object that was sent.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    object: Map<String, Value>,
    /// The names of the fields that were read so far. They are suggested for unknown fields.
    asked: Vec<&'static str>,
    failures: Vec<Failure>,
}

impl Fields {
    /// Reads the fields from the body of a request, and takes the room for its answer.
    ///
    /// # Errors
    /// Those of [`RequestBody::read`]; [`Code::InvalidBody`] if it is not a JSON object.
    pub(crate) async fn read(service: &Service, access: &Access, request: Request) -> Result<Self, Failure> {
        let empty = || Failure::new(Code::InvalidBody, "the body is empty; send a JSON object, {} at least");
        Self::read_if_sent(service, access, request).await?.ok_or_else(empty)
    }

    /// Reads the fields from the body of a request, which may be empty: then there are none.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) async fn read_if_sent(
        service: &Service,
        access: &Access,
        request: Request,
    ) -> Result<Option<Self>, Failure> {
        let (head, body) = request.into_parts();
        let body = RequestBody::read(&head.headers, body, MAX_BODY, &memory_of(service, access), "the body").await?;
        let bad = |message: String| Failure::new(Code::InvalidBody, message);
        let (bytes, held) = body.into_parts();
        let length = bytes.len();
        if bytes.iter().all(u8::is_ascii_whitespace) {
            answer_room::keep(service, held).await?;
            return Ok(None);
        }
        let parse = move || match serde_json::from_slice(&bytes) {
            Ok(Value::Object(object)) => Ok((Self::of(object), held)),
            Ok(_) => Err(bad("the body must be a JSON object".to_owned())),
            Err(error) => Err(bad(format!("the body is not valid JSON: {}", json_fault(&error)))),
        };
        let (fields, held) = off_connections(length, parse).await?;
        answer_room::keep(service, held).await?;
        Ok(Some(fields))
    }

    fn of(object: Map<String, Value>) -> Self {
        Self { object, asked: Vec::new(), failures: Vec::new() }
    }

    /// Ignores fields that clients may send back as they were shown.
    pub(crate) fn ignore(&mut self, names: &[&'static str]) {
        for name in names {
            self.object.shift_remove(*name);
        }
    }

    /// Whether a field was sent and is not read yet.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    /// Takes a field of any type, if it was sent. `what` says in the error what the field must be.
    pub(crate) fn take<T: DeserializeOwned>(&mut self, name: &'static str, what: &str) -> Option<T> {
        self.asked.push(name);
        let value = self.object.shift_remove(name)?;
        match serde_json::from_value(value) {
            Ok(value) => Some(value),
            Err(error) => {
                let mut message = format!("{name} must be {what}");
                // For a single value, `what` is enough. For a list or an object, the parser's error says which part of
                // it is wrong.
                if what.contains("list") || what.contains("object") {
                    message.push_str(&format!(": {error}"));
                }
                self.refuse(name, message);
                None
            }
        }
    }

    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        self.take(name, "a text")
    }

    pub(crate) fn count(&mut self, name: &'static str) -> Option<u64> {
        self.take(name, "a whole number, not below 0")
    }

    /// Takes a number that may be null, which switches the setting off.
    pub(crate) fn optional_count(&mut self, name: &'static str) -> Option<Option<u64>> {
        self.take(name, "a whole number, not below 0, or null")
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.take(name, "true or false")
    }

    /// Records an error of a field.
    pub(crate) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.failures.push(Failure::new(Code::Refused, message).about(name));
    }

    /// Records a failure.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failures.push(failure);
    }

    /// Whether a field was refused already, so that it is not reported twice.
    pub(crate) fn has_refused(&self, name: &str) -> bool {
        self.failures.iter().any(|failure| failure.location.as_deref() == Some(name))
    }

    /// Checks that no failure was recorded and no unknown field is left over.
    ///
    /// # Errors
    /// [`Code::Refused`] with all failures.
    pub(crate) fn done(&mut self) -> Result<(), Failure> {
        let more = self.object.len().saturating_sub(MOST_TOLD);
        for name in std::mem::take(&mut self.object).into_iter().map(|(name, _)| name).take(MOST_TOLD) {
            let hint = match nearest(&name, self.asked.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("there are {}", self.asked.join(", ")),
            };
            self.refuse(&name, format!("there is no field {name}; {hint}"));
        }
        if more > 0 {
            let message = format!("there are {more} more fields that are not known");
            self.failures.push(Failure::new(Code::Refused, message));
        }
        Failure::of_all(std::mem::take(&mut self.failures)).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_wrong_is_told_at_once() {
        let Value::Object(object) = json!({"name": 5, "max_limit": -1, "sandboxabel": true, "id": "x"}) else { return };
        let mut fields = Fields::of(object);
        fields.ignore(&["id"]);
        assert_eq!(fields.text("name"), None);
        assert_eq!(fields.count("max_limit"), None);
        assert_eq!(fields.flag("sandboxable"), None);
        let failure = fields.done().unwrap_err();
        let all: Vec<_> = std::iter::once(&failure).chain(&failure.others).collect();
        let places: Vec<_> = all.iter().map(|failure| failure.location.as_deref().unwrap()).collect();
        assert_eq!(places, ["name", "max_limit", "sandboxabel"]);
        assert_eq!(all.last().unwrap().message, "there is no field sandboxabel; did you mean sandboxable?");
    }

    #[test]
    fn null_is_told_from_absence() {
        let Value::Object(object) = json!({"a": null}) else { return };
        let mut fields = Fields::of(object);
        assert_eq!((fields.optional_count("a"), fields.optional_count("b")), (Some(None), None));
        assert!(fields.done().is_ok());
    }

    #[test]
    fn of_many_unknown_fields_some_are_told() {
        let object = (0..10_000).map(|i| (format!("f{i}"), Value::Null)).collect();
        let failure = Fields::of(object).done().unwrap_err();
        assert_eq!(failure.others.len(), MOST_TOLD);
        assert_eq!(failure.others.last().unwrap().message, "there are 9950 more fields that are not known");
    }
}
