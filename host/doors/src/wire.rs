//! Reads messages of Protocol Buffers field by field.
//!
//! A request is read layer by layer, and an event is decoded only when it is reached. If all were decoded at once,
//! sixteen megabytes of empty records would take gigabytes of memory.

use bytes::{Buf, Bytes};
use tidegate_model::{Code, Failure};

/// Calls `work` with each length-delimited field of a message that has this field number, in order. `what` is
/// the name of the whole message for the sender.
///
/// # Errors
/// [`Code::InvalidBody`] for what is not a message; those of `work`.
pub(crate) fn each(
    what: &str,
    message: &Bytes,
    number: u64,
    work: &mut dyn FnMut(Bytes) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let bad = |reason: &str| bad(what, reason);
    let mut rest = message.clone();
    while !rest.is_empty() {
        let key = varint(&mut rest).map_err(bad)?;
        let skipped = match key & 7 {
            0 => varint(&mut rest).map(|_| 0).map_err(bad)?,
            1 => 8,
            5 => 4,
            2 => {
                let length = usize::try_from(varint(&mut rest).map_err(bad)?).unwrap_or(usize::MAX);
                if length > rest.len() {
                    return Err(bad("a field is longer than the message"));
                }
                let field = rest.split_to(length);
                if key >> 3 == number {
                    work(field)?;
                }
                0
            }
            other => return Err(bad(&format!("there is no wire type {other}"))),
        };
        if skipped > rest.len() {
            return Err(bad("the message breaks off"));
        }
        rest.advance(skipped);
    }
    Ok(())
}

/// The failure of a body that is not such a message.
pub(crate) fn bad(what: &str, reason: &str) -> Failure {
    Failure::new(Code::InvalidBody, format!("the body is no {what} in Protocol Buffers: {reason}"))
}

fn varint(rest: &mut Bytes) -> Result<u64, &'static str> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = rest.try_get_u8().map_err(|_| "the message breaks off")?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err("a number is longer than ten bytes")
}
