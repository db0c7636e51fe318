//! The thread that keeps the copies of segments in an object store complete and free of leftovers.
//!
//! New segments are put there by whoever writes them. This thread puts what was there before, what a crash left between two steps,
//! and what `repair` took back; and it deletes objects that belong to nothing: those of segments that were put and
//! never registered, or whose deletion failed for long.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::Ordering,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::Duration,
};

use chrono::{TimeDelta, Utc};
use uuid::Uuid;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    joined_thread::JoinedThread,
    objects::{copies::ObjectCopies, segment_objects::SegmentCopy},
    segment::{handle::Segment, tombstones},
    source::sources::Sources,
};

/// How often the thread compares.
const INTERVAL: Duration = Duration::from_hours(1);

/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(30);

/// An object that belongs to nothing is deleted when it is older than this: a younger one may be on its way into a catalog.
const LEFTOVER_AGE: TimeDelta = TimeDelta::days(1);

/// The handle to the thread.
#[derive(Debug)]
pub(crate) struct Copier {
    /// The thread ends when this is dropped.
    stop: Mutex<Option<Sender<()>>>,
    thread: JoinedThread,
}

impl Copier {
    pub(crate) fn start(
        data: PathBuf,
        sources: Arc<Sources>,
        copies: Arc<ObjectCopies>,
        is_manual: bool,
    ) -> Result<Copier> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            if is_manual {
                let _ = stopped.recv();
            } else {
                run(&data, &sources, &copies, &stopped);
            }
        };
        let thread = JoinedThread::start("store-copy", run)?;
        Ok(Copier { stop: Mutex::new(Some(stop)), thread })
    }

    /// Ends the thread. [`ObjectCopies::stop`] comes before it. Blocks; a second call does nothing.
    pub(crate) fn stop(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.thread.join();
    }
}

fn run(data: &Path, sources: &Sources, copies: &ObjectCopies, stopped: &Receiver<()>) {
    loop {
        let next = match compare(data, sources, copies, LEFTOVER_AGE) {
            Ok(()) => INTERVAL,
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "the copies of segments are not complete");
                RETRY
            }
        };
        match stopped.recv_timeout(next) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return,
        }
    }
}

/// Puts the segments that the store lacks, the newest first, and deletes objects that belong to nothing.
///
/// # Errors
/// The first failure to list or to put. A file that cannot be read is passed over.
pub(crate) fn compare(data: &Path, sources: &Sources, copies: &ObjectCopies, leftover_age: TimeDelta) -> Result<()> {
    // Segments come first: what is put after this line was put by whoever wrote it.
    let mut segments: Vec<Arc<Segment>> = sources.all().iter().flat_map(|source| source.segments().to_vec()).collect();
    let listed = copies.list()?;
    let lengths: HashMap<Uuid, u64> = listed.iter().map(|copy| (copy.segment, copy.bytes)).collect();
    segments.retain(|segment| lengths.get(&segment.id) != Some(&segment.bytes));
    segments.sort_by_key(|segment| segment.max_time);
    let missing = &copies.counters.missing;
    missing.store(segments.len() as u64, Ordering::Relaxed);
    if !segments.is_empty() {
        tracing::info!(segments = segments.len(), "putting segments into the object store that it does not have");
    }
    while let Some(segment) = segments.pop() {
        let Some(path) = segment.path() else { continue };
        match copies.put(segment.source, segment.id, path, segment.bytes) {
            Ok(()) => {}
            Err(error @ StoreError::Io { .. }) => {
                // Damage of the folder, or dropped meanwhile.
                tracing::error!(segment = %segment.id, %error, "a segment has no copy in the object store");
            }
            Err(error) => return Err(error),
        }
        missing.store(segments.len() as u64, Ordering::Relaxed);
    }
    let buried = tombstones::buried(data)?;
    let latest = Utc::now() - leftover_age;
    let old: Vec<SegmentCopy> = listed.into_iter().filter(|copy| copy.written < latest).collect();
    let named: HashSet<Uuid> =
        sources.all().iter().flat_map(|source| source.segments().to_vec()).map(|segment| segment.id).collect();
    let is_left = |copy: &&SegmentCopy| {
        let file = paths::source_folder(data, copy.source).join(paths::segment_file(copy.segment));
        // A query may still read the file of a segment that was dropped. Its copy goes with its tombstone.
        let is_buried = buried.contains(&copy.segment) || buried.contains(&copy.source);
        !named.contains(&copy.segment) && !is_buried && !file.exists()
    };
    let left: Vec<(Uuid, Uuid)> = old.iter().filter(is_left).map(|copy| (copy.segment, copy.source)).collect();
    if !left.is_empty() {
        tracing::info!(objects = left.len(), "deleting segments from the object store that belong to nothing");
        // Those that a copy of the catalog may name stay until the next time.
        copies.delete(&left)?;
    }
    Ok(())
}
