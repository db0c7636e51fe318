//! Operations on a whole data folder for an operator: backup, restore, verify, repair, rebuild of the catalog, recovery.
//!
//! [`backup`] works beside a running server, [`restore`] makes a folder of its copy; the others need the folder for themselves. [`listed_segment`] is a
//! segment as a catalog names it, and its check; [`verify`] reads everything and changes nothing; [`repair`] sets
//! damaged segments aside and takes whole ones back; [`rebuild`] makes a catalog of the footers of the segments;
//! [`adopt`] is what repair and rebuild share. [`recover`] makes a data folder of the copies in an object store, with what
//! [`segment_copies`] fetches; [`verify_copies`] compares a folder with them. [`catalog_check`] is the check of a catalog that a folder is made of.
//!
//! Uses: `catalog`, `data_folder`, `segment`, `recovery`, `objects`.

pub(crate) mod adopt;
pub(crate) mod backup;
mod catalog_check;
pub(crate) mod listed_segment;
pub(crate) mod rebuild;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod restore;
mod segment_copies;
pub(crate) mod verify;
pub(crate) mod verify_copies;
