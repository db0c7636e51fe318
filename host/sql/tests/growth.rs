//! What reading a text takes grows as the text does: counted in bytes that are allocated, not in time.
#![expect(unsafe_code, reason = "counting what is allocated needs an allocator, which is unsafe by nature")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate_model::TextLimits;
use tidegate_sql::SavedQuery;

thread_local! {
    /// Bytes that this thread has allocated so far, those that it has let go of included.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The bytes that reading a text allocates, in sum.
fn allocated(sql: &str) -> usize {
    let limits = TextLimits { bytes: 8 << 20, tokens: 500_000, ..TextLimits::default() };
    let before = ALLOCATED.get();
    let read = SavedQuery::parse_within(sql, &limits);
    let bytes = ALLOCATED.get() - before;
    drop(read);
    bytes
}

#[test]
fn a_text_that_is_four_times_as_long_takes_about_four_times_as_much() {
    type Text = fn(usize) -> String;
    fn listed(item: &str, count: usize) -> String {
        format!("SELECT {}", vec![item; count].join(", "))
    }
    let texts: [(&str, Text); 12] = [
        ("typed arrays", |n| listed("ARRAY<INT64>[]", n)),
        ("typed arrays in one another", |n| listed("ARRAY<INT64>[ARRAY<INT64>[ARRAY<INT64>[1]]]", n)),
        ("typed arrays that do not end", |n| listed("ARRAY<INT64>[", n)),
        ("types that do not end", |n| format!("SELECT {}", "ARRAY<".repeat(n))),
        ("types of blanks", |n| listed("ARRAY < INT64 > \t\n /* that */ [ ]", n)),
        ("calls of SAFE", |n| listed("SAFE.LENGTH('x')", n)),
        ("raw bytes", |n| listed(r"rb'\d'", n)),
        ("blanks", |n| format!("SELECT -1{}", " ".repeat(20 * n))),
        ("a text", |n| format!("SELECT '{}'", r"\x41\n''".repeat(n))),
        ("conditions", |n| format!("SELECT 1 WHERE {}", vec!["a"; n].join(" OR "))),
        ("a list", |n| format!("SELECT 1 IN ({})", vec!["'x'"; n].join(", "))),
        ("a mistake at the end", |n| format!("{} FROM FROM", listed("CAST((x) AS INT64)", n))),
    ];
    for (what, text) in texts {
        let (small, large) = (allocated(&text(1_000)), allocated(&text(4_000)));
        assert!(large < 5 * small, "{what}: {small} bytes, and then {large}");
    }
}

/// The text of thousands of arrays that once took gigabytes.
#[test]
fn thousands_of_typed_arrays_take_megabytes() {
    let sql = format!("SELECT {}", vec!["ARRAY<INT64>[]"; 2_600].join(", "));
    let bytes = allocated(&sql);
    assert!(bytes < 64 << 20, "{bytes} bytes for {}", sql.len());
}

/// What the parser reads again and again is counted by its size: each reading copies it.
#[test]
fn a_long_text_inside_nested_mistakes_is_not_copied_without_bound() {
    for (open, close) in [("SAFE_CAST(", " AS INT64)"), ("POSITION(", ")"), ("INTERVAL ", " DAY"), ("SUBSTRING(", ")")]
    {
        let sql = format!("SELECT {}'{}' 1 1{}", open.repeat(28), "x".repeat(200_000), close.repeat(28));
        let bytes = allocated(&sql);
        assert!(bytes < 1 << 30, "{open}: {bytes} bytes for {}", sql.len());
    }
}
