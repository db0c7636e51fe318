//! What a component answers, and what it used.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Rows;

/// The answer of an endpoint to one request.
#[derive(Debug)]
pub struct Answer {
    /// Rows, a document, or nothing.
    pub body: Body,
    /// How long the component allows the answer to be cached, if it said so; zero forbids it.
    pub max_age: Option<Duration>,
    /// Remarks for the caller: at most 16, keys of `a-z`, `0-9` and `-`, short values.
    pub notes: BTreeMap<String, String>,
    /// Whether the component read the time of the request. If so, the answer may depend on it and is for this request
    /// only.
    pub saw_time: bool,
    /// What the component used.
    pub usage: Usage,
}

/// An answer that was not made by a component.
impl From<Body> for Answer {
    fn from(body: Body) -> Self {
        Self { body, max_age: None, notes: BTreeMap::new(), saw_time: false, usage: Usage::default() }
    }
}

/// The body of an [`Answer`].
#[derive(Debug)]
pub enum Body {
    /// Rows, to be read after the component is gone. The cap on rows, redaction and encoding are done by the server.
    Rows(Rows),
    /// A JSON document, checked to be one. It is made of what the guest read, so redaction, if it is on, applies to it
    /// as well.
    Document(String),
    /// Nothing.
    Empty,
}

/// What one request used of its limits. All numbers except the ticks are the same whenever the same component does the
/// same over the same rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Units of work of the guest's code: about one for each instruction, and more for instructions that move many
    /// bytes. Only known to a runtime that counts them
    /// ([`RuntimeOptions::count_instructions`](crate::RuntimeOptions::count_instructions)). If the guest was
    /// interrupted, those since its last call are missing.
    pub instructions: Option<u64>,
    /// Calls from the component to the host.
    pub host_calls: u64,
    /// Statements that it ran.
    pub statements: u32,
    /// Bytes of memory and tables at the end, which is the peak, because they only grow.
    pub guest_memory: usize,
    /// Rows that it read into its memory.
    pub guest_rows: u64,
    /// Bytes of column batches that it read into its memory.
    pub guest_bytes: usize,
    /// Result sets and responses that it neither returned nor dropped. They are dropped with the request.
    pub handles_left: usize,
    /// Epoch ticks that passed while its code ran.
    pub ticks: u64,
}
