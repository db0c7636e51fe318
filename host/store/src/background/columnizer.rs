//! The thread that turns committed calls into columns, ahead of the queries that would otherwise wait for it. Each commit
//! wakes it, so that a query finds at most the rows of the last moments not shredded.
//!
//! Making a batch has a cost of its own, so that few rows wait for more, for as long as nobody notices.
//!
//! It is not the flush thread: writing a segment takes half a second, in which tens of thousands of events arrive.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender},
    },
    thread,
    time::Duration,
};

use crate::{
    background::flusher::Waker,
    error::Result,
    joined_thread::JoinedThread,
    options::StoreOptions,
    source::{Source, sources::Sources},
};

/// So many rows of a source become columns at once.
const MANY_ROWS: usize = 256;

/// So many rows of a source become columns even without background work: ingest waits for them.
const RAW_ROWS: usize = 8 << 10;

/// For so long fewer rows wait for more.
const LINGER: Duration = Duration::from_millis(10);

/// Why the thread is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// Rows were read from the write-ahead log when the store was opened. Few of them wait for the first commit or
    /// query: until then, saved endpoints can reserve columns for the fields that they name.
    Recovery,
    Commit,
}

/// The handle to the thread.
#[derive(Debug)]
pub(crate) struct Columnizer {
    /// None once it is stopped.
    queue: Mutex<Option<Sender<Reason>>>,
    awake: Arc<AtomicBool>,
    thread: JoinedThread,
}

impl Columnizer {
    /// `flusher` is woken when a flush is due.
    pub(crate) fn start(sources: Arc<Sources>, flusher: Waker, options: StoreOptions) -> Result<Columnizer> {
        let (queue, receiver) = std::sync::mpsc::channel();
        let awake = Arc::new(AtomicBool::new(false));
        let run = {
            let awake = Arc::clone(&awake);
            move || run(&receiver, &awake, &sources, &flusher, &options)
        };
        let thread = JoinedThread::start("store-shred", run)?;
        Ok(Columnizer { queue: Mutex::new(Some(queue)), awake, thread })
    }

    /// Cheap enough to be called after each commit.
    pub(crate) fn wake(&self) {
        if !self.awake.swap(true, Ordering::Relaxed) {
            self.send(Reason::Commit);
        }
    }

    /// To be called once, for the rows that were recovered.
    pub(crate) fn wake_after_recovery(&self) {
        self.send(Reason::Recovery);
    }

    fn send(&self, reason: Reason) {
        if let Some(queue) = self.queue.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // The receiver is gone if the thread has ended.
            let _ = queue.send(reason);
        }
    }

    /// Ends the thread after its current work. Blocks; a second call does nothing.
    pub(crate) fn stop(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.thread.join();
    }
}

fn run(receiver: &Receiver<Reason>, awake: &AtomicBool, sources: &Sources, flusher: &Waker, options: &StoreOptions) {
    while let Ok(reason) = receiver.recv() {
        let takes_few = reason == Reason::Commit && !options.manual_flush;
        let is_many = |source: &Arc<Source>| source.raw_rows() >= MANY_ROWS;
        if takes_few && !sources.all().iter().any(is_many) {
            thread::sleep(LINGER);
        }
        if reason == Reason::Commit {
            awake.store(false, Ordering::Relaxed);
        }
        let least = if takes_few { 1 } else { RAW_ROWS };
        for source in sources.all() {
            if source.raw_rows() < least {
                continue;
            }
            if let Err(error) = source.columnize() {
                // The rows stay as they are; the next commit or query tries again.
                tracing::error!(source = source.info().name, %error, "events cannot be made columns");
            }
            if source.is_due(options) {
                flusher.wake();
            }
        }
    }
}
