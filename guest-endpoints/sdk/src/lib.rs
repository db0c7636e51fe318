#![doc = include_str!("../README.md")]

mod batch;
pub mod contract;
mod json;
mod log;
mod problem;
mod request;
mod response;
mod rows;
mod statement;
mod table;
mod timestamp;
mod value;

#[doc(hidden)]
pub use batch::Series;
pub use batch::{Cell, Column, Row};
pub use contract::{Failure, Problem};
pub use json::{Json, quote};
#[doc(hidden)]
pub use log::{log, log_panics};
pub use request::Request;
pub use response::Response;
pub use rows::Rows;
#[cfg(feature = "adhoc")]
pub use statement::sql;
pub use statement::{ResultSet, Statement, statement};
#[doc(hidden)]
pub use table::Builder;
pub use table::{IntoCell, Record, Table};
pub use timestamp::Timestamp;
pub use value::FromValue;

/// Exports a function `fn(&Request) -> Result<Response, Problem>` as the endpoint: once in a crate.
///
/// It also makes panics say what and where in the operator's log before they end the request.
#[macro_export]
macro_rules! endpoint {
    ($handler:path) => {
        struct TidegateEndpoint;

        impl $crate::contract::Guest for TidegateEndpoint {
            fn handle(request: &$crate::contract::Request) -> Result<$crate::contract::Response, $crate::Problem> {
                $crate::log_panics();
                $handler(&$crate::Request::of(request)).map(::core::convert::Into::into)
            }
        }

        $crate::contract::export_handler!(TidegateEndpoint with_types_in $crate::contract);
    };
}
