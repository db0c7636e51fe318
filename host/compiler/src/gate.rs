//! The static half of the gate: what can be known of a component without compiling or running it.
//!
//! Cheap checks come first. No code of the guest runs here. The half of the runtime follows (compilation and a trial
//! instantiation under limits), and the server plans the statements. A refusal says what is wrong and what would be
//! right, because an author reads it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sha2::{Digest, Sha256};
use tidegate_model::{Manifest, ManifestError};
use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};
use wit_parser::decoding::{DecodedWasm, decode};

use crate::advice;
use crate::contract::{Contract, World, contract};
use crate::section::{encoding_of, manifest_of};

/// The largest component that is accepted, in bytes.
pub const MAX_COMPONENT_BYTES: usize = 16 << 20;

/// The most initial linear memory of a component, over all its memories, in bytes.
pub const MAX_GUEST_MEMORY: u64 = 64 << 20;

const MAX_MEMORIES: u64 = 2;
const MAX_TABLES: u64 = 16;
const MAX_TABLE_ELEMENTS: u64 = 100_000;
const MAX_MODULES: u64 = 32;
/// The longest text in a refusal that quotes the component, in bytes.
const MAX_QUOTED: usize = 1000;
const PAGE: u64 = 64 << 10;

/// The WebAssembly features that a component may use: exactly those that the engine of the runtime enables. Version 2
/// of the core (bulk memory, multi-value, reference types, 128-bit SIMD) with extended constant expressions. No
/// threads, no 64-bit memory, no second memory in a module, no garbage collection, no exceptions, nothing whose results
/// differ between machines.
pub const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .difference(WasmFeatures::GC_TYPES)
    .union(WasmFeatures::EXTENDED_CONST)
    .union(WasmFeatures::COMPONENT_MODEL);

/// Why a component is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The file is too large.
    #[error(
        "the component has {size} bytes; at most {MAX_COMPONENT_BYTES} are allowed (build with opt-level \"s\", lto and strip)"
    )]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// It is machine code, which is never accepted.
    #[error("the file is precompiled machine code; send the portable component (.wasm), the server compiles it itself")]
    Precompiled,
    /// It is a core module.
    #[error("the file is a core module, not a component; pack it with `tidegate build`")]
    CoreModule,
    /// It is not WebAssembly.
    #[error("the file is no WebAssembly component")]
    NotWasm,
    /// It is invalid, or uses a feature that is disabled.
    #[error(
        "the component is not valid here: {reason} (allowed is WebAssembly 2.0 without threads, 64-bit memory, garbage collection and exceptions)"
    )]
    Invalid {
        /// What the validator found, and where.
        reason: String,
    },
    /// It declares more than a limit allows.
    #[error("the component declares {found} {what}; at most {limit} are allowed")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// How much.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// Its imports and exports cannot be read.
    #[error("the imports and exports of the component cannot be read: {reason}")]
    Undecodable {
        /// Why.
        reason: String,
    },
    /// It imports the system interface.
    #[error(
        "the component imports '{import}' (WASI), and endpoints have no system access; build for the target wasm32-unknown-unknown, not for a wasm32-wasi one. Likely {}",
        advice::of_wasi(import)
    )]
    Wasi {
        /// The import.
        import: String,
    },
    /// It imports something else that endpoints do not get.
    #[error("the component imports '{import}', which no endpoint gets; there are {allowed}")]
    Import {
        /// The import.
        import: String,
        /// The imports that exist.
        allowed: String,
    },
    /// It does not export the handler.
    #[error("the component does not export '{expected}'; implement `handle` and export it with the SDK's macro")]
    NoHandler {
        /// The export that is missing.
        expected: &'static str,
    },
    /// The names fit the contract, but the types do not.
    #[error("the component does not fit the world 'tidegate:endpoint/endpoint': {reason}")]
    World {
        /// What does not fit.
        reason: String,
    },
    /// It has no manifest, or an invalid one.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The embedded contract could not be read; a bug.
    #[error("the embedded contract cannot be read: {0}")]
    Contract(String),
}

/// The result of inspecting a component.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// Its manifest.
    pub manifest: Manifest,
    /// The smallest world that it fits.
    pub world: World,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// SHA-256 of the component's bytes, manifest included.
    pub digest: [u8; 32],
    /// Bytes of linear memory at the start.
    pub initial_memory: u64,
}

/// Checks a component as far as that is possible without compiling it.
///
/// # Errors
/// The first rule that is broken.
pub fn inspect(component: &[u8]) -> Result<Inspection, GateError> {
    if component.len() > MAX_COMPONENT_BYTES {
        return Err(GateError::TooLarge { size: component.len() });
    }
    if precompiled(component) {
        return Err(GateError::Precompiled);
    }
    match encoding_of(component) {
        Some(Encoding::Component) => {}
        Some(Encoding::Module) => return Err(GateError::CoreModule),
        None => return Err(GateError::NotWasm),
    }
    Validator::new_with_features(FEATURES)
        .validate_all(component)
        .map_err(|error| GateError::Invalid { reason: brief(&error.to_string()) })?;
    let initial_memory = weigh(component)?;
    let contract = contract().map_err(GateError::Contract)?;
    // The decoder is made for the output of compilers. Here its input may come from anyone.
    let (world, imports) = catch_unwind(AssertUnwindSafe(|| world_of(contract, component)))
        .unwrap_or_else(|_| Err(GateError::Undecodable { reason: "its structure is unusual".to_owned() }))?;
    let manifest = manifest_of(component)?;
    Ok(Inspection { manifest, world, imports, digest: Sha256::digest(component).into(), initial_memory })
}

/// The beginning of a text that quotes the component, because names may be as long as the file.
fn brief(text: &str) -> String {
    match text.get(..text.floor_char_boundary(MAX_QUOTED)) {
        Some(beginning) if beginning.len() < text.len() => format!("{beginning} ..."),
        _ => text.to_owned(),
    }
}

/// Whether the bytes are compiled code of an engine, which is an ELF file.
pub(crate) fn precompiled(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Sums up what the modules declare and checks it. Returns the initial memory in bytes.
fn weigh(component: &[u8]) -> Result<u64, GateError> {
    let invalid = |error: wasmparser::Error| GateError::Invalid { reason: brief(&error.to_string()) };
    let (mut modules, mut memories, mut memory, mut tables, mut elements) = (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(invalid)? {
            Payload::ModuleSection { .. } => modules += 1,
            Payload::MemorySection(section) => {
                for ty in section {
                    memories += 1;
                    memory = memory.saturating_add(ty.map_err(invalid)?.initial.saturating_mul(PAGE));
                }
            }
            Payload::TableSection(section) => {
                for table in section {
                    tables += 1;
                    elements = elements.saturating_add(table.map_err(invalid)?.ty.initial);
                }
            }
            _ => {}
        }
    }
    for (what, found, limit) in [
        ("core modules", modules, MAX_MODULES),
        ("memories", memories, MAX_MEMORIES),
        ("bytes of initial memory", memory, MAX_GUEST_MEMORY),
        ("tables", tables, MAX_TABLES),
        ("table elements", elements, MAX_TABLE_ELEMENTS),
    ] {
        if found > limit {
            return Err(GateError::OverLimit { what, found, limit });
        }
    }
    Ok(memory)
}

/// The smallest world that the component fits, and its imports.
fn world_of(contract: &Contract, component: &[u8]) -> Result<(World, Vec<String>), GateError> {
    let undecodable = |error: &dyn std::fmt::Display| GateError::Undecodable { reason: brief(&error.to_string()) };
    let decoded = decode(component).map_err(|error| undecodable(&format_args!("{error:#}")))?;
    let DecodedWasm::Component(resolve, id) = decoded else {
        return Err(undecodable(&"it is a WIT package, not a component"));
    };
    let world = resolve.worlds.get(id).ok_or_else(|| undecodable(&"it has no world"))?;
    let imports: Vec<String> = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();

    let granted = contract.imports(World::EndpointAdhoc);
    for import in &imports {
        if import.starts_with("wasi:") || import.starts_with("wasi_") {
            return Err(GateError::Wasi { import: brief(import) });
        }
        // Compatible versions are accepted; the type check below decides whether they fit.
        if !granted.iter().any(|name| unversioned(name) == unversioned(import)) {
            return Err(GateError::Import { import: brief(import), allowed: granted.join(", ") });
        }
    }
    let expected = crate::contract::HANDLER;
    if !world.exports.keys().any(|key| unversioned(&resolve.name_world_key(key)) == unversioned(expected)) {
        return Err(GateError::NoHandler { expected });
    }
    let fits = |world: World| wit_component::targets(&contract.resolve, contract.world(world), component, true);
    if fits(World::Endpoint).is_ok() {
        return Ok((World::Endpoint, imports));
    }
    match fits(World::EndpointAdhoc) {
        Ok(()) => Ok((World::EndpointAdhoc, imports)),
        Err(error) => Err(GateError::World { reason: brief(&format!("{error:#}")) }),
    }
}

fn unversioned(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}
