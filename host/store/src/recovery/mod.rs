//! What happens when a data folder is opened: the traces of a crash or of damage are found and settled.
//!
//! Nothing that may hold acknowledged rows is deleted. [`start`] is the sequence that a start runs. [`leftovers`]
//! finds files of segments that the catalog does not name and decides about each, [`settle`] carries the decisions
//! out, [`quarantine`] is the folder of segments that are kept and not read.
//!
//! Uses: `catalog`, `data_folder`, `segment`, `wal` (its rows), `schema`, `ingest` (to parse the bodies of calls).

pub(crate) mod leftovers;
pub(crate) mod quarantine;
pub(crate) mod settle;
pub(crate) mod start;
