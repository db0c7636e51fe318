//! Components that authors built against a release of the contract still run: `tests/compat/` keeps
//! some of each release as they were built then, and they are never built again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_compiler::inspect;
use tidegate_model::{Failure, Kind, Value};
use tidegate_runtime::{Body, Column, Rows, Runtime, Statement, Statements};

use super::fake::{options, prepare, request};

/// Methods and status codes of requests, in two batches: two of GET, of which one failed, one of POST.
struct Requests;

#[async_trait]
impl Statements for Requests {
    async fn run(&self, _: Statement, _: Vec<(String, Value)>) -> Result<Rows, Failure> {
        let batch = |methods: Vec<&str>, statuses: Vec<i64>| {
            let schema = Schema::new(vec![
                Field::new("method", DataType::Utf8, true),
                Field::new("status", DataType::Int64, true),
            ]);
            RecordBatch::try_new(
                Arc::new(schema),
                vec![Arc::new(StringArray::from(methods)), Arc::new(Int64Array::from(statuses))],
            )
            .unwrap()
        };
        let batches = [batch(vec!["GET", "POST"], vec![503, 200]), batch(vec!["GET"], vec![200])];
        Ok(Rows {
            columns: Column::of_statement([("method".into(), Kind::Text, true), ("status".into(), Kind::Int64, true)]),
            batches: stream::iter(batches.map(Ok)).boxed(),
            context: Arc::new(()),
            json: Arc::new(|_, _, _| Ok(String::new())),
        })
    }
}

/// What a component answers: the first column as texts, the second as integers.
async fn answered(component: &[u8]) -> Vec<(String, i64)> {
    let runtime = Runtime::new(options()).unwrap();
    let endpoint = prepare(&runtime, component).await.unwrap();
    let answer = runtime.handle(&endpoint, request(&[("sql", "SELECT 1")]), Arc::new(Requests)).await.unwrap();
    let Body::Rows(rows) = answer.body else { panic!("{:?}", answer.body) };
    let batches: Vec<RecordBatch> = rows.batches.try_collect().await.unwrap();
    let pairs = |batch: &RecordBatch| {
        let (texts, numbers) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int64Type>());
        texts.iter().map(|text| text.unwrap().to_owned()).zip(numbers.values().to_vec()).collect::<Vec<_>>()
    };
    batches.iter().flat_map(pairs).collect()
}

/// The components of that name, of all releases.
fn golden(name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compat");
    let releases = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join(name));
    let there: Vec<_> = releases.filter(|path| path.is_file()).collect();
    assert!(!there.is_empty(), "{name}");
    there
}

#[tokio::test]
async fn components_of_every_release_still_run() {
    let passed = [("GET", 503), ("POST", 200), ("GET", 200)];
    let counted = [("GET", 2), ("POST", 1)];
    for (name, expected) in [("sql.wasm", passed.as_slice()), ("adhoc.wasm", &passed), ("rust.wasm", &counted)] {
        for path in golden(name) {
            let component = std::fs::read(&path).unwrap();
            inspect(&component).unwrap();
            let expected: Vec<_> = expected.iter().map(|(method, number)| ((*method).to_owned(), *number)).collect();
            assert_eq!(answered(&component).await, expected, "{}", path.display());
        }
    }
}
