//! Attacks on memory that safe Rust does not have.
#![expect(unsafe_code, reason = "this guest reads what is not its own, as far as it is let")]

use std::arch::wasm32::memory_size;
use std::hint::black_box;

/// Pages that a tenant leaves its mark in.
const PAGES: usize = 32;
const PAGE: usize = 64 << 10;

/// Looks for the mark of any tenant in all memory that there is, then leaves this tenant's mark all
/// over it: how many marks there were. A fresh instance has none.
pub(crate) fn remember(tenant: &str) -> usize {
    // Put together here, so that it does not lie in memory from the beginning.
    let mark: Vec<u8> = b"egdnelwonk:".iter().rev().copied().collect();
    let found = count(&mark);
    let mut marked = mark;
    marked.extend_from_slice(tenant.as_bytes());
    let marks = black_box(marked.repeat(PAGES * PAGE / marked.len().max(1)));
    // They are there: the next instance would find them in memory that was not cleared.
    assert!(count(&marked) > 1000, "the marks are not in memory");
    std::mem::forget(marks);
    // The mark that was looked for is in memory once, and its copy may be.
    found.saturating_sub(2)
}

/// How often a text lies in memory.
fn count(text: &[u8]) -> usize {
    let bytes = memory_size(0) * PAGE;
    let Some(first) = text.first() else { return 0 };
    let byte = |at: usize| {
        // SAFETY: below `bytes`, all of linear memory can be read; the read is volatile because to
        // the compiler this is nobody's memory.
        unsafe { std::ptr::with_exposed_provenance::<u8>(at).read_volatile() }
    };
    let matches = |at: usize| text.iter().enumerate().all(|(offset, own)| byte(at + offset) == *own);
    // The null page is left out: to Rust it is no memory.
    (1024..bytes.saturating_sub(text.len())).filter(|at| byte(*at) == *first && matches(*at)).count()
}

/// Reads past the end of all memory.
pub(crate) fn read_beyond() {
    let end = memory_size(0) * PAGE;
    // SAFETY: there is none: the engine must stop this.
    black_box(unsafe { std::ptr::with_exposed_provenance::<u8>(end + PAGE).read_volatile() });
}
