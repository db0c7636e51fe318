//! Any bytes as a plan that comes to a worker.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::plans(data));
