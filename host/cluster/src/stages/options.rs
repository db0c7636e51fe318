//! From what size on statements run in stages.

/// From what size on workers are given scans, and exchange rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageOptions {
    /// The fewest bytes of segments of a scan, as they are stored, that are worth a task.
    pub least_bytes: u64,
    /// The fewest rows, before any condition.
    pub least_rows: u64,
    /// The fewest rows that the scans of a statement read, before any condition, for which workers share out its rows by their
    /// keys. With fewer, what needs keys together runs where the statement is: each exchange costs streams between all workers.
    pub least_exchanged_rows: u64,
    /// Whether to send also what gains nothing by it: for tests.
    pub always: bool,
}

impl StageOptions {
    /// Whatever can be sent or exchanged is.
    pub const ALL: Self = Self { least_bytes: 0, least_rows: 0, least_exchanged_rows: 0, always: true };
    /// Whatever can be sent is, and nothing is exchanged.
    pub const GATHERED: Self = Self { least_exchanged_rows: u64::MAX, ..Self::ALL };
}
