//! The settings of the engine.

use tidegate_model::{Limits, TextLimits};

use super::arrival_order::{self, Placed};
use super::shortcuts::narrow::{self, Narrow};
use super::shortcuts::partial_groups::{self, Counted};

/// The footers of a hundred million rows of 35 columns, about: a kilobyte for each column of a row group.
const FOOTER_MEMORY: usize = 256 << 20;

/// Settings of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// How many parts of a statement run at once.
    pub partitions: usize,
    /// Bytes that the operators of one statement may hold.
    pub statement_memory: usize,
    /// Bytes that the operators of all statements may hold together.
    pub total_memory: usize,
    /// Bytes of what is kept of files that are scanned, such as footers; what is needed least recently is dropped. A scan
    /// reads again what is not kept.
    pub footer_memory: usize,
    /// What the text of a statement may be.
    pub text: TextLimits,
    /// How tables are taken that have records of many fields, of which a statement reads few.
    pub narrow: Narrow,
    /// How stored tables tell the places of their rows, by which rows with equal times are sorted.
    pub placed: Placed,
    /// How scans count their rows by the value of a column, instead of handing them on.
    pub counted: Counted,
}

impl Default for EngineOptions {
    fn default() -> Self {
        let partitions = std::thread::available_parallelism().map_or(2, usize::from);
        let limits = Limits::default();
        Self {
            partitions,
            statement_memory: limits.statement_memory,
            total_memory: limits.total_memory,
            footer_memory: FOOTER_MEMORY,
            text: limits.text,
            narrow: narrow::never,
            placed: arrival_order::never,
            counted: partial_groups::never,
        }
    }
}
