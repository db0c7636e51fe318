//! Numbers of calls are given once, also if the catalog loses a part of its life.

use serde_json::json;

use super::{again, manual, open, with_source};
use crate::{FollowedTable, Retention, Store, backup, clock::now_micros, restore};

async fn send(store: &Store) -> i64 {
    store.ingest("s", vec![json!({"n": 1})]).await.unwrap();
    FollowedTable::of(store.table("s").unwrap().as_ref()).unwrap().position
}

#[tokio::test]
async fn numbers_grow_by_one_and_with_each_start_at_least_to_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let began = now_micros();
    let store = open(&dir);
    store.create_source("s").unwrap();
    let first = send(&store).await;
    assert!(first > began && send(&store).await == first + 1);
    drop(store);
    let began = now_micros();
    let store = open(&dir);
    let later = send(&store).await;
    assert!(later > began);
    let foreign = |call| store.is_foreign_call(call).unwrap();
    assert!([0, first, first + 1, later - 1, later].iter().all(|call| !foreign(*call)));
    assert!(foreign(1) && foreign(first + 2) && foreign(later - 2));
}

#[tokio::test]
async fn a_restored_catalog_gives_no_number_again_and_knows_the_lost_ones() {
    let dir = tempfile::tempdir().unwrap();
    let places = tempfile::tempdir().unwrap();
    let (kept, restored) = (places.path().join("kept"), places.path().join("restored"));
    let store = open(&dir);
    store.create_source("s").unwrap();
    let known = send(&store).await;
    backup(dir.path(), &kept).unwrap();
    let lost = send(&store).await;
    restore(&kept, &restored).unwrap();
    let other = Store::open(&restored, manual()).unwrap();
    assert!(send(&other).await > lost);
    assert!(other.is_foreign_call(lost).unwrap() && !other.is_foreign_call(known).unwrap());
    assert!(!store.is_foreign_call(lost).unwrap());
}

#[tokio::test]
async fn what_retention_drops_is_known_by_its_last_call() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    let first = send(&store).await;
    store.flush().await.unwrap();
    let second = send(&store).await;
    store.flush().await.unwrap();
    assert!(!store.may_lack_calls(id, 0).unwrap());
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(1) }).unwrap();
    assert_eq!(store.apply_retention().await.unwrap().segments, 2);
    let third = send(&store).await;
    assert!(store.may_lack_calls(id, first).unwrap() && !store.may_lack_calls(id, second).unwrap());
    let store = again(store, dir.path(), manual());
    assert!(store.may_lack_calls(id, first).unwrap() && !store.may_lack_calls(id, third).unwrap());
    store.delete_source(id).unwrap();
    assert!(!store.may_lack_calls(id, 0).unwrap());
}
