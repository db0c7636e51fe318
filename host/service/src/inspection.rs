//! Packed components: inspected, and taken apart into manifest and code.

use sha2::{Digest, Sha256};
use tidegate_compiler::{Inspection, code_of};
use tidegate_model::Failure;

use crate::failures::refused;

/// Inspects a packed component: its manifest, its digest, and that it is well formed and fits the contract.
///
/// # Errors
/// [`tidegate_model::Code::Refused`] with the reason.
pub fn inspect(component: &[u8]) -> Result<Inspection, Failure> {
    tidegate_compiler::inspect(component).map_err(|error| refused(error.to_string()))
}

/// The code of a component, without its manifest. Code is compiled and stored under its digest: endpoints whose components
/// differ only in their manifests share it.
pub(crate) struct ComponentCode {
    pub(crate) bytes: Vec<u8>,
    /// The SHA-256 of the bytes.
    pub(crate) digest: [u8; 32],
}

impl ComponentCode {
    /// The code of a packed component.
    ///
    /// # Errors
    /// [`tidegate_model::Code::Refused`] for bytes that are no component.
    pub(crate) fn of(component: &[u8]) -> Result<Self, Failure> {
        let bytes = code_of(component).map_err(|error| refused(error.to_string()))?;
        Ok(Self { digest: Sha256::digest(&bytes).into(), bytes })
    }
}
