//! The writer thread: it owns the connection that writes the log, and decides what is acknowledged.
//!
//! A sync takes milliseconds whatever it writes. So all calls that arrive while one transaction is being synced go into
//! the next one together. The thread never waits for more calls: under light load a call is alone in its transaction,
//! under heavy load the transactions grow by themselves.
//!
//! After a failed sync it is unknown what is on disk, and a second sync may report success for pages that the kernel
//! has already dropped. So a failed transaction is not synced again. Instead another transaction overwrites what it
//! left in the log ([`rows::overwrite_failed`]). Once that one is synced, nothing of the failed one remains, writing
//! goes on, and the callers are told that nothing was stored. While it fails too, the outcome is unknown: the callers
//! are told so, and it is tried again every few seconds. A damaged catalog ends writing until a restart. Other failures
//! roll back and leave the log usable; a full disk is one of those (see [`crate::data_folder::disk_failure`]).
//!
//! Checkpoints, which move the log into the database file, begin here, between transactions, and run on another thread
//! ([`crate::wal::checkpointer`]). SQLite could do them by itself, but would not report their failures.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use rusqlite::Connection;

use crate::{
    data_folder::disk_failure,
    error::{Result, StoreError},
    memory::batch_builder::RawCall,
    metrics::counters::Counters,
    sync_points,
    wal::{
        acknowledged::Acknowledged,
        call::{PendingCall, StoredCall, WriteFailure},
        checkpointer::{self, Checkpointer, checkpoint},
        rows::{self, InsertOutcome, WalRecord},
    },
};

#[cfg(test)]
use crate::wal::faults::Faults;

/// A transaction of another part of the store, which runs on the thread.
pub(crate) type Job = Box<dyn FnOnce(&mut WriterThread) + Send>;

/// The pause before writing is tried again after a failure.
const PAUSE: Duration = Duration::from_secs(2);

/// How long the thread waits for a message while a checkpoint runs, before it looks whether that has ended.
const CHECKPOINT_LOOK: Duration = Duration::from_millis(20);

/// The number of pages in the log at which a checkpoint is made. A commit that meets the sync of a checkpoint waits until the disk
/// has written what the checkpoint copied, so that should be little: this is 8 MiB.
pub(crate) const CHECKPOINT_PAGES: usize = 500;

/// The size of a page.
const PAGE_BYTES: usize = 16 << 10;

/// The least number of pages that a transaction writes.
pub(crate) const LEAST_PAGES: usize = 4;

pub(crate) enum WriterMessage {
    Ingest(PendingCall),
    /// Another transaction, in its turn: SQLite has one writer anyway.
    Job(Job),
    Stop,
}

/// The writer thread.
pub(crate) struct WriterThread {
    pub(crate) conn: Connection,
    pub(crate) receiver: Receiver<WriterMessage>,
    pub(crate) failed: Arc<Mutex<Option<WriteFailure>>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) commit_rows: usize,
    pub(crate) commit_bytes: usize,
    pub(crate) data: PathBuf,
    /// The last transaction failed because the disk is full.
    pub(crate) full: bool,
    /// The highest `seq` that was acknowledged.
    pub(crate) last: i64,
    /// Where that is noted; `None` where it cannot be.
    pub(crate) acknowledged: Option<Acknowledged>,
    /// Keys of requests that were stored.
    pub(crate) kept: u64,
    /// Estimate of the pages that were written to the log since the last checkpoint.
    pub(crate) pages: usize,
    pub(crate) checkpointer: Checkpointer,
    /// A crash may have left a long log, of which no page is counted: the first transaction is followed by a checkpoint.
    pub(crate) is_first: bool,
    /// The last checkpoint failed.
    pub(crate) log_stays: bool,
    #[cfg(test)]
    pub(crate) faults: Arc<Faults>,
}

impl WriterThread {
    pub(crate) fn run(mut self, committed: impl Fn()) {
        while let Some(message) = self.next() {
            let mut group = Vec::new();
            let mut next = Some(message);
            let (mut rows, mut bytes) = (0, 0);
            let mut other = None;
            while let Some(message) = next.take() {
                match message {
                    WriterMessage::Ingest(pending) => {
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
                sync_points::after_answer(&committed);
            }
            match other {
                Some(WriterMessage::Job(job)) => job(&mut self),
                Some(WriterMessage::Stop) => return,
                _ => {}
            }
            self.checkpoint();
        }
    }

    /// The next message. While something has failed, it is retried here, because a server that reports not to be ready
    /// may get no more events that would cause a retry.
    fn next(&mut self) -> Option<WriterMessage> {
        loop {
            let failed = self.failed().is_some_and(|failed| !failed.lasting);
            let patience = match (failed || self.log_stays, self.checkpointer.is_running()) {
                (false, false) => return self.receiver.recv().ok(),
                (true, false) => PAUSE,
                (_, true) => CHECKPOINT_LOOK,
            };
            match self.receiver.recv_timeout(patience) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if self.checkpointer.is_running() => self.checkpoint(),
                Err(RecvTimeoutError::Timeout) => {
                    if failed && self.undo().is_ok() {
                        tracing::info!("writing works again");
                        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    }
                    if self.log_stays {
                        self.move_rest();
                    }
                }
            }
        }
    }

    fn failed(&self) -> Option<WriteFailure> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn undo(&mut self) -> Result<()> {
        #[cfg(test)]
        Faults::take(&self.faults.undoing, Ok(()))?;
        // The file can only be truncated while no checkpoint runs.
        if let Some(ended) = self.checkpointer.end() {
            self.moved(ended);
        }
        rows::overwrite_failed(&mut self.conn, self.last)
    }

    /// Gives a failure a certain outcome where that is possible: either nothing was stored, and writing goes on, or the
    /// outcome is unknown, and nothing is written until that works again.
    pub(crate) fn with_certain_outcome<T>(&mut self, result: Result<T>) -> Result<T> {
        let error = match result {
            Err(StoreError::Sqlite(error)) if disk_failure::is_fatal(&error) => error,
            other => return other,
        };
        let lasting = !disk_failure::may_pass(&error);
        if !lasting && self.failed().is_none() && self.undo().is_ok() {
            return Err(StoreError::CommitFailed(error.to_string()));
        }
        tracing::error!(%error, lasting, "a write failed in the middle: nothing more is written until that works");
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert_with(|| WriteFailure { reason: error.to_string(), lasting });
        Err(StoreError::Unconfirmed(error.to_string()))
    }

    /// Begins a checkpoint if the log is long, and completes one that has copied most of the log.
    fn checkpoint(&mut self) {
        match self.checkpointer.ended() {
            Some(Ok(())) => self.move_rest(),
            Some(Err(error)) => self.moved(Err(error)),
            None if self.checkpointer.is_running() => {}
            None if std::mem::take(&mut self.is_first) => self.move_rest(),
            None if self.pages >= CHECKPOINT_PAGES => match self.checkpointer.begin() {
                true => self.pages = 0,
                // Its thread is gone.
                false => self.move_rest(),
            },
            None => {}
        }
    }

    /// Copies what of the log no checkpoint has copied.
    fn move_rest(&mut self) {
        let moved = checkpoint(&self.conn);
        self.moved(moved);
    }

    fn moved(&mut self, moved: rusqlite::Result<()>) {
        self.counters.checkpoint(moved.is_err());
        let before = std::mem::replace(&mut self.log_stays, moved.is_err());
        match moved {
            Ok(()) => {
                self.pages = 0;
                if before {
                    tracing::info!("the write-ahead log is moved into the catalog again");
                }
            }
            Err(error) => {
                if !before {
                    tracing::error!(%error, "the write-ahead log cannot be moved into the catalog: it grows until that works");
                }
                // So that it is not tried after every call.
                self.pages = CHECKPOINT_PAGES - CHECKPOINT_PAGES / 8;
            }
        }
    }

    fn commit(&mut self, group: Vec<PendingCall>) {
        let mut kept = Vec::with_capacity(group.len());
        for pending in group {
            match pending.source.check() {
                Ok(()) => kept.push(pending),
                // The source was deleted while the call waited here.
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
                self.with_certain_outcome(written)
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

    /// Hands committed calls over to their sources and answers the callers.
    fn acknowledge(&mut self, group: Vec<PendingCall>, written: Vec<InsertOutcome>, began: Instant) {
        let (mut rows, mut bytes) = (0, 0);
        let mut replies = Vec::with_capacity(group.len());
        for (pending, written) in group.into_iter().zip(written) {
            let PendingCall { source, rows: own, body, columns, reply, once: _, named, room } = pending;
            let told = match written {
                InsertOutcome::New(seq) => {
                    rows += own;
                    bytes += body.len();
                    self.last = self.last.max(seq);
                    source.push(RawCall { seq, rows: own, body: Arc::new(body), columns });
                    Ok(StoredCall { rows: own, future_times: None })
                }
                InsertOutcome::Repeated(earlier) if earlier.same_body => {
                    Ok(StoredCall { rows: earlier.rows, future_times: Some(earlier.future_times) })
                }
                InsertOutcome::Repeated(_) => Err(StoreError::KeyReused),
            };
            replies.push((reply, told, (room, named)));
        }
        if let Some(noted) = self.acknowledged.as_ref().filter(|_| rows > 0) {
            noted.note(self.last);
        }
        // Counted before the answers, so that a caller who has an answer finds it in the numbers.
        self.counters.committed(rows, bytes, began.elapsed());
        for (reply, told, _held) in replies {
            // The caller may be gone; its events are stored all the same.
            let _ = reply.send(told);
        }
    }

    fn append(&mut self, group: &[PendingCall]) -> Result<Vec<InsertOutcome>> {
        let calls = group.iter().map(|pending| WalRecord {
            source: pending.source.key,
            rows: pending.rows,
            body: &pending.body,
            once: pending.once.as_deref(),
            named: pending.named.as_deref(),
        });
        let written = rows::append(&mut self.conn, calls, &mut self.kept);
        #[cfg(test)]
        let written = Faults::take(&self.faults.appends, written);
        self.pages += group.iter().map(|pending| pending.body.len() / PAGE_BYTES + 1).sum::<usize>() + LEAST_PAGES;
        written.map_err(|error| disk_failure::refine(error, &self.data))
    }

    /// Logs once that the disk is full, and once that it no longer is.
    fn notice_room<T>(&mut self, result: &Result<T>) {
        match result {
            Err(StoreError::DiskFull(reason)) => {
                checkpointer::recycle_log(&self.conn);
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
