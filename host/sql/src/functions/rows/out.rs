//! What a row makes, and how much that may be.

use datafusion::error::{DataFusionError, Result};
use tidegate_model::{Code, Failure};

use crate::engine::memory::Transient;
use crate::engine::planning::is_at_hand;

/// The most bytes of one text, or of one array.
pub(in crate::functions) const MAX_VALUE: usize = 16 << 20;
/// The most bytes that one call makes for a batch of rows.
pub(in crate::functions) const MAX_BATCH: usize = 64 << 20;
/// What an element of an array counts for, beside its text.
pub(super) const ELEMENT: usize = 16;

/// While a statement is planned, less: a folded value stays in the plan, and many small ones must not add up.
const MAX_FOLDED: usize = 4 << 10;

/// Why a row has no value.
#[derive(Debug)]
pub(in crate::functions) enum Bad {
    /// The arguments have no result: an error, or NULL where safe.
    Value(String),
    /// A limit: always an error.
    Limit(String),
    /// There is no memory: always an error.
    Memory(Box<Failure>),
}

impl From<Failure> for Bad {
    fn from(failure: Failure) -> Self {
        Self::Memory(Box::new(failure))
    }
}

impl From<String> for Bad {
    fn from(message: String) -> Self {
        Self::Value(message)
    }
}

impl From<&str> for Bad {
    fn from(message: &str) -> Self {
        Self::Value(message.to_owned())
    }
}

impl From<std::fmt::Error> for Bad {
    fn from(_: std::fmt::Error) -> Self {
        too_long()
    }
}

/// A row's result: a value, NULL, or why there is none.
pub(in crate::functions) type Made<T> = std::result::Result<Option<T>, Bad>;

fn too_long() -> Bad {
    Bad::Limit(format!(
        "a function would make too much: a text or array has at most {} MiB, those of a batch of rows at most {} MiB together; make shorter ones, or fewer",
        MAX_VALUE >> 20,
        MAX_BATCH >> 20
    ))
}

/// Stops what would take too much for a batch of rows.
pub(in crate::functions) fn check_batch(bytes: usize) -> Result<()> {
    match too_long() {
        Bad::Limit(message) if bytes > MAX_BATCH => Err(limit(message)),
        _ => Ok(()),
    }
}

pub(in crate::functions) fn limit(message: impl Into<String>) -> DataFusionError {
    crate::fail::failed(Failure::new(Code::LimitExceeded, message))
}

/// Where a row's text, bytes or elements are written.
#[derive(Debug)]
pub(in crate::functions) struct Out {
    pub(super) row: Vec<u8>,
    /// What the rows before made, and how much all may make.
    pub(super) made: usize,
    most: usize,
    pub(super) most_row: usize,
    /// The elements, until they are an array.
    elements: Transient,
}

impl Out {
    pub(super) fn new(rows: usize) -> Self {
        let most_row = if is_at_hand() { MAX_FOLDED } else { MAX_VALUE };
        // What is made for one row stands for all of `rows`, where the call is constant.
        Self { row: Vec::new(), made: 0, most: MAX_BATCH / rows.max(1), most_row, elements: Transient::default() }
    }

    /// Makes sure of room for `more` bytes, so that they can be made at once.
    pub(in crate::functions) fn room(&mut self, more: usize) -> std::result::Result<(), Bad> {
        let row = self.row.len().saturating_add(more);
        if row > self.most_row || self.made.saturating_add(row) > self.most {
            return Err(too_long());
        }
        Ok(())
    }

    pub(in crate::functions) fn bytes(&mut self, bytes: &[u8]) -> std::result::Result<(), Bad> {
        self.room(bytes.len())?;
        self.row.extend_from_slice(bytes);
        Ok(())
    }

    pub(in crate::functions) fn text(&mut self, text: &str) -> std::result::Result<(), Bad> {
        self.bytes(text.as_bytes())
    }

    /// A text so many times.
    pub(in crate::functions) fn repeated(&mut self, text: &str, times: usize) -> std::result::Result<(), Bad> {
        self.room(text.len().saturating_mul(times))?;
        self.row.extend_from_slice(text.repeat(times).as_bytes());
        Ok(())
    }

    pub(in crate::functions) fn char(&mut self, c: char) -> std::result::Result<(), Bad> {
        self.text(c.encode_utf8(&mut [0; 4]))
    }

    /// Writes JSON.
    pub(in crate::functions) fn json(
        &mut self,
        value: &serde_json::Value,
        pretty: bool,
    ) -> std::result::Result<(), Bad> {
        let written = if pretty {
            serde_json::to_writer_pretty(&mut *self, value)
        } else {
            serde_json::to_writer(&mut *self, value)
        };
        // Writing fails for lack of room alone.
        written.map_err(|_| too_long())
    }

    pub(in crate::functions) fn len(&self) -> usize {
        self.row.len()
    }

    /// What the row has so far.
    pub(in crate::functions) fn so_far(&self) -> &[u8] {
        &self.row
    }

    pub(in crate::functions) fn truncate(&mut self, len: usize) {
        self.row.truncate(len);
    }

    pub(super) fn take(&mut self) -> &[u8] {
        self.made = self.made.saturating_add(self.row.len());
        &self.row
    }

    /// Counts an element of an array.
    fn element(&mut self, size: usize) -> std::result::Result<(), Bad> {
        // Its text is a text of its own until it is copied into the array.
        self.elements.grow(size.saturating_add(2 * size_of::<Item>()))?;
        let size = size.saturating_add(ELEMENT);
        self.room(size)?;
        self.made += size;
        Ok(())
    }
}

impl std::fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.text(text).map_err(|_| std::fmt::Error)
    }
}

impl std::io::Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes(bytes).map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The element of a list that a kernel makes.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::functions) enum Item {
    Text(String),
    Int(i64),
    Float(f64),
    Null,
}

/// The elements of a row's array.
#[derive(Debug)]
pub(in crate::functions) struct Items<'a> {
    pub(super) out: &'a mut Out,
    pub(super) items: &'a mut Vec<Item>,
    pub(super) room: usize,
}

impl Items<'_> {
    pub(in crate::functions) fn push(&mut self, item: Item) -> std::result::Result<(), Bad> {
        let size = match &item {
            Item::Text(text) => text.len(),
            _ => 0,
        };
        self.room = match self.room.checked_sub(size + ELEMENT) {
            Some(room) => room,
            None => return Err(too_long()),
        };
        self.out.element(size)?;
        self.items.push(item);
        Ok(())
    }

    pub(in crate::functions) fn text(&mut self, text: &str) -> std::result::Result<(), Bad> {
        self.push(Item::Text(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_bounded_before_it_is_made() {
        let mut out = Out::new(1);
        assert!(out.room(MAX_VALUE).is_ok());
        assert!(matches!(out.room(MAX_VALUE + 1), Err(Bad::Limit(_))));
        assert!(out.room(usize::MAX).is_err());
        for _ in 0..MAX_BATCH / MAX_VALUE {
            out.row.clear();
            assert!(out.room(MAX_VALUE).is_ok());
            out.made += MAX_VALUE;
        }
        assert!(out.text("x").is_err());
    }
}
