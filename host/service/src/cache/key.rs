//! The cache key of an answer: a SHA-256 over everything that determines the answer.
//!
//! Each part is hashed after its length, so that different lists of parts never give the same bytes. What does not
//! determine the answer is not hashed: unused parameters, the order in which parameters were sent, and the token.

use sha2::{Digest, Sha256};
use tidegate_model::{Value, size};

use crate::execution::{AdhocQuery, QueryRequest};

/// The cache key of an answer: a SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

impl QueryRequest {
    /// The cache key of this request.
    pub(crate) fn key(&self) -> Key {
        let mut parts = Parts(Sha256::new());
        parts.add(self.endpoint.id.as_bytes());
        parts.add(&self.endpoint.version.to_le_bytes());
        // The endpoints that this one reads as tables.
        for (id, version) in &self.reads {
            parts.add(id.as_bytes());
            parts.add(&version.to_le_bytes());
        }
        parts.add(&[u8::from(self.redact), u8::from(self.unrestricted), self.format as u8]);
        // A component may return less when it reaches a limit, so each limit can change the answer. Also, requests with
        // different limits must not share an execution: it could fail for one of them only.
        for value in self.limits.of_request() {
            parts.count(size(value));
        }
        let (language, text) = match &self.adhoc {
            None => (0, ""),
            Some(AdhocQuery::Sql(text)) => (1, text.as_str()),
            Some(AdhocQuery::Lql(text)) => (2, text.as_str()),
        };
        parts.add(&[language]);
        parts.add(text.as_bytes());
        parts.count(self.arguments.len());
        for (name, value) in &self.arguments {
            parts.add(name.as_bytes());
            parts.value(value);
        }
        parts.count(self.audience.pins().len());
        for (name, value) in self.audience.pins() {
            parts.add(name.as_bytes());
            parts.add(value.as_bytes());
        }
        parts.add(&self.tenancy_generation.to_le_bytes());
        Key(parts.0.finalize().into())
    }
}

struct Parts(Sha256);

impl Parts {
    fn count(&mut self, count: usize) {
        self.0.update(count.to_le_bytes());
    }

    fn add(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    fn value(&mut self, value: &Value) {
        let (kind, bytes): (u8, &[u8]) = match value {
            // Its type is that of the parameter, which the version says.
            Value::Relative(time) => (7, &time.back().to_le_bytes()),
            Value::Null => (0, &[]),
            Value::Boolean(value) => (1, &[u8::from(*value)]),
            Value::Int64(value) => (2, &value.to_le_bytes()),
            Value::Float64(value) => (3, &value.to_bits().to_le_bytes()),
            Value::Text(value) => (4, value.as_bytes()),
            Value::Bytes(value) => (5, value),
            Value::Timestamp(value) => (6, &value.to_le_bytes()),
        };
        self.0.update([kind]);
        self.add(bytes);
    }
}

/// The hash of a body in hex, for `ETag`. Half of a SHA-256 is more than enough to tell versions apart.
pub(crate) fn digest<'b>(body: impl Iterator<Item = &'b [u8]>) -> String {
    let mut digest = Sha256::new();
    body.for_each(|piece| digest.update(piece));
    let digest = digest.finalize();
    hex::encode(digest.get(..16).unwrap_or(&digest))
}
