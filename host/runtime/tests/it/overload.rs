//! Permits: running out of them, getting them back, and callers that hang up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_model::Code;
use tidegate_runtime::{Runtime, RuntimeOptions};

use super::fake::{Fake, adhoc, numbers, options, prepare, request, sql_component};

/// Waits until `condition` holds.
async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never happened: {what}");
}

#[tokio::test]
async fn a_full_house_is_refused_soon_and_serves_again_when_callers_hang_up() {
    let (runtime, endpoint) = adhoc().await;
    let fake = Arc::new(Fake::default());
    let mut waiting = Vec::new();
    for _ in 0..4 {
        let (runtime, endpoint, fake) = (runtime.clone(), endpoint.clone(), fake.clone());
        waiting.push(tokio::spawn(async move {
            runtime.handle(&endpoint, request(&[("sql", "wait")]), fake).await.map(|_| ())
        }));
    }
    eventually("all four run", || fake.running.load(Ordering::SeqCst) == 4).await;
    assert_eq!((runtime.pool_use().running, runtime.pool_use().memories), (4, 4));

    let refused = runtime.handle(&endpoint, request(&[("sql", "x")]), fake.clone()).await.unwrap_err().failure;
    assert_eq!(refused.code, Code::Overloaded);

    for caller in &waiting {
        caller.abort();
    }
    eventually("permits, memories and statements are free", || {
        let pool = runtime.pool_use();
        pool.running == 0 && pool.memories == 0 && fake.running.load(Ordering::SeqCst) == 0
    })
    .await;
    let answer = runtime.handle(&endpoint, request(&[("sql", "x")]), fake).await.unwrap();
    assert_eq!(numbers(answer).await.len(), 5);
}

#[tokio::test]
async fn without_address_space_for_a_pool_instances_are_made_on_demand() {
    let runtime = Runtime::new(RuntimeOptions { concurrency: 200_000, ..options() }).unwrap();
    assert!(!runtime.pool_use().pooled);
    let endpoint = prepare(&runtime, &sql_component()).await.unwrap();
    let answer = runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await.unwrap();
    assert_eq!(numbers(answer).await.len(), 5);
}

#[tokio::test]
async fn a_statement_that_never_answers_is_cut_by_the_wall_clock() {
    let (runtime, endpoint) = adhoc().await;
    let fake = Arc::new(Fake::default());
    let mut request = request(&[("sql", "wait")]);
    request.limits.wall_clock = Duration::from_millis(60);
    let failure = runtime.handle(&endpoint, request, fake.clone()).await.unwrap_err().failure;
    assert_eq!(failure.code, Code::Timeout);
    eventually("the statement is aborted", || fake.running.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn waiting_for_a_statement_costs_no_cpu_budget() {
    let (runtime, endpoint) = adhoc().await;
    let mut request = request(&[("sql", "wait")]);
    request.limits.cpu = Duration::from_millis(5);
    request.limits.wall_clock = Duration::from_millis(300);
    let failure = runtime.handle(&endpoint, request, Arc::new(Fake::default())).await.unwrap_err().failure;
    assert!(failure.message.contains("300 ms"), "{failure}");
}
