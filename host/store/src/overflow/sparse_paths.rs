//! The paths of a batch or segment whose columns were removed because they were nearly empty.
//!
//! The list is stored in the metadata of the Arrow schema, and with it in the segment. Readers look into the overflow
//! for these paths although the source has a column for them.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
};

use datafusion::arrow::datatypes::Schema;
use serde_json::Value;

/// The key in the metadata of an Arrow schema under which the pointers are listed, as a JSON array.
pub(crate) const METADATA_KEY: &str = "tidegate.sparse";

/// Pointers of removed columns. They contain no index of arrays.
#[derive(Debug, Default)]
pub(crate) struct SparsePaths(BTreeSet<String>);

impl SparsePaths {
    /// The paths that the metadata of a schema lists.
    pub(crate) fn of_schema(schema: &Schema) -> SparsePaths {
        let listed = schema.metadata().get(METADATA_KEY);
        SparsePaths(listed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
    }

    /// Whether this pointer or one below it is among them.
    pub(crate) fn has_at_or_below(&self, pointer: &str) -> bool {
        if self.0.contains(pointer) {
            return true;
        }
        let below = format!("{pointer}/");
        let first = self.0.range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded)).next();
        first.is_some_and(|first| first.starts_with(&below))
    }

    /// Whether this pointer itself is among them.
    pub(crate) fn has(&self, pointer: &str) -> bool {
        self.0.contains(pointer)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The metadata that lists these paths.
    pub(crate) fn metadata(&self) -> HashMap<String, String> {
        if self.0.is_empty() {
            return HashMap::new();
        }
        let listed = Value::from(self.0.iter().cloned().collect::<Vec<_>>()).to_string();
        HashMap::from([(METADATA_KEY.to_owned(), listed)])
    }

    pub(crate) fn into_paths(self) -> BTreeSet<String> {
        self.0
    }

    pub(crate) fn insert(&mut self, pointer: String) {
        self.0.insert(pointer);
    }

    pub(crate) fn extend(&mut self, other: &SparsePaths) {
        self.0.extend(other.0.iter().cloned());
    }
}
