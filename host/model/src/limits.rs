//! The limits of one request, with their defaults. [`crate::LIMITS`] has the name of each in a configuration file and
//! the bounds within which it may be set.

use std::time::Duration;

/// The limits of one request, and of all requests together where a field says so. The effective limits are the smallest
/// of those of the server, of the endpoint and of the access token of the caller ([`Limits::lowered_by`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of the whole request, component and statements together.
    pub wall_clock: Duration,
    /// CPU time of the code of the component, measured in epoch ticks.
    pub cpu: Duration,
    /// Bytes of linear memory and tables of the component, in sum.
    pub guest_memory: usize,
    /// Bytes that the operators of one statement may hold.
    pub statement_memory: usize,
    /// Bytes that the operators of all statements of the server may hold together.
    pub total_memory: usize,
    /// The limits of the text of one statement.
    pub text: TextLimits,
    /// Statements that one request may run.
    pub statements: u32,
    /// Calls from the component to the host.
    pub host_calls: u64,
    /// Bytes that the component may pass to the host in one call.
    pub call_bytes: usize,
    /// Rows that the component may read into its own memory.
    pub guest_rows: u64,
    /// Bytes of column batches that the component may read into its own memory.
    pub guest_bytes: usize,
    /// Rows of an answer; the endpoint's own `max_limit` may be lower.
    pub rows: usize,
    /// Bytes of the rows of an answer before encoding.
    pub answer_bytes: usize,
    /// Lines that the component may log.
    pub log_lines: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_clock: Duration::from_secs(30),
            cpu: Duration::from_secs(2),
            guest_memory: 64 << 20,
            statement_memory: 512 << 20,
            total_memory: 1 << 30,
            text: TextLimits::default(),
            statements: 32,
            host_calls: 10_000,
            call_bytes: 1 << 20,
            guest_rows: 1_000_000,
            guest_bytes: 32 << 20,
            rows: 10_000,
            answer_bytes: 64 << 20,
            log_lines: 100,
        }
    }
}

/// Limits of the text of a statement, saved or ad hoc. Parsing and planning a statement take time and memory that grow
/// with these, before the statement runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Bytes. The longest text seen from a real client has 8 KiB.
    pub bytes: usize,
    /// Tokens: words, signs, literals, and the blanks and comments between them.
    pub tokens: usize,
    /// Levels of nesting of expressions and queries.
    pub nesting: usize,
    /// Tables, uses of CTEs and subqueries after expansion. A CTE is planned once for each use, so that a short text
    /// could otherwise expand to millions of plan nodes. Log viewers reach several hundred.
    pub relations: usize,
}

impl Default for TextLimits {
    fn default() -> Self {
        Self { bytes: 256 << 10, tokens: 50_000, nesting: 64, relations: 2_000 }
    }
}
