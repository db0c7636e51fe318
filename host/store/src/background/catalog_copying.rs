//! The thread that puts copies of the catalog into an object store, and asks there whether another server has taken over.
//!
//! It looks every second whether something changed that a recovery would miss: segments that were written, merged or dropped,
//! sources, endpoints, tokens, settings. New write-ahead rows are no such change. What other processes write to the
//! catalog, such as `tidegate token`, is seen as well.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use crate::{
    catalog::{copy::state_of, database},
    clock::now_micros,
    data_folder::paths,
    error::{Result, StoreError},
    joined_thread::JoinedThread,
    objects::copies::ObjectCopies,
    wal::writer::Writer,
};

/// How often the thread looks for changes.
const TICK: Duration = Duration::from_secs(1);

/// The pause after a copy, at least.
const PAUSE: Duration = Duration::from_secs(3);

/// The pause after a copy in times of what it took, so that a large catalog does not keep the thread busy.
const PAUSE_TIMES: u32 = 20;

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(10);

/// How often the thread asks whether another server has taken over, if it puts nothing.
const EPOCH_INTERVAL: Duration = Duration::from_secs(5);

/// How long the end of the store waits for a last copy.
const LAST_COPY: Duration = Duration::from_secs(3);

/// The handle to the thread.
#[derive(Debug)]
pub(crate) struct CatalogCopier {
    /// The thread ends when this is dropped.
    stop: Mutex<Option<Sender<()>>>,
    ended: Mutex<Option<Receiver<()>>>,
    thread: JoinedThread,
}

impl CatalogCopier {
    /// `is_manual` is for a store whose catalog is copied only by [`ObjectCopies::put_catalog`].
    pub(crate) fn start(
        data: PathBuf,
        copies: Arc<ObjectCopies>,
        writer: Arc<Writer>,
        is_manual: bool,
    ) -> Result<CatalogCopier> {
        let (stop, stopped) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let run = move || {
            if !is_manual {
                let mut thread = CopyThread { data, copies, writer, watch: None, copied: None };
                thread.run(&stopped);
            }
            drop(end);
        };
        let thread = JoinedThread::start("store-catalog", run)?;
        let (stop, ended) = (Mutex::new(Some(stop)), Mutex::new(Some(ended)));
        Ok(CatalogCopier { stop, ended, thread })
    }

    /// Lets the thread put a last copy if there is something new, and waits some seconds for that.
    pub(crate) fn finish(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(ended) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Nothing is ever sent: it ends with the thread.
            let _ = ended.recv_timeout(LAST_COPY);
        }
    }

    /// Ends the thread. [`Self::finish`] and [`ObjectCopies::stop`] come before it. Blocks; a second call does nothing.
    pub(crate) fn stop(&self) {
        self.thread.join();
    }
}

/// What of the catalog a copy has.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CatalogState {
    /// Segments that were written, merged and dropped since the start.
    segments: [u64; 3],
    rest: Vec<(String, String)>,
}

/// A connection that notices changes.
struct Watch {
    conn: Connection,
    /// SQLite's number for the state of the file, and what was read of it.
    seen: Option<(i64, Vec<(String, String)>)>,
}

impl Watch {
    fn open(data: &Path) -> Result<Watch> {
        Ok(Watch { conn: database::connect(&data.join(paths::CATALOG), false)?, seen: None })
    }

    fn look(&mut self) -> Result<Vec<(String, String)>> {
        let version = self.conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
        match &self.seen {
            Some((seen, state)) if *seen == version => Ok(state.clone()),
            _ => {
                let state = state_of(&self.conn)?;
                self.seen = Some((version, state.clone()));
                Ok(state)
            }
        }
    }
}

struct CopyThread {
    data: PathBuf,
    copies: Arc<ObjectCopies>,
    writer: Arc<Writer>,
    watch: Option<Watch>,
    /// The state of which there is a copy.
    copied: Option<CatalogState>,
}

impl CopyThread {
    fn run(&mut self, stopped: &Receiver<()>) {
        let (mut next_copy, mut next_question) = (Instant::now(), Instant::now());
        loop {
            let is_last = !matches!(stopped.recv_timeout(TICK), Err(RecvTimeoutError::Timeout));
            let state = self.state();
            let behind = &self.copies.counters.catalog_behind_since;
            let is_behind = state.is_none() || state != self.copied;
            if is_behind && behind.load(Ordering::Relaxed) == 0 {
                behind.store(now_micros(), Ordering::Relaxed);
            }
            let is_due = is_behind || (self.copies.is_catalog_awaited() && !is_last);
            let began = Instant::now();
            let done = if is_due && (is_last || began >= next_copy) {
                let put = self.copies.put_catalog();
                let pause = if put.is_ok() { PAUSE.max(began.elapsed() * PAUSE_TIMES) } else { RETRY };
                next_copy = Instant::now() + pause;
                if put.is_ok() {
                    self.copied = state;
                    behind.store(0, Ordering::Relaxed);
                }
                put
            } else if began >= next_question && !is_last {
                self.copies.check_epoch()
            } else {
                Ok(())
            };
            match done {
                Ok(()) if Instant::now() >= next_question => next_question = Instant::now() + EPOCH_INTERVAL,
                Ok(()) => {}
                // It was told, and nothing is put there any more.
                Err(StoreError::Closed | StoreError::Replaced { .. }) => return,
                Err(error) => {
                    tracing::error!(%error, "the catalog cannot be copied into the object store");
                    next_question = Instant::now() + RETRY;
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// The state now; `None` if it cannot be read.
    fn state(&mut self) -> Option<CatalogState> {
        let totals = self.writer.counters().totals();
        let segments = [totals.flushes, totals.merges, totals.dropped_segments];
        let mut watch = match self.watch.take() {
            Some(watch) => watch,
            None => self.warned(Watch::open(&self.data))?,
        };
        let rest = self.warned(watch.look())?;
        self.watch = Some(watch);
        Some(CatalogState { segments, rest })
    }

    fn warned<T>(&self, read: Result<T>) -> Option<T> {
        read.inspect_err(|error| tracing::warn!(%error, "whether the catalog changed is not known")).ok()
    }
}
