//! How a request ends without an answer: the classes of ends, and what the caller and the operator
//! learn of each.
//!
//! A caller learns which limit was reached, what the guest wanted to tell it, or that the component
//! failed. Details (the trap, the functions on the stack, the engine's words) go to the log.

use std::fmt;

use tidegate_model::{Code, Failure};
use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace, WasmtimeBug};

use crate::answer::Usage;
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

/// The classes of ends. A request that is refused before it comes to the runtime (its token, its
/// parameters) has none: no guest took part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The guest said no: it returned a problem. The caller learns the guest's code and text: 400,
    /// 404, 409 or 422 by the table of the contract, 500 for any other code.
    Problem,
    /// A statement failed and the guest named that as its reason. The caller learns the statement's
    /// failure, place included, mostly 400.
    QueryFailed,
    /// A limit of the request or of the server was reached. The caller learns which: 422 for rows,
    /// bytes, calls and memory, 503 for a full server, 504 for time.
    Exhausted(Quota),
    /// The guest trapped or broke the contract. The caller learns that the component failed (500);
    /// the log has the trap and the names of the functions on the stack.
    Faulted(Fault),
    /// The component does not fit the engine or the contract. It is refused when it is saved (422).
    Incompatible,
    /// Anything else: a defect of this server or of its engine (500). The log has the details;
    /// somebody should read them.
    HostBug,
}

/// The limit that was reached. The words are those of the contract (`types.quota`), with two more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Rows read into the guest.
    Rows,
    /// Bytes read into the guest, or bytes of its document.
    Bytes,
    /// Statements of the request.
    Statements,
    /// Calls into the host.
    HostCalls,
    /// Bytes that pass into the host in one call.
    CallBytes,
    /// Result sets, responses and resources that are open at once.
    Handles,
    /// Memory of the guest or of its statements.
    Memory,
    /// Computing time of the guest.
    Cpu,
    /// Time of the request.
    WallClock,
    /// Components that run at once.
    Concurrency,
    /// A limit that the contract has no word for.
    Other,
}

/// How a guest failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// `unreachable`: a panic, mostly.
    Unreachable,
    /// Its stack is used up.
    StackOverflow,
    /// An access outside of its memory or table.
    OutOfBounds,
    /// A division by zero, an overflow, a conversion of a number that does not fit.
    Arithmetic,
    /// An indirect call of nothing, or of a function of another type.
    IndirectCall,
    /// It broke the rules of components: a bad pointer, discriminant, handle or text, or a call out
    /// of a function that may not call.
    Contract,
    /// Any other trap.
    Other,
}

impl Class {
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::QueryFailed => "query_failed",
            Self::Exhausted(_) => "exhausted",
            Self::Faulted(_) => "faulted",
            Self::Incompatible => "incompatible",
            Self::HostBug => "host_bug",
        }
    }

    /// Which limit or which fault, in logs and metrics; empty where the class says it all.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Exhausted(quota) => quota.name(),
            Self::Faulted(fault) => fault.name(),
            Self::Problem | Self::QueryFailed | Self::Incompatible | Self::HostBug => "",
        }
    }

    /// The class of a failure that a host function returned and the guest passed on.
    pub(crate) fn of_passed_on(failure: &Failure) -> Self {
        match failure.code {
            Code::LimitExceeded => Self::Exhausted(Quota::of(failure.location.as_deref())),
            Code::Timeout => Self::Exhausted(Quota::WallClock),
            Code::Overloaded | Code::TooManyRequests => Self::Exhausted(Quota::Concurrency),
            // Rows or a document that are not well made.
            Code::ComponentFailed => Self::Faulted(Fault::Contract),
            Code::Internal => Self::HostBug,
            _ => Self::QueryFailed,
        }
    }
}

impl Quota {
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Statements => "statements",
            Self::HostCalls => "host_calls",
            Self::CallBytes => "call_bytes",
            Self::Handles => "handles",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::WallClock => "wall_clock",
            Self::Concurrency => "concurrency",
            Self::Other => "other",
        }
    }

    /// The limit that a failure is about.
    pub(crate) fn of(location: Option<&str>) -> Self {
        match location {
            Some("rows") => Self::Rows,
            Some("bytes") => Self::Bytes,
            Some("statements") => Self::Statements,
            Some("memory") => Self::Memory,
            _ => Self::Other,
        }
    }
}

impl Fault {
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::StackOverflow => "stack_overflow",
            Self::OutOfBounds => "out_of_bounds",
            Self::Arithmetic => "arithmetic",
            Self::IndirectCall => "indirect_call",
            Self::Contract => "contract",
            Self::Other => "other",
        }
    }

    fn of(trap: Trap) -> Self {
        match trap {
            Trap::UnreachableCodeReached => Self::Unreachable,
            Trap::StackOverflow => Self::StackOverflow,
            Trap::MemoryOutOfBounds | Trap::TableOutOfBounds => Self::OutOfBounds,
            Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger => Self::Arithmetic,
            Trap::IndirectCallToNull | Trap::BadSignature | Trap::NullReference => Self::IndirectCall,
            Trap::CannotEnterComponent
            | Trap::CannotLeaveComponent
            | Trap::InvalidChar
            | Trap::InvalidDiscriminant
            | Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::UnalignedPointer => Self::Contract,
            _ => Self::Other,
        }
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
