//! Records the file operations of a process, and lets some of them fail.
//!
//! The library is preloaded (`LD_PRELOAD`). Its functions take the place of those of the C library, which Rust's
//! standard library and SQLite call, so that the program itself is tested unchanged. What power cuts leave behind is
//! computed from the record by `tidegate-durability`.
//!
//! Environment, read at the first operation:
//! - `TIDEGATE_RECORDER_ROOT`: the absolute path of a folder without symbolic links. Only operations on files below it
//!   are recorded and fail.
//! - `TIDEGATE_RECORDER_FILE`: the file to which the record is appended; see [`record`].
//! - `TIDEGATE_RECORDER_FAIL`: `FROM..TO:HOW` or `FROM..TO:HOW:KINDS`. Operations are counted from 1; those with numbers from `FROM` on and
//!   below `TO` fail. `HOW` is the number of the error, or `short` for writes of half the bytes that report success.
//!   `KINDS` are the tags of the operations that are counted, all unless told.
//!
//! Every operation below the root has one record, also a failed one, so that the number of records bounds `FROM`.
//! Operations are recorded in the order in which they took effect: a lock is held over each. Syncs are two records,
//! their begin and their end, and the lock is not held in between, so that other threads are not slowed down.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "functions of the C library are replaced, whose arguments are pointers")]

pub mod calls;
mod record;
mod state;
