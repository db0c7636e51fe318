//! What happens to committed calls before a query comes: they become batches of columns, and small batches are joined.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    error::{Result, StoreError},
    memory::{joining, mem_batch::MemBatch},
    source::Source,
};

impl Source {
    /// How many rows are not shredded yet.
    pub(crate) fn raw_rows(&self) -> usize {
        self.lists().raw_size.rows
    }

    /// Shreds the raw calls ahead of the next query, and joins batches while there are many.
    pub(crate) fn settle(&self) -> Result<()> {
        self.shred(&mut self.shape())?;
        while self.join_some()? {}
        Ok(())
    }

    /// Joins some neighbouring batches. Returns whether there may be more to join.
    fn join_some(&self) -> Result<bool> {
        let parts = {
            let lists = self.lists();
            let range = joining::next(&lists.memory);
            range.and_then(|range| lists.memory.get(range)).unwrap_or_default().to_vec()
        };
        let Some(first) = parts.first() else { return Ok(false) };
        let joined = MemBatch::join(&parts);
        let joined = joined.map_err(|error| StoreError::corrupt(self.memory_name(), error))?;
        let mut lists = self.lists();
        let Some(start) = lists.memory.iter().position(|batch| Arc::ptr_eq(batch, first)) else { return Ok(false) };
        let range = start..start + parts.len();
        let stay =
            lists.memory.get(range.clone()).is_some_and(|now| now.iter().zip(&parts).all(|(a, b)| Arc::ptr_eq(a, b)));
        if !stay {
            // A flush has begun with them.
            return Ok(false);
        }
        self.unflushed.fetch_add(joined.held(), Ordering::Relaxed);
        self.unflushed.fetch_sub(parts.iter().map(|part| part.held()).sum(), Ordering::Relaxed);
        lists.memory.splice(range, [Arc::new(joined)]);
        Ok(true)
    }
}
