//! How a request ends without an answer: its class is found, and what the caller and the operator
//! learn of it.
//!
//! A caller learns which limit was reached, what the guest wanted to tell it, or that the component
//! failed. Details (the trap, the functions on the stack, the engine's words) go to the log.

use std::fmt;

use tidegate_model::{Code, Failure};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace, WasmtimeBug};

use crate::answer::Usage;
use crate::class::{Class, Fault, Quota};
use crate::limits::{Budget, Denied, no_memory};
use crate::words::shorten;

/// The longest text of the engine, and the longest name of a function, in a detail.
const MAX_CAUSE: usize = 1024;
const MAX_NAME: usize = 200;

/// A request that a component did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// What kind of end it was; for metrics, logs and tests.
    pub class: Class,
    /// What the caller learns.
    pub failure: Failure,
    /// What the component had used by then; nothing if it did not run.
    pub usage: Usage,
    /// The trap and the names of the functions on the guest's stack, innermost first, where it was
    /// stopped by one. For the log, and for an author who runs an endpoint; never for a caller.
    pub detail: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for Ended {}

impl From<Ended> for Failure {
    fn from(ended: Ended) -> Self {
        ended.failure
    }
}

impl From<Box<Ended>> for Failure {
    fn from(ended: Box<Ended>) -> Self {
        ended.failure
    }
}

impl Ended {
    /// An end that is no error of the engine.
    pub(crate) fn plain(class: Class, failure: Failure, usage: Usage) -> Box<Self> {
        Box::new(Self { class, failure, usage, detail: None })
    }
}

/// A limit that ends the guest where it stands. Limits that it may handle are failures instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HardLimit {
    #[error("CPU time is used up")]
    Cpu,
    #[error("too many calls into the host")]
    HostCalls,
    #[error("too many open handles")]
    Handles,
}

/// The end of a request whose guest was stopped by an error out of the engine. The error itself is
/// written to the log, with the names of the functions on the guest's stack.
pub(crate) fn of_error(error: &wasmtime::Error, budget: &Budget, digest: &str) -> Ended {
    let class = class_of(error, budget);
    let failure = failure_of(class, budget);
    let detail = detail_of(error);
    let (name, reason) = (class.name(), class.reason());
    if class == Class::HostBug {
        tracing::error!(component = digest, class = name, detail, "a defect of the engine or of this server");
    } else {
        tracing::warn!(component = digest, class = name, reason, detail, "the component was stopped");
    }
    Ended { class, failure, usage: budget.used(), detail: Some(detail) }
}

/// What the engine says, without addresses: the same text every time.
fn detail_of(error: &wasmtime::Error) -> String {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let cause = error.root_cause().to_string();
    let mut detail = shorten(&cause, MAX_CAUSE).to_owned();
    for (number, frame) in backtrace.map(WasmBacktrace::frames).unwrap_or_default().iter().enumerate() {
        detail.push_str(if number == 0 { "; in " } else { " < " });
        match frame.func_name() {
            // Names are the guest's own words.
            Some(name) => {
                let name = format!("{:#}", rustc_demangle::demangle(shorten(name, MAX_NAME)));
                detail.extend(shorten(&name, MAX_NAME).chars().map(|c| if c.is_control() { '?' } else { c }));
            }
            None => detail.push_str(&format!("function {}", frame.func_index())),
        }
    }
    detail
}

fn class_of(error: &wasmtime::Error, budget: &Budget) -> Class {
    if let Some(limit) = error.downcast_ref::<HardLimit>() {
        return Class::Exhausted(match limit {
            HardLimit::Cpu => Quota::Cpu,
            HardLimit::HostCalls => Quota::HostCalls,
            HardLimit::Handles => Quota::Handles,
        });
    }
    // What a guest does with a refusal of memory is its own affair, a trap mostly.
    if budget.memory_denied().is_some() {
        return Class::Exhausted(Quota::Memory);
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return Class::Faulted(Fault::of(*trap));
    }
    if error.is::<PoolConcurrencyLimitError>() {
        return Class::Exhausted(Quota::Concurrency);
    }
    if error.is::<WasmtimeBug>() || error.is::<ResourceTableError>() {
        return Class::HostBug;
    }
    // The engine has no types for the rest that could be named. Two of them are limits, which their
    // texts tell; tests with guests that reach them keep the texts honest. What is left is what the
    // engine found wrong with the pointers, handles and texts of the guest.
    let says = |text: &str| error.chain().any(|cause| cause.to_string().contains(text));
    if says("fuel allocated for hostcalls has been exhausted") {
        return Class::Exhausted(Quota::CallBytes);
    }
    if says("store handle limit exceeded") {
        return Class::Exhausted(Quota::Handles);
    }
    Class::Faulted(Fault::Contract)
}

fn failure_of(class: Class, budget: &Budget) -> Failure {
    let limits = budget.limits();
    let limit = |message: String| Failure::new(Code::LimitExceeded, message);
    match class {
        Class::Exhausted(Quota::Cpu) => Failure::new(
            Code::Timeout,
            format!("the component computed for more than its limit of {} ms", limits.cpu.as_millis()),
        ),
        Class::Exhausted(Quota::HostCalls) => {
            limit(format!("the component made more than {} calls into the host", limits.host_calls))
        }
        Class::Exhausted(Quota::Handles) => {
            limit("the component keeps too many result sets and answers open".to_owned())
        }
        Class::Exhausted(Quota::CallBytes) => {
            limit(format!("the component passed more than {} bytes in one call", limits.call_bytes))
        }
        Class::Exhausted(Quota::Memory) if budget.memory_denied() == Some(Denied::Shared) => no_memory(),
        Class::Exhausted(Quota::Memory) => {
            limit(format!("the component needs more than its limit of {} bytes of memory", limits.guest_memory))
        }
        Class::Exhausted(Quota::Concurrency) => overloaded(),
        _ => Failure::new(
            Code::ComponentFailed,
            "the component failed while it answered; the server's log has the reason",
        ),
    }
}

/// No place is free.
pub(crate) fn overloaded() -> Failure {
    Failure::new(Code::Overloaded, "all places for running components are taken; try again later")
}
