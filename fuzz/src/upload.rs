//! What must hold for any bytes that are sent as a component.

use std::sync::LazyLock;

use tidegate_compiler::{GateError, inspect, pack};
use tidegate_model::{EndpointName, Manifest};

/// What is said of bytes that are refused. They may name what they import, so a refusal quotes them.
const LONGEST_REFUSAL: usize = 4000;

static MANIFEST: LazyLock<Manifest> = LazyLock::new(|| {
    let name = EndpointName::try_from("fuzzed".to_owned()).unwrap_or_else(|error| panic!("{error}"));
    Manifest::new(name, "WITH t AS (SELECT id FROM `a.b`) SELECT id FROM t")
});

/// One upload, as it is and packed: it is refused with words, or what was found out about it holds.
pub fn upload(bytes: &[u8]) {
    // As the management API takes it.
    match inspect(bytes) {
        Ok(found) => {
            assert_eq!(inspect(bytes).as_ref(), Ok(&found), "a component is one thing, and then another");
            let again =
                pack(bytes, &found.manifest).unwrap_or_else(|error| panic!("it cannot be packed again: {error}"));
            accepted(&again, &found.manifest);
        }
        Err(error) => refused(&error),
    }
    // As the command line makes one of what a toolchain left.
    match pack(bytes, &MANIFEST) {
        Ok(packed) => match inspect(&packed) {
            Ok(_) => accepted(&packed, &MANIFEST),
            Err(error) => refused(&error),
        },
        Err(error) => spoken(&error.to_string()),
    }
}

/// A packed component has its manifest, and packing it once more changes nothing.
fn accepted(packed: &[u8], manifest: &Manifest) {
    let found = inspect(packed).unwrap_or_else(|error| panic!("what was packed is refused: {error}"));
    assert_eq!(&found.manifest, manifest, "another manifest than the one that was packed");
    let again = pack(packed, manifest).unwrap_or_else(|error| panic!("what was packed cannot be packed: {error}"));
    assert!(again == packed, "packing what is packed changes it");
}

fn refused(error: &GateError) {
    assert!(!matches!(error, GateError::Contract(_)), "the embedded contract broke: {error}");
    spoken(&error.to_string());
}

fn spoken(message: &str) {
    assert!(!message.trim().is_empty(), "refused without a word");
    assert!(message.len() < LONGEST_REFUSAL, "refused with {} bytes of words", message.len());
}
