//! Result sets as a guest uses them, without a guest: selecting, limiting, reading in parts, passing
//! on what is left, and rows that are made.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test may panic")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, AsArray, BooleanArray, Date32Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringViewArray, TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_model::{Arguments, Code, Failure, Kind, Limits, Value};
use wasmtime::component::Resource;

use crate::bindings::tidegate::endpoint::results::HostResultSet;
use crate::bindings::tidegate::endpoint::types as wit;
use crate::budget::Budget;
use crate::host::State;
use crate::result_set::ResultSet;
use crate::rows::{Column, Rows, Statement, Statements};

struct Nothing;

#[async_trait]
impl Statements for Nothing {
    async fn run(&self, _: Statement, _: Vec<(String, Value)>) -> Result<Rows, Failure> {
        Err(Failure::new(Code::Internal, "not here"))
    }
}

fn state(limits: Limits) -> State {
    State::new(Budget::new(limits, Duration::from_millis(5), None), Arguments::new(), Arc::new(Nothing))
}

fn rows(columns: &[(&str, Kind)], batches: Vec<Vec<ArrayRef>>) -> Rows {
    let names = columns.iter().map(|(name, _)| *name);
    let batch = |arrays: Vec<ArrayRef>| RecordBatch::try_from_iter(names.clone().zip(arrays)).unwrap();
    let batches: Vec<_> = batches.into_iter().map(|arrays| Ok(batch(arrays))).collect();
    Rows {
        columns: Column::of_statement(columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind, true))),
        batches: stream::iter(batches).boxed(),
        context: Arc::new(()),
        json: Arc::new(|column, _, row| Ok(format!("[{column},{row}]"))),
    }
}

fn ints(values: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A set of the columns a, b, c with rows 0 to 9 in batches of 4, 4 and 2; b is a + 10, c is a + 20.
fn abc(state: &mut State) -> Resource<ResultSet> {
    let batch =
        |range: std::ops::Range<i64>| [0, 10, 20].map(|plus| ints(range.start + plus..range.end + plus)).to_vec();
    let columns = [("a", Kind::Int64), ("b", Kind::Int64), ("c", Kind::Int64)];
    state.push(ResultSet::new(rows(&columns, vec![batch(0..4), batch(4..8), batch(8..10)]))).unwrap()
}

/// Every row that is left, as it would be streamed to the caller.
async fn rest(state: &mut State, set: Resource<ResultSet>) -> Vec<Vec<i64>> {
    let rows = state.table.delete(set).unwrap().into_rows();
    let batches: Vec<RecordBatch> = rows.batches.try_collect().await.unwrap();
    assert!(batches.iter().all(|batch| batch.num_columns() == rows.columns.len()));
    let row = |batch: &RecordBatch, row: usize| {
        batch.columns().iter().map(|array| array.as_primitive::<Int64Type>().value(row)).collect()
    };
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at)).collect::<Vec<_>>()).collect()
}

async fn next(state: &mut State, set: &Resource<ResultSet>, rows: u32) -> Result<Option<wit::Batch>, wit::Failure> {
    state.next(Resource::new_borrow(set.rep()), rows).await.unwrap()
}

fn first_column(batch: wit::Batch) -> Vec<i64> {
    match batch.columns.into_iter().next().map(|series| series.data) {
        Some(wit::SeriesData::Int64s(values)) => values,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rows_are_read_in_parts_and_the_rest_is_passed_on() {
    let mut state = state(Limits::default());
    let set = abc(&mut state);
    let mut read = Vec::new();
    for wanted in [3, 3, 3] {
        read.push(first_column(next(&mut state, &set, wanted).await.unwrap().unwrap()));
    }
    // A batch ends where the engine's batch ends.
    assert_eq!(read, [vec![0, 1, 2], vec![3], vec![4, 5, 6]]);
    let left: Vec<i64> = rest(&mut state, set).await.into_iter().map(|row| row[0]).collect();
    assert_eq!(left, [7, 8, 9]);
    assert!(state.table.is_empty());
}

/// Rows that a guest has not read yet lie in the host.
#[tokio::test]
async fn rows_of_open_sets_count_until_they_are_read() {
    let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(40 << 10));
    let budget = Budget::new(Limits::default(), Duration::from_millis(5), Some(&memory));
    let mut state = State::new(budget, Arguments::new(), Arc::new(Nothing));
    // 8,000 bytes of one buffer, in two columns.
    let column = ints(0..1000);
    let wide = |state: &mut State| {
        let columns = [("a", Kind::Int64), ("b", Kind::Int64)];
        let batch = || vec![ints(0..1000), Arc::clone(&column)];
        state.push(ResultSet::new(rows(&columns, vec![batch(), batch()]))).unwrap()
    };
    let (one, two, three) = (wide(&mut state), wide(&mut state), wide(&mut state));
    for (set, held) in [(&one, 16_000), (&two, 32_000)] {
        assert!(next(&mut state, set, 1).await.unwrap().is_some());
        assert_eq!(memory.reserved() / 1000 * 1000, held);
    }
    next(&mut state, &three, 1).await.unwrap_err();
    assert_eq!(state.last_failure.take().map(|failure| failure.code), Some(Code::Overloaded));
    assert!(memory.reserved() < 33_000);
    assert!(next(&mut state, &three, 1).await.unwrap().is_none(), "it has ended");
    // What is read is let go, and so is what goes with its set or with the answer.
    assert_eq!(next(&mut state, &one, 999).await.unwrap().unwrap().rows, 999);
    assert!(memory.reserved() < 17_000);
    assert_eq!(next(&mut state, &one, 1).await.unwrap().unwrap().rows, 1);
    assert!(memory.reserved() < 33_000);
    HostResultSet::drop(&mut state, two).unwrap();
    assert!(memory.reserved() < 17_000);
    assert_eq!(rest(&mut state, one).await.len(), 999);
    assert_eq!(memory.reserved(), 0);
}

#[tokio::test]
async fn reading_ends_with_none_again_and_again() {
    let mut state = state(Limits::default());
    let set = abc(&mut state);
    let mut rows = 0;
    while let Some(batch) = next(&mut state, &set, u32::MAX).await.unwrap() {
        rows += batch.rows;
    }
    assert_eq!(rows, 10);
    assert!(next(&mut state, &set, 1).await.unwrap().is_none());
    assert!(matches!(state.scalar(set).await.unwrap(), Ok(wit::Value::Null)));
    assert_eq!(state.budget.used().guest_rows, 10);
}

#[tokio::test]
async fn selecting_and_limiting_compose_in_any_order_also_after_reading() {
    let mut state = state(Limits::default());
    let set = abc(&mut state);
    let set = state.select(set, vec!["c".into(), "a".into()]).unwrap().unwrap();
    assert_eq!(first_column(next(&mut state, &set, 1).await.unwrap().unwrap()), [20]);
    let set = state.limit(set, 6).unwrap();
    let set = state.select(set, vec!["a".into()]).unwrap().unwrap();
    let origins: Vec<_> = state.columns(Resource::new_borrow(set.rep())).unwrap().into_iter().map(|c| c.name).collect();
    assert_eq!(origins, ["a"]);
    let set = state.limit(set, 100).unwrap();
    assert_eq!(rest(&mut state, set).await, [[1], [2], [3], [4], [5], [6]]);

    let set = abc(&mut state);
    let set = state.limit(set, 0).unwrap();
    assert!(next(&mut state, &set, 5).await.unwrap().is_none());
    assert!(rest(&mut state, set).await.is_empty());
}

#[tokio::test]
async fn selected_columns_know_where_they_come_from() {
    let mut state = state(Limits::default());
    let set = abc(&mut state);
    let set = state.select(set, vec!["c".into(), "b".into()]).unwrap().unwrap();
    let set = state.select(set, vec!["b".into()]).unwrap().unwrap();
    let rows = state.table.delete(set).unwrap().into_rows();
    assert_eq!(rows.columns.iter().map(|column| column.origin).collect::<Vec<_>>(), [Some(1)]);
}

#[tokio::test]
async fn selecting_what_is_not_there_names_the_nearest_and_leaves_nothing_behind() {
    let mut state = state(Limits::default());
    let set = state.push(ResultSet::new(rows(&[("method", Kind::Int64)], vec![]))).unwrap();
    let failure = state.select(set, vec!["metod".into()]).unwrap().unwrap_err();
    assert!(matches!(failure, wit::Failure::BadQuery(error) if error.message.contains("did you mean 'method'")));
    assert_eq!(state.last_failure.take().map(|failure| failure.code), Some(Code::UnknownColumn));
    assert!(state.table.is_empty());
}

#[tokio::test]
async fn rows_and_bytes_have_budgets() {
    let mut state = state(Limits { guest_rows: 5, ..Limits::default() });
    let set = abc(&mut state);
    assert_eq!(next(&mut state, &set, 100).await.unwrap().unwrap().rows, 4);
    assert_eq!(next(&mut state, &set, 100).await.unwrap().unwrap().rows, 1);
    let failure = next(&mut state, &set, 100).await.unwrap_err();
    assert!(matches!(failure, wit::Failure::Exhausted(wit::Exhaustion { quota: wit::Quota::Rows, .. })));
    // What was refused is not lost: the rows can still be passed on.
    assert_eq!(rest(&mut state, set).await.len(), 5);

    let mut state = self::state(Limits { guest_bytes: 100, ..Limits::default() });
    let set = abc(&mut state);
    assert!(next(&mut state, &set, 4).await.unwrap().is_some());
    let failure = next(&mut state, &set, 4).await.unwrap_err();
    assert!(matches!(failure, wit::Failure::Exhausted(wit::Exhaustion { quota: wit::Quota::Bytes, .. })));
    assert!(matches!(next(&mut state, &set, 0).await.unwrap_err(), wit::Failure::InvalidArgument(_)));
    assert_eq!(rest(&mut state, set).await.len(), 6);
}

#[tokio::test]
async fn a_stream_that_fails_says_so_once_and_is_then_empty() {
    let mut state = state(Limits::default());
    let mut broken = rows(&[("a", Kind::Int64)], vec![]);
    let failure = Failure::new(Code::InvalidValue, "division by zero");
    broken.batches = stream::iter([Err(failure.clone())]).boxed();
    let set = state.push(ResultSet::new(broken)).unwrap();
    assert!(matches!(next(&mut state, &set, 1).await.unwrap_err(), wit::Failure::BadQuery(_)));
    assert_eq!(state.last_failure, Some(failure));
    assert!(next(&mut state, &set, 1).await.unwrap().is_none());
}

#[tokio::test]
async fn engine_types_are_seen_as_the_contract_s_kinds() {
    let mut state = state(Limits::default());
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None]);
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(7), None])),
        Arc::new(StringViewArray::from(vec![Some("ä text that is longer than twelve bytes"), Some("")])),
        Arc::new(TimestampMillisecondArray::from(vec![1, 2]).with_timezone("UTC")),
        Arc::new(Date32Array::from(vec![0, 1])),
        Arc::new(list),
        Arc::new(BooleanArray::from(vec![true, false])),
        Arc::new(Float64Array::from(vec![0.5, f64::NAN])),
    ];
    let kinds = [
        ("int", Kind::Int64),
        ("view", Kind::Text),
        ("time", Kind::Timestamp),
        ("date", Kind::Text),
        ("list", Kind::Json),
        ("bool", Kind::Boolean),
        ("float", Kind::Float64),
    ];
    let set = state.push(ResultSet::new(rows(&kinds, vec![arrays]))).unwrap();
    let batch = next(&mut state, &set, 10).await.unwrap().unwrap();
    let [int, view, time, date, list, boolean, float] = batch.columns.as_slice() else { panic!("{batch:?}") };
    assert_eq!(int.validity, Some(vec![1, 0]));
    assert!(matches!(&int.data, wit::SeriesData::Int64s(values) if values[0] == 7));
    let texts = |series: &wit::Series| match &series.data {
        wit::SeriesData::Texts(packed) => packed
            .offsets
            .windows(2)
            .map(|pair| String::from_utf8(packed.buffer[pair[0] as usize..pair[1] as usize].to_vec()).unwrap())
            .collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(texts(view), ["ä text that is longer than twelve bytes", ""]);
    assert!(matches!(&time.data, wit::SeriesData::Timestamps(values) if values == &[1000, 2000]));
    assert_eq!(texts(date), ["1970-01-01", "1970-01-02"]);
    assert_eq!((texts(list), &list.validity), (vec!["[4,0]".to_owned(), String::new()], &Some(vec![1, 0])));
    assert!(matches!(&boolean.data, wit::SeriesData::Booleans(values) if values == &[1, 0]));
    assert!(matches!(&float.data, wit::SeriesData::Float64s(values) if values[0] == 0.5 && float.validity.is_none()));
}

fn column(name: &str, kind: wit::Kind, nullable: bool) -> wit::Column {
    wit::Column { name: name.to_owned(), kind, nullable }
}

fn texts(offsets: &[u32], buffer: &[u8]) -> wit::SeriesData {
    wit::SeriesData::Texts(wit::Packed { offsets: offsets.to_vec(), buffer: buffer.to_vec() })
}

fn one(data: wit::SeriesData, validity: Option<Vec<u8>>, rows: u32) -> Vec<wit::Batch> {
    vec![wit::Batch { rows, columns: vec![wit::Series { validity, data }] }]
}

#[tokio::test]
async fn made_rows_are_a_result_set_like_any_other() {
    let mut state = state(Limits::default());
    let columns = vec![column("t", wit::Kind::Text, true), column("n", wit::Kind::Int64, false)];
    let batch = |start: i64| wit::Batch {
        rows: 2,
        columns: vec![
            wit::Series { validity: Some(vec![1, 0]), data: texts(&[0, 3, 3], "ä1".as_bytes()) },
            wit::Series { validity: None, data: wit::SeriesData::Int64s(vec![start, start + 1]) },
        ],
    };
    let set = state.make(columns, vec![batch(0), batch(2)]).unwrap().unwrap();
    assert!(
        matches!(state.scalar(Resource::new_borrow(set.rep())).await.unwrap(), Ok(wit::Value::Text(t)) if t == "ä1")
    );
    let set = state.select(set, vec!["n".into()]).unwrap().unwrap();
    assert_eq!(rest(&mut state, set).await, [[1], [2], [3]]);
}

#[test]
fn made_rows_are_not_believed() {
    let refusal = |columns: Vec<wit::Column>, batches| crate::guest_rows::guest_rows(columns, batches).unwrap_err();
    let text = || vec![column("t", wit::Kind::Text, false)];
    let json = || vec![column("j", wit::Kind::Json, false)];
    let int = || vec![column("n", wit::Kind::Int64, false)];
    for (refusal, reason) in [
        (refusal(text(), one(texts(&[0, 9], b"x"), None, 1)), "beyond the buffer"),
        (refusal(text(), one(texts(&[0, 2, 1], b"xy"), None, 2)), "decrease"),
        (refusal(text(), one(texts(&[0, u32::MAX], b""), None, 1)), "over 2 GiB"),
        (refusal(text(), one(texts(&[0], b""), None, 1)), "offsets"),
        (refusal(text(), one(texts(&[0, 1], b"\xff"), None, 1)), "utf"),
        (refusal(text(), one(texts(&[0, 1, 2], "ä".as_bytes()), None, 2)), "utf"),
        (refusal(json(), one(texts(&[0, 1], b"{"), None, 1)), "no JSON"),
        (refusal(int(), one(wit::SeriesData::Int64s(vec![1]), None, 2)), "1 values for 2 rows"),
        (refusal(int(), one(wit::SeriesData::Int64s(vec![1]), Some(vec![]), 1)), "0 validity for 1 rows"),
        (refusal(int(), one(wit::SeriesData::Int64s(vec![1]), Some(vec![0]), 1)), "not nullable"),
        (refusal(int(), one(wit::SeriesData::Float64s(vec![1.0]), None, 1)), "not of the column's kind"),
        (refusal(int(), vec![wit::Batch { rows: 0, columns: vec![] }]), "0 series for 1 columns"),
        (refusal(vec![], vec![wit::Batch { rows: 5, columns: vec![] }]), "rows without columns"),
        (refusal([int(), int()].concat(), vec![]), "twice"),
        (refusal(vec![column("", wit::Kind::Text, true)], vec![]), "empty"),
    ] {
        assert!(refusal.to_lowercase().contains(&reason.to_lowercase()), "{reason}: {refusal}");
    }
}

#[tokio::test]
async fn a_guest_adds_arguments_and_replaces_none() {
    use crate::bindings::tidegate::endpoint::statements::Host;
    let mut state = state(Limits::default());
    state.arguments.insert("project".to_owned(), Value::Text("abc".to_owned()));
    let mut run = async |names: &[&str]| {
        let arguments = names.iter().map(|name| ((*name).to_owned(), wit::Value::Int64(1))).collect();
        Host::run(&mut state, "default".to_owned(), arguments).await.unwrap().unwrap_err()
    };
    for names in [["project", "n"], ["n", "n"]] {
        assert!(matches!(run(&names).await, wit::Failure::InvalidArgument(_)), "{names:?}");
    }
    // Others reach the statements, which here have none.
    assert!(matches!(run(&["n", "m"]).await, wit::Failure::Other(_)));
}
