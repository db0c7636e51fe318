//! The custom section that carries the manifest of an endpoint in its component.

use std::borrow::Cow;

use tidegate_model::{Manifest, ManifestError};
use wasm_encoder::{Component, CustomSection, RawSection};
use wasmparser::{BinaryReaderError, Encoding, Parser, Payload};

/// The name of the section. Its content is the manifest as canonical JSON: fields in the order of [`Manifest`], no
/// blanks, without optional parts that have their default.
pub const MANIFEST_SECTION: &str = "tidegate:manifest";

/// The largest manifest that is accepted, in bytes: enough for several statements of the greatest usual length. It is
/// parsed as a whole and stays in memory with its endpoint.
pub const MAX_MANIFEST_BYTES: usize = 1 << 20;

/// The manifest of a component.
///
/// # Errors
/// [`ManifestError::Unreadable`] if there is none, more than one, one that is longer than
/// [`MAX_MANIFEST_BYTES`], or no manifest; other cases if it breaks its rules.
pub fn manifest_of(component: &[u8]) -> Result<Manifest, ManifestError> {
    let unreadable = |error: &dyn std::fmt::Display| ManifestError::Unreadable(error.to_string());
    let mut found: Option<&[u8]> = None;
    for section in top_level(component) {
        let section = section.map_err(|error| unreadable(&error))?;
        if let Some(data) = section.manifest
            && found.replace(data).is_some()
        {
            return Err(ManifestError::Unreadable(format!("the section '{MANIFEST_SECTION}' is there twice")));
        }
    }
    let Some(json) = found else {
        let message = format!("there is no section '{MANIFEST_SECTION}'; pack the component with `tidegate build`");
        return Err(ManifestError::Unreadable(message));
    };
    fits(json).map_err(ManifestError::Unreadable)?;
    let manifest: Manifest = serde_json::from_slice(json).map_err(|error| unreadable(&error))?;
    if let Some(broken) = manifest.problems().into_iter().find(|problem| !problem.is_of_saving()) {
        return Err(broken);
    }
    Ok(manifest)
}

/// The component with this manifest in place of the one that it may have.
pub(crate) fn with_manifest(component: &[u8], manifest: &Manifest) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(manifest).map_err(|error| error.to_string())?;
    fits(&json)?;
    let mut out = without_manifest(component).map_err(|error| error.to_string())?;
    out.section(&CustomSection { name: Cow::Borrowed(MANIFEST_SECTION), data: Cow::Borrowed(&json) });
    Ok(out.finish())
}

/// The code of a component: all of it except the manifest. All SQL endpoints have the same code, which is compiled and
/// stored once.
///
/// # Errors
/// [`ManifestError::Unreadable`] if the bytes are no component.
pub fn code_of(component: &[u8]) -> Result<Vec<u8>, ManifestError> {
    without_manifest(component)
        .map(Component::finish)
        .map_err(|error| ManifestError::Unreadable(format!("its component cannot be read: {error}")))
}

fn without_manifest(component: &[u8]) -> Result<Component, BinaryReaderError> {
    let mut out = Component::new();
    for section in top_level(component) {
        let section = section?;
        if section.manifest.is_none() {
            out.section(&RawSection { id: section.id, data: section.data });
        }
    }
    Ok(out)
}

fn fits(manifest: &[u8]) -> Result<(), String> {
    let size = manifest.len();
    if size <= MAX_MANIFEST_BYTES {
        return Ok(());
    }
    Err(format!("the manifest has {size} bytes; at most {MAX_MANIFEST_BYTES} are allowed"))
}

/// One section of the outermost component.
struct Section<'a> {
    id: u8,
    data: &'a [u8],
    /// Its content, if it is the section of the manifest.
    manifest: Option<&'a [u8]>,
}

fn top_level(component: &[u8]) -> impl Iterator<Item = Result<Section<'_>, BinaryReaderError>> {
    let mut depth = 0_usize;
    Parser::new(0).parse_all(component).filter_map(move |payload| {
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => return Some(Err(error)),
        };
        let outermost = depth == 0;
        match &payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        let manifest = match &payload {
            Payload::CustomSection(custom) if custom.name() == MANIFEST_SECTION => Some(custom.data()),
            _ => None,
        };
        let (id, range) = payload.as_section().filter(|_| outermost)?;
        let data = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let data = data.and_then(|(start, end)| component.get(start..end))?;
        Some(Ok(Section { id, data, manifest }))
    })
}

/// Whether the bytes begin like a component or like a core module; `None` if like neither.
pub(crate) fn encoding_of(bytes: &[u8]) -> Option<Encoding> {
    match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding, .. })) => Some(encoding),
        _ => None,
    }
}
