//! What is too old or too much goes; what is read stays until it was read.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;

use super::{again, all, frame, manual, open, with_source};
use crate::{
    Dropped, Retention, RetentionWord, Store, StoreOptions,
    clock::{ClockState, DAY},
};

const HOUR: Duration = Duration::from_hours(1);

fn ids(rows: &[serde_json::Value]) -> Vec<&str> {
    rows.iter().map(|row| row["id"].as_str().unwrap()).collect()
}

fn files(dir: &Path) -> usize {
    let folders = std::fs::read_dir(dir.join("segments")).unwrap();
    folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum()
}

/// One segment per id, all of events of 1970.
async fn segments(store: &Store, source: &str, names: &[&str]) {
    for (time, id) in names.iter().enumerate() {
        store.flushed(source, vec![json!({"id": id, "timestamp": time + 1})]).await;
    }
}

/// Makes a segment look as if it had been written that long ago.
fn age(dir: &Path, max_time: i64, by: Duration) {
    let store = Store::open(dir, manual()).unwrap();
    let sql = "UPDATE segments SET created_at = created_at - ?2 WHERE max_time = ?1";
    assert_eq!(store.catalog().lock().execute(sql, (max_time, by.as_micros() as i64)).unwrap(), 1);
}

#[tokio::test]
async fn old_segments_go() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    segments(&store, "s", &["a", "b", "c"]).await;
    // Old logs that came in just now are not old here.
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    drop(store);
    let times: Vec<i64> = all(&open(&dir), "s").await.iter().map(|row| row["timestamp"].as_i64().unwrap()).collect();
    age(dir.path(), times[0], Duration::from_hours(24 * 91));
    age(dir.path(), times[1], 3 * HOUR);

    let store = open(&dir);
    store.ingest("s", vec![json!({"id": "memory", "timestamp": 1})]).await.unwrap();
    let dropped = store.apply_retention().await.unwrap();
    assert_eq!((dropped.segments, dropped.rows), (1, 1), "the default of 90 days");
    assert_eq!(ids(&all(&store, "s").await), ["b", "c", "memory"]);
    store.set_retention(id, Retention { max_age: Some(Duration::MAX), max_bytes: None }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    store.set_retention(id, Retention { max_age: Some(2 * HOUR), max_bytes: None }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap().segments, 1);
    assert_eq!(ids(&all(&store, "s").await), ["c", "memory"]);
    assert_eq!(files(dir.path()), 1);
    drop(store);
    assert_eq!(ids(&all(&open(&dir), "s").await), ["c", "memory"]);
}

#[tokio::test]
async fn a_source_is_cut_to_its_size_and_readers_finish() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    store.create_source("other").unwrap();
    segments(&store, "s", &["a", "b", "c", "d"]).await;
    segments(&store, "other", &["x", "y"]).await;
    let sizes: Vec<u64> = store.sources.get(id).unwrap().segments().iter().map(|segment| segment.bytes).collect();
    let two = sizes[2] + sizes[3];
    let running = frame(&store, "s");

    store.set_retention(id, Retention { max_age: None, max_bytes: Some(two) }).unwrap();
    let dropped = store.apply_retention().await.unwrap();
    assert_eq!(dropped, Dropped { segments: 2, rows: 2, bytes: sizes[0] + sizes[1] });
    assert_eq!(ids(&all(&store, "s").await), ["c", "d"]);
    assert_eq!(files(dir.path()), 6);
    assert_eq!(running.count().await.unwrap(), 4);
    assert_eq!(files(dir.path()), 4);
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(two - 1) }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap().segments, 1);
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(0) }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap().segments, 1);
    assert_eq!(all(&store, "s").await.len(), 0);
    assert_eq!(all(&store, "other").await.len(), 2);
    segments(&store, "s", &["e"]).await;
    assert_eq!(all(&store, "s").await.len(), 1);
}

#[tokio::test]
async fn a_refused_transaction_drops_nothing() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    segments(&store, "s", &["a", "b"]).await;
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(0) }).unwrap();
    let sql = |text: &str| store.catalog().lock().execute_batch(text).unwrap();
    sql("CREATE TRIGGER no BEFORE DELETE ON segments BEGIN SELECT raise(ABORT, 'no'); END");
    assert!(store.apply_retention().await.is_err());
    assert_eq!((all(&store, "s").await.len(), files(dir.path())), (2, 2));
    sql("DROP TRIGGER no");
    assert_eq!(store.apply_retention().await.unwrap().segments, 2);
    assert_eq!((all(&store, "s").await.len(), files(dir.path())), (0, 0));
}

#[tokio::test]
async fn the_background_applies_the_server_s_default() {
    let (dir, store) = with_source(manual());
    segments(&store, "s", &["a", "b"]).await;
    drop(store);
    let retention = Retention { max_age: None, max_bytes: Some(0) };
    let store: Arc<Store> = Store::open(dir.path(), StoreOptions { retention, ..StoreOptions::default() }).unwrap();
    for _ in 0..600 {
        if all(&store, "s").await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nothing was dropped in half a minute");
}

const YEAR: i64 = 365 * DAY;

/// Moves what the catalog knows of time back, as if the wall clock had jumped ahead before the start.
fn jump(dir: &Path, by: i64) {
    let store = Store::open(dir, manual()).unwrap();
    let ClockState { age, wall } = store.clock.state();
    let kept = serde_json::to_string(&ClockState { age: age - by, wall: wall - by }).unwrap();
    store.catalog().set_meta("age_clock", &kept).unwrap();
    store.catalog().lock().execute("UPDATE segments SET created_at = created_at - ?1", [by]).unwrap();
}

#[tokio::test]
async fn a_clock_that_jumps_ahead_drops_nothing() {
    let (dir, store) = with_source(manual());
    segments(&store, "s", &["a", "b", "c"]).await;
    // While the store is open.
    store.clock.moved.store(YEAR, Ordering::Relaxed);
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert!(store.stats().clock_ahead_seconds >= (YEAR / 1_000_000).unsigned_abs() - 3600);
    // What comes in meanwhile is as old as the rest when the clock is right again.
    segments(&store, "s", &["d"]).await;
    store.clock.moved.store(0, Ordering::Relaxed);
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert_eq!((store.stats().clock_ahead_seconds, all(&store, "s").await.len()), (0, 4));
    drop(store);

    // Before a start, and what the operator says of it.
    jump(dir.path(), YEAR);
    let store = open(&dir);
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert!(
        store.stats().clock_ahead_seconds > 0 && store.catalog().retention_state().unwrap().clock_ahead_seconds > 0
    );
    // The time that really passes counts.
    store.clock.pass(89 * DAY);
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    store.catalog().say_of_retention(RetentionWord::ClockIsRight { time_has_passed: false }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert_eq!((store.stats().clock_ahead_seconds, all(&store, "s").await.len()), (0, 4));
    drop(store);
    // It is kept.
    let store = open(&dir);
    assert_eq!((store.stats().clock_ahead_seconds, store.apply_retention().await.unwrap()), (0, Dropped::default()));
    store.clock.pass(2 * DAY);
    assert_eq!(store.apply_retention().await.unwrap().rows, 2);
    drop(store);
    jump(dir.path(), YEAR);
    let store = open(&dir);
    store.catalog().say_of_retention(RetentionWord::ClockIsRight { time_has_passed: true }).unwrap();
    store.catalog().free_retention().unwrap();
    assert_eq!(store.apply_retention().await.unwrap().rows, 2);
}

#[tokio::test]
async fn what_came_while_the_clock_was_dead_is_kept_when_it_is_right() {
    let (dir, store) = with_source(manual());
    let dead = 946_684_800_000_000 - crate::clock::now_micros();
    store.clock.moved.store(dead, Ordering::Relaxed);
    segments(&store, "s", &["a", "b"]).await;
    store.clock.moved.store(0, Ordering::Relaxed);
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert_eq!((store.stats().clock_ahead_seconds, all(&store, "s").await.len()), (0, 2));
    drop(store);
    // The whole folder is from then.
    jump(dir.path(), -dead);
    let store = open(&dir);
    segments(&store, "s", &["c"]).await;
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    store.catalog().say_of_retention(RetentionWord::ClockIsRight { time_has_passed: false }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert_eq!(all(&store, "s").await.len(), 3);
}

#[tokio::test]
async fn a_folder_without_an_age_clock_goes_by_its_newest_segment() {
    let (dir, store) = with_source(manual());
    segments(&store, "s", &["a", "b"]).await;
    drop(store);
    jump(dir.path(), YEAR);
    let store = Store::open(dir.path(), manual()).unwrap();
    let sql = "DELETE FROM meta WHERE key = 'age_clock'; UPDATE sqlite_sequence SET seq = 5";
    store.catalog().lock().execute_batch(sql).unwrap();
    let store = again(store, dir.path(), manual());
    assert_eq!(store.apply_retention().await.unwrap(), Dropped::default());
    assert!(store.stats().clock_ahead_seconds > 0);
}

#[tokio::test]
async fn no_more_than_half_of_a_source_goes_at_once() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    segments(&store, "s", &["a", "b", "c", "d", "e"]).await;
    store.clock.pass(91 * DAY);
    assert_eq!(store.apply_retention().await.unwrap().rows, 2);
    assert_eq!(store.apply_retention().await.unwrap().rows, 0);
    assert_eq!((store.stats().expired_rows_waiting, store.catalog().retention_state().unwrap().waiting.len()), (3, 1));
    let store = again(store, dir.path(), manual());
    assert_eq!(store.apply_retention().await.unwrap().rows, 0, "a start begins nothing anew");
    store.clock.pass(DAY);
    assert_eq!(store.apply_retention().await.unwrap().rows, 1);
    store.catalog().free_retention().unwrap();
    assert_eq!(store.apply_retention().await.unwrap().rows, 2);
    assert_eq!(store.stats().expired_rows_waiting, 0);
    // Who sets the retention of a source means it.
    segments(&store, "s", &["f", "g", "h"]).await;
    store.clock.pass(3 * HOUR.as_micros() as i64);
    store.set_retention(id, Retention { max_age: Some(2 * HOUR), max_bytes: None }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap().rows, 3);
}
