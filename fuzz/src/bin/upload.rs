//! Any bytes as an upload.
#![no_main]

use std::sync::Once;

/// Libraries that are written for the output of compilers. The gate catches their panics and refuses the upload
/// (`host/compiler/src/gate.rs`), so these are no findings.
const CAUGHT: [&str; 2] = ["/wit-parser-", "/wit-component-"];

/// The fuzzer ends at every panic, caught or not; from here on not at those of [`CAUGHT`]. One that nobody catches is
/// a finding all the same.
fn let_caught_panics_be() {
    let ends = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |location| location.file());
        if !CAUGHT.iter().any(|library| file.contains(library)) {
            ends(panic);
        }
    }));
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static HOOK: Once = Once::new();
    HOOK.call_once(let_caught_panics_be);
    tidegate_fuzz::upload(data);
});
