//! Bits that flip at rest, files that are lost, catalogs that forget: nothing whole is deleted, nothing
//! wrong is answered.

use std::{
    panic,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use datafusion::prelude::{col, lit};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{again, all, durability::copy, frame, manual, open, path, rows, with_source};
use crate::{Store, StoreError, data_folder::paths};

/// Numbers that look random and are the same in every run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % limit
    }
}

/// The files of all segments, sorted.
pub(super) fn files(data: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).map_or(Vec::new(), |entries| entries.map(|entry| entry.unwrap().path()).collect())
    };
    let mut files: Vec<PathBuf> = list(&data.join("segments")).iter().flat_map(|folder| list(folder)).collect();
    files.extend(list(&data.join("quarantine")).into_iter().filter(|path| path.extension().unwrap() == "parquet"));
    files.sort();
    files
}

/// The files in a folder and in those below it.
pub(super) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

pub(super) fn flip(path: &Path, bit: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    std::fs::write(path, bytes).unwrap();
}

pub(super) fn events(from: i64, count: i64) -> Vec<Value> {
    let event = |n: i64| {
        let error = if n % 5 == 0 { json!("plain") } else { json!(n) };
        json!({"id": format!("{n:05}"), "timestamp": n, "project": format!("p{}", n % 3), "event_message": format!("line {n}"),
            "metadata": {"n": n, "half": n as f64 / 2.0, "tags": ["a", format!("t{}", n % 7)], "of": [{"x": n}, {"x": 1}], "err": error}})
    };
    (from..from + count).map(event).collect()
}

/// So many segments of 300 rows.
pub(super) async fn fill(store: &Store, segments: i64) {
    for segment in 0..segments {
        store.flushed("s", events(segment * 300, 300)).await;
    }
}

/// Several questions, or the first error.
async fn answers(store: &Store) -> Result<Vec<Vec<Value>>, String> {
    let by_id = || vec![col("id").sort(true, false)];
    let frames = [
        frame(store, "s").sort(by_id()).unwrap(),
        frame(store, "s").select(vec![col("id"), path("metadata", &["half"])]).unwrap().sort(by_id()).unwrap(),
        frame(store, "s").filter(path("metadata", &["n"]).gt(lit(450_i64))).unwrap().sort(by_id()).unwrap(),
        frame(store, "s").filter(col("project").eq(lit("p1"))).unwrap().select(vec![col("id")]).unwrap(),
    ];
    let mut answers: Vec<Vec<Value>> = Vec::new();
    for frame in frames {
        let batches = frame.collect().await.map_err(|error| error.to_string())?;
        answers.push(batches.iter().flat_map(super::json_rows).collect());
    }
    answers[3].sort_by_key(|row: &Value| row["id"].to_string());
    Ok(answers)
}

#[tokio::test]
async fn a_flipped_bit_is_an_error_that_names_the_segment_and_never_a_wrong_row() {
    let panics = Arc::new(AtomicUsize::new(0));
    let (counted, before) = (Arc::clone(&panics), panic::take_hook());
    let here = std::thread::current().id();
    panic::set_hook(Box::new(move |info| {
        // Other tests run beside this one.
        if std::thread::current().id() == here || info.location().is_some_and(|at| at.file().contains("arrow")) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        before(info);
    }));
    let (dir, store) = with_source(manual());
    fill(&store, 3).await;
    let right = answers(&store).await.unwrap();
    assert_eq!(right[0].len(), 900);
    drop(store);
    let files = files(dir.path());
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let (mut refused, mut untouched) = (0, 0);
    for round in 0..150 {
        let file = &files[numbers.below(files.len())];
        let good = std::fs::read(file).unwrap();
        // Every third in the footer or the table before it.
        let start = if round % 3 == 0 { good.len().saturating_sub(6000) * 8 } else { 0 };
        for _ in 0..=numbers.below(3) {
            flip(file, start + numbers.below(good.len() * 8 - start));
        }
        let store = open(&dir);
        let id = file.file_stem().unwrap().to_str().unwrap();
        match answers(&store).await {
            Ok(answers) => {
                assert_eq!(answers, right, "round {round}");
                untouched += 1;
            }
            Err(error) => {
                assert!(error.contains(&format!("segment {id} of source `s` cannot be read")), "{error}");
                assert!(error.contains("tidegate repair"), "{error}");
                assert_eq!((store.stats().damaged_segments, store.stats().damaged_rows), (1, 300));
                refused += 1;
            }
        }
        std::fs::write(file, good).unwrap();
    }
    assert!(refused > 100, "{refused} refused, {untouched} not met");
    assert_eq!(panics.load(Ordering::SeqCst), 0);
    assert_eq!(answers(&open(&dir)).await.unwrap(), right);
}

#[tokio::test]
async fn segments_without_checksums_are_read() {
    let (dir, store) = with_source(manual());
    fill(&store, 2).await;
    let right = answers(&store).await.unwrap();
    // As an older version has left it.
    let sql = "UPDATE segments SET checksum = NULL, first_seq = NULL, last_seq = NULL";
    assert_eq!(store.catalog().lock().execute(sql, []).unwrap(), 2);
    drop(store);
    assert_eq!(answers(&open(&dir)).await.unwrap(), right);
}

#[tokio::test]
async fn what_the_catalog_forgot_is_set_aside_and_not_deleted() {
    let (dir, store) = with_source(manual());
    let id = store.source("s").unwrap().id;
    fill(&store, 3).await;
    let before = files(dir.path());
    store.catalog().lock().execute("DELETE FROM segments WHERE min_time = 0", []).unwrap();
    drop(store);
    std::fs::write(paths::source_folder(dir.path(), id).join(format!("{}.parquet", Uuid::new_v4())), b"no segment")
        .unwrap();
    for _ in 0..2 {
        let store = open(&dir);
        assert_eq!(all(&store, "s").await.len(), 600);
        let stats = store.stats();
        assert_eq!((stats.set_aside_segments, stats.set_aside_rows, stats.damaged_segments), (2, 300, 0));
        assert_eq!(files(dir.path()).len(), before.len() + 1);
        let listed = crate::recovery::quarantine::list(dir.path()).unwrap();
        assert!(listed.iter().all(|note| note.source == id && note.file), "{listed:?}");
        assert!(listed.iter().any(|note| note.source_name.as_deref() == Some("s") && note.rows == Some(300)));
        // Later events never get the numbers of those that may come back.
        store.ingest("s", events(5000, 1)).await.unwrap();
        let seq: i64 = store.catalog().lock().query_row("SELECT max(seq) FROM wal", [], |row| row.get(0)).unwrap();
        assert!(seq > 3, "{seq}");
        store.catalog().lock().execute("DELETE FROM wal", []).unwrap();
    }
    // A source that the catalog does not have: its segments too.
    let store = open(&dir);
    let sql = "DELETE FROM segments; DELETE FROM wal; DELETE FROM sources";
    store.catalog().lock().execute_batch(sql).unwrap();
    let store = again(store, dir.path(), manual());
    assert_eq!((store.sources().len(), store.stats().set_aside_segments), (0, 4));
    assert_eq!(files(dir.path()).len(), before.len() + 1);
    assert!(!paths::source_folder(dir.path(), id).exists());
}

/// The write-ahead log has a part of the rows of a flush that the catalog does not know.
#[tokio::test]
async fn a_flush_of_which_the_log_has_a_part_is_completed() {
    for same in [true, false] {
        let (dir, store) = with_source(manual());
        fill(&store, 1).await;
        for call in 0..3 {
            store.ingest("s", events(1000 + call * 10, 10)).await.unwrap();
        }
        store.ingest("s", vec![json!({"id": "99998", "only_here": {"k": 1}})]).await.unwrap();
        let sql = "CREATE TEMP TABLE old AS SELECT * FROM wal ORDER BY seq LIMIT 2 OFFSET 1; CREATE TEMP TABLE shape AS SELECT * FROM sources";
        store.catalog().lock().execute_batch(sql).unwrap();
        store.flush().await.unwrap();
        let right = all(&store, "s").await;
        let sql = "INSERT INTO wal SELECT * FROM old; DELETE FROM segments WHERE first_seq > (SELECT min(first_seq) FROM segments); UPDATE sources SET shape = (SELECT shape FROM shape)";
        store.catalog().lock().execute_batch(sql).unwrap();
        if !same {
            // Other events under the same numbers.
            let mut intake = crate::Intake::new(0, 10_000, tidegate_model::Audience::All);
            for event in events(7000, 1) {
                assert!(intake.add(event));
            }
            let body = intake.finish().body;
            store
                .catalog()
                .lock()
                .execute("UPDATE wal SET body = ?1 WHERE seq = (SELECT min(seq) FROM wal)", [body])
                .unwrap();
        }
        let store = again(store, dir.path(), manual());
        if same {
            assert_eq!(all(&store, "s").await, right);
            assert_eq!(store.stats().set_aside_segments, 0);
            store.flush().await.unwrap();
            assert_eq!(all(&store, "s").await, right);
        } else {
            assert_eq!(store.stats().set_aside_segments, 1);
            assert_eq!(all(&store, "s").await.len(), 300 + 11);
        }
    }
}

#[tokio::test]
async fn no_catalog_is_made_beside_segments() {
    let (dir, store) = with_source(manual());
    fill(&store, 2).await;
    drop(store);
    let before = files(dir.path());
    for emptied in [false, true] {
        let catalog = dir.path().join("catalog.sqlite");
        if emptied {
            std::fs::write(&catalog, b"").unwrap()
        } else {
            std::fs::remove_file(&catalog).unwrap()
        }
        let error = Store::open(dir.path(), manual()).unwrap_err();
        assert!(matches!(&error, StoreError::CatalogMissing(_)), "{error}");
        assert!(error.to_string().contains("tidegate repair --rebuild-catalog"), "{error}");
        assert_eq!(files(dir.path()), before);
        assert_eq!(catalog.exists(), emptied);
    }
}

#[tokio::test]
async fn a_missing_file_is_known_from_the_start() {
    let (dir, store) = with_source(manual());
    fill(&store, 3).await;
    drop(store);
    let files = files(dir.path());
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::File::options().write(true).open(&files[1]).unwrap().set_len(1000).unwrap();
    let store = open(&dir);
    assert_eq!((store.stats().damaged_segments, store.stats().damaged_rows), (2, 600));
    drop(rows(frame(&store, "s").filter(col("timestamp").is_null()).unwrap()).await);
}

/// Segments whose registration stood behind a bad frame of the catalog's write-ahead file stay.
#[tokio::test]
async fn a_flipped_bit_in_the_catalog_s_log_deletes_nothing_and_is_told() {
    let (dir, store) = with_source(manual());
    fill(&store, 8).await;
    for call in 0..4 {
        store.ingest("s", events(9000 + call * 10, 10)).await.unwrap();
    }
    let crashed = tempfile::tempdir().unwrap();
    let log = crashed.path().join("catalog.sqlite-wal");
    let fresh = || {
        std::fs::remove_dir_all(crashed.path()).unwrap();
        copy(dir.path(), crashed.path());
        let _ = std::fs::remove_file(crashed.path().join("catalog.sqlite-shm"));
        std::fs::read(&log).unwrap()
    };
    let bytes = fresh();
    assert!(bytes.len() > 40 * 16384, "{}", bytes.len());
    let whole = Store::open(crashed.path(), manual()).unwrap();
    assert_eq!((whole.stats().lost_transactions, all(&whole, "s").await.len()), (0, 2440));
    drop(whole);

    let mut numbers = Numbers(7);
    let mut set_aside = 0;
    for round in 0..24 {
        fresh();
        // One of them in the header of the file.
        let bit = if round == 0 { 100 } else { 32 * 8 + numbers.below(bytes.len() * 8 / 2) };
        flip(&log, bit);
        let store = match Store::open(crashed.path(), manual()) {
            Ok(store) => store,
            Err(error) => {
                // Nothing but what was lost before it was ever moved into the catalog: no schema at all.
                assert!(matches!(&error, StoreError::CatalogMissing(_)), "round {round}: {error}");
                assert_eq!(files(crashed.path()).len(), 8);
                continue;
            }
        };
        assert_eq!(files(crashed.path()).len(), 8, "round {round}");
        let stats = store.stats();
        assert!(stats.lost_transactions > 1, "round {round}: {stats:?}");
        assert!(stats.lost_events.is_some_and(|events| events >= 40), "round {round}: {stats:?}");
        set_aside += stats.set_aside_segments;
        let copies = std::fs::read_dir(crashed.path().join("quarantine")).unwrap();
        let copies = copies.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains("-wal."));
        assert_eq!(copies.count(), 1);
        if round % 6 == 1 {
            // What is written from here on is no damage at the next crash.
            store.ensure_source("s").unwrap();
            store.ingest("s", events(20_000, 3)).await.unwrap();
            let again = tempfile::tempdir().unwrap();
            copy(crashed.path(), again.path());
            let _ = std::fs::remove_file(again.path().join("catalog.sqlite-shm"));
            assert_eq!(Store::open(again.path(), manual()).unwrap().stats().lost_transactions, 0, "round {round}");
        }
        drop(store);
        assert_eq!(Store::open(crashed.path(), manual()).unwrap().stats().lost_transactions, 0);
    }
    assert!(set_aside > 24, "{set_aside}");

    // A transaction that was cut off is none that was acknowledged.
    for cut in [1, 100, 16384 + 24, 20_000] {
        fresh();
        std::fs::File::options().write(true).open(&log).unwrap().set_len(bytes.len() as u64 - cut).unwrap();
        let store = Store::open(crashed.path(), manual()).unwrap();
        assert_eq!((store.stats().lost_transactions, store.stats().set_aside_segments), (0, 0), "{cut} bytes less");
    }
}

/// After a failed sync a transaction is written over the failed one. What remains of a longer one is no loss.
#[tokio::test]
async fn what_remains_of_a_failed_transaction_does_not_count() {
    let (dir, store) = with_source(manual());
    let log = dir.path().join("catalog.sqlite-wal");
    let length = || usize::try_from(std::fs::metadata(&log).unwrap().len()).unwrap();
    store.ingest("s", events(0, 1)).await.unwrap();
    // Until the file is written to its end: it began anew after the first checkpoint.
    let (first, mut calls) = (length(), 1);
    while length() == first {
        store.ingest("s", events(calls, 1)).await.unwrap();
        calls += 1;
    }
    let end = length();
    store.ingest("s", events(10_000, 400)).await.unwrap();
    let crashed = tempfile::tempdir().unwrap();
    copy(dir.path(), crashed.path());
    let _ = std::fs::remove_file(crashed.path().join("catalog.sqlite-shm"));
    let mut bytes = std::fs::read(&log).unwrap();
    assert!(bytes.len() > end + 2 * 16_408);
    // One frame over the first one, which completes a transaction and was cut off.
    bytes[end + 4..end + 8].copy_from_slice(&1_u32.to_be_bytes());
    bytes[end + 16..end + 24].fill(7);
    bytes[end + 100..end + 4_000].fill(0);
    std::fs::write(crashed.path().join("catalog.sqlite-wal"), bytes).unwrap();
    let store = open(&crashed);
    assert_eq!((store.stats().lost_transactions, all(&store, "s").await.len()), (1, usize::try_from(calls).unwrap()));
}

/// Where a part of the write-ahead file was moved into the catalog before, what SQLite takes over may be
/// a mixture of old and new pages: then the start refuses, every time, and changes nothing.
#[tokio::test]
async fn a_catalog_of_which_the_rest_does_not_fit_is_refused() {
    let (dir, store) = with_source(manual());
    fill(&store, 4).await;
    for more in 0..3 {
        store.catalog().lock().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        // A reader that is open keeps the file from beginning anew.
        let reader = store.catalog().connect().unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM sources").unwrap();
        for segment in 0..3 {
            store.flushed("s", events(2000 + (more * 3 + segment) * 300, 300)).await;
        }
    }
    store.catalog().lock().query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    store.ingest("s", events(9000, 1)).await.unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let log = crashed.path().join("catalog.sqlite-wal");
    let mut numbers = Numbers(11);
    let (mut refused, mut opened) = (0, 0);
    for _ in 0..16 {
        std::fs::remove_dir_all(crashed.path()).unwrap();
        copy(dir.path(), crashed.path());
        let _ = std::fs::remove_file(crashed.path().join("catalog.sqlite-shm"));
        let bytes = std::fs::read(&log).unwrap();
        let before = files(crashed.path());
        flip(&log, 32 * 8 + numbers.below(bytes.len() * 8 - 32 * 8));
        let damaged = std::fs::read(&log).unwrap();
        for _ in 0..2 {
            match Store::open(crashed.path(), manual()) {
                Ok(_) => opened += 1,
                Err(StoreError::Corrupt { reason, .. }) => {
                    assert!(reason.contains("--rebuild-catalog"), "{reason}");
                    assert_eq!(std::fs::read(&log).unwrap(), damaged);
                    refused += 1;
                }
                Err(other) => panic!("{other}"),
            }
            assert_eq!(files(crashed.path()).len(), before.len());
        }
    }
    assert!(refused % 2 == 0 && refused + opened == 32, "{refused} refused, {opened} opened");
}
