//! The HTTP interface of a service.
//!
//! [`serve`] accepts connections, [`Startup`] decides which routes a connection gets while the service opens, runs and
//! stops. The routes are in `routes`; handlers translate between HTTP and `tidegate-service`. A failure becomes an answer
//! in one place, `failure`. What doors (`tidegate-doors`) answer becomes a response in `doors`.
//!
//! Modules use each other downwards only: `serve` and `startup` are at the top, then `routes`, the handlers, the
//! middleware, and `app`, which is the state that handlers share.

mod accept;
mod app;
mod auth;
mod cached;
mod call_statistics;
mod connection;
mod console;
mod doors;
#[cfg(test)]
mod doors_tests;
mod explain;
mod failure;
mod follow;
mod holding_body;
mod manage;
mod metrics;
mod metrics_page;
mod middleware;
mod note_headers;
mod openapi;
mod parameters;
mod query;
mod rate_headers;
mod ready;
mod request_body;
mod request_context;
mod response;
mod routes;
mod serve;
mod shown;
mod slow_queries;
mod startup;
#[cfg(test)]
mod tests;
mod tls;
mod traces;

pub use serve::serve;
pub use startup::Startup;
pub use tls::{Tls, TlsError};
pub use traces::Traces;
