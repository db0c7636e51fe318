//! Any bytes as LQL.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        tidegate_fuzz::lql(text);
    }
});
