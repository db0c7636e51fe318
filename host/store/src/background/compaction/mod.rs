//! Compaction: small segments become large ones, in the background.
//!
//! [`selection`] chooses neighbours, [`merge`] writes their rows as one segment ([`input`] reads them, [`pace`] says how
//! long it rests). Then one transaction registers the new segment and forgets the old ones. Queries read the old ones until then, and those that
//! have begun read them to their end: a file is deleted when its last reader has ended. A crash before the transaction
//! leaves a file that the catalog does not name, and a crash after it files with tombstones; the next start deletes
//! both.
//!
//! The work has a thread of its own, so that it holds up neither flushes nor ingest. It rests so that it takes only its
//! share of the time, and longer while the processors are needed for queries ([`Compactor::give_way_to`]).

mod input;
mod merge;
mod pace;
mod selection;

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use datafusion::arrow::datatypes::Schema;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::{
    background::{
        compaction::{
            merge::{Merged, merge},
            pace::{Pace, Signals, Work},
            selection::{MergeLimits, neighbours, select},
        },
        priority,
    },
    data_folder::{disk_failure, paths},
    error::{Result, StoreError},
    joined_thread::JoinedThread,
    objects::copies::ObjectCopies,
    options::StoreOptions,
    recovery::quarantine::{self, SetAside},
    schema::tenant_path::TenantPath,
    segment::{
        catalog_rows, footer,
        footer_entry::Origin,
        handle::{FileRemoval, Segment},
        tombstones,
    },
    source::{Source, sources::Sources},
    sync_points::{self, StoreThread},
    wal::writer::Writer,
};

/// How often the thread looks for segments to merge.
const TICK: Duration = Duration::from_secs(1);

/// The pause after a failed merge.
const RETRY: Duration = Duration::from_secs(30);

enum CompactMessage {
    /// Merge as much as possible, at once.
    Compact(oneshot::Sender<Result<()>>),
    Stop,
}

/// The handle to the compaction thread.
#[derive(Debug)]
pub(crate) struct Compactor {
    queue: Sender<CompactMessage>,
    signals: Arc<Signals>,
    thread: JoinedThread,
}

impl Compactor {
    pub(crate) fn start(
        (data, catalog): (PathBuf, Uuid),
        sources: Arc<Sources>,
        writer: Arc<Writer>,
        copies: Option<Arc<ObjectCopies>>,
        options: StoreOptions,
    ) -> Result<Compactor> {
        let (queue, receiver) = std::sync::mpsc::channel();
        let signals = Arc::new(Signals::default());
        let mut run = CompactThread {
            data,
            catalog,
            sources,
            writer,
            copies,
            options,
            signals: Arc::clone(&signals),
            settled: HashMap::new(),
            refused: HashSet::new(),
        };
        let thread = JoinedThread::start(
            "store-compact",
            sync_points::thread(StoreThread::Compact, move || {
                priority::lower();
                run.run(&receiver);
            }),
        )?;
        Ok(Compactor { queue, signals, thread })
    }

    pub(crate) async fn compact(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(CompactMessage::Compact(reply)).map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    /// Sets what says whether the processors are needed for queries. Only the first call counts.
    pub(crate) fn give_way_to(&self, is_busy: Box<dyn Fn() -> bool + Send + Sync>) {
        let _ = self.signals.is_busy.set(is_busy);
    }

    /// Ends the thread; a merge that is under way is given up. Blocks; a second call does nothing.
    pub(crate) fn stop(&self) {
        self.signals.stop.store(true, Ordering::Relaxed);
        let _ = self.queue.send(CompactMessage::Stop);
        self.thread.join();
    }
}

/// The segments of a source, with the path by which they were to be ordered. They are not held: their files must be
/// deleted as soon as they are dropped, however long the thread works on another source.
type Settled = (Weak<Vec<Arc<Segment>>>, Arc<TenantPath>);

struct CompactThread {
    data: PathBuf,
    /// The identity of the catalog, for the footers.
    catalog: Uuid,
    sources: Arc<Sources>,
    writer: Arc<Writer>,
    /// Where segments are put before they are registered, if anywhere.
    copies: Option<Arc<ObjectCopies>>,
    options: StoreOptions,
    signals: Arc<Signals>,
    /// By source, that in which nothing was to be done.
    settled: HashMap<Uuid, Settled>,
    /// Segments that cannot be merged: their rows are too large, or an attempt found them unreadable.
    refused: HashSet<Uuid>,
}

impl CompactThread {
    fn run(&mut self, receiver: &Receiver<CompactMessage>) {
        let mut next = TICK;
        loop {
            match receiver.recv_timeout(next) {
                Ok(CompactMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(CompactMessage::Compact(reply)) => {
                    let _ = reply.send(self.compact_all(Pace::AtOnce));
                }
                Err(RecvTimeoutError::Timeout) if self.options.manual_flush => {}
                Err(RecvTimeoutError::Timeout) => {
                    next = match self.compact_all(Pace::Background) {
                        Ok(()) => TICK,
                        Err(StoreError::Closed) => return,
                        Err(_) => RETRY,
                    };
                }
            }
            if self.signals.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Merges in all sources until nothing is to be done. Returns the first failure; the other sources are handled all
    /// the same.
    fn compact_all(&mut self, pace: Pace) -> Result<()> {
        if let Some(Err(replaced)) = self.copies.as_ref().map(|copies| copies.check_replaced()) {
            // It was told, and no segment can be put any more.
            return if pace == Pace::Background { Ok(()) } else { Err(replaced) };
        }
        let sources = self.sources.all();
        self.settled.retain(|id, _| sources.iter().any(|source| source.id == *id));
        let mut failed = None;
        for source in sources {
            loop {
                match self.compact_source(&source, pace) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(StoreError::Closed) => return Err(StoreError::Closed),
                    Err(error) => {
                        tracing::error!(source = source.info().name, %error, "segments could not be merged");
                        self.writer.counters().merge_failed();
                        failed.get_or_insert(error);
                        break;
                    }
                }
            }
        }
        self.writer.counters().merging(0);
        failed.map_or(Ok(()), Err)
    }

    /// Merges some segments of a source. Returns whether there were any to merge.
    fn compact_source(&mut self, source: &Arc<Source>, pace: Pace) -> Result<bool> {
        // A segment that cannot be registered would only fill the disk.
        self.writer.check()?;
        let (segments, tenant_path) = (source.segments(), source.tenant_path());
        let is_settled = self
            .settled
            .get(&source.id)
            .is_some_and(|(known, path)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&segments)) && *path == tenant_path);
        if source.is_deleted() || (is_settled && pace == Pace::Background) {
            return Ok(false);
        }
        let mut limits = MergeLimits::new(&self.options, source.info().retention.or(self.options.retention));
        if pace == Pace::AtOnce {
            limits = limits.at_once();
        }
        let may_merge = |segment: &Segment| !self.refused.contains(&segment.id);
        let found = select(&neighbours(&segments, may_merge, &[]), &limits, &tenant_path);
        let found = match found {
            Some(_) => select(&neighbours(&segments, may_merge, &self.barriers(source)?), &limits, &tenant_path),
            None => None,
        };
        let Some(found) = found else {
            self.settled.insert(source.id, (Arc::downgrade(&segments), tenant_path));
            return Ok(false);
        };
        self.writer.counters().merging(found.len());
        self.replace(source, &found, pace)?;
        Ok(true)
    }

    /// The ranges of write-ahead rows of this source's segments in the quarantine. A merged segment must not span them:
    /// otherwise it would seem to have their rows, and they could not be taken back. That holds for files that are lost or
    /// damaged, too: a copy may still be found.
    fn barriers(&self, source: &Source) -> Result<Vec<(i64, i64)>> {
        let range = |note: &SetAside| {
            let of_source = note.source == source.id;
            if !of_source && !note.source.is_nil() {
                return None;
            }
            // Only the file tells of one that was put there by hand, and of one whose note is of an older version.
            let entry = || footer::read(&quarantine::file(&self.data, note.segment), note.segment, None).ok()?.entry;
            note.calls.filter(|_| of_source).or_else(|| {
                let entry = entry().filter(|entry| entry.source == source.id && entry.catalog == self.catalog)?;
                Some((entry.first_seq, entry.last_seq))
            })
        };
        Ok(quarantine::list(&self.data)?.iter().filter_map(range).collect())
    }

    fn replace(&mut self, source: &Arc<Source>, segments: &[Arc<Segment>], pace: Pace) -> Result<()> {
        let began = Instant::now();
        let folder = paths::source_folder(&self.data, source.id);
        let (info, shape) = (source.info(), source.current_shape());
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
        let mut work = Work { signals: &self.signals, percent: self.options.compaction_percent, pace, began };
        let merged = merge(segments, &folder, origin, &self.options, &mut || {
            source.check()?;
            work.rest()
        });
        let (segment, columns, replaced) = match merged {
            Ok(Merged::Segment(merged)) => *merged,
            Ok(Merged::TooLarge) => {
                let large = segments.first().map(|segment| segment.id);
                tracing::warn!(source = info.name, segment = ?large, "the rows of a segment are too large to be merged");
                self.refused.extend(large);
                return Ok(());
            }
            // The source was deleted meanwhile.
            Err(StoreError::UnknownSource { .. }) => return Ok(()),
            Err(error) => {
                if matches!(error, StoreError::Corrupt { .. } | StoreError::Arrow(_)) {
                    // The next attempt would fail in the same way.
                    self.refused.extend(segments.iter().map(|segment| segment.id));
                }
                return Err(disk_failure::refine(error, &self.data));
            }
        };
        let (rows, bytes, segment) = (segment.rows, segment.bytes, Arc::new(segment));
        let ids: HashSet<Uuid> = replaced.iter().map(|segment| segment.id).collect();
        let copied = match (&self.copies, segment.path()) {
            (Some(copies), Some(path)) => copies.put(segment.source, segment.id, path, segment.bytes),
            _ => Ok(()),
        };
        match copied.and_then(|()| self.register(source, &segment, &columns, &ids)) {
            Ok(true) => {
                source.replace_segments(&ids, segment);
                self.writer.counters().merged(ids.len(), rows, bytes);
                let millis = began.elapsed().as_millis();
                tracing::info!(source = info.name, segments = ids.len(), rows, bytes, millis, "merged segments");
                Ok(())
            }
            // Retention dropped one of them meanwhile.
            Ok(false) => {
                segment.remove_on_drop(FileRemoval::File);
                Ok(())
            }
            Err(StoreError::UnknownSource { .. }) => {
                segment.remove_on_drop(FileRemoval::FileAndFolder);
                Ok(())
            }
            Err(error) => {
                // After a transaction that was rolled back, the file belongs to nobody. After one whose outcome is
                // unknown it may be registered, and the next start decides.
                if error.changed_nothing() {
                    segment.remove_on_drop(FileRemoval::File);
                }
                Err(error)
            }
        }
    }

    /// Registers the merged segment in the place of the others. Returns false, with nothing changed, if the catalog does
    /// not name all of them any more.
    fn register(
        &self,
        source: &Arc<Source>,
        segment: &Arc<Segment>,
        columns: &Schema,
        replaced: &HashSet<Uuid>,
    ) -> Result<bool> {
        let seen = source.note_segment(&source.current_shape(), columns, segment.created_at);
        let (owner, segment, columns, ids) =
            (Arc::clone(source), Arc::clone(segment), columns.clone(), replaced.clone());
        self.writer.transact(move |tx| {
            owner.check()?;
            let mut named = tx.prepare_cached("SELECT count(*) FROM segments WHERE id = ?1")?;
            for id in &ids {
                if named.query_row([id], |row| row.get::<_, i64>(0))? == 0 {
                    return Ok(false);
                }
            }
            let mut forget = tx.prepare_cached("DELETE FROM segments WHERE id = ?1")?;
            for id in &ids {
                forget.execute([id])?;
            }
            tombstones::replaced(tx, &ids, owner.id, segment.id)?;
            catalog_rows::register(tx, owner.key, &segment, &columns)?;
            tx.prepare_cached("UPDATE sources SET seen = ?2 WHERE key = ?1")?
                .execute(rusqlite::params![owner.key, seen])?;
            Ok(true)
        })
    }
}
