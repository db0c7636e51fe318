//! The messages of failures that more than one place can meet, so that each has one wording: time-out, memory,
//! division by zero, more than one row. They say what happened and what to write instead; the engine's own reason
//! goes to the log.

use tidegate_model::{Code, Failure, Quota};

/// Prefix of the engine's error when the shared memory pool is exhausted, as opposed to the statement's own limit.
pub const SHARED_MEMORY: &str = "the memory of all statements and components is taken";

/// A division by zero; callers add what gives NULL instead.
pub const DIVISION_BY_ZERO: &str = "division by zero";

/// A subquery that is used as a value has several rows.
pub const MORE_THAN_ONE_ROW: &str = "a scalar subquery returned more than one row; add LIMIT 1 or an aggregate";

/// A statement that runs is past its deadline, or nobody waits for it any more.
pub fn timed_out() -> Failure {
    Failure::new(Code::Timeout, "the request ran out of time; narrow the time range or select less")
}

/// The same while the statement is planned.
pub fn timed_out_planning() -> Failure {
    let message = "the request ran out of time while its statement was planned; the statement is too complicated";
    Failure::new(Code::Timeout, message)
}

/// A statement needs more memory than its limit, or than the shared pool has left: the two are told apart by
/// [`SHARED_MEMORY`] in `reason`, which is logged.
pub fn out_of_memory(reason: &str) -> Failure {
    if reason.contains(SHARED_MEMORY) {
        tracing::warn!(%reason, "statements and components hold all the memory that they may hold together");
        let message = "the server's statements hold all the memory that they may hold together; try again later";
        return Failure::new(Code::Overloaded, message).quota(Quota::Memory).retry_after(1);
    }
    tracing::info!(%reason, "a statement reached its memory limit");
    Failure::new(
        Code::LimitExceeded,
        "the statement needs more memory than it may use; narrow the time range, select fewer columns, or aggregate less",
    )
    .quota(Quota::Memory)
}

/// Of RANGE_BUCKET.
pub(crate) const NULL_BOUND: &str = "an array of RANGE_BUCKET has no NULL elements";
pub(crate) const UNSORTED_BOUNDS: &str =
    "the array of RANGE_BUCKET is not in ascending order; sort it: ARRAY(SELECT x FROM UNNEST(bounds) AS x ORDER BY x)";
