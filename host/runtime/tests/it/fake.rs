//! What the tests put in the server's place: statements with known rows, guests written as text.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};
use tidegate_compiler::{WIT, compile_adhoc, compile_sql};
use tidegate_model::{Code, EndpointName, Failure, Kind, Limits, Manifest, Position, Value};
use tidegate_runtime::{
    Answer, Body, CallError, Column, Endpoint, Request, Rows, Runtime, RuntimeError, RuntimeOptions, Statement,
    Statements,
};

/// A statement and the arguments that came with it.
pub(crate) type Asked = (Statement, Vec<(String, Value)>);

/// Statements that answer with two batches, fail, or never answer.
#[derive(Default)]
pub(crate) struct Fake {
    /// What was asked for.
    pub(crate) asked: Mutex<Vec<Asked>>,
    /// Batches that were read from any stream.
    pub(crate) polled: Arc<AtomicUsize>,
    /// Statements that run now.
    pub(crate) running: Arc<AtomicUsize>,
}

/// The context of the fake's rows.
#[derive(Debug, PartialEq)]
pub(crate) struct Types(pub(crate) &'static str);

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Statements for Fake {
    async fn run(&self, statement: Statement, arguments: Vec<(String, Value)>) -> Result<Rows, Failure> {
        self.asked.lock().unwrap().push((statement.clone(), arguments));
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        match &statement {
            Statement::Named(name) if name == "default" => Ok(self.rows()),
            Statement::Text(sql) if sql == "wait" => {
                std::future::pending::<()>().await;
                Err(Failure::new(Code::Internal, "unreachable"))
            }
            Statement::Text(sql) if sql == "panic" => panic!("a bug in the engine"),
            Statement::Text(sql) if sql == "fail" => {
                let place = Position { line: 3, column: 14 };
                Err(Failure::new(Code::UnknownColumn, "no column 'statsu'").about("statsu").at(Some(place)))
            }
            Statement::Text(_) => Ok(self.rows()),
            Statement::Named(name) => {
                Err(Failure::new(Code::UnknownStatement, format!("no statement '{name}'")).about(name))
            }
        }
    }
}

impl Fake {
    fn rows(&self) -> Rows {
        let polled = Arc::clone(&self.polled);
        let batches = [batch(&[1, 2, 3]), batch(&[4, 5])];
        Rows {
            columns: Column::of_statement([("n".into(), Kind::Int64, false), ("t".into(), Kind::Text, true)]),
            batches: stream::iter(batches)
                .map(move |batch| {
                    polled.fetch_add(1, Ordering::SeqCst);
                    Ok(batch)
                })
                .boxed(),
            context: Arc::new(Types("of the statement")),
            json: Arc::new(|_, _, _| Ok("{}".into())),
        }
    }
}

fn batch(numbers: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("t", DataType::Utf8, true)]);
    let texts: StringArray = numbers.iter().map(|n| (n % 2 == 0).then(|| format!("t{n}"))).collect();
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(numbers.to_vec())), Arc::new(texts)]).unwrap()
}

pub(crate) fn small_limits() -> Limits {
    Limits {
        wall_clock: Duration::from_secs(5),
        cpu: Duration::from_millis(100),
        guest_memory: 4 << 20,
        ..Limits::default()
    }
}

pub(crate) fn options() -> RuntimeOptions {
    RuntimeOptions { concurrency: 4, limits: small_limits(), ..RuntimeOptions::default() }
}

pub(crate) fn request(arguments: &[(&str, &str)]) -> Request {
    let arguments: BTreeMap<_, _> =
        arguments.iter().map(|(name, value)| ((*name).to_owned(), Value::Text((*value).to_owned()))).collect();
    Request { arguments, received_at: 1_763_633_702_000_000, limits: small_limits() }
}

pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(crate) async fn prepare(runtime: &Runtime, component: &[u8]) -> Result<Arc<Endpoint>, RuntimeError> {
    runtime.prepare(component, digest(component)).await
}

pub(crate) fn sql_component() -> Vec<u8> {
    let name = EndpointName::try_from("a".to_owned()).unwrap();
    compile_sql(&Manifest::new(name, "SELECT 1")).unwrap()
}

/// A runtime with the ad-hoc endpoint ready, which does what its `sql` says to the [`Fake`].
pub(crate) async fn adhoc() -> (Arc<Runtime>, Arc<Endpoint>) {
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, &compile_adhoc().unwrap()).await.unwrap();
    (runtime, endpoint)
}

/// A guest from the text of its core module: `handle` is the body of the handler, `items` whatever
/// else the module has. Imports are at hand as $drop, $drop-set,
/// $empty, $log, $run and $rows.
pub(crate) fn guest(items: &str, handle: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
        (import "tidegate:endpoint/exchange@0.1.0" "[resource-drop]request" (func $drop (param i32)))
        (import "tidegate:endpoint/exchange@0.1.0" "[static]response.empty" (func $empty (result i32)))
        (import "tidegate:endpoint/exchange@0.1.0" "[static]response.rows" (func $rows (param i32) (result i32)))
        (import "tidegate:endpoint/log@0.1.0" "record-line" (func $log (param i32 i32 i32)))
        (import "tidegate:endpoint/statements@0.1.0" "run" (func $run (param i32 i32 i32 i32 i32)))
        (import "tidegate:endpoint/results@0.1.0" "[resource-drop]result-set" (func $drop-set (param i32)))
        (memory (export "memory") 1)
        (global $heap (mut i32) (i32.const 4096))
        (func $realloc (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
            (global.set $heap (i32.add (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)) (local.get 3)))
            (i32.sub (global.get $heap) (local.get 3)))
        (data (i32.const 256) "default")
        {items}
        (func (export "tidegate:endpoint/handler@0.1.0#handle") (param $request i32) (result i32)
            (call $drop (local.get $request))
            {handle}))"#
    );
    component(&text)
}

/// A component of the world `endpoint` from the text of a core module.
pub(crate) fn component(text: &str) -> Vec<u8> {
    let mut resolve = wit_parser::Resolve::default();
    let package = resolve.push_source("endpoint.wit", WIT).unwrap();
    let world = resolve.select_world(&[package], Some("endpoint")).unwrap();
    let mut module = wat::parse_str(text).unwrap();
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut module, &resolve, world, encoding, false).unwrap();
    wit_component::ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}

/// Runs a guest once.
pub(crate) async fn run(component: &[u8]) -> Result<Answer, Box<CallError>> {
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, component).await.unwrap();
    let result = runtime.handle(&endpoint, request(&[]), Arc::new(Fake::default())).await;
    assert_eq!(runtime.pool_use().running, 0);
    // Whatever it did, the runtime serves the next request.
    let after = prepare(&runtime, &sql_component()).await.unwrap();
    assert_eq!(numbers(runtime.handle(&after, request(&[]), Arc::new(Fake::default())).await.unwrap()).await.len(), 5);
    result
}

/// The first column of the rows of an answer.
pub(crate) async fn numbers(answer: Answer) -> Vec<i64> {
    let Body::Rows(rows) = answer.body else { panic!("{:?}", answer.body) };
    let batches: Vec<RecordBatch> = rows.batches.try_collect().await.unwrap();
    let column = |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    batches.iter().flat_map(column).collect()
}
