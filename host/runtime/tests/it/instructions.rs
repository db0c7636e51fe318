//! What a counting engine counts.

use std::sync::Arc;

use tidegate_runtime::{Class, Fault, Quota, Runtime, RuntimeOptions, Usage};

use super::fake::{Fake, guest, options, prepare, request};

/// A guest that turns `turns` times and then answers without rows.
fn turning(turns: u32) -> Vec<u8> {
    let handle = format!(
        "(loop $l
            (local.set $request (i32.add (local.get $request) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $request) (i32.const {turns}))))
         (i32.store8 (i32.const 1024) (i32.const 0)) (i32.store (i32.const 1028) (call $empty)) (i32.const 1024)"
    );
    guest("", &handle)
}

async fn used(count: bool, component: &[u8]) -> Usage {
    let runtime = Runtime::new(RuntimeOptions { count_instructions: count, ..options() }).unwrap();
    let endpoint = prepare(&runtime, component).await.unwrap();
    runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await.unwrap().usage
}

#[tokio::test]
async fn instructions_are_the_same_number_every_run_and_grow_with_the_work() {
    let first = used(true, &turning(1000)).await;
    let few = first.instructions.unwrap();
    // Ticks are time, which a busy machine takes more of.
    let again = used(true, &turning(1000)).await;
    assert_eq!(Usage { ticks: 0, ..again }, Usage { ticks: 0, ..first });
    let many = used(true, &turning(2000)).await.instructions.unwrap();
    assert!((1000..100_000).contains(&(many - few)), "{few} and {many}");
    assert_eq!((first.guest_memory, first.host_calls), (65_552, 1), "one page and two table elements; an answer made");
    assert_eq!(used(false, &turning(1000)).await.instructions, None);
}

#[tokio::test]
async fn a_request_that_ends_without_an_answer_says_what_it_used() {
    let runtime = Runtime::new(RuntimeOptions { count_instructions: true, ..options() }).unwrap();
    let spin = "(call $log (i32.const 0) (i32.const 256) (i32.const 7)) (loop $l (br $l)) unreachable";
    let spin = prepare(&runtime, &guest("", spin)).await.unwrap();
    let ended = runtime.handle(&spin, request(&[]), Arc::new(Fake::default())).await.unwrap_err();
    assert_eq!(ended.class, Class::Exhausted(Quota::Cpu));
    assert!(ended.usage.ticks > 20 && ended.usage.host_calls == 1, "{:?}", ended.usage);
    let work = "(loop $l
        (local.set $request (i32.add (local.get $request) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $request) (i32.const 5000)))) unreachable";
    let trap = prepare(&runtime, &guest("", work)).await.unwrap();
    let ended = runtime.handle(&trap, request(&[]), Arc::new(Fake::default())).await.unwrap_err();
    assert_eq!(ended.class, Class::Faulted(Fault::Unreachable));
    assert!(ended.usage.instructions.unwrap() > 5000, "{:?}", ended.usage);
}
