//! JSON as a tree, with its memory counted before it is made.

use serde_json::Value;

use super::stream::{self, Shallow, Size, Tree};
use crate::rows::{Row, RowError};

/// The longest text that is read as JSON.
const MAX_TEXT: usize = 4 << 20;
/// Texts up to so many bytes make no tree that is worth counting.
pub(super) const COUNTED_FROM: usize = 4 << 10;

pub(super) fn bounded(text: &str) -> Result<(), RowError> {
    if text.len() > MAX_TEXT {
        return Err(RowError::Limit(format!("a text of more than {} MiB is not read as JSON", MAX_TEXT >> 20)));
    }
    Ok(())
}

/// Counts what the tree of a text will take.
pub(super) fn counted(row: &Row, text: &str) -> Result<(), RowError> {
    bounded(text)?;
    if text.len() < COUNTED_FROM {
        return Ok(());
    }
    row.hold(stream::whole(text, Size).unwrap_or_default())
}

/// The JSON that a text is, if it is one, as a tree that is counted until the row is done.
pub(super) fn tree(row: &Row, text: &str) -> Result<Option<Value>, RowError> {
    counted(row, text)?;
    Ok(stream::whole(text, Tree))
}

/// The JSON that the first argument is, if it is one.
pub(super) fn parsed(row: &Row) -> Result<Option<Value>, RowError> {
    tree(row, row.text(0))
}

/// The same where only a scalar is wanted: lists and objects are empty.
pub(super) fn shallow(row: &Row) -> Result<Option<Value>, RowError> {
    bounded(row.text(0))?;
    Ok(stream::whole(row.text(0), Shallow))
}
