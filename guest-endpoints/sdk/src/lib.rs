//! Write Tidegate endpoints in Rust.
//!
//! An endpoint is one function. It runs statements over the tables that its `query.sql` grants, and
//! returns rows: those of a statement, which then never enter the guest, or rows that it made.
//!
//! ```ignore
//! use tidegate_sdk::{Problem, Request, Response, endpoint, run};
//!
//! fn handle(_: &Request) -> Result<Response, Problem> {
//!     Ok(Response::rows(run("default", &[])?))
//! }
//!
//! endpoint!(handle);
//! ```
//!
//! Build with `cargo build --release --target wasm32-unknown-unknown` and pack with `tidegate build`.

#[doc(hidden)]
pub mod contract;
mod read;
mod table;

#[doc(hidden)]
pub use contract::exports::tidegate::endpoint::handler::Guest;
pub use contract::exports::tidegate::endpoint::handler::Problem;
#[cfg(feature = "adhoc")]
pub use contract::tidegate::endpoint::adhoc::run as run_sql;
pub use contract::tidegate::endpoint::exchange::{Request, Response};
pub use contract::tidegate::endpoint::log::{Level, record_line};
pub use contract::tidegate::endpoint::results::ResultSet;
pub use contract::tidegate::endpoint::statements::run;
pub use contract::tidegate::endpoint::types::{Batch, Column, Failure, Kind, Packed, Series, SeriesData, Value};
pub use read::{Batches, batches};
pub use table::Table;

/// A failed call is the reason that an endpoint fails, where `?` says so: the host then answers with
/// that failure itself, its place in the SQL included.
impl From<Failure> for Problem {
    fn from(_: Failure) -> Self {
        Self { code: "statement-failed".to_owned(), detail: String::new(), retryable: false }
    }
}

impl Problem {
    /// A problem of one of the contract's codes: `invalid-argument`, `not-found`, `conflict`,
    /// `unprocessable`; any other is a failure of the endpoint.
    pub fn new(code: &str, detail: &str) -> Self {
        Self { code: code.to_owned(), detail: detail.to_owned(), retryable: false }
    }
}

/// Exports a function `fn(&Request) -> Result<Response, Problem>` as the endpoint's handler.
#[macro_export]
macro_rules! endpoint {
    ($handler:path) => {
        struct TidegateEndpoint;

        impl $crate::Guest for TidegateEndpoint {
            fn handle(request: &$crate::Request) -> Result<$crate::Response, $crate::Problem> {
                $crate::log_panics();
                $handler(request)
            }
        }

        $crate::contract::export_handler!(TidegateEndpoint with_types_in $crate::contract);
    };
}

/// Makes a panic say where it was before it traps: without it, the operator sees a bare trap.
#[doc(hidden)]
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("panic");
        let mut line = String::from("panic: ");
        line.push_str(message);
        if let Some(place) = panic.location() {
            line.push_str(" at ");
            line.push_str(place.file());
            line.push(':');
            line.push_str(&place.line().to_string());
        }
        record_line(Level::Error, &line);
    }));
}
