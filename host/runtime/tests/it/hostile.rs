//! Guests that do what they must not. After each, the runtime serves the next request (`run` sees
//! to that), and what the caller is told names the limit and nothing of the guest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_model::{Code, Failure};
use tidegate_runtime::{Runtime, RuntimeError};

use super::fake::{Fake, component, guest, options, prepare, request, run};

async fn failure(items: &str, handle: &str) -> Failure {
    let failure = run(&guest(items, handle)).await.unwrap_err().failure;
    for detail in ["wasm", "backtrace", "unreachable", "handler"] {
        assert!(!failure.message.contains(detail), "{failure}");
    }
    failure
}

#[tokio::test]
async fn spinning_is_stopped_by_the_cpu_limit() {
    let start = Instant::now();
    let failure = failure("", "(loop $l (br $l)) unreachable").await;
    assert_eq!(failure.code, Code::Timeout);
    assert!(failure.message.contains("100 ms"), "{failure}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test]
async fn spinning_leaves_the_executor_free() {
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, &guest("", "(loop $l (br $l)) unreachable")).await.unwrap();
    let spin = runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default()));
    let mut beats = 0;
    let beat = async {
        loop {
            tokio::time::sleep(Duration::from_millis(2)).await;
            beats += 1;
        }
    };
    tokio::select! {
        result = spin => assert_eq!(result.unwrap_err().failure.code, Code::Timeout),
        () = beat => unreachable!("the beat does not end"),
    }
    assert!(beats >= 5, "one thread ran the guest and {beats} beats");
}

#[tokio::test]
async fn wall_clock_is_its_own_limit() {
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, &guest("", "(loop $l (br $l)) unreachable")).await.unwrap();
    let mut request = request(&[]);
    request.limits.cpu = Duration::from_secs(60);
    request.limits.wall_clock = Duration::from_millis(50);
    let failure = runtime.handle(&endpoint, request, Arc::new(Fake::default())).await.unwrap_err().failure;
    assert_eq!(failure.code, Code::Timeout);
    assert!(failure.message.contains("50 ms"), "{failure}");
    assert_eq!(runtime.pool_use().running, 0);
}

#[tokio::test]
async fn memory_is_one_sum_and_a_denial_is_named() {
    let grow = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable";
    let stepwise = failure("", grow).await;
    assert_eq!(stepwise.code, Code::LimitExceeded);
    assert!(stepwise.message.contains("4194304 bytes of memory"), "{stepwise}");
    assert_eq!(failure("", "(drop (memory.grow (i32.const 60000))) unreachable").await.code, Code::LimitExceeded);
    let table =
        "(drop (table.grow $t (ref.null func) (i32.const 99000))) (drop (memory.grow (i32.const 60))) unreachable";
    assert_eq!(failure("(table $t 1 funcref)", table).await.code, Code::LimitExceeded);
}

#[tokio::test]
async fn a_component_that_starts_too_big_or_does_not_start_is_refused() {
    let runtime = Runtime::new(options()).unwrap();
    let handler = r#"(func (export "tidegate:endpoint/handler@0.1.0#handle") (param i32) (result i32) unreachable)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)"#;
    let big = component(&format!(r#"(module (memory (export "memory") 65) {handler})"#));
    let refusal = prepare(&runtime, &big).await.unwrap_err().to_string();
    // Said by the pool where there is one (in hexadecimal), and by the runtime where there is none.
    assert!(refusal.contains("limit of 0x400000 bytes") || refusal.contains("4194304 bytes"), "{refusal}");
    for (start, code) in [("(loop $l (br $l))", Code::Timeout), ("unreachable", Code::ComponentFailed)] {
        let module = format!(r#"(module (memory (export "memory") 1) (func $s {start}) (start $s) {handler})"#);
        let error = prepare(&runtime, &component(&module)).await.unwrap_err();
        assert!(matches!(error, RuntimeError::Start(ref failure) if failure.code == code), "{error}");
        assert_eq!(Failure::from(error).code, Code::Refused);
    }
}

#[tokio::test]
async fn traps_are_failures_of_the_component() {
    for (items, handle) in [
        ("", "unreachable"),
        ("", "(i32.div_u (i32.const 1) (i32.const 0))"),
        ("(func $f (call $f))", "(call $f) unreachable"),
        ("", "(i32.load (i32.const -4))"),
        // A result far outside of memory, and one that is not aligned.
        ("", "(i32.const -16)"),
        ("", "(i32.const 1025)"),
        // An answer that is not there, and a discriminant that does not exist.
        ("", "(i32.store (i32.const 1028) (i32.const 77)) (i32.const 1024)"),
        ("", "(i32.store8 (i32.const 1024) (i32.const 9)) (i32.const 1024)"),
        // The request is dropped twice.
        ("", "(call $drop (local.get $request)) unreachable"),
    ] {
        assert_eq!(failure(items, handle).await.code, Code::ComponentFailed, "{handle}");
    }
}

#[tokio::test]
async fn calls_handles_and_copies_are_counted() {
    let calls = "(loop $l (call $log (i32.const 0) (i32.const 256) (i32.const 7)) (br $l)) unreachable";
    let calls = failure("", calls).await;
    assert_eq!(calls.code, Code::LimitExceeded);
    assert!(calls.message.contains("10000 calls"), "{calls}");
    let handles = failure("", "(loop $l (drop (call $empty)) (br $l)) unreachable").await;
    assert_eq!(handles.code, Code::LimitExceeded);
    assert!(handles.message.contains("open"), "{handles}");
    let copy =
        "(drop (memory.grow (i32.const 40))) (call $log (i32.const 0) (i32.const 0) (i32.const 2000000)) unreachable";
    let copied = failure("", copy).await;
    assert_eq!(copied.code, Code::LimitExceeded);
    assert!(copied.message.contains("1048576 bytes in one call"), "{copied}");
}

#[tokio::test]
async fn statements_are_counted_and_the_guest_may_name_that_as_its_reason() {
    // Runs the default statement, dropping each result, until it fails; then says so.
    let items = r#"(data (i32.const 768) "statement-failed")
        (data (i32.const 512) "\01\00\00\00\00\03\00\00\10\00\00\00")"#;
    let handle = "(loop $l
            (call $run (i32.const 256) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 1024))
            (if (i32.eqz (i32.load8_u (i32.const 1024))) (then
                (call $drop-set (i32.load (i32.const 1028)))
                (br $l))))
        (i32.const 512)";
    let failure = run(&guest(items, handle)).await.unwrap_err().failure;
    assert_eq!(failure.code, Code::LimitExceeded);
    assert_eq!(failure.message, "one request may run at most 32 statements");
}

#[tokio::test]
async fn problems_have_a_small_table_of_codes() {
    for (code, expected) in [
        ("not-found", Code::NotFound),
        ("conflict", Code::Conflict),
        ("invalid-argument", Code::InvalidParameter),
        ("unprocessable", Code::Refused),
        ("out-of-cheese", Code::ComponentFailed),
        ("statement-failed", Code::ComponentFailed),
    ] {
        let problem = format!(
            r#"(data (i32.const 768) "{code}") (data (i32.const 800) "why so")
               (data (i32.const 512) "\01\00\00\00\00\03\00\00\{:02x}\00\00\00\20\03\00\00\06\00\00\00")"#,
            code.len()
        );
        let failure = run(&guest(&problem, "(i32.const 512)")).await.unwrap_err().failure;
        assert_eq!(failure.code, expected, "{code}");
        assert!(failure.message.contains("why so") || code == "statement-failed", "{failure}");
    }
}

#[tokio::test]
async fn a_component_that_wants_more_than_the_contract_is_refused_by_name() {
    let runtime = Runtime::new(options()).unwrap();
    for import in ["wasi:cli/environment@0.2.0", "acme:net/sockets"] {
        let text = format!(r#"(component (import "{import}" (instance (export "get" (func)))))"#);
        let refusal = prepare(&runtime, &wat::parse_str(text).unwrap()).await.unwrap_err().to_string();
        assert!(refusal.contains(import), "{refusal}");
    }
    let bare = prepare(&runtime, &wat::parse_str("(component)").unwrap()).await.unwrap_err();
    assert!(matches!(bare, RuntimeError::Refused { .. }), "{bare}");
    assert!(prepare(&runtime, b"\x7fELF").await.is_err());
    assert!(prepare(&runtime, b"").await.is_err());
}
