//! `kill -9` while events come in, segments are written and sources deleted: what was acknowledged is
//! there once, what was deleted is not.
//!
//! The victim is this test binary again, running [`victim`] alone.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use serde_json::json;

use super::{frame, manual, rows};
use crate::{Store, StoreOptions};

const FOLDER: &str = "TIDEGATE_STORE_TEST_VICTIM";

/// Not a test by itself: writes until it is killed, and says what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let options = StoreOptions { flush_rows: 60, flush_interval: Duration::from_millis(10), ..StoreOptions::default() };
    let store = Store::open(Path::new(&folder), options).unwrap();
    store.ensure_source("s").unwrap();
    if let Some(left) = store.source("t") {
        store.delete_source(left.id).unwrap();
    }
    let run = uuid::Uuid::new_v4();
    let writers = (0..4).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for call in 0.. {
                let ids: Vec<String> = (0..7).map(|i| format!("{run}-{writer}-{call}-{i}")).collect();
                store.ingest("s", ids.iter().map(|id| json!({"id": id, "k": {"c": call}})).collect()).await.unwrap();
                let mut out = std::io::stdout().lock();
                writeln!(out, "\nacknowledged {}", ids.join(" ")).unwrap();
                out.flush().unwrap();
            }
        })
    });
    let churning = Arc::clone(&store);
    tokio::spawn(async move {
        for turn in 0.. {
            let id = churning.create_source("t").unwrap().id;
            churning.ingest("t", vec![json!({"id": "a"}), json!({"id": "b"})]).await.unwrap();
            if turn % 2 == 0 {
                churning.flush().await.unwrap();
                churning.ingest("t", vec![json!({"id": "c"})]).await.unwrap();
            }
            let store = Arc::clone(&churning);
            tokio::task::spawn_blocking(move || store.delete_source(id)).await.unwrap().unwrap();
        }
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Starts the victim on a folder; its output says what was acknowledged.
pub(super) fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["tests::crash::victim", "--exact", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The ids of a line of output; nothing when it says something else.
pub(super) fn acknowledged(line: &str) -> Vec<String> {
    // The kill may cut the last line short: it was acknowledged, but is not said to be.
    match line.strip_prefix("acknowledged ") {
        Some(said) if said.split(' ').count() == 7 => {
            said.split(' ').filter(|id| id.len() > 40).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn acknowledged_rows_survive_kill_9_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for round in 0..8 {
        let mut child = start(dir.path());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (started, first) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut ids = Vec::new();
            for line in lines.map_while(Result::ok) {
                let more = acknowledged(&line);
                if !more.is_empty() {
                    let _ = started.send(());
                    ids.extend(more);
                }
            }
            ids
        });
        first.recv_timeout(Duration::from_secs(60)).unwrap();
        std::thread::sleep(Duration::from_millis(5 + 67 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        all.extend(reader.join().unwrap());
    }
    assert!(all.len() > 100, "only {} rows in eight rounds", all.len());

    for start in 0..2 {
        let store = Store::open(dir.path(), manual()).unwrap();
        let mut seen: HashMap<String, usize> = HashMap::new();
        for row in rows(frame(&store, "s").select_columns(&["id"]).unwrap()).await {
            *seen.entry(row["id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        assert!(seen.values().all(|count| *count == 1), "a row is there twice");
        let lost = all.iter().filter(|id| !seen.contains_key(*id)).count();
        assert_eq!(lost, 0, "of {} acknowledged rows", all.len());
        // What a deletion was cut off from is swept.
        for folder in std::fs::read_dir(dir.path().join("segments")).unwrap() {
            let folder = folder.unwrap();
            assert!(store.source(folder.file_name().to_str().unwrap()).is_some(), "{}", folder.path().display());
        }
        assert_eq!(store.stats().set_aside_segments, 0, "a crash is no damage");
        // A kill between the two writes of a commit's frame leaves what looks like one transaction, which is told as
        // perhaps never acknowledged.
        assert!(store.stats().lost_transactions <= u64::from(start == 0), "{:?}", store.stats());
        assert_eq!(store.stats().damaged_segments, 0);
        if store.source("t").is_some() {
            assert!(frame(&store, "t").count().await.unwrap() <= 3);
        }
        // A call is stored whole or not at all.
        assert_eq!(seen.len() % 7, 0);
        store.flush().await.unwrap();
    }
}
