//! The writer thread: it owns the write-ahead log and decides what is acknowledged.
//!
//! A sync costs milliseconds whatever it writes, so all calls that arrive while one transaction is
//! being synced go into the next one together. There is no waiting on purpose: under light load a
//! call is alone in its transaction, under heavy load the transactions grow by themselves.
//!
//! After a failed sync nobody knows what is on disk, and trying again may report success for pages
//! the kernel has already dropped. So an I/O error ends writing until a restart, which reads back
//! what is really there. Other failures roll back and leave the log usable; a full disk is one of
//! those, see [`crate::disk`].

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{
    disk,
    error::{Result, StoreError},
    log,
    options::StoreOptions,
    source::{Call, Source},
    stats::Counters,
};

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

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
    reply: oneshot::Sender<Result<usize>>,
    /// Held until the answer: this is what bounds the queue.
    _room: OwnedSemaphorePermit,
}

/// One permit is this many bytes.
const PERMIT_BYTES: usize = 1 << 10;

/// The way to the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<Message>,
    room: Arc<Semaphore>,
    room_size: usize,
    failed: Arc<Mutex<Option<String>>>,
    counters: Arc<Counters>,
    data: PathBuf,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        let counters = Arc::new(Counters::default());
        let room_size = (options.queue_bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let run = Run {
            conn,
            receiver,
            failed: Arc::clone(&failed),
            counters: Arc::clone(&counters),
            commit_rows: options.commit_rows,
            commit_bytes: options.commit_bytes,
            data: data.clone(),
            full: false,
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
            data,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Resolves when the events are on stable storage and visible, or are certain not to be.
    pub(crate) async fn ingest(&self, source: Arc<Source>, rows: usize, body: Vec<u8>) -> Result<usize> {
        self.check()?;
        // A call larger than the whole queue takes all of it.
        let permits = (body.len() / PERMIT_BYTES + 1).min(self.room_size) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let pending = Pending { source, rows, body, reply, _room: room };
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
        let data = self.data.clone();
        let job: Job = Box::new(move |conn| {
            let result = conn
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(StoreError::from)
                .and_then(|tx| {
                    let value = work(&tx)?;
                    tx.commit()?;
                    then();
                    Ok(value)
                })
                .map_err(|error| disk::refine(error, &data));
            if matches!(result, Err(StoreError::DiskFull(_))) {
                disk::recycle_log(conn);
            }
            // Nobody waits any more: the store is being dropped.
            let _ = reply.send(result);
        });
        self.queue.send(Message::Job(job)).map_err(|_| StoreError::Closed)?;
        let result = answer.recv().map_err(|_| StoreError::Closed)?;
        if let Err(StoreError::Sqlite(error)) = &result
            && is_fatal(error)
        {
            self.lock_failed().get_or_insert_with(|| error.to_string());
        }
        result
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    fn lock_failed(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails once writing has ended for good.
    pub(crate) fn check(&self) -> Result<()> {
        match self.lock_failed().as_ref() {
            Some(reason) => Err(StoreError::ReadOnly(reason.clone())),
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
    failed: Arc<Mutex<Option<String>>>,
    counters: Arc<Counters>,
    commit_rows: usize,
    commit_bytes: usize,
    data: PathBuf,
    /// The last transaction found no room.
    full: bool,
}

impl Run {
    fn run(mut self, committed: impl Fn()) {
        while let Ok(message) = self.receiver.recv() {
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
                Some(Message::Job(job)) => job(&mut self.conn),
                Some(Message::Stop) => return,
                _ => {}
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
        let earlier = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let began = Instant::now();
        let result = match earlier {
            Some(reason) => Err(StoreError::ReadOnly(reason)),
            None => self.append(&group),
        };
        self.notice_room(&result);
        match result {
            Ok(seqs) => {
                let (rows, bytes) = group.iter().fold((0, 0), |(r, b), p| (r + p.rows, b + p.body.len()));
                self.counters.committed(rows, bytes, began.elapsed());
                for (pending, seq) in group.into_iter().zip(seqs) {
                    let rows = pending.rows;
                    pending.source.push(Call { seq, rows, body: pending.body });
                    // The caller may have gone; its events are stored all the same.
                    let _ = pending.reply.send(Ok(rows));
                }
            }
            Err(error) => {
                self.counters.commit_failed();
                if !matches!(error, StoreError::DiskFull(_)) {
                    tracing::error!(%error, calls = group.len(), "write-ahead transaction failed");
                }
                if let StoreError::Sqlite(inner) = &error
                    && is_fatal(inner)
                {
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                }
                for pending in group {
                    let _ = pending.reply.send(Err(match &error {
                        StoreError::ReadOnly(reason) => StoreError::ReadOnly(reason.clone()),
                        StoreError::DiskFull(reason) => StoreError::DiskFull(reason.clone()),
                        other => StoreError::CommitFailed(other.to_string()),
                    }));
                }
            }
        }
    }

    fn append(&mut self, group: &[Pending]) -> Result<Vec<i64>> {
        log::append(&mut self.conn, group.iter().map(|pending| (pending.source.key, pending.body.as_slice())))
            .map_err(|error| disk::refine(error, &self.data))
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
