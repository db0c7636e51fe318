//! Requests that are sent again: each is stored once, through failed writes and restarts.

use std::sync::{Arc, atomic::Ordering::SeqCst};

use serde_json::{Value, json};

use super::{again, all, manual, open, with_source};
use crate::{Ingested, RequestKey, Store, StoreError};

const NOW: i64 = 1_763_633_702_123_456;
const DAY: i64 = 24 * 3600 * 1_000_000;

fn key(name: u8, body: u8) -> Option<RequestKey> {
    Some(RequestKey { sender: *b"sender-a", name: [name; 24], body: [body; 32] })
}

async fn send(store: &Store, events: &[Value], key: Option<RequestKey>, now: i64) -> Result<Ingested, StoreError> {
    let mut intake = store.intake(now, tidegate_model::Audience::All);
    for event in events {
        intake.add(event.clone());
    }
    store.ingest_once("s", intake, key).await
}

#[tokio::test]
async fn a_request_that_comes_again_is_stored_once_and_answered_as_before() {
    let (dir, store) = with_source(manual());
    store.create_source("t").unwrap();
    let ahead = NOW + DAY + DAY / 2;
    let events = [json!({"a": 1}), json!(5), json!({"timestamp": "soon"}), json!({"timestamp": ahead})];
    let first = send(&store, &events, key(1, 1), NOW).await.unwrap();
    assert_eq!((first.stored, first.refused.len(), first.unread_times, first.future_times), (3, 1, 1, 1));
    // Later the time is no longer far ahead, but the answer is that of the first.
    assert_eq!(send(&store, &events, key(1, 1), NOW + DAY - 1).await.unwrap(), first);
    assert!(matches!(send(&store, &events, key(1, 2), NOW).await, Err(StoreError::KeyReused)));
    assert_eq!(all(&store, "s").await.len(), 3);
    // Another name, and no name.
    send(&store, &events[..1], key(2, 1), NOW).await.unwrap();
    send(&store, &events[..1], None, NOW).await.unwrap();
    send(&store, &events[..1], None, NOW).await.unwrap();
    let rows = all(&store, "s").await;
    assert_eq!(rows.len(), 6);
    // Through a flush and a restart.
    store.flush().await.unwrap();
    let store = again(store, dir.path(), manual());
    assert_eq!(send(&store, &events, key(1, 1), NOW).await.unwrap(), first);
    assert!(matches!(send(&store, &events, key(1, 2), NOW).await, Err(StoreError::KeyReused)));
    assert_eq!(all(&store, "s").await, rows);
    // After a day it is another request, and takes the place of the old one.
    send(&store, &events[..1], key(1, 2), NOW + DAY).await.unwrap();
    assert_eq!(all(&store, "s").await.len(), 7);
    // The key is the source's, and goes with it.
    let id = store.source("s").unwrap().id;
    store.delete_source(id).unwrap();
    let left: i64 = store.catalog().lock().query_row("SELECT count(*) FROM ingest_keys", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn requests_of_one_key_that_come_together_are_one() {
    let (_dir, store) = with_source(manual());
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { send(&store, &[json!({"a": 1}), json!({"a": 2})], key(1, 1), NOW).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().stored, 2);
    }
    assert_eq!(all(&store, "s").await.len(), 2);
    assert_eq!(store.stats().committed_rows, 2);
}

#[tokio::test]
async fn the_newest_keys_of_a_sender_are_kept() {
    let (_dir, store) = with_source(manual());
    let fill = |sender: &str, count: i64| {
        let sql = format!(
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < {count})
             INSERT INTO ingest_keys SELECT 1, CAST('{sender}' || i AS BLOB), x'00', -i, 1, 0, {NOW} FROM n"
        );
        store.catalog().lock().execute_batch(&sql).unwrap();
    };
    fill("sender-a", 60_000);
    // The oldest of all, and few.
    fill("sender-b", 100);
    for name in 0..4_u8 {
        for body in 0..250_u8 {
            let name = std::array::from_fn(|i| if i == 0 { name } else { body });
            let key = RequestKey { sender: *b"sender-a", name, body: [0; 32] };
            send(&store, &[json!({})], Some(key), NOW).await.unwrap();
        }
    }
    let count = |condition: &str| {
        let sql = format!("SELECT count(*) FROM ingest_keys WHERE {condition}");
        store.catalog().lock().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let of = |sender: &str| count(&format!("substr(name, 1, 8) = CAST('{sender}' AS BLOB)"));
    assert_eq!((of("sender-a"), of("sender-b"), count("seq > 0")), (50_000, 100, 1_000));
}

/// More names than are looked up at a time, of which some are stored.
#[tokio::test]
async fn many_names_are_looked_up_together() {
    let (_dir, store) = with_source(manual());
    let call = |numbers: std::ops::Range<u16>| {
        let mut intake = store.intake(NOW, tidegate_model::Audience::All);
        for number in numbers {
            intake.add(json!({"id": number.to_string()}));
            let mut name = [0; 24];
            name[..2].copy_from_slice(&number.to_be_bytes());
            intake.name_last(RequestKey { sender: [7; 8], name, body: [1; 32] });
        }
        store.ingest_intake("s", intake)
    };
    for (numbers, stored) in
        [(0..1, 1), (0..10, 9), (0..10, 0), (5..300, 290), (0..256, 0), (0..257, 0), (0..1_000, 700), (999..1_001, 1)]
    {
        assert_eq!(call(numbers.clone()).await.unwrap().stored, stored, "{numbers:?}");
    }
    assert_eq!(all(&store, "s").await.len(), 1_001);
}

#[tokio::test]
async fn an_event_with_a_name_is_stored_once() {
    let (dir, store) = with_source(manual());
    let call = |events: &[(u8, u8)], now: i64| {
        let mut intake = store.intake(now, tidegate_model::Audience::All);
        for (name, body) in events {
            intake.add(json!({"id": format!("{name}-{body}")}));
            intake.name_last(RequestKey { sender: [7; 8], name: [*name; 24], body: [*body; 32] });
        }
        store.ingest_intake("s", intake)
    };
    let told =
        |ingested: Ingested| (ingested.stored, ingested.refused.iter().map(|event| event.index).collect::<Vec<_>>());
    assert_eq!(told(call(&[(1, 1), (2, 2)], NOW).await.unwrap()), (2, vec![]));
    // A part of it again, one with another body, and a new one.
    assert_eq!(told(call(&[(2, 2), (1, 9), (3, 3)], NOW).await.unwrap()), (1, vec![1]));
    assert_eq!(told(call(&[(1, 1), (2, 2), (3, 3)], NOW + 1).await.unwrap()), (0, vec![]));
    // Together with others, of which only one can be the first.
    let (a, b, c) = tokio::join!(call(&[(4, 4)], NOW), call(&[(4, 4), (5, 5)], NOW), call(&[(5, 5), (4, 4)], NOW));
    assert_eq!([a, b, c].into_iter().map(|told| told.unwrap().stored).sum::<usize>(), 2);
    store.flush().await.unwrap();
    let store = again(store, dir.path(), manual());
    let mut intake = store.intake(NOW, tidegate_model::Audience::All);
    intake.add(json!({}));
    intake.name_last(RequestKey { sender: [7; 8], name: [1; 24], body: [1; 32] });
    assert_eq!(store.ingest_intake("s", intake.clone()).await.unwrap().stored, 0);
    assert_eq!(all(&store, "s").await.len(), 5);
    // After a day it is another event.
    let mut later = store.intake(NOW + DAY, tidegate_model::Audience::All);
    later.add(json!({}));
    later.name_last(RequestKey { sender: [7; 8], name: [1; 24], body: [1; 32] });
    assert_eq!(store.ingest_intake("s", later).await.unwrap().stored, 1);
}

#[tokio::test]
async fn after_a_failed_sync_that_is_undone_nothing_is_stored() {
    let (dir, store) = with_source(manual());
    send(&store, &[json!({"id": "first"})], key(1, 1), NOW).await.unwrap();
    store.writer.faults.appends.store(1, SeqCst);
    let error = send(&store, &[json!({"id": "second"})], key(2, 2), NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::CommitFailed(_)), "{error}");
    assert!(!store.stats().read_only);
    drop(store);
    // Nor after a restart.
    let store = open(&dir);
    assert_eq!(all(&store, "s").await.len(), 1);
    send(&store, &[json!({"id": "second"})], key(2, 2), NOW).await.unwrap();
    assert_eq!(all(&store, "s").await.len(), 2);
}

#[tokio::test]
async fn what_nobody_knows_is_told_and_sent_again_without_doubles() {
    for restart in [true, false] {
        let (dir, store) = with_source(manual());
        store.writer.faults.appends.store(1, SeqCst);
        store.writer.faults.undoing.store(if restart { usize::MAX } else { 1 }, SeqCst);
        let events = [json!({"id": "a"}), json!({"id": "b"})];
        let error = send(&store, &events, key(1, 1), NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::Unconfirmed(_)), "{error}");
        assert!(store.stats().read_only);
        let error = send(&store, &events, key(1, 1), NOW).await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
        assert_eq!(all(&store, "s").await.len(), 0);
        let store = if restart {
            let store = again(store, dir.path(), manual());
            // The sync had failed, and yet it is there: without a key it would be there twice soon.
            assert_eq!(all(&store, "s").await.len(), 2);
            store
        } else {
            // It is undone as soon as that works.
            let began = std::time::Instant::now();
            while store.stats().read_only {
                assert!(began.elapsed().as_secs() < 60);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            store
        };
        assert_eq!(send(&store, &events, key(1, 1), NOW).await.unwrap().stored, 2);
        assert_eq!(all(&store, "s").await.len(), 2);
        drop(store);
        assert_eq!(all(&open(&dir), "s").await.len(), 2);
    }
}
