//! Following a source: its committed calls as they come.

use uuid::Uuid;

use crate::{error::Result, source::following::Feed, store::Store, wal::rows};

impl Store {
    /// The feed of a source: what is committed from now on, and before it, as far as it takes at most `bytes`, what no
    /// segment holds yet. All callers share one feed of a source. Blocks for reading from the catalog.
    ///
    /// # Errors
    /// [`StoreError::UnknownSource`](crate::StoreError::UnknownSource); the catalog cannot be read.
    pub fn feed(&self, source: Uuid, bytes: usize) -> Result<Feed> {
        let source = self.get(source)?;
        source.check()?;
        let key = source.key;
        source.feed(|last| rows::unflushed(&self.catalog.lock(), key, last, bytes))
    }
}
