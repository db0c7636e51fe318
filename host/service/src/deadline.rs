//! The time of a request, and the failure when it is over.

use std::time::Duration;

use tidegate_model::{Code, Failure, Unit, milliseconds};

/// How much longer than a request's time its caller is kept waiting. Work that reaches its limit stops itself within
/// this time, and its failure says what took so long.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// The failure of a request that ran out of time.
pub(crate) fn late(limit: Duration) -> Failure {
    let limit = Unit::Time.show(milliseconds(limit));
    Failure::new(Code::Timeout, format!("the request took longer than {limit}; narrow the time range or select less"))
}
