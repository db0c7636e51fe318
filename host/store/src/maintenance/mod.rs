//! Operations on a whole data folder for an operator: backup, restore, verify, repair, rebuild of the catalog.
//!
//! [`backup`] works beside a running server; the others need the folder for themselves. [`listed_segment`] is a
//! segment as a catalog names it, and its check; [`verify`] reads everything and changes nothing; [`repair`] sets
//! damaged segments aside and takes whole ones back; [`rebuild`] makes a catalog of the footers of the segments;
//! [`adopt`] is what repair and rebuild share.
//!
//! Uses: `catalog`, `data_folder`, `segment`, `recovery`.

pub(crate) mod adopt;
pub(crate) mod backup;
pub(crate) mod listed_segment;
pub(crate) mod rebuild;
pub(crate) mod repair;
pub(crate) mod verify;
