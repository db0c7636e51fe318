//! Segments as objects of a store, and a cache of their blocks on disk.
//!
//! A request to an object store takes milliseconds and costs money, and what it reads never changes. So objects are read
//! in blocks, which stay on disk up to a bound. Nothing here looks at what the bytes mean: whoever reads them checks them
//! (`scan::verified_store`), and says [`BlockReader::forget`](block_reader::BlockReader::forget) if they are wrong.
//!
//! [`url`] says which store, [`object_error`] why it does not give an object, [`io_runtime`] runs requests, [`client`]
//! makes them within bounds, [`block_index`] knows which blocks are on disk, [`block_cache`] holds them, [`block_reader`]
//! reads ranges of an object through both, [`copies`] puts segments there and deletes them, and [`counters`] says what that took.
//!
//! Uses: `data_folder`.

pub(crate) mod block_cache;
pub(crate) mod block_index;
pub(crate) mod block_reader;
pub(crate) mod client;
pub(crate) mod copies;
pub(crate) mod counters;
pub(crate) mod io_runtime;
pub(crate) mod object_error;
pub(crate) mod url;
