//! Ingest: the routes that receive logs, from authentication to the response.
//!
//! All formats take the same steps: authenticate the sender, find the source that the request head names, and only then
//! read the body; split it into events; store the valid events and report the others. Accepted events are on stable
//! storage before the response is sent.
//!
//! - `routes`: the routes; `doors`: the protocols of other services; `json_door`, `otlp`, `otlp_grpc`: our own and OpenTelemetry's;
//! - `syslog`: messages over TCP and TLS, without HTTP;
//! - `receive`: the steps; `door`: what a protocol adds to them;
//! - `events`, `intake`: the parts of the steps; `credentials`: where the token stands;
//! - `body`, `body_memory`: reading a body, and the memory budget for all bodies;
//! - `batch`: the events of one source;
//! - `json`, `otlp_json`, `otlp_protobuf` with `otlp_record`: the formats of `json_door` and `otlp`;
//! - `elements`, `text`, `wire`: reading JSON and Protocol Buffers piece by piece; `nanoseconds`: times; `logged`: an answer;
//! - `dry_run`: reading without storing, for the fuzz target;
//! - `key`: the idempotency key of a request.

mod batch;
mod body;
mod body_memory;
mod body_parts;
mod credentials;
mod door;
mod doors;
mod dry_run;
mod elements;
mod events;
mod intake;
mod json;
mod json_door;
mod key;
mod logged;
mod nanoseconds;
mod otlp;
mod otlp_grpc;
mod otlp_json;
mod otlp_protobuf;
mod otlp_record;
mod otlp_signal;
mod receive;
mod routes;
mod syslog;
#[cfg(test)]
mod tests;
mod text;
mod wire;

pub(crate) use body_memory::BodyMemory;
pub use dry_run::{BodyContent, body_forms, read_body};

pub(crate) use doors::bulk_answer::{is_client, question};
pub(crate) use routes::{add_routes, shows_token};
pub use syslog::{Syslog, SyslogContent, SyslogError, read_syslog};
