//! Ingest: the routes that receive logs, from authentication to the response.
//!
//! All formats take the same steps: authenticate the sender, find the source that the request head names, and only then
//! read the body; split it into events; store the valid events and report the others. Accepted events are on stable
//! storage before the response is sent.
//!
//! - `routes`, `otlp`: the routes;
//! - `intake`: the steps that they share;
//! - `body`, `body_memory`: reading a body, and the memory budget for all bodies;
//! - `batch`: the events of one request;
//! - `json`, `otlp_json`, `otlp_protobuf` with `otlp_record`: the formats;
//! - `elements`, `text`: reading JSON piece by piece;
//! - `key`: the idempotency key of a request.

mod batch;
mod body;
mod body_memory;
mod elements;
mod intake;
mod json;
mod key;
pub(crate) mod otlp;
mod otlp_json;
mod otlp_protobuf;
mod otlp_record;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use body_memory::BodyMemory;
