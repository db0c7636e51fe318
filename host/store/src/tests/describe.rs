//! What a source says about itself, and what the store counts.

use serde_json::json;
use uuid::Uuid;

use super::{manual, with_source};
use crate::{Retention, StoreError};

#[tokio::test]
async fn a_source_describes_what_it_holds() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    let empty = store.describe(id).unwrap();
    assert_eq!((empty.rows, empty.bytes, empty.segments, empty.oldest, empty.newest), (0, 0, 0, None, None));

    for times in [[5, 3], [9, 7]] {
        store
            .ingest("s", times.iter().map(|t| json!({"timestamp": t * 1_000_000_000_000_000_i64})).collect())
            .await
            .unwrap();
        store.flush().await.unwrap();
    }
    store.ingest("s", vec![json!({"timestamp": 1_000_000_000_000_000_i64})]).await.unwrap();
    let full = store.describe(id).unwrap();
    assert_eq!((full.rows, full.segments, full.memory_rows), (5, 2, 1));
    assert_eq!((full.oldest, full.newest), (Some(1_000_000_000_000_000), Some(9_000_000_000_000_000)));
    let on_disk: u64 = std::fs::read_dir(dir.path().join("segments").join(id.to_string()))
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(full.bytes, on_disk);
    assert!(full.memory_bytes > 0);
    assert_eq!(full.info, store.source("s").unwrap());
    assert!(matches!(store.describe(Uuid::new_v4()), Err(StoreError::UnknownSource { .. })));
}

#[tokio::test]
async fn paths_have_the_types_of_the_dialect() {
    let (_dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    let schema = || {
        let schema = store.schema(id).unwrap();
        schema.into_iter().map(|(path, ty)| format!("{path} {ty}")).collect::<Vec<_>>()
    };
    assert_eq!(schema(), ["id STRING", "timestamp TIMESTAMP", "event_message STRING", "metadata ARRAY<STRUCT>"]);
    store
        .ingest("s", vec![json!({"project": "p", "metadata": [{"request": {"n": 1, "ok": true, "tags": ["a"]}}]})])
        .await
        .unwrap();
    store.flush().await.unwrap();
    // Only in memory: a float, a list of records, and a path of two types.
    store
        .ingest("s", vec![json!({"metadata": {"request": {"n": 0.5}, "many": [{"x": 1}, {"x": 2}], "odd": 1}})])
        .await
        .unwrap();
    store.ingest("s", vec![json!({"metadata": {"odd": "text"}})]).await.unwrap();
    assert_eq!(
        schema(),
        [
            "id STRING",
            "timestamp TIMESTAMP",
            "event_message STRING",
            "project STRING",
            "metadata ARRAY<STRUCT>",
            "metadata.request ARRAY<STRUCT>",
            "metadata.request.n FLOAT64",
            "metadata.request.ok BOOL",
            "metadata.request.tags ARRAY<STRING>",
            "metadata.many ARRAY<STRUCT>",
            "metadata.many.x INT64",
            "metadata.odd STRING",
        ]
    );
}

#[tokio::test]
async fn the_store_counts() {
    let (_dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    store.create_source("t").unwrap();
    assert_eq!(store.stats().commits, 0);
    store.ingest("s", vec![json!({}), json!({})]).await.unwrap();
    store.ingest("t", vec![json!({})]).await.unwrap();
    let stats = store.stats();
    assert_eq!((stats.commits, stats.committed_rows, stats.sources, stats.segments), (2, 3, 2, 0));
    assert!(
        stats.committed_bytes > 0
            && stats.unflushed_bytes == stats.committed_bytes
            && stats.commit_durations.micros > 0
    );

    store.flush().await.unwrap();
    let stats = store.stats();
    assert_eq!((stats.flushes, stats.segments, stats.segment_rows, stats.unflushed_bytes), (2, 2, 3, 0));
    assert!(stats.segment_bytes > 0);
    store.set_retention(id, Retention { max_age: None, max_bytes: Some(0) }).unwrap();
    store.apply_retention().await.unwrap();
    let after = store.stats();
    assert_eq!((after.dropped_segments, after.dropped_rows, after.segments, after.segment_rows), (1, 2, 1, 1));
    assert_eq!(after.dropped_bytes + after.segment_bytes, stats.segment_bytes);

    let sql = |text: &str| store.catalog().lock().execute_batch(text).unwrap();
    sql("CREATE TRIGGER no BEFORE INSERT ON wal BEGIN SELECT raise(ABORT, 'no'); END");
    store.ingest("s", vec![json!({})]).await.unwrap_err();
    let after = store.stats();
    assert_eq!((after.failed_commits, after.commits, after.failed_flushes, after.read_only), (1, 2, 0, false));
    sql("DROP TRIGGER no; CREATE TRIGGER no BEFORE INSERT ON segments BEGIN SELECT raise(ABORT, 'no'); END");
    store.ingest("s", vec![json!({})]).await.unwrap();
    store.flush().await.unwrap_err();
    assert_eq!(store.stats().failed_flushes, 1);
}

#[tokio::test]
async fn the_values_of_fields_are_counted_wherever_rows_lie() {
    let (_dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    assert_eq!(store.fill_rates(id).unwrap().rows, 0);
    let event = |n: i64| {
        let mut metadata =
            json!({"always": n, "some": (n % 2 == 0).then_some("x"), "tags": ["a"], "many": [{"x": 1}, {"x": 2}]});
        if n % 4 == 0 {
            metadata["inner"] = json!({"value": true, "other": (n % 8 == 0).then_some(1.5)});
        }
        json!({"timestamp": n, "event_message": "m", "metadata": metadata})
    };
    let expected = |rows: u64| {
        let fields = [
            ("id", 1),
            ("timestamp", 1),
            ("event_message", 1),
            ("metadata.always", 1),
            ("metadata.some", 2),
            ("metadata.inner.value", 4),
            ("metadata.inner.other", 8),
        ];
        fields.map(|(path, every)| (path.to_owned(), rows / every)).to_vec()
    };
    for part in 1..=3_u64 {
        let first = 800 * (part as i64 - 1);
        store.ingest("s", (first..first + 800).map(event).collect()).await.unwrap();
        let mut found = store.fill_rates(id).unwrap();
        assert_eq!((found.rows, found.counted), (part * 800, part * 800));
        let mut fields = expected(part * 800);
        found.fields.sort();
        fields.sort();
        assert_eq!(found.fields, fields);
        // The last part stays in memory.
        if part < 3 {
            store.flush().await.unwrap();
        }
    }
}
