//! The contract in Rust, word for word as `wit/endpoint.wit` has it. You rarely need it.
//!
//! The rest of the crate is written with these functions and types, and an endpoint may use both side by side:
//! [`ResultSet::contract`](crate::ResultSet::contract) and the `From` implementations of
//! [`ResultSet`](crate::ResultSet) and [`Response`](crate::Response) lead from one to the other. A use is a table whose
//! columns are known only while the endpoint runs, which [`ResultSet::make`] takes.
#![allow(missing_docs, clippy::allow_attributes, clippy::allow_attributes_without_reason, reason = "generated")]

#[cfg(not(feature = "adhoc"))]
wit_bindgen::generate!({
    path: "wit",
    world: "endpoint",
    pub_export_macro: true,
    export_macro_name: "export_handler",
    default_bindings_module: "tidegate_sdk::contract",
});

#[cfg(feature = "adhoc")]
wit_bindgen::generate!({
    path: "wit",
    world: "endpoint-adhoc",
    pub_export_macro: true,
    export_macro_name: "export_handler",
    default_bindings_module: "tidegate_sdk::contract",
});

#[doc(hidden)]
pub use exports::tidegate::endpoint::handler::Guest;
pub use exports::tidegate::endpoint::handler::Problem;
#[cfg(feature = "adhoc")]
pub use tidegate::endpoint::adhoc::run as run_sql;
pub use tidegate::endpoint::exchange::{Request, Response};
pub use tidegate::endpoint::log::{Level, record_line};
pub use tidegate::endpoint::results::ResultSet;
pub use tidegate::endpoint::statements::run;
pub use tidegate::endpoint::types::{
    ArgumentError, Batch, Column, Exhaustion, Failure, Kind, Packed, Position, QueryError, Quota, Series, SeriesData,
    Value,
};
