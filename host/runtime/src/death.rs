//! How a request ends when the component did not return: the classes of errors and what a caller
//! learns of each.
//!
//! Details (the trap, the functions on the stack) go to the log. A caller learns which limit was
//! reached, or that the component failed.

use tidegate_model::{Code, Failure};
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::limits::Budget;

/// A limit that ends the guest where it stands. Limits that it may handle are failures instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Death {
    #[error("CPU time is used up")]
    Cpu,
    #[error("too many calls into the host")]
    HostCalls,
    #[error("too many open handles")]
    Handles,
}

/// What the caller learns of an error out of the engine.
pub(crate) fn failure_of(error: &wasmtime::Error, budget: &Budget, digest: &str) -> Failure {
    let limits = budget.limits();
    let limit = |message: String| Failure::new(Code::LimitExceeded, message);
    let failure = if let Some(death) = error.downcast_ref::<Death>() {
        match death {
            Death::Cpu => Failure::new(
                Code::Timeout,
                format!("the component computed for more than its limit of {} ms", limits.cpu.as_millis()),
            ),
            Death::HostCalls => {
                limit(format!("the component made more than {} calls into the host", limits.host_calls))
            }
            Death::Handles => limit("the component keeps too many result sets and answers open".to_owned()),
        }
    } else if budget.memory_denied() {
        limit(format!("the component needs more than its limit of {} bytes of memory", limits.guest_memory))
    } else if error.is::<PoolConcurrencyLimitError>() {
        Failure::new(Code::Overloaded, "all places for running components are taken; try again later")
    } else if copied_too_much(error) {
        limit(format!("the component passed more than {} bytes in one call", limits.call_bytes))
    } else {
        Failure::new(Code::ComponentFailed, "the component failed while it answered; the server's log has the reason")
    };
    if error.is::<Trap>() || failure.code != Code::ComponentFailed {
        tracing::warn!(component = digest, code = failure.code.name(), error = ?error, "the component was stopped");
    } else {
        tracing::error!(component = digest, error = ?error, "the component broke the contract or the engine failed");
    }
    failure
}

/// The engine has no type for this error that could be named, so its text decides; a test with a
/// guest that does it keeps the text honest.
fn copied_too_much(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("fuel allocated for hostcalls has been exhausted"))
}
