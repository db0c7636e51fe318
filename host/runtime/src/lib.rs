//! Running endpoints: one fresh instance a request, under limits, over statements that the server
//! provides.
//!
//! The runtime knows components, limits and record batches; it knows neither SQL nor HTTP. A guest
//! holds handles to result sets, and rows stay outside of it unless it asks for them. What the
//! guest returns is handed back as an [`Answer`], whose rows are streamed after the instance and
//! its permit are gone.
//!
//! - [`Runtime`]: [`prepare`](Runtime::prepare) a component once, [`handle`](Runtime::handle) a
//!   request as often as wanted.
//! - [`Statements`]: what the server provides for each request.
//! - `limits`: how a guest is stopped; `artefacts`: how compiled code is kept.

mod answer;
mod apart;
mod artefacts;
mod batch;
mod bindings;
mod call;
mod class;
mod ended;
mod engine;
mod exchange;
mod host;
mod limits;
mod made;
mod prepared;
mod result_set;
mod rows;
mod runtime;
mod words;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Body, Usage};
pub use apart::{Compilation, CompileCommand, compile_alone};
pub use artefacts::ArtefactOptions;
pub use class::{Class, Fault, Quota};
pub use ended::Ended;
pub use prepared::Endpoint;
pub use rows::{CellJson, Column, Made, Rows, Statement, Statements};
pub use runtime::{PoolUse, Request, Runtime, RuntimeError, RuntimeOptions};
