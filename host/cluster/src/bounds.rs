//! Bounds of an encoded plan. They hold on both sides: what exceeds one is not sent, and refused where it comes.

/// The most bytes of an encoded plan.
pub const MAX_PLAN_BYTES: usize = 16 << 20;

/// The most operators of a plan.
pub(crate) const MAX_OPERATORS: usize = 4096;

/// The most expressions of a plan that have expressions below them.
pub(crate) const MAX_EXPRESSIONS: usize = 1 << 17;

/// How deep operators and expressions may stand below one another. The stack grows with it where plans are walked.
pub(crate) const MAX_DEPTH: usize = 512;

/// The most partitions of an operator.
pub(crate) const MAX_PARTITIONS: usize = 1024;

/// The most rows of a batch. Larger ones are sent in pieces.
pub(crate) const MAX_BATCH_ROWS: usize = 1 << 16;

/// The most values of an array whose type has no bytes: NULLs, records without fields.
pub(crate) const MAX_BARE_VALUES: u64 = 1 << 20;

/// The most bytes of a value of a type whose values are all of one length.
pub(crate) const MAX_FIXED_BYTES: i32 = 1 << 10;

/// The most values that an aggregate keeps for each group because a parameter says so.
pub(crate) const MAX_KEPT_VALUES: usize = 1 << 24;

/// Tasks of a stage, and so workers of a statement.
pub(crate) const MAX_TASKS: usize = 1024;

/// Bytes of the rows in memory that travel with a task.
pub(crate) const MAX_LEAF_BYTES: usize = 8 << 20;
