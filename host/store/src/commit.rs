//! The writer thread: it owns the write-ahead log and decides what is acknowledged.
//!
//! A sync costs milliseconds whatever it writes, so all calls that arrive while one transaction is
//! being synced go into the next one together. There is no waiting on purpose: under light load a
//! call is alone in its transaction, under heavy load the transactions grow by themselves.
//!
//! After a failed sync nobody knows what is on disk, and syncing again may report success for pages
//! that the kernel has already dropped. So a failed transaction is never synced again: another one is
//! written over what it left in the log ([`log::undo_failed`]). When that one is synced, nothing of
//! the failed one is there, and writing goes on; callers are told that nothing was stored. While it
//! fails too, nobody knows: callers are told that, and it is tried every few seconds. A damaged
//! catalog ends writing until a restart. Other failures roll back and leave the log usable; a full
//! disk is one of those, see [`crate::disk`].
//!
//! Moving the log into the catalog is done here too, between transactions: SQLite would do it by
//! itself, but keep its failures to itself as well.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{
    disk,
    error::{Result, StoreError},
    log::{self, Entry, Written},
    once::Once,
    options::StoreOptions,
    source::{Call, Source},
    stats::Counters,
};

type Job = Box<dyn FnOnce(&mut Run) + Send>;

/// How long to wait before writing is tried again after failed writes.
const PAUSE: Duration = Duration::from_secs(2);

/// Pages in the log from which on they are moved into the catalog.
const CHECKPOINT_PAGES: usize = 2_000;
/// The size of a page, and the pages that a transaction has at least.
const PAGE_BYTES: usize = 16 << 10;
const LEAST_PAGES: usize = 4;

enum Message {
    Ingest(Pending),
    /// Another transaction on the same connection, in its turn: SQLite has one writer anyway.
    Job(Job),
    Stop,
}

struct Pending {
    source: Arc<Source>,
    rows: usize,
    body: Vec<u8>,
    once: Option<Once>,
    reply: oneshot::Sender<Result<Stored>>,
    /// Held until the answer: this is what bounds the queue.
    _room: OwnedSemaphorePermit,
}

/// What is told of a call that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) rows: usize,
    /// Of an earlier call with the same key: its events with a time far ahead.
    pub(crate) future_times: Option<usize>,
}

/// Why nothing is written at present.
#[derive(Debug, Clone)]
struct Failed {
    reason: String,
    /// Only a restart can help.
    lasting: bool,
}

/// One permit is this many bytes.
const PERMIT_BYTES: usize = 1 << 10;

/// The way to the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Message>,
    room: Arc<Semaphore>,
    room_size: usize,
    failed: Arc<Mutex<Option<Failed>>>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
    #[cfg(test)]
    pub(crate) faults: Arc<Faults>,
}

/// Failures that a test wants: of syncs, after which everything is in the file all the same.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Transactions of calls whose sync fails from now on.
    pub(crate) appends: std::sync::atomic::AtomicUsize,
    /// Attempts to undo them that fail from now on.
    pub(crate) undoing: std::sync::atomic::AtomicUsize,
}

#[cfg(test)]
impl Faults {
    fn take<T>(counter: &std::sync::atomic::AtomicUsize, done: Result<T>) -> Result<T> {
        use std::sync::atomic::Ordering::SeqCst;
        if done.is_ok() && counter.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            let error = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
            return Err(rusqlite::Error::SqliteFailure(error, None).into());
        }
        done
    }
}

impl Writer {
    pub(crate) fn start(
        conn: Connection,
        data: PathBuf,
        options: &StoreOptions,
        committed: impl Fn() + Send + 'static,
    ) -> Result<Writer> {
        let (queue, receiver) = std::sync::mpsc::channel();
        let failed = Arc::new(Mutex::new(None));
        #[cfg(test)]
        let faults = Arc::new(Faults::default());
        let counters = Arc::new(Counters::default());
        let last = log::last(&conn)?;
        conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        let room_size = (options.queue_bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let run = Run {
            conn,
            receiver,
            failed: Arc::clone(&failed),
            counters: Arc::clone(&counters),
            commit_rows: options.commit_rows,
            commit_bytes: options.commit_bytes,
            data,
            full: false,
            last,
            named: 0,
            // A crash may have left a long log.
            pages: CHECKPOINT_PAGES,
            #[cfg(test)]
            faults: Arc::clone(&faults),
        };
        let thread = thread::Builder::new()
            .name("store-commit".to_owned())
            .spawn(move || run.run(committed))
            .map_err(StoreError::io("starting the writer thread"))?;
        Ok(Writer {
            queue,
            room: Arc::new(Semaphore::new(room_size)),
            room_size,
            failed,
            counters,
            thread: Mutex::new(Some(thread)),
            #[cfg(test)]
            faults,
        })
    }

    /// Resolves when the events are on stable storage and visible, or are certain not to be.
    pub(crate) async fn ingest(
        &self,
        source: Arc<Source>,
        rows: usize,
        body: Vec<u8>,
        once: Option<Once>,
    ) -> Result<Stored> {
        self.check()?;
        // A call larger than the whole queue takes all of it.
        let permits = (body.len() / PERMIT_BYTES + 1).min(self.room_size) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let pending = Pending { source, rows, body, once, reply, _room: room };
        self.queue.send(Message::Ingest(pending)).map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Runs a transaction on the writer's connection and waits for it. Blocks.
    pub(crate) fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.transact_then(work, || ())
    }

    /// The same; once it is committed, `then` runs before the writer does anything else.
    pub(crate) fn transact_then<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<T> {
        self.check()?;
        let (reply, answer) = std::sync::mpsc::channel();
        let job: Job = Box::new(move |run| {
            let result = run
                .conn
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(StoreError::from)
                .and_then(|tx| {
                    let value = work(&tx)?;
                    tx.commit()?;
                    then();
                    Ok(value)
                })
                .map_err(|error| disk::refine(error, &run.data));
            if matches!(result, Err(StoreError::DiskFull(_))) {
                disk::recycle_log(&run.conn);
            }
            run.pages += LEAST_PAGES;
            // Nobody waits any more: the store is being dropped.
            let _ = reply.send(run.settle(result));
        });
        self.queue.send(Message::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Fails while nothing can be written.
    pub(crate) fn check(&self) -> Result<()> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            Some(failed) => Err(StoreError::ReadOnly(failed.reason.clone())),
            None => Ok(()),
        }
    }

    /// Commits what is queued and ends the thread. Blocks; a second call does nothing.
    pub(crate) fn stop(&self) {
        self.room.close();
        let _ = self.queue.send(Message::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the writer thread panicked");
        }
    }
}

struct Run {
    conn: Connection,
    receiver: Receiver<Message>,
    failed: Arc<Mutex<Option<Failed>>>,
    counters: Arc<Counters>,
    commit_rows: usize,
    commit_bytes: usize,
    data: PathBuf,
    /// The last transaction found no room.
    full: bool,
    /// The highest number of a call that was acknowledged.
    last: i64,
    /// Keys of requests that were kept.
    named: u64,
    /// Pages that went into the log since it was last moved into the catalog, as an estimate.
    pages: usize,
    #[cfg(test)]
    faults: Arc<Faults>,
}

impl Run {
    fn run(mut self, committed: impl Fn()) {
        while let Some(message) = self.next() {
            let mut group = Vec::new();
            let mut next = Some(message);
            let (mut rows, mut bytes) = (0, 0);
            let mut other = None;
            while let Some(message) = next.take() {
                match message {
                    Message::Ingest(pending) => {
                        rows += pending.rows;
                        bytes += pending.body.len();
                        group.push(pending);
                    }
                    last => {
                        other = Some(last);
                        break;
                    }
                }
                if rows < self.commit_rows && bytes < self.commit_bytes {
                    next = self.receiver.try_recv().ok();
                }
            }
            if !group.is_empty() {
                self.commit(group);
                committed();
            }
            match other {
                Some(Message::Job(job)) => job(&mut self),
                Some(Message::Stop) => return,
                _ => {}
            }
            self.checkpoint();
        }
    }

    /// The next message. After failed writes, writing is tried meanwhile.
    fn next(&mut self) -> Option<Message> {
        loop {
            if self.failed().is_none_or(|failed| failed.lasting) {
                return self.receiver.recv().ok();
            }
            match self.receiver.recv_timeout(PAUSE) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if self.undo().is_ok() {
                        tracing::info!("writing works again");
                        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    }
                }
            }
        }
    }

    fn failed(&self) -> Option<Failed> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn undo(&mut self) -> Result<()> {
        #[cfg(test)]
        Faults::take(&self.faults.undoing, Ok(()))?;
        log::undo_failed(&mut self.conn, self.last)
    }

    /// Makes a failure certain where that is possible: either nothing was stored, and writing goes
    /// on, or nobody knows, and nothing is written until it works again.
    fn settle<T>(&mut self, result: Result<T>) -> Result<T> {
        let error = match result {
            Err(StoreError::Sqlite(error)) if is_fatal(&error) => error,
            other => return other,
        };
        let lasting = !may_pass(&error);
        if !lasting && self.failed().is_none() && self.undo().is_ok() {
            return Err(StoreError::CommitFailed(error.to_string()));
        }
        tracing::error!(%error, lasting, "a write failed in the middle: nothing more is written until that works");
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert_with(|| Failed { reason: error.to_string(), lasting });
        Err(StoreError::Unconfirmed(error.to_string()))
    }

    /// Moves the log into the catalog when it is long.
    fn checkpoint(&mut self) {
        if self.pages < CHECKPOINT_PAGES {
            return;
        }
        // A reader in the middle of the log keeps the rest there: that is no failure.
        let moved = self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        self.counters.checkpoint(moved.is_err());
        match moved {
            Ok(()) => self.pages = 0,
            Err(error) => {
                tracing::error!(%error, "the write-ahead log cannot be moved into the catalog: it grows until that works");
                // Not after every call.
                self.pages = CHECKPOINT_PAGES - CHECKPOINT_PAGES / 8;
            }
        }
    }

    fn commit(&mut self, group: Vec<Pending>) {
        let mut kept = Vec::with_capacity(group.len());
        for pending in group {
            match pending.source.check() {
                Ok(()) => kept.push(pending),
                // Deleted while they waited here.
                Err(gone) => {
                    let _ = pending.reply.send(Err(gone));
                }
            }
        }
        let group = kept;
        if group.is_empty() {
            return;
        }
        let began = Instant::now();
        let result = match self.failed() {
            Some(failed) => Err(StoreError::ReadOnly(failed.reason)),
            None => {
                let written = self.append(&group);
                self.settle(written)
            }
        };
        self.notice_room(&result);
        match result {
            Ok(written) => self.acknowledge(group, written, began),
            Err(error) => {
                self.counters.commit_failed();
                if !matches!(error, StoreError::DiskFull(_) | StoreError::ReadOnly(_)) {
                    tracing::error!(%error, calls = group.len(), "write-ahead transaction failed");
                }
                for pending in group {
                    let _ = pending.reply.send(Err(match &error {
                        StoreError::ReadOnly(reason) => StoreError::ReadOnly(reason.clone()),
                        StoreError::DiskFull(reason) => StoreError::DiskFull(reason.clone()),
                        StoreError::Unconfirmed(reason) => StoreError::Unconfirmed(reason.clone()),
                        StoreError::CommitFailed(reason) => StoreError::CommitFailed(reason.clone()),
                        other => StoreError::CommitFailed(other.to_string()),
                    }));
                }
            }
        }
    }

    /// Hands committed calls over to their sources, and tells their callers.
    fn acknowledge(&mut self, group: Vec<Pending>, written: Vec<Written>, began: Instant) {
        let (mut rows, mut bytes) = (0, 0);
        for (pending, written) in group.into_iter().zip(written) {
            let Pending { source, rows: own, body, reply, .. } = pending;
            let told = match written {
                Written::New(seq) => {
                    rows += own;
                    bytes += body.len();
                    self.last = self.last.max(seq);
                    source.push(Call { seq, rows: own, body });
                    Ok(Stored { rows: own, future_times: None })
                }
                Written::Before(earlier) if earlier.same_body => {
                    Ok(Stored { rows: earlier.rows, future_times: Some(earlier.future_times) })
                }
                Written::Before(_) => Err(StoreError::KeyReused),
            };
            // The caller may have gone; its events are stored all the same.
            let _ = reply.send(told);
        }
        self.counters.committed(rows, bytes, began.elapsed());
    }

    fn append(&mut self, group: &[Pending]) -> Result<Vec<Written>> {
        let calls = group.iter().map(|pending| Entry {
            source: pending.source.key,
            rows: pending.rows,
            body: &pending.body,
            once: pending.once.as_ref(),
        });
        let written = log::append(&mut self.conn, calls, &mut self.named);
        #[cfg(test)]
        let written = Faults::take(&self.faults.appends, written);
        self.pages += group.iter().map(|pending| pending.body.len() / PAGE_BYTES + 1).sum::<usize>() + LEAST_PAGES;
        written.map_err(|error| disk::refine(error, &self.data))
    }

    /// Says once that the disk is full, and once that it no longer is.
    fn notice_room<T>(&mut self, result: &Result<T>) {
        match result {
            Err(StoreError::DiskFull(reason)) => {
                disk::recycle_log(&self.conn);
                if !std::mem::replace(&mut self.full, true) {
                    tracing::error!(reason, "no room for events: they are refused until there is");
                }
            }
            Err(_) => {}
            Ok(_) => {
                if std::mem::take(&mut self.full) {
                    tracing::info!("there is room for events again");
                }
            }
        }
    }
}

/// Failures of the disk, which may pass. A damaged catalog does not get better by being written to.
fn may_pass(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
}

/// Failures after which the state of the file is uncertain.
pub(crate) fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
        )
    )
}
