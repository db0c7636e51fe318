//! Any bytes as a stream of syslog.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tidegate_fuzz::syslog(data));
