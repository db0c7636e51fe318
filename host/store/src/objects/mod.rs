//! Segments as objects of a store, and a cache of their blocks on disk.
//!
//! A request to an object store takes milliseconds and costs money, and what it reads never changes. So objects are read
//! in blocks, which stay on disk up to a bound. Nothing here looks at what the bytes mean: whoever reads them checks them
//! (`scan::verified_store`), and says [`BlockReader::forget`](block_reader::BlockReader::forget) if they are wrong.
//!
//! [`url`] says which store, [`object_error`] why it does not give an object, [`io_runtime`] runs requests, [`synced_folder`] is a folder as a store, [`outage`] is a store that fails, [`client`]
//! makes them within bounds, [`block_index`] knows which blocks are on disk, [`block_cache`] holds them, [`block_parts`] are
//! ranges as parts of blocks, [`fetch`] is a fetch that several wait for, [`block_reader`] reads ranges of an object through
//! all of these, and [`counters`] says what that took.
//!
//! Of a server that keeps copies, [`segment_objects`] puts and lists segments, [`catalog_object`] is a copy of the catalog as
//! an object, [`running_puts`] notices one that hangs, [`ownership`] says whose the copies are, [`kept_catalogs`] which copies of the catalog there are, [`copies`] puts and
//! deletes segments, and [`catalog_copies`] puts copies of the catalog and decides when a segment may be deleted.
//!
//! Uses: `data_folder`, `catalog` (its copy), `read_memory`.

pub(crate) mod block_cache;
pub(crate) mod block_index;
mod block_parts;
pub(crate) mod block_reader;
mod catalog_copies;
pub(crate) mod catalog_object;
pub(crate) mod client;
pub(crate) mod copies;
pub(crate) mod counters;
mod fetch;
pub(crate) mod io_runtime;
mod kept_catalogs;
pub(crate) mod object_error;
mod outage;
pub(crate) mod ownership;
pub(crate) mod running_puts;
pub(crate) mod segment_objects;
mod synced_folder;
pub(crate) mod url;
