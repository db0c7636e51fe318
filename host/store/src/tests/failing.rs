//! A disk whose writes and syncs fail: what was acknowledged is there once, what is said to be not
//! stored is not, and writing goes on by itself once the disk does.
//!
//! Writes fail at a limit of the size of files, syncs by a tracer that answers in place of the
//! system. Both need a process of their own: this test binary again, running one function alone.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{all, manual};
use crate::{RequestKey, Store, StoreError};

const FOLDER: &str = "TIDEGATE_STORE_TEST_FAILING_DISK";
const LONG: Duration = Duration::from_secs(60);

fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|done| done.status.success())
}

/// Runs one of the functions below, and says what it said.
fn run(mut command: Command, function: &str) {
    let dir = tempfile::tempdir().unwrap();
    let done = command
        .env("TEST", std::env::current_exe().unwrap())
        .env("FUNCTION", format!("tests::failing::{function}"))
        .env(FOLDER, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("it held"), "{said}{done:?}");
}

/// A process in which a write beyond the limit of a file fails, instead of ending it.
fn limited() -> Option<Command> {
    if !works(Command::new("prlimit").arg("--version")) {
        eprintln!("SKIPPED: there is no prlimit, so that failing writes are not tested");
        return None;
    }
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$TEST\" \"$FUNCTION\" --exact --nocapture"]);
    Some(command)
}

fn limit(bytes: &str) {
    let own = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &own, &format!("--fsize={bytes}:")]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn large(id: &str) -> Value {
    json!({"id": id, "event_message": "x".repeat(100_000)})
}

async fn wait(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LONG, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ids(store: &Store) -> BTreeSet<String> {
    let rows = all(store, "s").await;
    let ids: BTreeSet<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), rows.len(), "a row is there twice");
    ids
}

#[test]
fn writing_goes_on_after_writes_that_failed() {
    if let Some(command) = limited() {
        run(command, "writes_fail");
    }
}

/// Not a test by itself: see above.
#[tokio::test]
async fn writes_fail() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(Path::new(&folder), manual()).unwrap();
    store.create_source("s").unwrap();
    limit("8388608");
    let (mut stored, mut failed) = (BTreeSet::new(), 0);
    for i in 0..2_000 {
        let id = format!("{i:04}");
        match store.ingest("s", vec![large(&id)]).await {
            Ok(_) => assert!(stored.insert(id)),
            Err(StoreError::CommitFailed(_) | StoreError::Unconfirmed(_)) => failed += 1,
            Err(error) => panic!("{error}"),
        }
        if store.stats().read_only {
            break;
        }
    }
    assert!(store.stats().read_only && stored.len() > 20 && failed > 0, "{} {failed}", stored.len());
    assert!(matches!(store.ingest("s", vec![json!({"id": "refused"})]).await, Err(StoreError::ReadOnly(_))));
    assert_eq!(ids(&store).await, stored);
    limit("unlimited");
    wait("writing does not go on", || !store.stats().read_only).await;
    store.ingest("s", vec![large("last")]).await.unwrap();
    stored.insert("last".to_owned());
    assert_eq!(ids(&store).await, stored);
    drop(store);
    let store = Store::open(Path::new(&folder), manual()).unwrap();
    assert_eq!(ids(&store).await, stored);
    println!("it held");
}

#[test]
fn a_log_that_cannot_be_moved_is_told() {
    if let Some(command) = limited() {
        run(command, "checkpoints_fail");
    }
}

/// Not a test by itself: see above.
#[tokio::test]
async fn checkpoints_fail() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(Path::new(&folder), manual()).unwrap();
    store.create_source("s").unwrap();
    // Room for the log, which begins anew each time it was moved, and not for the catalog.
    limit("45000000");
    let mut sent = 0;
    while !store.stats().checkpoint_failing {
        store.ingest("s", vec![large(&sent.to_string())]).await.unwrap();
        sent += 1;
        assert!(sent < 2_000);
    }
    assert!(sent > 300 && store.stats().failed_checkpoints > 0);
    limit("unlimited");
    // Without another event.
    wait("the log is not moved", || !store.stats().checkpoint_failing).await;
    assert_eq!(ids(&store).await.len(), sent);
    println!("it held");
}

#[test]
fn after_syncs_that_failed_it_is_known_or_told_what_is_stored() {
    if !works(Command::new("strace").args(["-f", "-o", "/dev/null", "-e", "trace=fsync", "true"])) {
        eprintln!("SKIPPED: nothing can be traced here, so that failing syncs are not tested");
        return;
    }
    // Of each thread, one sync fails, or several: then what it left cannot be undone at once. Opening a
    // store needs fewer.
    for which in ["40", "40..43"] {
        let mut command = Command::new("strace");
        let inject = format!("inject=fsync,fdatasync:error=EIO:when={which}");
        command.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject, "sh", "-c"]);
        command.arg("exec \"$TEST\" \"$FUNCTION\" --exact --nocapture");
        command.env("UNDONE", (which == "40").to_string());
        run(command, "syncs_fail");
    }
}

/// Not a test by itself: see above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn syncs_fail() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let undone = std::env::var("UNDONE").unwrap() == "true";
    let data = PathBuf::from(folder);
    let store = Store::open(&data, manual()).unwrap();
    store.create_source("s").unwrap();
    let send = async |store: &Arc<Store>, i: usize| {
        let mut intake = store.intake(0, tidegate_model::Audience::All);
        intake.add(json!({"id": i.to_string()}));
        let body = u8::try_from(i).unwrap();
        store.ingest_once("s", intake, Some(RequestKey { sender: [0; 8], name: [body; 24], body: [body; 32] })).await
    };
    let (mut stored, mut known, mut unknown) = (BTreeSet::new(), 0, 0);
    for i in 0..80 {
        wait("writing does not go on", || !store.stats().read_only).await;
        match send(&store, i).await {
            Ok(_) => assert!(stored.insert(i.to_string())),
            Err(StoreError::CommitFailed(_)) => known += 1,
            Err(StoreError::Unconfirmed(_)) => {
                unknown += 1;
                wait("writing does not go on", || !store.stats().read_only).await;
                send(&store, i).await.unwrap();
                stored.insert(i.to_string());
            }
            Err(error) => panic!("{error}"),
        }
    }
    let expected = if undone { (1, 0) } else { (0, 1) };
    assert_eq!((known, unknown), expected);
    assert_eq!(ids(&store).await, stored);
    drop(store);
    assert_eq!(ids(&Store::open(&data, manual()).unwrap()).await, stored);
    println!("it held");
}
