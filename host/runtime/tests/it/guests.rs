//! The Rust guests of `guest-endpoints/`, built by either toolchain.
//!
//! They need a build for another target, so they are ignored unless asked for: build the guests,
//! then name the files in `TIDEGATE_EDGE_METHODS` (several, separated by `:`) and
//! `TIDEGATE_HOSTILE`, and run with `--ignored`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_compiler::{Folder, inspect, pack};
use tidegate_model::{Code, Failure, Kind, Value};
use tidegate_runtime::{Body, CellJson, Column, MadeByGuest, Rows, Runtime, Statement, Statements};

use super::fake::{Fake, numbers, options, prepare, request};

/// 3000 requests: GET and POST in turn, of which every tenth failed, and some without a method.
struct EdgeLogs;

#[async_trait]
impl Statements for EdgeLogs {
    async fn run(&self, statement: Statement, _: Vec<(String, Value)>) -> Result<Rows, Failure> {
        assert_eq!(statement, Statement::Named("default".into()));
        let batch = |start: i64| {
            let numbers = start..start + 1000;
            let methods: StringArray =
                numbers.clone().map(|n| (n % 3 != 0).then_some(if n % 3 == 1 { "GET" } else { "POST" })).collect();
            let statuses: Int64Array = numbers.map(|n| if n % 10 == 0 { 503 } else { 200 }).collect();
            let schema = Schema::new(vec![
                Field::new("method", DataType::Utf8, true),
                Field::new("status", DataType::Int64, true),
            ]);
            RecordBatch::try_new(Arc::new(schema), vec![Arc::new(methods), Arc::new(statuses)]).unwrap()
        };
        let json: CellJson = Arc::new(|_, _, _| Ok(String::new()));
        Ok(Rows {
            columns: Column::of_statement([("method".into(), Kind::Text, true), ("status".into(), Kind::Int64, true)]),
            batches: stream::iter([Ok(batch(0)), Ok(batch(1000)), Ok(batch(2000))]).boxed(),
            context: Arc::new(()),
            json,
        })
    }
}

#[tokio::test]
#[ignore = "needs the guests built; see the top of the file"]
async fn a_rust_guest_computes_rows_of_its_own() {
    let folder = Folder::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-endpoints/edge-methods")).unwrap();
    assert!(folder.has_code);
    let files = std::env::var("TIDEGATE_EDGE_METHODS").expect("files of the built guest");
    for file in files.split(':') {
        let component = pack(&std::fs::read(file).unwrap(), &folder.manifest).unwrap();
        let inspection = inspect(&component).unwrap();
        println!("{file}: packed {} bytes, {} bytes of memory", component.len(), inspection.initial_memory);
        assert_eq!(pack(&component, &folder.manifest).unwrap(), component);

        let runtime = Runtime::new(options()).unwrap();
        let start = std::time::Instant::now();
        let endpoint = prepare(&runtime, &component).await.unwrap();
        println!("prepared in {:?}", start.elapsed());
        let start = std::time::Instant::now();
        let answer = runtime.handle(&endpoint, request(&[]), Arc::new(EdgeLogs)).await.unwrap();
        println!("handled in {:?}, {:?}", start.elapsed(), answer.usage);
        assert_eq!((answer.usage.statements, answer.usage.guest_rows), (1, 3000));
        let Body::Rows(rows) = answer.body else { panic!("rows") };
        assert!(rows.context.is::<MadeByGuest>());
        let names: Vec<_> = rows.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["method", "requests", "errors", "error_share"]);
        let batches: Vec<RecordBatch> = rows.batches.try_collect().await.unwrap();
        let [batch] = batches.as_slice() else { panic!("one batch") };
        let methods: &StringArray = batch.column(0).as_string();
        assert!(methods.is_null(0));
        assert_eq!((methods.value(1), methods.value(2)), ("GET", "POST"));
        assert_eq!(batch.column(1).as_primitive::<Int64Type>().values(), &[1000, 1000, 1000]);
        assert_eq!(batch.column(2).as_primitive::<Int64Type>().values(), &[100, 100, 100]);
        assert_eq!(batch.column(3).as_primitive::<Float64Type>().values(), &[0.1, 0.1, 0.1]);
    }
}

#[tokio::test]
#[ignore = "needs the guests built; see the top of the file"]
async fn every_attack_ends_as_it_must_and_the_next_request_is_served() {
    let folder = Folder::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-endpoints/hostile")).unwrap();
    let file = std::env::var("TIDEGATE_HOSTILE").expect("the file of the built guest");
    let component = pack(&std::fs::read(file).unwrap(), &folder.manifest).unwrap();
    inspect(&component).unwrap();
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, &component).await.unwrap();
    let attack = async |attack: &str| {
        runtime.handle(&endpoint, request(&[("attack", attack), ("project", "abc")]), Arc::new(Fake::default())).await
    };
    for (name, code) in [
        ("spin", Code::Timeout),
        ("grow", Code::LimitExceeded),
        ("grow-at-once", Code::LimitExceeded),
        ("recurse", Code::ComponentFailed),
        ("panic", Code::ComponentFailed),
        ("handles", Code::LimitExceeded),
        ("log", Code::LimitExceeded),
        ("long-line", Code::LimitExceeded),
        ("leak", Code::LimitExceeded),
        ("undeclared", Code::UnknownStatement),
        ("sql-as-name", Code::UnknownStatement),
        ("override", Code::InvalidParameter),
        ("read-zero", Code::InvalidParameter),
        ("lie-about-rows", Code::ComponentFailed),
        ("bad-json", Code::ComponentFailed),
        ("deep-document", Code::ComponentFailed),
        ("huge-document", Code::LimitExceeded),
        ("huge-problem", Code::ComponentFailed),
        ("false-reason", Code::ComponentFailed),
        ("no-such-attack", Code::NotFound),
    ] {
        let failure = attack(name).await.expect_err(name).failure;
        assert_eq!(failure.code, code, "{name}: {failure}");
        assert!(!failure.message.contains("a secret of the guest"), "{name}: {failure}");
        assert!(failure.message.len() < 4096, "{name}");
        let pool = runtime.pool_use();
        assert_eq!((pool.running, pool.memories, pool.stacks), (0, 0, 0), "{name}");
        assert_eq!(numbers(attack("none").await.unwrap()).await, [1, 2, 3, 4, 5], "after {name}");
    }
    assert_eq!(numbers(attack("half-read").await.unwrap()).await, [2, 3, 4, 5]);
    assert_eq!(numbers(attack("read-all").await.unwrap()).await, [1, 2, 3, 4, 5]);
    for _ in 0..3 {
        let answer = attack("marker").await.unwrap();
        assert!(matches!(&answer.body, Body::Document(json) if json == "0"), "an instance served twice");
        assert!(!answer.saw_time);
    }
    let time = attack("time").await.unwrap();
    assert!(time.saw_time && matches!(&time.body, Body::Document(json) if json == "1763633702000000"));
    let notes = attack("notes").await.unwrap().notes;
    assert!(notes.len() == 16 && notes.keys().all(|key| key.parse::<u32>().is_ok()), "{notes:?}");
}
