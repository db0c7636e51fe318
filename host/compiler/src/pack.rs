//! Packing: the output of a toolchain becomes a component that carries its manifest.
//!
//! `cargo build --target wasm32-unknown-unknown` makes a core module that describes its world in a custom section;
//! `cargo component build` makes a component. Both are accepted.

use tidegate_model::{Manifest, ManifestError};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::ComponentEncoder;

use crate::advice;
use crate::gate::{GateError, precompiled};
use crate::section::{encoding_of, with_manifest};

/// Why a component could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The manifest breaks its rules.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The gate would refuse the input in any case.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The input is neither a core module nor a component.
    #[error(
        "the file is no WebAssembly: it must be the .wasm file that `cargo build --target wasm32-unknown-unknown` or `cargo component build` made"
    )]
    NotWasm,
    /// The input is a core module that does not say which world it was built for.
    #[error(
        "the module does not say which world it is for: build it with the tidegate-sdk crate (or wit-bindgen), as a library of crate-type \"cdylib\", and do not strip custom sections"
    )]
    NoWorld,
    /// The input is a core module with an import that only other kinds of hosts provide.
    #[error("the module imports '{import}', which no endpoint gets: {advice}")]
    Foreign {
        /// The import.
        import: String,
        /// The likely reason for it.
        advice: &'static str,
    },
    /// The folder has code that was not built.
    #[error("the endpoint has code: build it first (`cargo build --release --target wasm32-unknown-unknown`)")]
    NotBuilt,
    /// The module could not be converted to a component.
    #[error("the module cannot be made a component: {0}")]
    Encoding(String),
    /// The embedded contract could not be read; a bug.
    #[error("the embedded contract cannot be read: {0}")]
    Contract(String),
}

impl CompileError {
    /// All causes in one line; the last one is usually the most helpful.
    pub(crate) fn encoding(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            text = format!("{text}: {inner}");
            cause = inner.source();
        }
        Self::Encoding(text)
    }
}

/// Makes a component of a core module or of a component, and embeds the manifest. Packing a packed component again with
/// the same manifest gives the same bytes.
///
/// # Errors
/// The manifest breaks its rules, or the input cannot become an endpoint.
pub fn pack(component_or_core_module: &[u8], manifest: &Manifest) -> Result<Vec<u8>, CompileError> {
    manifest.validate()?;
    if precompiled(component_or_core_module) {
        return Err(GateError::Precompiled.into());
    }
    match encoding_of(component_or_core_module) {
        Some(Encoding::Component) => with_manifest(component_or_core_module, manifest).map_err(CompileError::Encoding),
        Some(Encoding::Module) => {
            let component = componentize(component_or_core_module)?;
            with_manifest(&component, manifest).map_err(CompileError::Encoding)
        }
        None => Err(CompileError::NotWasm),
    }
}

fn componentize(module: &[u8]) -> Result<Vec<u8>, CompileError> {
    let mut has_world = false;
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(CompileError::encoding)? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import.map_err(CompileError::encoding)?;
                    if import.module.starts_with("wasi") {
                        return Err(GateError::Wasi { import: format!("{}.{}", import.module, import.name) }.into());
                    }
                    if let Some(advice) = advice::of_foreign(import.module) {
                        let import = format!("{}.{}", import.module, import.name);
                        return Err(CompileError::Foreign { import, advice });
                    }
                }
            }
            Payload::CustomSection(custom) if custom.name().starts_with("component-type") => has_world = true,
            _ => {}
        }
    }
    if !has_world {
        return Err(CompileError::NoWorld);
    }
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|encoder| encoder.encode())
        .map_err(CompileError::encoding)
}
