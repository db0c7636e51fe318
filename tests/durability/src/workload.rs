//! The process that is recorded: clients that send events, and a driver that does everything else that writes.
//!
//! A new way of writing becomes a step of the driver: a variant of [`Step`], its place in [`STEPS`] and its arm in
//! [`Workload::step`].

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use datafusion::prelude::SessionContext;
use serde_json::json;
use tidegate_store::{Retention, Store, StoreError, StoreOptions, backup};

use crate::{chance::Chance, check, known::STEADY, record};

/// What the driver does beside the clients.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// All rows in memory become segments.
    Flush,
    /// Two segments of the source `r`, then retention that drops all of them, or all but the newest.
    Retain,
    /// A source is made, filled and deleted.
    DeleteSource,
    /// The folder is copied while clients write.
    Backup,
    /// A write of the catalog's other connection.
    Set,
}

/// The steps, as often as they are to be taken.
const STEPS: [Step; 9] = [
    Step::Flush,
    Step::Flush,
    Step::Flush,
    Step::Retain,
    Step::Retain,
    Step::DeleteSource,
    Step::DeleteSource,
    Step::Backup,
    Step::Set,
];

/// How long writing may not work after operations that failed.
const LONG: Duration = Duration::from_secs(40);

pub(crate) struct Options {
    /// The folder in which `data` and backups lie.
    pub(crate) root: PathBuf,
    /// The record, to which marks are appended.
    pub(crate) record: PathBuf,
    pub(crate) seed: u64,
    /// Requests of each client.
    pub(crate) requests: usize,
    /// Steps of the driver.
    pub(crate) steps: usize,
    /// Whether operations fail: then it is waited until writing works again.
    pub(crate) failing: bool,
}

struct Workload {
    store: Arc<Store>,
    marks: Marks,
    root: PathBuf,
    seed: u64,
    sent: AtomicUsize,
}

/// Runs a workload. An error says that the store refused to open.
pub(crate) async fn run(options: Options) -> Result<(), String> {
    let marks = Marks::append_to(&options.record)?;
    let mut chance = Chance::new(options.seed);
    // The retention of an earlier process may go on.
    marks.mark("create-begin r");
    marks.mark("drop-begin r");
    let store_options = StoreOptions {
        flush_rows: 40 + chance.below(60),
        flush_interval: Duration::from_millis(20),
        commit_rows: 64,
        row_group_rows: 16,
        ..StoreOptions::default()
    };
    let store = Store::open(&options.root.join("data"), store_options).map_err(|error| error.to_string())?;
    let workload =
        Arc::new(Workload { store, marks, root: options.root.clone(), seed: options.seed, sent: AtomicUsize::new(0) });
    workload.set_up(options.failing).await?;
    let clients = (0..3).map(|client| {
        let workload = Arc::clone(&workload);
        let requests = options.requests;
        tokio::spawn(async move {
            let mut chance = Chance::new(workload.seed.wrapping_add(1000 + client));
            for _ in 0..requests {
                let source = STEADY.get(chance.below(2)).copied().unwrap_or("a");
                workload.send(source, 1 + chance.below(9)).await;
                if chance.below(4) == 0 {
                    tokio::time::sleep(Duration::from_micros(chance.below(3_000) as u64)).await;
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for number in 0..options.steps {
        let step = STEPS.get(chance.below(STEPS.len())).copied().unwrap_or(Step::Flush);
        workload.step(step, number, &mut chance).await;
    }
    for client in clients {
        client.await.map_err(|error| error.to_string())?;
    }
    if options.failing {
        workload.wait_until_writing_works().await?;
    }
    if chance.below(2) == 0 {
        workload.store.close().await.map_err(|error| error.to_string())?;
        drop(workload);
    }
    Ok(())
}

/// The marks of a workload, at the end of its record.
pub(crate) struct Marks(File);

impl Marks {
    pub(crate) fn append_to(record: &Path) -> Result<Marks, String> {
        File::options().create(true).append(true).open(record).map(Marks).map_err(|error| error.to_string())
    }

    pub(crate) fn mark(&self, text: &str) {
        // A mark that is missing would make the check say something wrong.
        if let Err(error) = (&self.0).write_all(&record::mark(text)) {
            eprintln!("a mark cannot be written: {error}");
            std::process::abort();
        }
    }
}

impl Workload {
    fn mark(&self, text: &str) {
        self.marks.mark(text);
    }

    async fn set_up(&self, failing: bool) -> Result<(), String> {
        let began = Instant::now();
        for name in ["a", "b", "r"] {
            self.mark(&format!("create-begin {name}"));
            loop {
                match self.store.ensure_source(name) {
                    Ok(_) => break,
                    Err(error) if !failing || began.elapsed() > LONG => return Err(error.to_string()),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
            self.mark(&format!("create-end {name}"));
        }
        self.end_drop("r").await;
        Ok(())
    }

    /// Sends one request; returns whether it was stored.
    async fn send(&self, source: &str, events: usize) -> bool {
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let request = format!("{:x}-{number}", self.seed);
        self.mark(&format!("begin {request} {source} {events}"));
        let events = (0..events).map(|event| {
            let id = format!("{request}.{event}");
            json!({"event_message": check::message(&id), "id": id, "metadata": {"n": number, "source": source}})
        });
        match self.store.ingest(source, events.collect()).await {
            Ok(_) => {
                self.mark(&format!("stored {request}"));
                return true;
            }
            Err(
                StoreError::CommitFailed(_)
                | StoreError::DiskFull(_)
                | StoreError::ReadOnly(_)
                | StoreError::Overloaded { .. }
                | StoreError::Backlog { .. }
                | StoreError::UnknownSource { .. },
            ) => self.mark(&format!("refused {request}")),
            // It is not known, and was said so.
            Err(_) => {}
        }
        false
    }

    async fn step(&self, step: Step, number: usize, chance: &mut Chance) {
        match step {
            Step::Flush => drop(self.store.flush().await),
            Step::Retain => {
                for _ in 0..2 {
                    self.send("r", 1 + chance.below(5)).await;
                    let _ = self.store.flush().await;
                }
                let Some(source) = self.store.source("r") else { return };
                self.mark("drop-begin r");
                let limit = Retention { max_age: None, max_bytes: Some(1 + 8_000 * chance.below(2) as u64) };
                if self.store.set_retention(source.id, limit).is_ok() {
                    let _ = self.store.apply_retention().await;
                }
                self.end_drop("r").await;
            }
            Step::DeleteSource => {
                let name = format!("gone-{:x}-{number}", self.seed);
                self.mark(&format!("create-begin {name}"));
                let Ok(source) = self.store.create_source(&name) else { return };
                self.mark(&format!("create-end {name}"));
                self.send(&name, 1 + chance.below(5)).await;
                if chance.below(2) == 0 {
                    let _ = self.store.flush().await;
                    self.send(&name, 1).await;
                }
                self.mark(&format!("delete-begin {name}"));
                let store = Arc::clone(&self.store);
                if matches!(tokio::task::spawn_blocking(move || store.delete_source(source.id)).await, Ok(Ok(()))) {
                    self.mark(&format!("delete-end {name}"));
                }
            }
            Step::Backup => {
                let name = format!("backup-{:x}-{number}", self.seed);
                self.mark(&format!("backup-begin {name}"));
                let (data, target) = (self.root.join("data"), self.root.join(&name));
                if matches!(tokio::task::spawn_blocking(move || backup(&data, &target)).await, Ok(Ok(_))) {
                    self.mark(&format!("backup-end {name}"));
                }
            }
            Step::Set => {
                let value = format!("{:x}-{number}", self.seed);
                self.mark(&format!("set-begin setting {value}"));
                if self.store.catalog().set_meta("setting", &value).is_ok() {
                    self.mark(&format!("set-end setting {value}"));
                }
            }
        }
    }

    /// Ends the retention of a source, and says what is left of it. Where that fails it stays open what is dropped.
    async fn end_drop(&self, name: &str) {
        let Some(source) = self.store.source(name) else { return };
        if self.store.set_retention(source.id, Retention::default()).is_err()
            || self.store.apply_retention().await.is_err()
        {
            return;
        }
        if let Ok(left) = check::requests(&SessionContext::new(), &self.store, name).await {
            let left: Vec<String> = left.into_keys().collect();
            self.mark(format!("drop-end {name} {}", left.join(" ")).trim_end());
        }
    }

    async fn wait_until_writing_works(&self) -> Result<(), String> {
        let began = Instant::now();
        while !self.send("a", 1).await || self.store.flush().await.is_err() {
            if began.elapsed() > LONG {
                return Err(format!("writing does not work again: {:?}", self.store.stats()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// The arguments with which a process runs [`run`].
pub(crate) fn arguments(root: &Path, record: &Path, seed: u64) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    vec!["workload".to_owned(), path(root), path(record), seed.to_string()]
}
