//! Any bytes as a body at any door.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::doors(data));
