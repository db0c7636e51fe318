//! JSON as a tree, with its memory counted before it is made.

use serde_json::Value;

use super::stream::{self, Shallow, Size, Tree};
use crate::rows::{Row, RowError};

/// The longest text that is read as JSON.
const MAX_TEXT: usize = 4 << 20;
/// The trees of shorter texts are not counted.
pub(super) const COUNTED_FROM: usize = 4 << 10;

pub(super) fn bounded(text: &str) -> Result<(), RowError> {
    if text.len() > MAX_TEXT {
        return Err(RowError::Limit(format!("a text of more than {} MiB is not read as JSON", MAX_TEXT >> 20)));
    }
    Ok(())
}

/// Counts the memory of the tree of a text, before it is made.
pub(super) fn counted(row: &Row, text: &str) -> Result<(), RowError> {
    bounded(text)?;
    if text.len() < COUNTED_FROM {
        return Ok(());
    }
    row.hold(stream::whole(text, Size).unwrap_or_default())
}

/// A text as a tree, whose memory counts until the row is done; `None` if it is not JSON.
pub(super) fn tree(row: &Row, text: &str) -> Result<Option<Value>, RowError> {
    counted(row, text)?;
    Ok(stream::whole(text, Tree))
}

/// The first argument as a tree; `None` if it is not JSON.
pub(super) fn parsed(row: &Row) -> Result<Option<Value>, RowError> {
    tree(row, row.text(0))
}

/// The same where only a scalar is needed: lists and objects are empty.
pub(super) fn shallow(row: &Row) -> Result<Option<Value>, RowError> {
    bounded(row.text(0))?;
    Ok(stream::whole(row.text(0), Shallow))
}
