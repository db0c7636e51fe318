//! From what size on statements run in stages.

/// From what size on workers exchange rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageOptions {
    /// The fewest rows that the scans below an operator read, before any condition, for which workers share out its rows
    /// by their keys. With fewer, it runs in the head stage: each exchange costs streams between all workers.
    pub least_exchanged_rows: u64,
}

impl StageOptions {
    /// Whatever can be exchanged is.
    pub const ALL: Self = Self { least_exchanged_rows: 0 };
}
