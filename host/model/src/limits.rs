//! What one request may use, as one documented struct with its defaults in one place. How each
//! limit is called in a configuration file, and between which bounds it may be set, is told in
//! [`crate::LIMITS`].

use std::time::Duration;

/// The limits of one request, and of all together where a field says so. The effective limits are
/// the smallest of the server's, the endpoint's own and those of the caller's access token
/// ([`Limits::lowered_by`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of the whole request, component and statements together.
    pub wall_clock: Duration,
    /// CPU time that the component's own code may burn, approximated in epoch ticks.
    pub cpu: Duration,
    /// Bytes of linear memory and tables of the component, summed.
    pub guest_memory: usize,
    /// Bytes that one statement's operators may hold.
    pub statement_memory: usize,
    /// Bytes that the operators of all statements of the server may hold together.
    pub total_memory: usize,
    /// What the text of one statement may be.
    pub text: TextLimits,
    /// Statements that one request may run.
    pub statements: u32,
    /// Calls from the component into the host.
    pub host_calls: u64,
    /// Bytes that cross from the component into the host in one call.
    pub call_bytes: usize,
    /// Rows that the component may read into its own memory.
    pub guest_rows: u64,
    /// Bytes of column batches that the component may read into its own memory.
    pub guest_bytes: usize,
    /// Rows of an answer, whatever an endpoint's own `max_limit` is.
    pub rows: usize,
    /// Bytes of the answer's rows before encoding.
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

/// What the text of a statement, saved or ad hoc, may be. Reading and planning a statement takes
/// time and memory that grow with these, before anything of it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimits {
    /// Bytes. The longest text that a real client was seen to send is 8 KiB.
    pub bytes: usize,
    /// Tokens: words, signs, literals, and the blanks and comments between them.
    pub tokens: usize,
    /// How deep expressions and queries may nest.
    pub nesting: usize,
    /// Tables, uses of CTEs and subqueries, CTEs unfolded: a CTE is planned again wherever it is
    /// used, so a short text could otherwise double itself into millions of plan nodes. Log
    /// viewers reach several hundred.
    pub relations: usize,
}

impl Default for TextLimits {
    fn default() -> Self {
        Self { bytes: 256 << 10, tokens: 50_000, nesting: 64, relations: 2_000 }
    }
}
