//! Checkpoints beside the writer thread.
//!
//! A checkpoint copies the pages of SQLite's write-ahead file into the database and syncs it, which takes tens of milliseconds
//! when the file is long. Calls would wait for that. So a thread with a connection of its own copies what is in the file,
//! while the writer thread goes on to append to it. What was appended meanwhile is little; the writer thread copies
//! that itself, because the file begins anew only when all of it is copied and nobody writes.
//!
//! Uses: `joined_thread`, errors.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rusqlite::Connection;

use crate::{error::Result, joined_thread::JoinedThread};

/// Copies what is in the write-ahead file of a connection's database. A reader may keep a part of it in use, and another
/// checkpoint may be running; neither is a failure.
pub(crate) fn checkpoint(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Makes a checkpoint as far as possible, so that SQLite can write its log from the start again. Without space nothing
/// is committed, without a commit there is no checkpoint, and then not even retention could delete anything.
pub(crate) fn recycle_log(conn: &Connection) {
    // It may fail because the disk is full.
    let _ = checkpoint(conn);
}

/// The handle to the thread.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    /// `None` while it is dropped.
    requests: Option<Sender<()>>,
    ended: Receiver<rusqlite::Result<()>>,
    thread: JoinedThread,
    is_running: bool,
}

impl Checkpointer {
    /// Starts the thread, with a connection that nothing else uses.
    pub(crate) fn start(conn: Connection) -> Result<Checkpointer> {
        let (requests, requested) = channel();
        let (ending, ended) = channel();
        let run = move || {
            while requested.recv().is_ok() {
                if ending.send(checkpoint(&conn)).is_err() {
                    return;
                }
            }
        };
        let thread = JoinedThread::start("store-checkpoint", run)?;
        Ok(Checkpointer { requests: Some(requests), ended, thread, is_running: false })
    }

    /// Whether a checkpoint was begun whose end nobody has asked for.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Begins a checkpoint, unless one is running. False if the thread is gone.
    pub(crate) fn begin(&mut self) -> bool {
        if !self.is_running {
            self.is_running = self.requests.as_ref().is_some_and(|requests| requests.send(()).is_ok());
        }
        self.is_running
    }

    /// How the checkpoint ended that was begun; `None` while it runs, and if none was begun.
    pub(crate) fn ended(&mut self) -> Option<rusqlite::Result<()>> {
        if !self.is_running {
            return None;
        }
        match self.ended.try_recv() {
            Err(TryRecvError::Empty) => None,
            ended => {
                self.is_running = false;
                ended.ok()
            }
        }
    }

    /// The same, but waits while it runs.
    pub(crate) fn end(&mut self) -> Option<rusqlite::Result<()>> {
        if std::mem::take(&mut self.is_running) { self.ended.recv().ok() } else { None }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.requests.take());
        self.thread.join();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    /// What was in the file when it began is copied, and what came meanwhile is left.
    #[test]
    fn it_copies_beside_a_connection_that_writes() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let conn = Connection::open(folder.path().join("database")).unwrap();
            conn.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(())).unwrap();
            conn.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
            conn
        };
        let conn = open();
        conn.execute_batch("CREATE TABLE t (body BLOB)").unwrap();
        let size = || std::fs::metadata(folder.path().join("database")).unwrap().len();
        let mut checkpointer = Checkpointer::start(open()).unwrap();
        assert!(checkpointer.ended().is_none() && checkpointer.end().is_none());
        for round in 1..4 {
            conn.execute("INSERT INTO t VALUES (zeroblob(1000000))", []).unwrap();
            assert!(checkpointer.begin() && checkpointer.is_running());
            // Nothing else is begun before the end of the first was asked for.
            assert!(checkpointer.begin());
            conn.execute("INSERT INTO t VALUES (zeroblob(10))", []).unwrap();
            checkpointer.end().unwrap().unwrap();
            assert!(!checkpointer.is_running() && checkpointer.end().is_none());
            assert!(size() > round * 1_000_000);
        }
        checkpoint(&conn).unwrap();
        drop((checkpointer, conn));
        let count: i64 = open().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(count, 6);
    }
}
