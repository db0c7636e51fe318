//! The HTTP interface of a service.
//!
//! [`serve`] accepts connections, [`Startup`] decides which routes a connection gets while the service opens, runs and
//! stops. The routes are in `routes`; handlers translate between HTTP and `tidegate-service`. A failure becomes an answer
//! in one place, `failure`.
//!
//! Modules use each other downwards only: `serve` and `startup` are at the top, then `routes`, the handlers, the
//! middleware, and `app`, which is the state that handlers share.

mod accept;
mod app;
mod auth;
mod blocking_body;
mod cached;
mod call_statistics;
mod connection;
mod console;
mod explain;
mod failure;
mod fixed_document;
mod follow;
mod holding_body;
mod ingest;
mod manage;
mod metrics;
mod middleware;
mod note_headers;
mod notes;
mod openapi;
mod parameters;
mod query;
mod rate_headers;
mod ready;
mod request_body;
mod response;
mod routes;
mod row_schemas;
mod serve;
mod shown;
mod slow_queries;
mod startup;
#[cfg(test)]
mod tests;
mod tls;
mod traces;

pub use ingest::{BodyContent, Syslog, SyslogContent, SyslogError, body_forms, read_body, read_syslog};
pub use serve::serve;
pub use startup::Startup;
pub use tls::{Tls, TlsError};
pub use traces::Traces;
