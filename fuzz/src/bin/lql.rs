//! Any bytes as LQL.
#![no_main]

use std::sync::LazyLock;

use tidegate_fuzz::Tokens;

static TOKENS: LazyLock<Tokens> = LazyLock::new(|| Tokens::of("lql"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        tidegate_fuzz::lql(text);
    }
});

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let text = data.get(..size).and_then(|text| std::str::from_utf8(text).ok());
    let Some(text) = text.filter(|_| seed % 4 != 0) else {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    };
    let made = TOKENS.mutate(text, seed);
    match data.get_mut(..made.len()).filter(|_| made.len() <= max_size && !made.is_empty()) {
        Some(room) => {
            room.copy_from_slice(made.as_bytes());
            made.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
});
