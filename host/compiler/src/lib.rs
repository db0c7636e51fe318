//! From an endpoint folder to a component, and the static half of the gate that every component
//! must pass before it is kept.
//!
//! Everything becomes a component: a SQL endpoint by code generation, without a toolchain
//! ([`compile_sql`]); a Wasm endpoint by packing what `cargo build` or `cargo component build`
//! made ([`pack()`]). Both carry their manifest in a custom section, so that the digest of the bytes
//! covers what the endpoint was declared to do. [`inspect`] reads, and never runs, a component.
//!
//! No engine is used here: the dynamic half of the gate (compilation, dry instantiation) is the
//! runtime's.

mod advice;
mod contract;
mod folder;
mod gate;
mod generate;
mod pack;
mod producers;
mod section;
mod words;

pub use contract::{WIT, World};
pub use folder::{
    Build, COMPONENT_FILE, Folder, FolderError, Source, build_of, endpoint_toml, is_statement_name, manifest_of_texts,
};
pub use gate::{FEATURES, GateError, Inspection, MAX_COMPONENT_BYTES, MAX_GUEST_MEMORY, inspect};
pub use generate::{DEFAULT_STATEMENT, SQL_ARGUMENT, compile_adhoc, compile_sql, is_generated, is_generated_code};
pub use pack::{CompileError, pack};
pub use producers::{Tool, tools};
pub use section::{MANIFEST_SECTION, MAX_MANIFEST_BYTES, code_of, manifest_of};
pub use words::in_plain_words;
