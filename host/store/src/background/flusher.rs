//! The flush thread: rows in memory become segments.
//!
//! It works on one source at a time, and holds up neither ingest nor queries. The decisive step is one transaction: it
//! registers the segment, stores the schema that the segment was written with, and deletes the write-ahead rows. Before
//! it the rows are in the log, after it in the segment. The thread also runs retention, once a minute.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use datafusion::arrow::datatypes::SchemaRef;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    background::{dropped::Dropped, retention},
    clock::{AgeClock, DAY},
    data_folder::{disk_failure, paths},
    error::{Result, StoreError},
    joined_thread::JoinedThread,
    objects::copies::ObjectCopies,
    options::StoreOptions,
    schema::shape::Shape,
    segment::{
        catalog_rows,
        footer_entry::Origin,
        handle::{FileRemoval, Segment},
        tombstones::GoneFiles,
        writer,
    },
    source::{Source, sources::Sources},
    sync_points::{self, StoreThread},
    wal::{rows, writer::Writer},
};

/// How often the thread looks for work when nothing wakes it.
const TICK: Duration = Duration::from_millis(250);

/// How often retention runs.
const RETENTION_INTERVAL: Duration = Duration::from_secs(60);

enum FlushMessage {
    Wake,
    Flush(oneshot::Sender<Result<()>>),
    Retain(oneshot::Sender<Result<Dropped>>),
    Stop,
}

/// The handle to the flush thread.
#[derive(Debug)]
pub(crate) struct Flusher {
    queue: Sender<FlushMessage>,
    thread: JoinedThread,
}

/// Wakes the flush thread. Cheap enough to be called after each commit.
#[derive(Debug, Clone)]
pub(crate) struct Waker {
    queue: Sender<FlushMessage>,
    awake: Arc<AtomicBool>,
}

impl Waker {
    pub(crate) fn wake(&self) {
        if !self.awake.swap(true, Ordering::Relaxed) {
            // The receiver is gone if the thread has stopped.
            let _ = self.queue.send(FlushMessage::Wake);
        }
    }
}

/// Both ends of the thread's queue. They are made before the thread, so that the writer thread can have a waker.
pub(crate) struct Queue {
    sender: Sender<FlushMessage>,
    receiver: Receiver<FlushMessage>,
    awake: Arc<AtomicBool>,
}

pub(crate) fn queue() -> (Queue, Waker) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let awake = Arc::new(AtomicBool::new(false));
    let waker = Waker { queue: sender.clone(), awake: Arc::clone(&awake) };
    (Queue { sender, receiver, awake }, waker)
}

impl Flusher {
    pub(crate) fn start(
        queue: Queue,
        (data, catalog): (PathBuf, Uuid),
        sources: Arc<Sources>,
        writer: Arc<Writer>,
        copies: Option<Arc<ObjectCopies>>,
        (clock, options): (Arc<AgeClock>, StoreOptions),
    ) -> Result<Flusher> {
        let Queue { sender, receiver, awake } = queue;
        let run = FlushThread { data, catalog, sources, writer, copies, clock, options, abandoned: Mutex::default() };
        let thread = JoinedThread::start(
            "store-flush",
            sync_points::thread(StoreThread::Flush, move || run.run(&receiver, &awake)),
        )?;
        Ok(Flusher { queue: sender, thread })
    }

    pub(crate) async fn flush(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(FlushMessage::Flush(reply)).map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(crate) async fn retain(&self) -> Result<Dropped> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(FlushMessage::Retain(reply)).map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Ends the thread after its current work. Blocks; a second call does nothing.
    pub(crate) fn stop(&self) {
        let _ = self.queue.send(FlushMessage::Stop);
        self.thread.join();
    }
}

struct FlushThread {
    data: PathBuf,
    /// The identity of the catalog, for the footers.
    catalog: Uuid,
    sources: Arc<Sources>,
    writer: Arc<Writer>,
    /// Where segments are put before they are registered, if anywhere.
    copies: Option<Arc<ObjectCopies>>,
    /// By which logs grow old.
    clock: Arc<AgeClock>,
    options: StoreOptions,
    /// Segments that were not registered, by the key of their source. Their files may be there, or come back after a
    /// power cut, when their rows are in another segment.
    abandoned: Mutex<HashMap<i64, Vec<Uuid>>>,
}

impl FlushThread {
    fn run(self, receiver: &Receiver<FlushMessage>, awake: &AtomicBool) {
        let mut retained: Option<Instant> = None;
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(FlushMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(FlushMessage::Flush(reply)) => {
                    let _ = reply.send(self.sources.all().iter().try_for_each(|source| self.flush(source)));
                }
                Ok(FlushMessage::Retain(reply)) => {
                    let _ = reply.send(self.retain());
                }
                Ok(FlushMessage::Wake) | Err(RecvTimeoutError::Timeout) => {
                    awake.store(false, Ordering::Relaxed);
                    if !self.options.manual_flush {
                        self.flush_due();
                    }
                    if !self.options.manual_flush && retained.is_none_or(|at| at.elapsed() >= RETENTION_INTERVAL) {
                        retained = Some(Instant::now());
                        let _ = self.retain();
                    }
                }
            }
        }
    }

    fn flush_due(&self) {
        if self.check_copies().is_err() {
            // Another server has the copies; that was logged when it was found, and stays so until this one ends.
            return;
        }
        for source in self.sources.all() {
            if source.is_due(&self.options) {
                self.flush_logged(&source);
            }
        }
        // Many sources of which none is due may fill the memory at which ingest waits.
        if self.sources.unflushed.load(Ordering::Relaxed) >= self.options.pace_bytes() / 2
            && let Some(largest) = self
                .sources
                .all()
                .iter()
                .filter(|source| source.may_flush())
                .max_by_key(|source| source.waiting().bytes())
        {
            self.flush_logged(largest);
        }
    }

    fn flush_logged(&self, source: &Arc<Source>) {
        if source.may_flush()
            && let Err(error) = self.flush(source)
        {
            // The rows stay in memory and in the log. The next tick at which a flush is due tries again.
            tracing::error!(source = source.info().name, %error, "flush failed");
        }
    }

    /// Applies retention to all sources, even if one fails. Returns the first failure.
    fn retain(&self) -> Result<Dropped> {
        let now = retention::begin(&self.clock, &self.writer)?;
        let (mut dropped, mut waiting) = (Dropped::default(), 0);
        let mut failed = None;
        for source in self.sources.all() {
            match retention::apply(&source, &self.writer, self.options.retention, now, &mut waiting) {
                Ok(more) => dropped.add(more),
                Err(error) => {
                    tracing::error!(source = source.info().name, %error, "retention failed");
                    failed.get_or_insert(error);
                }
            }
        }
        if self.writer.check().is_ok()
            && let Err(error) = self.forget_gone(now)
        {
            failed.get_or_insert(error);
        }
        self.writer.counters().expired_waiting(waiting);
        failed.map_or(Ok(dropped), Err)
    }

    /// Deletes the tombstones of files that are gone. The copies of what was dropped go, too, when a day has passed: as long
    /// they can be had back, if it was dropped by mistake.
    fn forget_gone(&self, now: i64) -> Result<()> {
        let data = self.data.clone();
        let dropped_before = self.copies.as_ref().map_or(i64::MAX, |_| now.saturating_sub(DAY));
        let mut gone = self.writer.transact(move |tx| GoneFiles::find(tx, &data, now, dropped_before))?;
        if gone.is_empty() {
            return Ok(());
        }
        gone.sync()?;
        if let Some(copies) = &self.copies {
            // Without its tombstone nothing would say that the copy is to go.
            gone.retain(&copies.delete(gone.dropped())?);
        }
        self.writer.transact(move |tx| gone.forget(tx))
    }

    fn flush(&self, source: &Arc<Source>) -> Result<()> {
        let done = self.write_segment(source);
        if done.is_err() {
            self.writer.counters().flush_failed();
        }
        done
    }

    fn write_segment(&self, source: &Arc<Source>) -> Result<()> {
        // A segment that cannot be registered would only fill the disk.
        self.writer.check()?;
        self.check_copies()?;
        let began = Instant::now();
        let Some((rows, shape)) = source.begin_flush()? else { return Ok(()) };
        let folder = paths::source_folder(&self.data, source.id);
        let info = source.info();
        let texts = source.indexed_texts();
        let tenant_path = source.tenant_path();
        let origin = Origin {
            catalog: self.catalog,
            source: source.id,
            name: &info.name,
            shape: &shape,
            tenant_path: &tenant_path,
            texts: &texts,
        };
        let id = Uuid::new_v4();
        let segment = match writer::write(&folder, id, origin, &rows, self.clock.now(), &self.options) {
            Ok(segment) => Arc::new(segment),
            Err(error) => {
                self.abandoned().entry(source.key).or_default().push(id);
                source.abort_flush();
                return Err(disk_failure::refine(error, &self.data));
            }
        };
        match self.copy(&segment).and_then(|()| self.register(source, &segment, &shape, (rows.schema, rows.seqs))) {
            Ok(()) => {
                tracing::debug!(source = info.name, segment = %segment.id, rows = segment.rows, "flushed");
                self.writer.counters().flushed(began.elapsed());
                source.end_flush(segment);
                Ok(())
            }
            Err(StoreError::UnknownSource { .. }) => {
                // The source was deleted meanwhile, with its rows.
                segment.remove_on_drop(FileRemoval::FileAndFolder);
                Ok(())
            }
            Err(error) => {
                self.abandoned().entry(source.key).or_default().push(id);
                source.abort_flush();
                // After a transaction that was rolled back, the file belongs to nobody. After one whose outcome is
                // unknown it may be registered, and the next start decides.
                if error.changed_nothing() {
                    segment.remove_on_drop(FileRemoval::File);
                }
                Err(error)
            }
        }
    }

    /// Fails if another server has taken over the copies.
    fn check_copies(&self) -> Result<()> {
        self.copies.as_ref().map_or(Ok(()), |copies| copies.check_replaced())
    }

    /// Puts a segment where copies are kept: before the catalog names it, so that whoever is told its name finds it there.
    fn copy(&self, segment: &Segment) -> Result<()> {
        match (&self.copies, segment.path()) {
            (Some(copies), Some(path)) => copies.put(segment.source, segment.id, path, segment.bytes),
            _ => Ok(()),
        }
    }

    fn register(
        &self,
        source: &Arc<Source>,
        segment: &Arc<Segment>,
        shape: &Shape,
        (columns, (first_seq, last_seq)): (SchemaRef, (i64, i64)),
    ) -> Result<()> {
        let seen = source.note_segment(shape, &columns, segment.created_at);
        let shape = serde_json::to_string(shape).map_err(|e| StoreError::corrupt("a shape", e))?;
        let (key, source, segment) = (source.key, Arc::clone(source), Arc::clone(segment));
        let abandoned = self.abandoned().get(&key).cloned().unwrap_or_default();
        self.writer.transact(move |tx| {
            source.check()?;
            // Their rows are in this segment. A transaction whose outcome was unknown may have registered one.
            let mut statement = tx.prepare_cached(
                "INSERT OR IGNORE INTO dropped (id, source)
                 SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM segments WHERE id = ?1)",
            )?;
            abandoned.iter().try_for_each(|id| statement.execute([id, &source.id]).map(drop))?;
            catalog_rows::register(tx, key, &segment, &columns)?;
            tx.prepare_cached("UPDATE sources SET shape = ?2, seen = ?3 WHERE key = ?1")?
                .execute(rusqlite::params![key, shape, seen])?;
            rows::delete_flushed(tx, key, first_seq, last_seq)
        })?;
        self.abandoned().remove(&key);
        Ok(())
    }

    fn abandoned(&self) -> MutexGuard<'_, HashMap<i64, Vec<Uuid>>> {
        self.abandoned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
