//! The handle to the writer thread ([`crate::wal::writer_thread`]). It bounds the bytes that wait for their commit.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc::Sender},
};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use crate::{
    data_folder::disk_failure,
    error::{Result, StoreError},
    intake::PreparedCall,
    joined_thread::JoinedThread,
    memory::call_columns::MadeColumns,
    metrics::counters::Counters,
    options::StoreOptions,
    source::Source,
    sync_points::{self, StoreThread},
    wal::{
        acknowledged::Acknowledged,
        call::{PendingCall, StoredCall, WriteFailure},
        checkpointer::{self, Checkpointer},
        idempotency::{KeyedRequest, NamedEvents},
        rows,
        writer_thread::{Job, LEAST_PAGES, WriterMessage, WriterThread},
    },
};

#[cfg(test)]
use crate::wal::faults::Faults;

/// Bytes for which one permit of the semaphore stands.
const PERMIT_BYTES: usize = 1 << 10;

/// The handle to the writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Sender<WriterMessage>,
    room: Arc<Semaphore>,
    room_size: usize,
    failed: Arc<Mutex<Option<WriteFailure>>>,
    counters: Arc<Counters>,
    thread: JoinedThread,
    #[cfg(test)]
    pub(crate) faults: Arc<Faults>,
}

impl Writer {
    /// `conn` writes; `of_checkpoints` is another connection to the same catalog, with the same settings.
    pub(crate) fn start(
        conn: Connection,
        of_checkpoints: Connection,
        (data, catalog): (PathBuf, Uuid),
        options: &StoreOptions,
        committed: impl Fn() + Send + 'static,
    ) -> Result<Writer> {
        let (queue, receiver) = std::sync::mpsc::channel();
        let failed = Arc::new(Mutex::new(None));
        #[cfg(test)]
        let faults = Arc::new(Faults::default());
        let counters = Arc::new(Counters::default());
        let last = rows::last_seq(&conn)?;
        for conn in [&conn, &of_checkpoints] {
            conn.pragma_update(None, "wal_autocheckpoint", 0)?;
        }
        let room_size = (options.queue_bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let acknowledged = Acknowledged::open(&data, catalog)
            .inspect_err(|error| tracing::warn!(%error, "the last call is not noted"))
            .ok();
        let run = WriterThread {
            conn,
            receiver,
            failed: Arc::clone(&failed),
            counters: Arc::clone(&counters),
            commit_rows: options.commit_rows,
            commit_bytes: options.commit_bytes,
            data,
            full: false,
            last,
            acknowledged,
            kept: 0,
            pages: 0,
            checkpointer: Checkpointer::start(of_checkpoints)?,
            is_first: true,
            log_stays: false,
            #[cfg(test)]
            faults: Arc::clone(&faults),
        };
        let thread =
            JoinedThread::start("store-commit", sync_points::thread(StoreThread::Commit, move || run.run(committed)))?;
        Ok(Writer {
            queue,
            room: Arc::new(Semaphore::new(room_size)),
            room_size,
            failed,
            counters,
            thread,
            #[cfg(test)]
            faults,
        })
    }

    /// Resolves when the events are on stable storage and visible, or certainly not stored.
    pub(crate) async fn ingest(
        &self,
        source: Arc<Source>,
        call: PreparedCall,
        once: Option<KeyedRequest>,
        named: Option<NamedEvents>,
    ) -> Result<StoredCall> {
        let PreparedCall { body, columns, rows, .. } = call;
        self.check()?;
        // A call that is larger than the whole queue takes all permits.
        let bytes = body.len() + columns.as_ref().map_or(0, MadeColumns::held);
        let permits = (bytes / PERMIT_BYTES + 1).min(self.room_size) as u32;
        let room = Arc::clone(&self.room).acquire_many_owned(permits).await.map_err(|_| StoreError::Closed)?;
        let _turn = sync_points::writer_turn();
        let (reply, answer) = oneshot::channel();
        let (once, named) = (once.map(Box::new), named.map(Box::new));
        let pending = PendingCall { source, rows, body, columns, once, named, reply, room };
        self.queue.send(WriterMessage::Ingest(pending)).map_err(|_| StoreError::Closed)?;
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
        let _turn = sync_points::writer_turn();
        let (reply, answer) = std::sync::mpsc::channel();
        let job: Job = Box::new(move |run| {
            let result = run
                .conn
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(StoreError::from)
                .and_then(|tx| {
                    let value = work(&tx)?;
                    tx.commit()?;
                    sync_points::reach("committed");
                    then();
                    Ok(value)
                })
                .map_err(|error| disk_failure::refine(error, &run.data));
            if matches!(result, Err(StoreError::DiskFull(_))) {
                checkpointer::recycle_log(&run.conn);
            }
            run.pages += LEAST_PAGES;
            // The receiver is gone if the store is being dropped.
            let _ = reply.send(run.with_certain_outcome(result));
        });
        self.queue.send(WriterMessage::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    /// Resolves when the thread has done all that was asked of it before: it lives and does not hang.
    pub(crate) async fn answers(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |_| {
            let _ = reply.send(());
        });
        self.queue.send(WriterMessage::Job(job)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
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
        let _ = self.queue.send(WriterMessage::Stop);
        self.thread.join();
    }
}
