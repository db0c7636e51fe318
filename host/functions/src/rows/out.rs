//! What a kernel makes for a row, and the limits on it.

use datafusion::error::{DataFusionError, Result};
use tidegate_model::{Code, Failure};

use crate::context::{Transient, failed, planning};

/// The most bytes of one text, or of one array.
pub(crate) const MAX_VALUE: usize = 16 << 20;
/// The most bytes that one call makes for a batch of rows.
pub(crate) const MAX_BATCH: usize = 64 << 20;
/// Bytes that an element of an array counts for, beside its text.
pub(super) const ELEMENT: usize = 16;

/// The most elements of one generated series.
pub(crate) const MAX_SERIES: u32 = 100_000;

/// The most bytes of a value that is folded while a statement is planned: it stays in the plan, and there may be many.
const MAX_FOLDED: usize = 4 << 10;

/// Why a kernel has no value for a row.
#[derive(Debug)]
pub(crate) enum RowError {
    /// There is no result for the arguments: an error, or NULL where safe.
    Value(String),
    /// A limit of the function was reached: always an error.
    Limit(String),
    /// No memory or no time is left: always an error.
    Failure(Box<Failure>),
}

impl From<Failure> for RowError {
    fn from(failure: Failure) -> Self {
        Self::Failure(Box::new(failure))
    }
}

impl From<String> for RowError {
    fn from(message: String) -> Self {
        Self::Value(message)
    }
}

impl From<&str> for RowError {
    fn from(message: &str) -> Self {
        Self::Value(message.to_owned())
    }
}

impl From<std::fmt::Error> for RowError {
    fn from(_: std::fmt::Error) -> Self {
        too_long()
    }
}

/// What a kernel has for a row: a value, NULL, or an error.
pub(crate) type RowResult<T> = std::result::Result<Option<T>, RowError>;

fn too_long() -> RowError {
    RowError::Limit(format!(
        "a function would make too much: a text or array has at most {} MiB, those of a batch of rows at most {} MiB together; make shorter ones, or fewer",
        MAX_VALUE >> 20,
        MAX_BATCH >> 20
    ))
}

/// Fails if a batch of rows would be made of more bytes than it may.
pub(crate) fn check_batch(bytes: usize) -> Result<()> {
    match too_long() {
        RowError::Limit(message) if bytes > MAX_BATCH => Err(limit(message)),
        _ => Ok(()),
    }
}

pub(crate) fn limit(message: impl Into<String>) -> DataFusionError {
    failed(Failure::new(Code::LimitExceeded, message))
}

/// Where a row's text, bytes or elements are written.
#[derive(Debug)]
pub(crate) struct Out {
    pub(super) row: Vec<u8>,
    /// Bytes that were made for the rows before, and the most for all rows.
    pub(super) made: usize,
    most: usize,
    pub(super) most_row: usize,
    /// The memory of elements, until they are an array.
    elements: Transient,
}

impl Out {
    pub(super) fn new(rows: usize) -> Self {
        let most_row = if planning::is_current() { MAX_FOLDED } else { MAX_VALUE };
        // The result of a constant call is repeated for all of `rows`.
        Self { row: Vec::new(), made: 0, most: MAX_BATCH / rows.max(1), most_row, elements: Transient::default() }
    }

    /// Fails if `more` bytes would exceed a limit, before they are allocated.
    pub(crate) fn room(&mut self, more: usize) -> std::result::Result<(), RowError> {
        let row = self.row.len().saturating_add(more);
        if row > self.most_row || self.made.saturating_add(row) > self.most {
            return Err(too_long());
        }
        Ok(())
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> std::result::Result<(), RowError> {
        self.room(bytes.len())?;
        self.row.extend_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn text(&mut self, text: &str) -> std::result::Result<(), RowError> {
        self.bytes(text.as_bytes())
    }

    /// Writes a text so many times.
    pub(crate) fn repeated(&mut self, text: &str, times: usize) -> std::result::Result<(), RowError> {
        self.room(text.len().saturating_mul(times))?;
        self.row.extend_from_slice(text.repeat(times).as_bytes());
        Ok(())
    }

    pub(crate) fn char(&mut self, c: char) -> std::result::Result<(), RowError> {
        self.text(c.encode_utf8(&mut [0; 4]))
    }

    /// Writes JSON.
    pub(crate) fn json(&mut self, value: &serde_json::Value, pretty: bool) -> std::result::Result<(), RowError> {
        let written = if pretty {
            serde_json::to_writer_pretty(&mut *self, value)
        } else {
            serde_json::to_writer(&mut *self, value)
        };
        // Writing fails at a limit only.
        written.map_err(|_| too_long())
    }

    pub(crate) fn len(&self) -> usize {
        self.row.len()
    }

    /// What was written for the row so far.
    pub(crate) fn so_far(&self) -> &[u8] {
        &self.row
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.row.truncate(len);
    }

    pub(super) fn take(&mut self) -> &[u8] {
        self.made = self.made.saturating_add(self.row.len());
        &self.row
    }

    /// Counts an element of an array.
    fn element(&mut self, size: usize) -> std::result::Result<(), RowError> {
        // The text is allocated by itself until it is copied into the array.
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
pub(crate) enum Item {
    Text(String),
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Null,
}

/// The elements of a row's array.
#[derive(Debug)]
pub(crate) struct Items<'a> {
    pub(super) out: &'a mut Out,
    pub(super) items: &'a mut Vec<Item>,
    pub(super) room: usize,
}

impl Items<'_> {
    pub(crate) fn push(&mut self, item: Item) -> std::result::Result<(), RowError> {
        let size = match &item {
            Item::Text(text) => text.len(),
            Item::Bytes(bytes) => bytes.len(),
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

    pub(crate) fn text(&mut self, text: &str) -> std::result::Result<(), RowError> {
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
        assert!(matches!(out.room(MAX_VALUE + 1), Err(RowError::Limit(_))));
        assert!(out.room(usize::MAX).is_err());
        for _ in 0..MAX_BATCH / MAX_VALUE {
            out.row.clear();
            assert!(out.room(MAX_VALUE).is_ok());
            out.made += MAX_VALUE;
        }
        assert!(out.text("x").is_err());
    }
}
