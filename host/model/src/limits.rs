//! What one request may use, as one documented struct with its defaults in one place.

use std::time::Duration;

/// The limits of one request. The effective limits are the smaller of the server's and the
/// endpoint's own.
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
            statements: 32,
            host_calls: 10_000,
            call_bytes: 1 << 20,
            guest_rows: 1_000_000,
            guest_bytes: 32 << 20,
            answer_bytes: 64 << 20,
            log_lines: 100,
        }
    }
}
