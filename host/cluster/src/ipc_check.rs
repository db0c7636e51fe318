//! What a message of Arrow IPC may say of the values in its body.
//!
//! The reader of the format allocates what a compressed buffer says of its length, and makes arrays as long as the message
//! says where their type has no bytes of its own. A failed allocation ends the process. So these numbers are compared with
//! the bytes that are there, before the reader sees them.

use datafusion::arrow::ipc::RecordBatch;

use crate::bounds::MAX_BARE_VALUES;

/// Whether a message says nothing that its body of so many bytes does not have.
///
/// # Errors
/// What it says, of the values.
pub(crate) fn bounded(batch: RecordBatch<'_>, body: usize) -> Result<(), &'static str> {
    // Nothing is sent compressed.
    if batch.compression().is_some() {
        return Err("they are compressed");
    }
    let body = u64::try_from(body).unwrap_or(u64::MAX);
    // Buffers may be copied, each of them: together they are no longer than the body.
    let mut left = body;
    for buffer in batch.buffers().into_iter().flatten() {
        let (Ok(from), Ok(length)) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length())) else {
            return Err("they lie outside of their bytes");
        };
        if from.checked_add(length).is_none_or(|end| end > body) {
            return Err("they lie outside of their bytes");
        }
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return Err("they have more bytes than came"),
        }
    }
    // A value takes a bit at least, except NULLs without a type and records without fields.
    let most = body.saturating_mul(8).max(MAX_BARE_VALUES);
    let mut nodes = batch.nodes().into_iter().flatten();
    if nodes.all(|node| u64::try_from(node.length()).is_ok_and(|length| length <= most)) {
        Ok(())
    } else {
        Err("there are more of them than bytes")
    }
}
