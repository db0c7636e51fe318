//! Running endpoints: one fresh instance for each request, under limits, over statements that the server provides.
//!
//! The runtime knows components, limits and record batches. It knows neither SQL nor HTTP. A guest has handles to
//! result sets; their rows stay in the host unless the guest reads them. What the guest returns is an [`Answer`], whose
//! rows are streamed after the instance and its permit are freed.
//!
//! - [`Runtime`]: [`prepare`](Runtime::prepare) a component once, [`handle`](Runtime::handle) any number of requests.
//! - [`Statements`]: what the server provides for each request.
//!
//! The modules in layers, lowest first. Each uses only modules above it in this list.
//!
//! - `rows`, `answer`, `class`, `hard_limit`, `error`: types
//! - `engine`: the configuration of wasmtime; `artefacts`: compiled code on disk; `subprocess`, `compile`: compiling
//! - `result_set`, `response`: the resources of which a guest has handles
//! - `bindings`: the generated code for the WIT package; it names the types of `result_set` and `response`
//! - `wit_convert`, `batch`, `guest_rows`: conversions between host and guest types
//! - `budget`, `statement_task`, `host`, `limits`: the state of a request, the functions that a guest calls, the limits
//! - `endpoint`, `prepared`, `call`, `call_error`, `options`, `runtime`: from a component to an answer

mod answer;
mod artefacts;
mod batch;
mod bindings;
mod budget;
mod call;
mod call_error;
mod class;
mod compile;
mod endpoint;
mod engine;
mod error;
mod guest_rows;
mod hard_limit;
mod held_bytes;
mod host;
mod limits;
mod options;
mod prepared;
mod response;
mod result_set;
mod rows;
mod runtime;
mod statement_task;
mod subprocess;
mod wit_convert;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Body, Usage};
pub use artefacts::ArtefactOptions;
pub use call_error::CallError;
pub use class::{Class, Fault, Quota};
pub use endpoint::Endpoint;
pub use error::RuntimeError;
pub use options::{PoolUse, Request, RuntimeOptions};
pub use rows::{CellJson, Column, MadeByGuest, Rows, Statement, Statements};
pub use runtime::Runtime;
pub use subprocess::{Compilation, CompileCommand, compile_alone};
