//! How a request ends without an answer: the class of the end is determined, and what the caller and the operator learn
//! of it.
//!
//! A caller learns which limit was reached, what the guest wanted to say, or that the component failed. Details (the
//! trap, the functions on the stack, the message of the engine) go to the log.

use std::fmt;

use tidegate_model::{Code, Failure};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace, WasmtimeBug};

use crate::answer::Usage;
use crate::budget::{Budget, Denied, no_memory};
use crate::class::{Class, Fault, Quota};
use crate::hard_limit::HardLimit;
use crate::wit_convert::shorten;

/// The longest message of the engine, and the longest name of a function, in a detail.
const MAX_CAUSE: usize = 1024;

const MAX_NAME: usize = 200;

/// A request that a component did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// The class of the end; for metrics, logs and tests.
    pub class: Class,
    /// What the caller gets.
    pub failure: Failure,
    /// What the component had used by then; zero if it did not run.
    pub usage: Usage,
    /// The trap and the names of the functions on the stack of the guest, innermost first, if a trap stopped it. For
    /// the log, and for an author who runs an endpoint; never for a caller.
    pub detail: Option<String>,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        error.failure
    }
}

impl From<Box<CallError>> for Failure {
    fn from(error: Box<CallError>) -> Self {
        error.failure
    }
}

impl CallError {
    /// An end that is not an error of the engine.
    pub(crate) fn plain(class: Class, failure: Failure, usage: Usage) -> Box<Self> {
        Box::new(Self { class, failure, usage, detail: None })
    }
}

/// The end of a request whose guest was stopped by an error of the engine. The error is logged with the names of the
/// functions on the stack of the guest.
pub(crate) fn of_error(error: &wasmtime::Error, budget: &Budget, digest: &str) -> CallError {
    let class = class_of(error, budget);
    let failure = failure_of(class, budget);
    let detail = detail_of(error);
    let (name, reason) = (class.name(), class.reason());
    if class == Class::HostBug {
        tracing::error!(component = digest, class = name, detail, "a defect of the engine or of this server");
    } else {
        tracing::warn!(component = digest, class = name, reason, detail, "the component was stopped");
    }
    CallError { class, failure, usage: budget.used(), detail: Some(detail) }
}

/// The message of the engine, without addresses, so that it is the same each time.
fn detail_of(error: &wasmtime::Error) -> String {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let cause = error.root_cause().to_string();
    let mut detail = shorten(&cause, MAX_CAUSE).to_owned();
    for (number, frame) in backtrace.map(WasmBacktrace::frames).unwrap_or_default().iter().enumerate() {
        detail.push_str(if number == 0 { "; in " } else { " < " });
        match frame.func_name() {
            // Names come from the guest and may have any characters.
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
    // A guest reacts to a refusal of memory in its own way, mostly with a trap.
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
    // The engine has no types for the other causes. Two of them are limits, which are recognized by their texts; tests
    // with guests that reach these limits notice when a text changes. The remaining causes are what the engine found
    // wrong with pointers, handles and texts of the guest.
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

/// The failure when all instances are in use.
pub(crate) fn overloaded() -> Failure {
    Failure::new(Code::Overloaded, "all places for running components are taken; try again later")
}
