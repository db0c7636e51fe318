//! The lock by which one process has a data folder for itself.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::error::{Result, StoreError};

/// How long another process may keep the lock before this one gives up.
const LOCK_PATIENCE: Duration = Duration::from_millis(400);

/// The file that is locked.
pub(crate) const LOCK: &str = "lock";

pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let io = || StoreError::io(format!("locking {}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io())?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // The holder may be a process that is just ending, or one that was just forked and has not yet executed its
            // program.
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_PATIENCE / 20);
            }
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io()(error)),
        }
    }
}
