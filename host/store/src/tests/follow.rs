//! Feeds: the committed calls of a source, each once and in order, whatever becomes of their rows.

use datafusion::arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int64Type,
};
use serde_json::{Value, json};

use super::{manual, opened};
use crate::{
    Feed, FollowedTable, NewRows, Store,
    field_names::{CALL, ROW},
};

const SOURCE: &str = "s";

async fn send(store: &Store, from: usize, rows: usize) {
    let events: Vec<Value> =
        (from..from + rows).map(|n| json!({"id": n.to_string(), "timestamp": 1_000 - n})).collect();
    store.ingest(SOURCE, events).await.unwrap();
}

fn feed(store: &Store) -> Feed {
    store.feed(store.source(SOURCE).unwrap().id, 1 << 20).unwrap()
}

fn position(store: &Store) -> i64 {
    FollowedTable::of(store.table(SOURCE).unwrap().as_ref()).unwrap().position
}

/// The places of the rows of a slice.
fn places(rows: &NewRows) -> Vec<(i64, i64)> {
    let column = |rows: &RecordBatch, name: &str| {
        rows.column_by_name(name).unwrap().as_primitive::<Int64Type>().values().to_vec()
    };
    let batches = rows.batches().iter().map(|batch| &batch.rows);
    let places: Vec<_> = batches.flat_map(|rows| column(rows, CALL).into_iter().zip(column(rows, ROW))).collect();
    assert_eq!(places.len(), rows.rows());
    places
}

/// The numbers of the calls after `after`, with how many rows they have.
fn calls(feed: &Feed, after: i64) -> Vec<(i64, i64)> {
    let Some(rows) = feed.slice(after, 1_000, 1 << 20).unwrap() else { return Vec::new() };
    let mut calls: Vec<(i64, i64)> = Vec::new();
    for (call, number) in places(&rows) {
        match calls.last_mut() {
            Some((known, rows)) if *known == call => *rows += 1,
            _ => calls.push((call, 1)),
        }
        assert_eq!(number + 1, calls.last().unwrap().1);
    }
    assert_eq!(calls.last().unwrap().0, rows.last());
    calls
}

#[tokio::test]
async fn a_feed_has_each_call_once_over_flushes() {
    let (_dir, store) = opened(manual());
    store.create_source(SOURCE).unwrap();
    let feed = feed(&store);
    assert_eq!(feed.floor(), position(&store));
    let mut sizes = Vec::new();
    for (n, rows) in [3, 1, 5, 2].into_iter().enumerate() {
        send(&store, n * 10, rows).await;
        sizes.push(rows as i64);
        if n % 2 == 0 {
            store.flush().await.unwrap();
        }
    }
    let all = calls(&feed, 0);
    assert_eq!(all.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), sizes);
    assert!(all.is_sorted());
    assert_eq!(all.last().unwrap().0, position(&store));
    assert_eq!(calls(&feed, all[1].0), all[2..]);
    assert_eq!(calls(&feed, all[3].0), []);
    // One call at least, and no more than is asked for.
    assert_eq!(feed.slice(0, 1, 1 << 20).unwrap().unwrap().rows(), 3);
    feed.hold_at_most(0);
    assert_eq!(feed.floor(), all[2].0);
    assert_eq!(calls(&feed, 0), all[3..], "the newest stays");
    send(&store, 100, 1).await;
    assert_eq!(feed.floor(), all[3].0);
    let rows = feed.slice(0, 10, 1 << 20).unwrap().unwrap();
    assert_eq!((rows.rows(), rows.after()), (1, all[3].0), "it tells that calls are missing");
    let rows = feed.slice(all[3].0, 10, 1 << 20).unwrap().unwrap();
    assert_eq!((rows.rows(), rows.after()), (1, all[3].0));
}

#[tokio::test]
async fn whoever_asks_for_a_feed_at_once_with_others_gets_it_filled() {
    let (_dir, store) = opened(manual());
    store.create_source(SOURCE).unwrap();
    for n in 0..9 {
        send(&store, n * 100, 100).await;
    }
    let first = calls(&feed(&store), 0)[0].0;
    for _ in 0..20 {
        let at_once = std::sync::Barrier::new(4);
        let floors = std::thread::scope(|scope| {
            let ask = || {
                at_once.wait();
                let feed = feed(&store);
                let (floor, calls) = (feed.floor(), calls(&feed, 0).len());
                // Until then all of them hold it.
                at_once.wait();
                (floor, calls)
            };
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(floors, [(first - 1, 9); 4]);
    }
}

#[tokio::test]
async fn a_new_feed_has_what_no_segment_holds_also_after_a_restart() {
    let (dir, store) = opened(manual());
    store.create_source(SOURCE).unwrap();
    send(&store, 0, 2).await;
    store.flush().await.unwrap();
    send(&store, 10, 3).await;
    send(&store, 20, 4).await;
    let before = calls(&feed(&store), 0);
    assert_eq!(before.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [3, 4]);
    store.close().await.unwrap();
    drop(store);
    let store = Store::open(dir.path(), manual()).unwrap();
    let feed = feed(&store);
    assert_eq!(calls(&feed, 0), before);
    assert_eq!(feed.floor(), before[0].0 - 1);
    send(&store, 30, 1).await;
    assert_eq!(calls(&feed, before[1].0).len(), 1);
    store.flush().await.unwrap();
    let last = position(&store);
    drop(feed);
    assert_eq!(self::feed(&store).floor(), last, "the segments have the rest");
}

#[tokio::test]
async fn new_fields_are_in_the_columns_of_a_slice() {
    let (_dir, store) = opened(manual());
    store.create_source(SOURCE).unwrap();
    let feed = feed(&store);
    send(&store, 0, 1).await;
    let first = feed.slice(0, 10, 1 << 20).unwrap().unwrap();
    store.ingest(SOURCE, vec![json!({"id": "x", "metadata": {"new": 1}})]).await.unwrap();
    let second = feed.slice(first.last(), 10, 1 << 20).unwrap().unwrap();
    assert!(first.columns() != second.columns());
    let table = FollowedTable::of(store.table(SOURCE).unwrap().as_ref()).unwrap();
    assert!(table.columns == *second.columns(), "the source knows them");
}
