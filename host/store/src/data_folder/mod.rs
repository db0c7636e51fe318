//! The data folder as files and folders: where each file is, and how files are made durable, private and exclusive.
//!
//! Everything that depends on the file system and not on the meaning of a file is here, so that the rest of the
//! crate does not repeat it: the layout ([`paths`]), creation and access mode ([`create`], [`private`]), syncing
//! ([`sync`]), the lock against a second process ([`lock`]), a folder that appears only when it is complete
//! ([`atomic_folder`]), reading what the kernel has in memory ([`page_cache`]), and the distinction between a full and a broken disk ([`disk_failure`]).
//!
//! Uses: errors only.

pub(crate) mod atomic_folder;
pub(crate) mod create;
pub(crate) mod disk_failure;
pub(crate) mod lock;
pub(crate) mod page_cache;
pub(crate) mod paths;
pub(crate) mod private;
pub(crate) mod sync;
