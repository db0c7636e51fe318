//! Reading a source as a DataFusion table: the rows of a snapshot, from segments and from memory.
//!
//! [`table`] is the table provider: it prunes segments and batches by what is known of them ([`prune`]), and makes
//! the physical plan: a Parquet scan ([`segment_scan`]) whose files are dealt out to partitions ([`file_groups`] in
//! order, [`chains`], [`split`] evenly), a scan of memory ([`memory_scan`], [`memory_rows`]), and their union
//! ([`source_union`]). [`file_opening`] leaves out parts of a segment when the scan opens it, by the ids
//! ([`id_search`]) and the texts ([`trigram_reader`]) that a query demands, and keeps its schema ([`file_schemas`]),
//! with the one tenant that all rows have which are read ([`sole_tenant`]). Files are read through
//! [`segment_reader`] and [`verified_store`], which checks every byte: what is read at once is in [`read_runs`], and
//! checksums stay in memory ([`kept_checksums`]). Conditions that the reader would lose on some files stay above the
//! scan ([`row_conditions`]). A scan of segments can be made again on another machine from its [`description`]. What
//! is left to read is told by its [`outline`]. [`expr_adapter`] rewrites expressions over the table's schema to
//! expressions over the columns of one file or batch; [`adapted_path`] is the expression for a path that is stored in
//! another form than the table shows, and [`packed_conditions`] are conditions that need not make that form.
//!
//! Where rows are only counted by the value of a column, [`counted_rows`] hands on each value with its count, which
//! [`counting`] reads off a file.
//!
//! Both scans hand on rows newest first where that can be had, and [`tie_order`] those of equal times in the order of their places.
//!
//! [`followed_table`] is a table of new rows. [`stored_calls`] is a table of the rows of some calls, which
//! [`place_order`] puts in the order of their commits.
//!
//! Uses: `objects`, `read_memory`, `schema`, `arrays`, `overflow`, `memory`, `segment`, `source`.

pub(crate) mod adapted_path;
pub(crate) mod chains;
mod condition_value;
pub(crate) mod counted_rows;
pub(crate) mod counting;
pub(crate) mod describe;
pub(crate) mod described_scan;
pub(crate) mod description;
pub(crate) mod expr_adapter;
pub(crate) mod file_groups;
pub(crate) mod file_opening;
pub(crate) mod file_schemas;
pub(crate) mod followed_table;
pub(crate) mod held_segments;
pub(crate) mod id_search;
mod kept_checksums;
pub(crate) mod memory_rows;
pub(crate) mod memory_scan;
pub(crate) mod outline;
pub(crate) mod packed_conditions;
pub(crate) mod place_order;
pub(crate) mod prune;
mod read_runs;
mod row_conditions;
pub(crate) mod segment_file;
pub(crate) mod segment_reader;
pub(crate) mod segment_scan;
mod sole_tenant;
pub(crate) mod source_union;
pub(crate) mod split;
pub(crate) mod stored_calls;
pub(crate) mod table;
pub(crate) mod tie_order;
pub(crate) mod trigram_reader;
pub(crate) mod verified_store;
