//! What reading a text takes grows as the text does, and what functions hold while they compute is little:
//! counted in bytes that are allocated, not in time.
#![expect(unsafe_code, reason = "counting what is allocated needs an allocator, which is unsafe by nature")]
#![expect(clippy::expect_used, reason = "a failed test may panic")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use futures::TryStreamExt;
use tidegate_model::{Arguments, Code, Failure, TextLimits};
use tidegate_sql::{Binding, Engine, EngineOptions, NoSources, SavedQuery};

thread_local! {
    /// Bytes that this thread has allocated so far, those that it has let go of included.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    /// Bytes that it holds, and the most that it has held.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn held(bytes: isize) {
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        held(layout.size().cast_signed());
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        held(-layout.size().cast_signed());
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

/// The most bytes that are held at once while a statement runs that may hold `memory`, and how it ends.
fn most_held(sql: &str, memory: usize) -> (usize, Result<usize, Failure>) {
    most_held_in(1, sql, memory)
}

fn most_held_in(partitions: usize, sql: &str, memory: usize) -> (usize, Result<usize, Failure>) {
    let options = EngineOptions { partitions, statement_memory: memory, ..EngineOptions::default() };
    let engine = Engine::new(&options).expect("an engine");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let before = HELD.get();
    MOST.set(before);
    let ended = runtime.block_on(async {
        let plan = engine.plan(sql, Binding::new(&NoSources, &Arguments::new(), 0))?;
        let batches: Vec<_> = engine.run(plan, None).await?.try_collect().await?;
        Ok(batches.iter().map(datafusion::arrow::array::RecordBatch::num_rows).sum())
    });
    (usize::try_from(MOST.get() - before).unwrap_or_default(), ended)
}

/// A list of a million lists, whose tree is hundreds of megabytes.
const LISTS: &str = "CONCAT('[', REPEAT('[0],', 1000000), '0]')";

#[test]
fn json_of_which_no_tree_is_wanted_is_read_without_one() {
    for call in [
        format!("JSON_TYPE({LISTS})"),
        format!("JSON_VALUE({LISTS}, '$[1000000]')"),
        format!("JSON_QUERY({LISTS}, '$[999999]')"),
        format!("LAX_INT64({LISTS})"),
        format!("JSON_VALUE(CONCAT('{{\"a\":', {LISTS}, ',\"b\":1.50}}'), '$.b')"),
    ] {
        let (bytes, ended) = most_held(&format!("SELECT {call} AS v"), 512 << 20);
        assert_eq!(ended, Ok(1), "{call}");
        assert!(bytes < 64 << 20, "{call} held {bytes} bytes");
    }
}

#[test]
fn what_functions_hold_is_counted_before_it_is_made() {
    for call in [
        format!("PARSE_JSON({LISTS})"),
        format!("JSON_KEYS({LISTS})"),
        format!("JSON_SET({LISTS}, '$[0]', 1)"),
        format!("JSON_SET('[]', '$[0]', PARSE_JSON({LISTS}))"),
        format!("JSON_QUERY_ARRAY({LISTS})"),
        format!("JSON_STRIP_NULLS({LISTS})"),
        "SPLIT(REPEAT('a,', 900000))".to_owned(),
        "REGEXP_EXTRACT_ALL(REPEAT('a', 900000), 'a')".to_owned(),
        "TO_CODE_POINTS(REPEAT('a', 900000))".to_owned(),
        "EDIT_DISTANCE('x', REPEAT('a', 9000000))".to_owned(),
    ] {
        let (bytes, ended) = most_held(&format!("SELECT {call} AS v"), 32 << 20);
        assert_eq!(ended.map_err(|failure| failure.code), Err(Code::LimitExceeded), "{call}");
        assert!(bytes < 96 << 20, "{call} held {bytes} bytes");
    }
}

/// Operators that join batches and hand them on again once had lists of buffers that grew by that factor each time.
#[test]
fn operators_one_behind_the_other_hold_no_more_than_one() {
    let texts = "SELECT n, CONCAT('a text that is longer than a view ', CAST(n AS STRING)) AS id FROM UNNEST(GENERATE_ARRAY(1, 40000)) AS n";
    let joins: String = (1..=12).map(|number| format!(" JOIN t AS t{number} USING (id)")).collect();
    let windows = (1..=10).fold("t".to_owned(), |input, number| {
        format!(
            "(SELECT *, SUM(n) OVER (ORDER BY id {}) AS s{number} FROM {input})",
            if number % 2 == 0 { "DESC" } else { "" }
        )
    });
    let sorts = (1..=10).fold("t".to_owned(), |input, number| {
        format!(
            "(SELECT * FROM {input} ORDER BY n {} LIMIT {})",
            if number % 2 == 0 { "DESC" } else { "" },
            40_000 - number
        )
    });
    for (what, from) in [("joins", format!("t AS t0{joins}")), ("windows", windows), ("sorts", sorts)] {
        let sql = format!("WITH t AS ({texts}) SELECT COUNT(*) AS c, MAX(id) AS m FROM {from}");
        for partitions in [1, 8] {
            let (bytes, ended) = most_held_in(partitions, &sql, 512 << 20);
            assert_eq!(ended, Ok(1), "{what}");
            assert!(bytes < 96 << 20, "{what} held {bytes} bytes");
        }
    }
}

/// The operators of the engine copy a list into each row that they make, and do not count the copies.
#[test]
fn lists_that_are_copied_into_rows_count_before_they_are_made() {
    const MIB: usize = 1 << 20;
    let numbers = |count: usize| format!("(SELECT GENERATE_ARRAY(0, {}) AS a) t", count - 1);
    let long = numbers(20_000);
    // The statement, the memory that it may hold, and whether that is enough.
    for (sql, memory, enough) in [
        // Nothing but the length is read for each element.
        (format!("SELECT (SELECT COUNT(*) FROM UNNEST(a) x WHERE x = ARRAY_LENGTH(a)) AS v FROM {long}"), 32 * MIB, true),
        (format!("SELECT (SELECT COUNT(*) FROM UNNEST(a) x WHERE x IN UNNEST(a)) AS v FROM {}", numbers(3_000)), 64 * MIB, true),
        (format!("SELECT ARRAY(SELECT AS STRUCT a, x FROM UNNEST(a) x) AS v FROM {}", numbers(5_000)), 64 * MIB, false),
        // 1.3 GB of copies, of which a join makes a few at a time.
        (format!("SELECT SUM(a[OFFSET(MOD(x, 10))]) AS v FROM {long} CROSS JOIN UNNEST(GENERATE_ARRAY(1, 8000)) x"), 128 * MIB, true),
        (format!("SELECT SUM(a[OFFSET(MOD(x, 10))]) AS v FROM {long} CROSS JOIN UNNEST(GENERATE_ARRAY(1, 8000)) x"), 32 * MIB, false),
        (format!("SELECT COUNT(*) AS v FROM {long} JOIN UNNEST(GENERATE_ARRAY(1, 8000)) x ON x IN UNNEST(a)"), 32 * MIB, false),
        (format!("SELECT SUM(a[OFFSET(MOD(x, 10))]) AS v FROM {long} CROSS JOIN UNNEST(t.a) x"), 128 * MIB, false),
        (format!("SELECT COUNT(b) AS v FROM (SELECT FIRST_VALUE(a) OVER (ORDER BY x) AS b FROM {long} CROSS JOIN UNNEST(GENERATE_ARRAY(1, 2000)) x)"), 128 * MIB, false),
        ("SELECT MAX(LENGTH(s)) AS v FROM (SELECT STRING_AGG(REPEAT('a', 7000)) OVER (PARTITION BY DIV(x, 50) ORDER BY x) \
          AS s FROM UNNEST(GENERATE_ARRAY(0, 1999)) x)".to_owned(), 64 * MIB, false),
        ("SELECT MAX(LENGTH(s)) AS v FROM (SELECT STRING_AGG(REPEAT('a', 7000)) OVER (PARTITION BY DIV(x, 50) ORDER BY x \
          ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM UNNEST(GENERATE_ARRAY(0, 1999)) x)".to_owned(), 64 * MIB, false),
    ] {
        let (bytes, ended) = most_held(&sql, memory);
        match ended {
            Ok(rows) => assert!(enough && rows == 1, "{sql}: {rows} rows"),
            Err(failure) => assert!(!enough && failure.code == Code::LimitExceeded, "{sql}: {failure:?}"),
        }
        assert!(bytes < 2 * memory, "{sql}: {bytes} bytes were held");
    }
}

#[test]
fn sets_are_compared_in_time_that_grows_with_their_size() {
    let sql = "SELECT ARRAY_INCLUDES_ALL(GENERATE_ARRAY(1, 100000), ARRAY_REVERSE(GENERATE_ARRAY(1, 100000))) AS a, \
               ARRAY_INCLUDES_ANY(GENERATE_ARRAY(1, 100000), GENERATE_ARRAY(100001, 200000)) AS b";
    let began = std::time::Instant::now();
    let (bytes, ended) = most_held(sql, 256 << 20);
    assert_eq!(ended, Ok(1));
    assert!(bytes < 256 << 20, "{bytes}");
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}
