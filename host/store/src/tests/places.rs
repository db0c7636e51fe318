//! Rows keep their places through memory, segments, merges and restarts, and are read by them in the order of commits.

use std::sync::Arc;

use datafusion::{
    arrow::{array::AsArray, datatypes::Int64Type},
    prelude::{SessionConfig, SessionContext, lit},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{again, all, manual, open, with_source};
use crate::{FollowedTable, Store, StoreOptions, WantedCalls, field_names::PLACE, schema::shape::Shape};

/// Each row with its place: the number of its call, its number in the call, its id.
type Rows = Vec<(i64, i64, String)>;

fn options() -> StoreOptions {
    StoreOptions { row_group_rows: 8, run_rows: 4, ..manual() }
}

/// The stored rows after a call, read in ranges of about so many rows, and whether all of them are there.
async fn stored(store: &Store, after: i64, rows: usize) -> (Rows, bool) {
    let table = FollowedTable::of(store.table("s").unwrap().as_ref()).unwrap();
    let (mut read, mut is_complete, mut after) = (Rows::new(), true, after);
    while after < table.position {
        let wanted = WantedCalls { after, up_to: table.position, rows, span: i64::MAX };
        let stored = store.stored_calls(&table, wanted).unwrap();
        assert!(stored.last > after);
        (after, is_complete) = (stored.last, is_complete && stored.is_complete);
        let config = SessionConfig::new()
            .with_target_partitions(1)
            .set_bool("datafusion.execution.parquet.pushdown_filters", true);
        let frame = SessionContext::new_with_config(config).read_table(stored.table).unwrap();
        // The order is kept by what stands above, whatever is asked of it.
        let frame = frame.filter(lit(true)).unwrap().select_columns(&["id", PLACE[0], PLACE[1]]).unwrap();
        for batch in frame.collect().await.unwrap() {
            let ids = batch.column(0).as_string_view();
            let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();
            for ((id, call), row) in ids.iter().zip(numbers(1)).zip(numbers(2)) {
                read.push((call, row, id.unwrap().to_owned()));
            }
        }
    }
    (read, is_complete)
}

#[derive(Debug, Clone)]
enum Step {
    /// A call: for each event its project, its time, and whether it has a field that few have.
    Call(Vec<(u8, i64, bool)>),
    Table,
    Flush,
    Merge,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let event = (0_u8..4, 0_i64..50, prop::bool::weighted(0.1));
    let step = prop_oneof![
        6 => prop::collection::vec(event, 1..20).prop_map(Step::Call),
        1 => Just(Step::Table),
        2 => Just(Step::Flush),
        1 => Just(Step::Merge),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// The rows after any place are those that were sent after it, in their order, wherever they lie.
    #[test]
    fn rows_after_a_place_are_those_that_came_after_it(
        steps in steps(), at in any::<prop::sample::Index>(), rows in 1_usize..200
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (dir, mut store) = with_source(options());
            store.create_source("other").unwrap();
            let mut sent: Vec<Vec<String>> = Vec::new();
            for step in steps {
                match step {
                    Step::Call(events) => {
                        store.ingest("other", vec![json!({"n": 1})]).await.unwrap();
                        let of = |(row, (project, time, rare)): (usize, &(u8, i64, bool))| {
                            let mut event = json!({
                                "id": format!("{}-{row}", sent.len()), "timestamp": 1_700_000_000_000_000 + time,
                                "project": format!("p{project}"),
                            });
                            if *rare {
                                event[format!("rare{}", sent.len())] = json!(row);
                            }
                            event
                        };
                        let events: Vec<Value> = events.iter().enumerate().map(of).collect();
                        sent.push(events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect());
                        store.ingest("s", events).await.unwrap();
                    }
                    Step::Table => drop(store.table("s").unwrap()),
                    Step::Flush => store.flush().await.unwrap(),
                    Step::Merge => store.compact().await.unwrap(),
                    Step::Restart => {
                        store.close().await.unwrap();
                        drop(store);
                        store = Store::open(dir.path(), options()).unwrap();
                    }
                }
            }
            let (read, is_complete) = stored(&store, 0, rows).await;
            prop_assert!(is_complete);
            let numbered: Vec<(i64, &String)> =
                sent.iter().flat_map(|call| (0..).zip(call)).collect();
            prop_assert_eq!(read.iter().map(|(_, row, id)| (*row, id)).collect::<Vec<_>>(), numbered);
            prop_assert!(read.windows(2).all(|pair| (pair[0].0, pair[0].1) < (pair[1].0, pair[1].1)));
            if !read.is_empty() {
                let (call, ..) = read[at.index(read.len())];
                let later: Rows = read.iter().filter(|(other, ..)| *other > call).cloned().collect();
                prop_assert_eq!(stored(&store, call, rows).await, (later, true));
            }
            Ok(())
        })?;
    }
}

async fn send(store: &Store, ids: std::ops::Range<usize>) {
    let events = ids.map(|id| json!({"id": format!("{id:03}"), "timestamp": 1_000 - id as i64}));
    store.ingest("s", events.collect()).await.unwrap();
}

fn shape_of(dir: &std::path::Path, change: impl FnOnce(&mut Shape)) {
    let conn = rusqlite::Connection::open(dir.join("catalog.sqlite")).unwrap();
    let text: String = conn.query_row("SELECT shape FROM sources", [], |row| row.get(0)).unwrap();
    let mut shape: Shape = serde_json::from_str(&text).unwrap();
    change(&mut shape);
    conn.execute("UPDATE sources SET shape = ?1", [serde_json::to_string(&shape).unwrap()]).unwrap();
}

/// A source with two segments without places, as releases wrote them that knew none, and one with.
async fn with_old_segments(dir: &tempfile::TempDir) -> Arc<Store> {
    let store = open(dir);
    store.create_source("s").unwrap();
    drop(store);
    // A source that has a field of the name of a column of places has no places.
    let default = Shape::default();
    shape_of(dir.path(), |shape| {
        let kind = default.fields.get("event_message").unwrap().clone();
        shape.fields.push(PLACE[0].to_owned(), kind);
    });
    let store = open(dir);
    assert!(FollowedTable::of(store.table("s").unwrap().as_ref()).is_none());
    for part in 0..2 {
        send(&store, part * 10..part * 10 + 10).await;
        store.flush().await.unwrap();
    }
    drop(store);
    shape_of(dir.path(), |shape| shape.fields = default.fields.clone());
    let store = open(dir);
    send(&store, 20..30).await;
    store.flush().await.unwrap();
    store
}

#[tokio::test]
async fn segments_without_places_are_read_and_merged_and_known_to_lack_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = with_old_segments(&dir).await;
    let before = all(&store, "s").await;
    assert_eq!(before.len(), 30);
    let old = store.get(store.source("s").unwrap().id).unwrap().segments();
    let last_old = old.iter().filter_map(|segment| segment.seqs).map(|(_, last)| last).min().unwrap() + 1;
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
            assert_eq!(store.stats().segments, 1);
        }
        let (rows, is_complete) = stored(&store, 0, 1_000).await;
        assert_eq!((rows.len(), is_complete), (10, false), "merged: {merged}");
        let (rows, is_complete) = stored(&store, last_old, 1_000).await;
        assert_eq!((rows.len(), is_complete), (10, true), "merged: {merged}");
        assert_eq!(all(&store, "s").await, before);
    }
    let store = again(store, dir.path(), manual());
    assert!(!stored(&store, last_old - 1, 1_000).await.1, "also after a start");
    send(&store, 30..40).await;
    store.flush().await.unwrap();
    store.compact().await.unwrap();
    let (rows, is_complete) = stored(&store, last_old, 7).await;
    let ids: Vec<String> = (20..40).map(|id| format!("{id:03}")).collect();
    assert_eq!((rows.into_iter().map(|(.., id)| id).collect::<Vec<_>>(), is_complete), (ids, true));
}

/// Rows that another catalog numbered came with no call of this one, and a merge does not mix up the numbers.
#[tokio::test]
async fn places_of_another_catalog_are_not_taken_for_own_ones() {
    let (dir, store) = with_source(manual());
    send(&store, 0..10).await;
    store.flush().await.unwrap();
    drop(store);
    let conn = rusqlite::Connection::open(dir.path().join("catalog.sqlite")).unwrap();
    conn.execute("UPDATE meta SET value = ?1 WHERE key = 'catalog_id'", [uuid::Uuid::new_v4().to_string()]).unwrap();
    drop(conn);
    let store = open(&dir);
    send(&store, 10..20).await;
    store.flush().await.unwrap();
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
            assert_eq!(store.stats().segments, 1);
        }
        let (rows, is_complete) = stored(&store, 0, 1_000).await;
        assert_eq!((rows[0].2.as_str(), rows.len(), is_complete), ("010", 10, true), "merged: {merged}");
        assert_eq!(all(&store, "s").await.len(), 20);
    }
}

#[tokio::test]
async fn a_field_with_the_name_of_a_place_is_kept_beside_it() {
    let (_dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    store.ingest("s", vec![json!({"id": "x", PLACE[0]: "mine", PLACE[1]: {"a": 1}})]).await.unwrap();
    for flushed in [false, true] {
        if flushed {
            store.flush().await.unwrap();
        }
        let rows = all(&store, "s").await;
        let text = rows[0]["_overflow_fields"].as_str().unwrap();
        let other: Value = serde_json::from_str(text).unwrap();
        assert_eq!(other, json!({PLACE[0]: "mine", PLACE[1]: {"a": 1}}), "flushed: {flushed}");
        assert_eq!(stored(&store, 0, 10).await.0.len(), 1);
        assert!(store.schema(id).unwrap().iter().all(|(path, _)| !path.contains("_tidegate")));
        assert!(store.fill_rates(id).unwrap().fields.iter().all(|(path, _)| !path.contains("_tidegate")));
    }
}

#[tokio::test]
async fn what_is_damaged_or_set_aside_is_told() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    for part in 0..2 {
        send(&store, part * 10..part * 10 + 10).await;
        store.flush().await.unwrap();
    }
    let segments = store.get(id).unwrap().segments();
    let oldest = segments.iter().min_by_key(|segment| segment.seqs).unwrap();
    let (path, (_, last)) = (oldest.path().unwrap().to_owned(), oldest.seqs.unwrap());
    assert!(stored(&store, 0, 1_000).await.1);
    drop((segments, store));
    std::fs::write(&path, "x").unwrap();
    let store = open(&dir);
    let (rows, is_complete) = stored(&store, 0, 1_000).await;
    assert_eq!((rows.len(), is_complete), (10, false));
    assert!(stored(&store, last, 1_000).await.1);
    assert!(!store.may_lack_calls(id, 0).unwrap());
    drop(store);
    crate::repair(dir.path()).unwrap();
    let store = open(&dir);
    assert!(stored(&store, 0, 1_000).await.1, "the segment is not there");
    assert!(store.may_lack_calls(id, last - 1).unwrap(), "the catalog knew what the file had");
    assert!(!store.may_lack_calls(id, last).unwrap());
    drop(store);
    // Without the note.
    let note = std::fs::read_dir(dir.path().join("quarantine")).unwrap().map(|entry| entry.unwrap().path());
    let note = note.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "json")).unwrap();
    let text = std::fs::read_to_string(&note).unwrap();
    std::fs::write(&note, text.replace("\"calls\"", "\"of a later version\"")).unwrap();
    let store = open(&dir);
    assert!(store.may_lack_calls(id, last).unwrap(), "nobody knows what a file had that cannot be read");
    assert!(!store.may_lack_calls(id, crate::clock::now_micros()).unwrap(), "but nothing later");
}
