//! Why a scan, or a whole statement, is not sent to workers.

use std::fmt;

/// Why the rows of a scan are read on the machine of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stay {
    /// There are no segments to read.
    NoSegments,
    /// There are no workers.
    NoWorkers,
    /// After pruning so little is left to read that sending it costs more: bytes and rows, about.
    Little {
        /// As they are stored, with all columns.
        bytes: u64,
        /// Before any condition.
        rows: u64,
    },
    /// A limit without an order takes the first rows that come, whichever they are.
    EarlyLimit,
    /// Nothing that could run on workers makes the rows fewer, or orders them: they would only be sent.
    NothingToDo,
    /// A recursive table is computed in rounds, each over the rows of the one before.
    Recursive,
    /// Workers found the copy of a segment damaged that they would read.
    Damaged,
    /// Something in the plan does not travel.
    Unsendable(String),
    /// The rest of the plan relies on an order or a partitioning that would be lost.
    OrderLost(String),
}

impl Stay {
    /// Its name in reports for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoSegments => "no_segments",
            Self::NoWorkers => "no_workers",
            Self::Little { .. } => "little",
            Self::EarlyLimit => "early_limit",
            Self::NothingToDo => "nothing_to_do",
            Self::Recursive => "recursive",
            Self::Damaged => "damaged",
            Self::Unsendable(_) => "unsendable",
            Self::OrderLost(_) => "order_lost",
        }
    }
}

impl fmt::Display for Stay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSegments => f.write_str("it reads no segments"),
            Self::NoWorkers => f.write_str("there are no workers"),
            Self::Little { bytes, rows } => write!(f, "only {rows} rows in {bytes} bytes are left to read"),
            Self::EarlyLimit => f.write_str("a limit without an order is reached early"),
            Self::NothingToDo => f.write_str("workers could only send all of its rows"),
            Self::Recursive => f.write_str("a recursive table is computed in rounds"),
            Self::Damaged => f.write_str("a copy of a segment that workers would read is damaged"),
            Self::Unsendable(why) => write!(f, "the plan cannot be sent: {why}"),
            Self::OrderLost(why) => write!(f, "an order would be lost: {why}"),
        }
    }
}
