//! The components that the compiler generates.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_compiler::compile_adhoc;
use tidegate_model::{Code, Position};
use tidegate_runtime::{Body, Runtime, Statement};

use super::fake::{Fake, Types, adhoc, numbers, options, prepare, request, sql_component};

#[tokio::test]
async fn a_sql_endpoint_runs_its_default_statement_and_passes_the_rows_through() {
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, &sql_component()).await.unwrap();
    let fake = Arc::new(Fake::default());
    let answer = runtime.handle(&endpoint, request(&[("project", "abc")]), fake.clone()).await.unwrap();
    // The host owns the statement's own stream, untouched, and the guest is gone.
    assert_eq!(fake.polled.load(Ordering::SeqCst), 0);
    assert_eq!(runtime.pool_use().running, 0);
    assert!(!answer.saw_time);
    assert_eq!((answer.usage.statements, answer.usage.guest_rows), (1, 0));
    let Body::Rows(rows) = &answer.body else { panic!("rows") };
    assert_eq!(rows.context.downcast_ref(), Some(&Types("of the statement")));
    assert_eq!(rows.columns[1].name, "t");
    assert_eq!(numbers(answer).await, [1, 2, 3, 4, 5]);
    assert_eq!(*fake.asked.lock().unwrap(), [(Statement::Named("default".into()), vec![])]);
}

#[tokio::test]
async fn adhoc_text_reaches_the_statements_whole() {
    let (runtime, endpoint) = adhoc().await;
    let fake = Arc::new(Fake::default());
    // Longer than the first page of the guest, and not only ASCII.
    let sql = format!("select '{}'", "ä€😀".repeat(20_000));
    let answer = runtime.handle(&endpoint, request(&[("sql", &sql)]), fake.clone()).await.unwrap();
    assert_eq!(numbers(answer).await.len(), 5);
    assert_eq!(*fake.asked.lock().unwrap(), [(Statement::Text(sql), vec![])]);
}

#[tokio::test]
async fn an_adhoc_request_without_a_query_says_so() {
    let (runtime, endpoint) = adhoc().await;
    let failure = runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await.unwrap_err().failure;
    assert_eq!(failure.code, Code::InvalidParameter);
    assert!(failure.message.contains("'sql'"), "{failure}");
}

#[tokio::test]
async fn a_failed_statement_is_answered_with_its_own_failure_and_place() {
    let (runtime, endpoint) = adhoc().await;
    let failure =
        runtime.handle(&endpoint, request(&[("sql", "fail")]), Arc::new(Fake::default())).await.unwrap_err().failure;
    assert_eq!(failure.code, Code::UnknownColumn);
    assert_eq!(failure.message, "no column 'statsu'");
    assert_eq!(failure.location.as_deref(), Some("statsu"));
    assert_eq!(failure.position, Some(Position { line: 3, column: 14 }));
}

#[tokio::test]
async fn a_panic_in_the_engine_is_an_internal_failure() {
    let (runtime, endpoint) = adhoc().await;
    let failure =
        runtime.handle(&endpoint, request(&[("sql", "panic")]), Arc::new(Fake::default())).await.unwrap_err().failure;
    assert_eq!(failure.code, Code::Internal);
    assert!(!failure.message.contains("bug in the engine"), "{failure}");
}

#[tokio::test]
async fn preparing_is_done_once_for_a_digest() {
    let runtime = Runtime::new(options()).unwrap();
    let component = compile_adhoc().unwrap();
    let (one, two) = tokio::join!(prepare(&runtime, &component), prepare(&runtime, &component));
    assert!(Arc::ptr_eq(&one.unwrap(), &two.unwrap()));
    let error = runtime.prepare(&component, [7; 32]).await.unwrap_err();
    assert!(error.to_string().contains("does not have the digest 0707"), "{error}");
}
