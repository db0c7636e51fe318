//! Any header, claims and key set of an issuer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::claims(data));
