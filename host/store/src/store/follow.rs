//! Following a source: its committed calls as they come.

use uuid::Uuid;

use crate::{
    error::Result,
    recovery::quarantine,
    scan::{
        followed_table::FollowedTable,
        stored_calls::{StoredCalls, WantedCalls},
    },
    segment::footer,
    source::following::Feed,
    store::Store,
    wal::{numbering, rows},
};

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

    /// The stored rows of calls of a source, as `table` has them. Blocks for reading footers.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn stored_calls(&self, table: &FollowedTable, wanted: WantedCalls) -> Result<StoredCalls> {
        let left_out = numbering::left_out(&self.catalog.lock())?;
        Ok(table.stored(wanted, self.catalog.identity()?, &left_out))
    }

    /// Whether this catalog knows nothing of a call with this number, because it gave it to none: the caller has it from
    /// another catalog, or from commits that were lost. Only numbers of the time before the last start are found so.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn is_foreign_call(&self, call: i64) -> Result<bool> {
        numbering::is_left_out(&self.catalog.lock(), call)
    }

    /// Whether rows of calls after this number may be gone from a source: retention dropped them, or segments of the
    /// source are set aside.
    ///
    /// # Errors
    /// The catalog or the quarantine cannot be read.
    pub fn may_lack_calls(&self, source: Uuid, after: i64) -> Result<bool> {
        if numbering::dropped_up_to(&self.catalog.lock(), source)? > after {
            return Ok(true);
        }
        let catalog = self.catalog.identity()?;
        // Of a file that cannot be read nobody knows which calls it has. Their numbers are no higher than the time at which
        // it was set aside; see `numbering`.
        let has_later = |note: &quarantine::SetAside| {
            let file = quarantine::file(&self.data, note.segment);
            let entry = footer::read(&file, note.segment, None).ok().and_then(|footer| footer.entry);
            match (note.calls, entry) {
                (Some((_, last)), _) => last > after,
                (None, Some(entry)) => entry.catalog == catalog && entry.last_seq > after,
                (None, None) => note.at > after,
            }
        };
        Ok(quarantine::list(&self.data)?.iter().any(|note| note.source == source && has_later(note)))
    }
}
