//! What statements cost together.

/// What statements cost together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct StatementCost {
    /// Statements that were started.
    pub statements: u64,
    /// Rows of sources that were looked at: those that the scans handed on, and those that their filters left out one by
    /// one. Rows that statistics left out do not count.
    pub rows_read: u64,
    /// Bytes of segments that were read, as they are stored. Rows that are still in memory have none.
    pub bytes_read: u64,
    /// The most bytes that one of the statements held at a time.
    pub memory: u64,
    /// Tasks that were given to workers.
    pub tasks: u64,
    /// How often a task went elsewhere because its worker failed.
    pub moves: u64,
}

impl StatementCost {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            statements: self.statements.saturating_add(other.statements),
            rows_read: self.rows_read.saturating_add(other.rows_read),
            bytes_read: self.bytes_read.saturating_add(other.bytes_read),
            memory: self.memory.max(other.memory),
            tasks: self.tasks.saturating_add(other.tasks),
            moves: self.moves.saturating_add(other.moves),
        }
    }
}
