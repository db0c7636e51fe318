//! From what size on statements run in stages.

/// From what size on workers exchange rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageOptions {
    /// The fewest rows that the scans below an operator read, before any condition, for which workers share out its rows
    /// by their keys. With fewer, it runs in the head stage: each exchange costs streams between all workers.
    pub least_exchanged_rows: u64,
    /// Whether the small side of a join is copied to all workers. The library holds copies without asking for memory, so that no limit
    /// holds for them (`BroadcastExec`, seen with datafusion-distributed 4.0.0): for tests.
    pub copies: bool,
}

impl StageOptions {
    /// Whatever can be exchanged is.
    pub const ALL: Self = Self { least_exchanged_rows: 0, copies: true };
}
