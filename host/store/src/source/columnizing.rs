//! What happens to committed calls before a query comes: they become batches of columns, and small batches are joined. What
//! is not joined by then is sorted for the query.

use std::sync::{Arc, atomic::Ordering};

use crate::{
    error::{Result, StoreError},
    memory::{joining, mem_batch::MemBatch},
    source::{Lists, Source},
};

impl Source {
    /// How many rows are not shredded yet.
    pub(crate) fn raw_rows(&self) -> usize {
        self.lists().raw_size.rows
    }

    /// Shreds the raw calls ahead of the next query, and joins batches while there are many.
    pub(crate) fn columnize(&self) -> Result<()> {
        self.shred(&mut self.shape())?;
        while self.join_some()? {}
        Ok(())
    }

    /// Sorts the batches in memory that are as they came, for a query. The caller holds the lock of the schema, so that no more
    /// of them come.
    pub(super) fn sort(&self) -> Result<()> {
        let as_they_came: Vec<Arc<MemBatch>> = {
            let lists = self.lists();
            lists.flushing.iter().chain(&lists.memory).filter(|batch| !batch.is_sorted).cloned().collect()
        };
        for batch in as_they_came {
            let sorted = batch.sorted().map_err(|error| StoreError::corrupt(self.memory_name(), error))?;
            let mut lists = self.lists();
            let Lists { memory, flushing, .. } = &mut *lists;
            // It may be joined or flushed by now.
            if let Some(place) = memory.iter_mut().chain(flushing).find(|place| Arc::ptr_eq(place, &batch)) {
                self.unflushed.fetch_add(sorted.held(), Ordering::Relaxed);
                self.unflushed.fetch_sub(batch.held(), Ordering::Relaxed);
                *place = Arc::new(sorted);
            }
        }
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
