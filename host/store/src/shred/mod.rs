//! Shredding: JSON events to Arrow columns in one pass, which extends the schema of the source as it goes.
//!
//! [`shredder`] is the entry: events in, one record batch and perhaps a grown schema out. [`walk`] visits one
//! event, [`value_class`] classifies a JSON value, [`leaf_values`] appends scalars and lists of scalars,
//! [`record_column`] builds columns of records, [`batch_cost`] counts what the batch costs, [`limits`] bounds the
//! schema, [`misfits`] counts fields whose values are often of another kind.
//!
//! Uses: `ingest` (the tape of an event), `schema`, `arrays`, `overflow`.

pub(crate) mod batch_cost;
pub(crate) mod leaf_values;
pub(crate) mod limits;
pub(crate) mod misfits;
pub(crate) mod record_column;
pub(crate) mod sender;
pub(crate) mod shredder;
pub(crate) mod value_class;
pub(crate) mod walk;
