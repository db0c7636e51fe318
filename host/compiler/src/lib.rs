//! From an endpoint folder or a saved query to a component, and the static half of the gate that every component must
//! pass before it is stored.
//!
//! Every endpoint becomes a component. For a SQL endpoint the component is generated, without a toolchain
//! ([`compile_sql`]). An endpoint with code is packed from what `cargo build` or `cargo component build` made
//! ([`pack()`]). Both carry their manifest in a custom section, so that the digest of the bytes covers what the
//! endpoint was declared to do. [`inspect`] reads a component and never runs it.
//!
//! No engine is used here: the dynamic half of the gate (compilation, trial instantiation) is in the runtime.
//!
//! The modules in layers, lowest first: `contract`, `section`, `serde_messages`, `advice`, `producers`; `gate`; `pack`;
//! `generate`; `folder`.

mod advice;
mod contract;
mod folder;
mod gate;
mod generate;
mod pack;
mod producers;
mod section;
mod serde_messages;

pub use contract::{WIT, World};
pub use folder::{
    Build, COMPONENT_FILE, Folder, FolderError, Source, build_of, endpoint_toml, is_statement_name, manifest_of_texts,
};
pub use gate::{FEATURES, GateError, Inspection, MAX_COMPONENT_BYTES, MAX_GUEST_MEMORY, inspect};
pub use generate::{DEFAULT_STATEMENT, SQL_ARGUMENT, compile_adhoc, compile_sql, is_generated, is_generated_code};
pub use pack::{CompileError, pack};
pub use producers::{Tool, tools};
pub use section::{MANIFEST_SECTION, MAX_MANIFEST_BYTES, code_of, manifest_of};
pub use serde_messages::in_plain_words;
