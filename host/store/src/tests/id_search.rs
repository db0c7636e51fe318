//! Looking rows up by their ids: all of them are found, wherever they lie, and files without them are not opened.

use datafusion::{
    physical_plan::{ExecutionPlan, collect},
    prelude::{DataFrame, Expr, col, lit},
};
use serde_json::{Value, json};

use super::{damage::files, frame, opened, rows};
use crate::{Store, StoreOptions};

const START: i64 = 1_700_000_000_000_000;
const EVENTS: i64 = 12_000;

/// Several row groups in a run, and several runs in a segment.
fn options() -> StoreOptions {
    StoreOptions { manual_flush: true, run_rows: 1_500, row_group_rows: 512, ..StoreOptions::default() }
}

fn id(number: i64) -> String {
    format!("{:016x}", (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn event(number: i64) -> Value {
    let project = format!("p{}", number % 3);
    json!({"id": id(number), "timestamp": START + number, "project": project, "n": number})
}

async fn filled(store: &Store) {
    store.create_source("s").unwrap();
    for part in 0..4 {
        let numbers = part * EVENTS / 4..(part + 1) * EVENTS / 4;
        store.ingest("s", numbers.map(event).collect()).await.unwrap();
        if part < 3 {
            store.flush().await.unwrap();
        }
    }
}

fn asked(store: &Store, condition: Expr) -> DataFrame {
    frame(store, "s").filter(condition).unwrap()
}

async fn found(frame: DataFrame) -> Vec<i64> {
    let mut numbers: Vec<i64> = rows(frame).await.iter().map(|row| row["n"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// The rows of segments that the scan hands on, and the bytes that it reads.
async fn read(frame: DataFrame) -> (usize, usize) {
    let task = frame.task_ctx();
    let plan = frame.create_physical_plan().await.unwrap();
    collect(std::sync::Arc::clone(&plan), task.into()).await.unwrap();
    fn of(plan: &dyn ExecutionPlan) -> (usize, usize) {
        let metrics = plan.metrics();
        let bytes = metrics.as_ref().and_then(|metrics| metrics.sum_by_name("bytes_scanned"));
        let own = match (bytes, metrics.and_then(|metrics| metrics.output_rows())) {
            (Some(bytes), rows) => (rows.unwrap_or(0), bytes.as_usize()),
            (None, _) => (0, 0),
        };
        plan.children().iter().map(|child| of(child.as_ref())).fold(own, |a, b| (a.0 + b.0, a.1 + b.1))
    }
    of(plan.as_ref())
}

#[tokio::test]
async fn ids_are_found_wherever_they_lie() {
    let (_dir, store) = opened(options());
    filled(&store).await;
    for merged in [false, true] {
        if merged {
            store.flush().await.unwrap();
            store.compact().await.unwrap();
        }
        for number in (0..EVENTS).step_by(97) {
            assert_eq!(found(asked(&store, col("id").eq(lit(id(number))))).await, [number]);
        }
        let several = [5, 4_000, 8_001, 11_999];
        let list = || several.iter().map(|number| lit(id(*number))).chain([lit("nowhere")]).collect();
        assert_eq!(found(asked(&store, col("id").in_list(list(), false))).await, several);
        let all_but = EVENTS as usize - several.len();
        assert_eq!(found(asked(&store, col("id").in_list(list(), true))).await.len(), all_but);
        let either = col("id").eq(lit(id(7))).or(col("n").eq(lit(8)));
        assert_eq!(found(asked(&store, either)).await, [7, 8]);
        let both = |project: &str| col("id").eq(lit(id(9))).and(col("project").eq(lit(project)));
        assert_eq!(found(asked(&store, both("p0"))).await, [9]);
        assert_eq!(found(asked(&store, both("p1"))).await, [] as [i64; 0]);
        let newest = asked(&store, col("id").in_list(list(), false)).sort(vec![col("timestamp").sort(false, false)]);
        assert_eq!(found(newest.unwrap().limit(0, Some(2)).unwrap()).await, several[2..]);
        assert_eq!(found(asked(&store, col("id").eq(lit("nowhere")))).await, [] as [i64; 0]);
    }
}

#[tokio::test]
async fn row_groups_without_an_id_are_not_read() {
    let (_dir, store) = opened(options());
    filled(&store).await;
    store.flush().await.unwrap();
    let everything = read(frame(&store, "s")).await;
    assert_eq!(everything.0, EVENTS as usize);
    // A filter says of one id in a hundred that it may be there, although it is not.
    let one = read(asked(&store, col("id").eq(lit(id(77))))).await;
    assert!((1..=2 * 512).contains(&one.0), "{one:?}");
    let none = read(asked(&store, col("id").eq(lit("nowhere")))).await;
    assert!(none.0 <= 512 && none.1 < everything.1, "{none:?} of {everything:?}");
}

/// Each frame has a cache of footers of its own, which is empty.
#[tokio::test]
async fn no_footer_is_read_for_what_a_segment_knows() {
    let (_dir, store) = opened(options());
    filled(&store).await;
    store.flush().await.unwrap();
    for is_first in [true, false] {
        // No filter says that this id may be there, so nothing else is read.
        let absent = asked(&store, col("id").eq(lit("nowhere")));
        let runtime = absent.task_ctx().runtime_env();
        assert_eq!(found(absent).await, [] as [i64; 0]);
        let kept = runtime.cache_manager.get_file_metadata_cache().list_entries();
        let footers = kept.keys().filter(|file| file.as_ref().ends_with(".parquet")).count();
        assert_eq!(footers > 0, is_first, "{:?}", kept.keys());
    }
    assert_eq!(found(asked(&store, col("id").eq(lit(id(77))))).await, [77]);
}

#[tokio::test]
async fn a_damaged_filter_is_an_error() {
    let (dir, store) = opened(options());
    filled(&store).await;
    store.flush().await.unwrap();
    drop(store);
    let file = files(dir.path()).remove(0);
    let bytes = std::fs::read(&file).unwrap();
    // The filters lie behind the pages, and are written one after the other with the same header.
    let header: Vec<u8> = {
        let mut written = Vec::new();
        parquet::bloom_filter::Sbbf::new(&[0; 1024]).write(&mut written).unwrap();
        written.truncate(written.len() - 1024);
        written
    };
    let place = bytes.windows(header.len()).position(|window| window == header).unwrap();
    let mut changed = bytes.clone();
    changed[place] ^= 1;
    std::fs::write(&file, changed).unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let error = asked(&store, col("id").eq(lit("nowhere"))).collect().await.unwrap_err();
    assert!(error.to_string().contains("verify"), "{error}");
    std::fs::write(&file, bytes).unwrap();
}
