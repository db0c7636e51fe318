//! The classes of ends of a request, for logs, metrics and tests.

use tidegate_model::{self as model, Code, Failure};
use wasmtime::Trap;

/// The class of an end. A request that is refused before it reaches the runtime (because of its token or parameters)
/// has none, because no guest took part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The guest returned a problem. The caller gets its code and text: status 400, 404, 409 or 422 according to the
    /// table of the contract, 500 for any other code.
    Problem,
    /// A statement failed and the guest named that as its reason. The caller gets the failure of the statement with its
    /// position, mostly status 400.
    QueryFailed,
    /// A limit of the request or of the server was reached. The caller learns which: 422 for rows, bytes, calls and
    /// memory, 503 for a full server, 504 for time.
    Exhausted(Quota),
    /// The guest trapped or violated the contract. The caller learns that the component failed (500). The log has the
    /// trap and the names of the functions on the stack.
    Faulted(Fault),
    /// The component does not fit the engine or the contract. It is refused when it is saved (422).
    Incompatible,
    /// A bug of this server or of its engine (500). The log has the details; somebody should read them.
    HostBug,
}

/// The limit that was reached. The names are those of the contract (`types.quota`), and two more.
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
    /// Bytes that are passed to the host in one call.
    CallBytes,
    /// Open result sets, responses and resources.
    Handles,
    /// Memory of the guest or of its statements.
    Memory,
    /// CPU time of the guest.
    Cpu,
    /// Time of the request.
    WallClock,
    /// Components that run at once.
    Concurrency,
    /// A limit that the contract does not name.
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
    /// It violated the rules of the component model: a bad pointer, discriminant, handle or text, or a call from a
    /// function that may not call.
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

    /// The limit or the fault, in logs and metrics; empty if the class says it all.
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
            Code::LimitExceeded => Self::Exhausted(Quota::of(failure)),
            Code::Timeout => Self::Exhausted(Quota::WallClock),
            Code::Overloaded | Code::TooManyRequests => Self::Exhausted(match Quota::of(failure) {
                Quota::Other => Quota::Concurrency,
                quota => quota,
            }),
            // Rows or a document that are malformed.
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
    fn of(failure: &Failure) -> Self {
        match failure.quota {
            Some(model::Quota::Rows) => Self::Rows,
            Some(model::Quota::Bytes) => Self::Bytes,
            Some(model::Quota::Statements) => Self::Statements,
            Some(model::Quota::Memory) => Self::Memory,
            None => Self::Other,
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

    /// The fault behind a trap.
    pub(crate) fn of(trap: Trap) -> Self {
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
