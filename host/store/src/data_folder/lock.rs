//! TODO header

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::error::{Result, StoreError};

/// How long the lock of another process on the folder is waited for.
const LOCK_PATIENCE: Duration = Duration::from_millis(400);

pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join("lock");
    let io = || StoreError::io(format!("locking {}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(io())?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A process that is just ending has it, or one that has just been started and does not know yet
            // which program it will run.
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_PATIENCE => {
                thread::sleep(LOCK_PATIENCE / 20);
            }
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked(dir.to_owned())),
            Err(TryLockError::Error(error)) => return Err(io()(error)),
        }
    }
}
