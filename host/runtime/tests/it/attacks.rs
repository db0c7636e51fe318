//! Attacks that only a hand-made module can try. Each one enters the guest (it writes a line before
//! it attacks), ends in its class, leaves nothing behind, and the next request is served.

use std::sync::Arc;

use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use tidegate_model::Code;
use tidegate_runtime::{Class, Fault, Quota, Runtime, RuntimeOptions};

use super::fake::{self, Fake, options, prepare};
use super::harness::{BRIEF, CPU, Harness};
use super::text_guest::{Parts, text_guest, with_own_resource};

const CONTRACT: Class = Class::Faulted(Fault::Contract);

fn handle(handle: &'static str) -> Vec<u8> {
    text_guest(Parts { handle, ..Parts::default() })
}

#[tokio::test]
async fn the_harmless_guest_answers() {
    let harness = Harness::new().await;
    let answer = harness.run("harmless", &text_guest(Parts::default())).await.unwrap();
    assert_eq!((answer.usage.host_calls, answer.usage.handles_left), (2, 0), "a line of log and an answer");
}

#[tokio::test]
async fn spinning_ends_wherever_it_happens() {
    let harness = Harness::new().await;
    let spin = "(loop $l (br $l))";
    let names = "(call $names (local.get $request) (i32.const 1024)) unreachable";
    for (name, parts) in [
        ("in the handler", Parts { handle: "(loop $l (br $l)) unreachable", ..Parts::default() }),
        ("in realloc", Parts { handle: names, realloc: "(loop $l (br $l)) unreachable", ..Parts::default() }),
        ("after the answer", Parts { post_return: spin, ..Parts::default() }),
        (
            "in copies of memory",
            Parts {
                handle: "(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $l)) unreachable",
                ..Parts::default()
            },
        ),
        (
            "in a function that calls itself and returns",
            Parts {
                items: "(func $f (param i32) (if (local.get 0) (then
                    (call $f (i32.sub (local.get 0) (i32.const 1))) (call $f (i32.sub (local.get 0) (i32.const 1))))))",
                handle: "(call $f (i32.const 60)) unreachable",
                ..Parts::default()
            },
        ),
    ] {
        let ended = harness.ends(name, &text_guest(parts), CPU).await;
        assert!(ended.usage.ticks > 20, "{name}: {ended:?}");
    }
}

#[tokio::test]
async fn destructors_of_the_guest_run_under_its_limits() {
    let harness = Harness::new().await;
    let once = "(call $drop (call $new (i32.const 7)))";
    let said = harness.run("a destructor that ends", &with_own_resource("", once)).await.unwrap_err();
    assert_eq!(said.class, Class::Problem, "{said:?}");
    let spins = harness.run_within(BRIEF, "one that spins", &with_own_resource("(loop $l (br $l))", once)).await;
    let spins = spins.unwrap_err();
    assert_eq!((spins.class, spins.usage.ticks > 20), (CPU, true), "{spins:?}");
    let traps = harness.run("one that traps", &with_own_resource("unreachable", once)).await.unwrap_err();
    assert_eq!(traps.class, Class::Faulted(Fault::Unreachable), "{traps:?}");
    let hoard = "(loop $l (drop (call $new (i32.const 7))) (br $l))";
    let hoards = harness.run("handles of its own", &with_own_resource("", hoard)).await.unwrap_err();
    assert_eq!(hoards.class, Class::Exhausted(Quota::Handles), "{hoards:?}");
    assert_eq!(hoards.failure.code, Code::LimitExceeded);
}

#[tokio::test]
async fn traps_are_told_apart_for_the_operator() {
    let harness = Harness::new().await;
    for (name, items, body, fault) in [
        ("unreachable", "", "unreachable", Fault::Unreachable),
        ("recursion", "(func $f (call $f))", "(call $f) unreachable", Fault::StackOverflow),
        ("division", "", "(i32.div_u (i32.const 1) (i32.const 0))", Fault::Arithmetic),
        ("conversion", "", "(i32.trunc_f32_s (f32.const nan))", Fault::Arithmetic),
        ("a null pointer minus one", "", "(i32.load (i32.const -1))", Fault::OutOfBounds),
        (
            "nothing in the table",
            "(table 1 funcref)",
            "(call_indirect (type $nothing) (i32.const 0)) unreachable",
            Fault::IndirectCall,
        ),
        (
            "another type",
            "(table 1 funcref) (func $g (param i32)) (elem (i32.const 0) $g)",
            "(call_indirect (type $nothing) (i32.const 0)) unreachable",
            Fault::IndirectCall,
        ),
        (
            "past the table",
            "(table 1 funcref)",
            "(call_indirect (type $nothing) (i32.const 9)) unreachable",
            Fault::OutOfBounds,
        ),
    ] {
        let component = text_guest(Parts { items, handle: body, ..Parts::default() });
        let ended = harness.ends(name, &component, Class::Faulted(fault)).await;
        let detail = ended.detail.unwrap();
        assert!(detail.contains("; in the_handler") || detail.contains("; in f < f <"), "{name}: no names: {detail}");
        assert!(!detail.contains("0x"), "{name}: no addresses: {detail}");
    }
}

#[tokio::test]
async fn pointers_discriminants_and_texts_are_checked() {
    let harness = Harness::new().await;
    for (name, body) in [
        ("a level of log that is none", "(call $log (i32.const 9) (i32.const 256) (i32.const 7)) unreachable"),
        ("a text that is no UTF-8", "(call $log (i32.const 0) (i32.const 512) (i32.const 3)) unreachable"),
        ("a text past memory", "(call $log (i32.const 0) (i32.const 65535) (i32.const 100)) unreachable"),
        ("a text past all memory", "(call $log (i32.const 0) (i32.const 16) (i32.const -1)) unreachable"),
        (
            "a list past memory",
            "(call $run (i32.const 256) (i32.const 7) (i32.const 65504) (i32.const 1000) (i32.const 1024)) unreachable",
        ),
        (
            "a list of all numbers",
            "(call $run (i32.const 256) (i32.const 7) (i32.const 16) (i32.const -1) (i32.const 1024)) unreachable",
        ),
        (
            "a list that is not aligned",
            "(call $run (i32.const 256) (i32.const 7) (i32.const 2049) (i32.const 1) (i32.const 1024)) unreachable",
        ),
        (
            "a value of no type",
            "(i32.store8 (i32.const 2056) (i32.const 99))
             (call $run (i32.const 256) (i32.const 7) (i32.const 2048) (i32.const 1) (i32.const 1024)) unreachable",
        ),
        (
            "a place for the result past memory",
            "(call $run (i32.const 256) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 65532)) unreachable",
        ),
        (
            "a place for the result that is not aligned",
            "(call $run (i32.const 256) (i32.const 7) (i32.const 0) (i32.const 0) (i32.const 1025)) unreachable",
        ),
        ("an answer past memory", "(call $drop-request (local.get $request)) (i32.const -16)"),
        ("an answer that is not aligned", "(call $drop-request (local.get $request)) (i32.const 1025)"),
        (
            "an answer that is neither",
            "(call $drop-request (local.get $request)) (i32.store8 (i32.const 1024) (i32.const 9)) (i32.const 1024)",
        ),
        (
            "a problem past memory",
            "(call $drop-request (local.get $request)) (i32.store8 (i32.const 1024) (i32.const 1))
             (i32.store (i32.const 1028) (i32.const 65000)) (i32.store (i32.const 1032) (i32.const 65000)) (i32.const 1024)",
        ),
    ] {
        harness.ends(name, &handle(body), CONTRACT).await;
    }
}

#[tokio::test]
async fn handles_are_checked() {
    let harness = Harness::new().await;
    for (name, body) in [
        ("a handle of nothing", "(call $drop-set (i32.const 0)) unreachable"),
        ("a handle of the last number", "(call $drop-set (i32.const -1)) unreachable"),
        ("a response as a result set", "(call $drop-set (call $empty)) unreachable"),
        ("a request as a result set", "(call $next (local.get $request) (i32.const 1) (i32.const 1024)) unreachable"),
        (
            "a set that was dropped",
            "(local.set $request (call $set)) (call $drop-set (local.get $request))
             (call $next (local.get $request) (i32.const 1) (i32.const 1024)) unreachable",
        ),
        (
            "a set that was given away",
            "(local.set $request (call $set)) (drop (call $rows (local.get $request)))
             (drop (call $rows (local.get $request))) unreachable",
        ),
        (
            "the request dropped twice",
            "(call $drop-request (local.get $request)) (call $drop-request (local.get $request)) unreachable",
        ),
        (
            "the request kept",
            "(i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)",
        ),
        (
            "the request as the answer",
            "(i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (local.get $request)) (i32.const 1024)",
        ),
        (
            "an answer that is not there",
            "(call $drop-request (local.get $request)) (i32.store8 (i32.const 1024) (i32.const 0))
             (i32.store (i32.const 1028) (i32.const 77)) (i32.const 1024)",
        ),
    ] {
        harness.ends(name, &handle(body), CONTRACT).await;
    }
}

#[tokio::test]
async fn the_guest_s_allocator_harms_only_the_guest() {
    let harness = Harness::new().await;
    let names = "(call $names (local.get $request) (i32.const 1024)) unreachable";
    for (name, realloc, class) in [
        ("past memory", "(i32.const 65530)", CONTRACT),
        ("past all memory", "(i32.const -8)", CONTRACT),
        ("not aligned", "(i32.const 4097)", CONTRACT),
        ("a trap", "unreachable", Class::Faulted(Fault::Unreachable)),
        ("a call of an import", "(call $log (i32.const 0) (i32.const 256) (i32.const 7)) (i32.const 4096)", CONTRACT),
        ("a call of an import that waits", "(drop (call $set)) (i32.const 4096)", CONTRACT),
        (
            "more memory than there is",
            "(drop (memory.grow (i32.const 1000))) unreachable",
            Class::Exhausted(Quota::Memory),
        ),
    ] {
        harness.ends(name, &text_guest(Parts { realloc, handle: names, ..Parts::default() }), class).await;
    }
    // The same place for everything spoils the guest's own memory, and nothing else.
    let same = Parts {
        realloc: "(i32.const 4096)",
        handle: "(call $names (local.get $request) (i32.const 1024)) (call $drop-request (local.get $request))
            (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)",
        ..Parts::default()
    };
    harness.run("overlapping", &text_guest(same)).await.unwrap();
}

#[tokio::test]
async fn what_follows_the_answer_is_under_the_same_rules() {
    let harness = Harness::new().await;
    for (name, post_return, class) in [
        ("a trap", "unreachable", Class::Faulted(Fault::Unreachable)),
        ("a call of an import", "(call $log (i32.const 0) (i32.const 256) (i32.const 7))", CONTRACT),
        (
            "more memory than there is",
            "(drop (memory.grow (i32.const 1000))) unreachable",
            Class::Exhausted(Quota::Memory),
        ),
    ] {
        harness.ends(name, &text_guest(Parts { post_return, ..Parts::default() }), class).await;
    }
}

#[tokio::test]
async fn more_than_a_quota_is_refused_by_its_name() {
    let harness = Harness::new().await;
    for (name, body, quota) in [
        (
            "lines of log",
            "(loop $l (call $log (i32.const 0) (i32.const 256) (i32.const 7)) (br $l)) unreachable",
            Quota::HostCalls,
        ),
        (
            "statements that are refused",
            "(loop $l (global.set $heap (i32.const 8192)) (drop (call $set)) (br $l)) unreachable",
            Quota::HostCalls,
        ),
        ("answers", "(loop $l (drop (call $empty)) (br $l)) unreachable", Quota::Handles),
        (
            "a long text",
            "(drop (memory.grow (i32.const 40))) (call $log (i32.const 0) (i32.const 0) (i32.const 2000000)) unreachable",
            Quota::CallBytes,
        ),
        (
            "memory",
            "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable",
            Quota::Memory,
        ),
        ("memory at once", "(drop (memory.grow (i32.const 60000))) unreachable", Quota::Memory),
    ] {
        harness.ends(name, &handle(body), Class::Exhausted(quota)).await;
    }
    // Who is refused memory and copes is served.
    let copes = "(drop (memory.grow (i32.const 60000))) (call $drop-request (local.get $request))
        (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)";
    harness.run("refused and content", &handle(copes)).await.unwrap();
}

#[tokio::test]
async fn what_a_guest_does_not_give_back_ends_with_the_request() {
    let harness = Harness::new().await;
    let leaks = "(drop (call $set)) (drop (call $set)) (drop (call $empty)) (call $drop-request (local.get $request))
        (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)";
    let answer = harness.run("leaks", &handle(leaks)).await.unwrap();
    assert_eq!(answer.usage.handles_left, 3);
}

#[tokio::test]
async fn components_and_statements_share_one_memory() {
    let grown = "(if (i32.eq (memory.grow (i32.const 30)) (i32.const -1)) (then unreachable))
        (call $drop-request (local.get $request))
        (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)";
    let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(3 << 20));
    let runtime = Runtime::new(RuntimeOptions { memory: Some(Arc::clone(&memory)), ..options() }).unwrap();
    let endpoint = prepare(&runtime, &handle(grown)).await.unwrap();
    let call = || runtime.handle(&endpoint, fake::request(&[]), Arc::new(Fake::default()));
    assert_eq!(call().await.unwrap().usage.guest_memory, (31 << 16) + 40, "31 pages and five table elements");
    // A statement holds the greater part of it.
    let statement = MemoryConsumer::new("statement").register(&memory);
    statement.try_grow(2 << 20).unwrap();
    let ended = call().await.unwrap_err();
    assert_eq!((ended.class, ended.failure.code), (Class::Exhausted(Quota::Memory), Code::Overloaded), "{ended}");
    assert_eq!(ended.failure.code.retry_after(), Some(1));
    drop(statement);
    call().await.unwrap();
    assert_eq!(memory.reserved(), 0);
}

#[tokio::test]
async fn a_number_that_is_none_has_the_same_bits_everywhere() {
    let harness = Harness::new().await;
    let bits = "(if (i32.ne (i32.reinterpret_f32 (f32.div (f32.const 0) (f32.const 0))) (i32.const 0x7fc00000)) (then unreachable))
        (if (i32.ne (i32.reinterpret_f32 (f32.add (f32.const nan:0x1) (f32.const 1))) (i32.const 0x7fc00000)) (then unreachable))
        (call $drop-request (local.get $request))
        (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)";
    harness.run("not a number", &handle(bits)).await.unwrap();
}

#[tokio::test]
async fn no_spelling_replaces_a_parameter_of_the_request() {
    const NAMES: &str = r#"(data (i32.const 600) "projectPROJECTtenantTENANT")
        (func $name (param $at i32) (param $from i32) (param $length i32)
            (i32.store (local.get $at) (local.get $from))
            (i32.store offset=4 (local.get $at) (local.get $length)))"#;
    // The guest runs its statement with arguments (name and null, 24 bytes each, from 2048 on),
    // hides whether that failed, and answers.
    let runtime = Runtime::new(options()).unwrap();
    for (name, body, runs) in [
        (
            "another name",
            "(call $name (i32.const 2048) (i32.const 614) (i32.const 6)) (call $with (i32.const 1))",
            true,
        ),
        (
            "as declared",
            "(call $name (i32.const 2048) (i32.const 600) (i32.const 7)) (call $with (i32.const 1))",
            false,
        ),
        (
            "in capitals",
            "(call $name (i32.const 2048) (i32.const 607) (i32.const 7)) (call $with (i32.const 1))",
            false,
        ),
        (
            "twice in two spellings",
            "(call $name (i32.const 2048) (i32.const 614) (i32.const 6))
             (call $name (i32.const 2072) (i32.const 620) (i32.const 6)) (call $with (i32.const 2))",
            false,
        ),
    ] {
        let text = format!(
            "{NAMES} (func $with (param i32)
            (call $run (i32.const 256) (i32.const 7) (i32.const 2048) (local.get 0) (i32.const 1024)))
            (func $attack {body})"
        );
        let guest = text_guest(Parts {
            items: text.leak(),
            handle: "(call $attack) (call $drop-request (local.get $request))
            (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)",
            ..Parts::default()
        });
        let endpoint = prepare(&runtime, &guest).await.unwrap();
        let fake = Arc::new(Fake::default());
        let ran = runtime.handle(&endpoint, fake::request(&[("project", "abc")]), Arc::clone(&fake) as _).await;
        assert!(ran.is_ok(), "{name}: {ran:?}");
        assert_eq!(fake.asked.lock().unwrap().len(), usize::from(runs), "{name}");
    }
}
