//! Bounds of the schema of a source.

use std::{collections::BTreeSet, sync::Arc};

/// The longest name of a column, in bytes. Names are in the catalog, in every footer and in every plan. A field with a
/// longer name is stored in the overflow.
pub(crate) const MAX_KEY_BYTES: usize = 128;

/// The bounds of a schema.
#[derive(Debug, Clone)]
pub(crate) struct ShapeLimits {
    /// Fields; see [`StoreOptions::max_fields`](crate::StoreOptions::max_fields).
    pub(crate) fields: usize,
    /// Levels of nesting; see [`StoreOptions::max_depth`](crate::StoreOptions::max_depth).
    pub(crate) depth: usize,
    /// JSON pointers of fields that get a column even if the bound on fields is reached.
    pub(crate) reserved: Arc<BTreeSet<String>>,
    /// The names of the path of the source's first tenant key, if it has one.
    pub(crate) tenant: Option<Arc<[String]>>,
}
