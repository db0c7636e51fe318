//! What is answered.

use crate::contract;
use crate::{Problem, Record, ResultSet, Table};

/// An answer: rows, a document or nothing.
///
/// Whatever it is, the row cap, redaction and the format that the caller asked for are the host's business. Rows can be
/// had as JSON, NDJSON, CSV and Arrow, a document only as JSON.
#[derive(Debug)]
pub struct Response(contract::Response);

impl Response {
    /// The rows of a statement, without reading them. What was read of them already is not answered.
    ///
    /// # Limits
    /// At most `rows` rows and `answer_bytes` bytes; an endpoint's `max_limit` may be less.
    pub fn rows(set: ResultSet) -> Self {
        Self(contract::Response::rows(set.contract()))
    }

    /// Rows that the endpoint made.
    ///
    /// # Errors
    /// As [`Table::finish`].
    pub fn table<R: Record>(table: Table<R>) -> Result<Self, Problem> {
        Ok(Self::rows(table.finish()?))
    }

    /// A JSON document, which becomes the `result` of the answer. Prefer rows where there are some: they have a schema,
    /// and formats. Make texts inside with [`quote`](crate::quote), or all of it with a crate such as `serde_json`.
    ///
    /// # Errors
    /// It is no JSON, which is a failure of the endpoint (500). It crosses in one call, so `component_call_bytes`
    /// (1 MiB) ends the request if it is larger.
    pub fn document(json: &str) -> Result<Self, Problem> {
        Ok(Self(contract::Response::document(json)?))
    }

    /// An answer without rows: `{"result": []}`.
    pub fn empty() -> Self {
        Self(contract::Response::empty())
    }

    /// Lowers the time for which the answer may be kept for the same question. The endpoint's
    /// `cache_duration_seconds` stays the most; 0 is not at all.
    #[must_use]
    pub fn max_age(self, seconds: u32) -> Self {
        self.0.max_age(seconds);
        self
    }

    /// A remark for the caller beside the answer: at most 16 of them, keys of `a-z`, `0-9` and `-`, values of at most
    /// 1024 bytes. Others are dropped; of two with one key the last stays.
    ///
    /// The caller reads it in the header `x-tidegate-note-KEY`, percent-encoded where a header cannot have it: `%`, control
    /// characters, blanks at the ends, all that is not ASCII. All together take at most 8 KiB there. Where the answer
    /// is redacted, so are the values.
    #[must_use]
    pub fn note(self, key: &str, value: &str) -> Self {
        self.0.note(key, value);
        self
    }
}

impl From<contract::Response> for Response {
    fn from(response: contract::Response) -> Self {
        Self(response)
    }
}

impl From<Response> for contract::Response {
    fn from(response: Response) -> Self {
        response.0
    }
}
