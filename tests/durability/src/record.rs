//! The record of a process, as `tidegate-recorder` wrote it.
//!
//! Its form is described there. A record may end in the middle of an entry, because the process was killed.

use std::{io, path::Path, sync::Arc};

/// A file operation, or a mark of the workload.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A file was opened for writing, and made if it was not there.
    Open {
        inode: u64,
        truncated: bool,
        path: String,
    },
    Write {
        inode: u64,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// A file was cut or extended to this length.
    Cut {
        inode: u64,
        length: u64,
    },
    SyncBegin {
        sync: u64,
        inode: u64,
    },
    SyncEnd {
        sync: u64,
        done: bool,
    },
    Rename {
        from: String,
        to: String,
    },
    Unlink(String),
    MakeFolder {
        inode: u64,
        path: String,
    },
    RemoveFolder(String),
    /// An operation that failed and changed nothing.
    Failed,
    Mark(String),
}

/// Reads a record.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Event>> {
    let bytes = std::fs::read(path)?;
    let mut rest = bytes.as_slice();
    let mut events = Vec::new();
    while let Some((&[tag, a, b, c, d], more)) = rest.split_first_chunk::<5>() {
        let Some((body, more)) = more.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize) else { break };
        let event = event(tag, body).ok_or_else(|| {
            let body = String::from_utf8_lossy(body.get(..200).unwrap_or(body));
            io::Error::other(format!("an entry that is not understood: {} {body}", char::from(tag)))
        })?;
        events.push(event);
        rest = more;
    }
    Ok(events)
}

fn event(tag: u8, body: &[u8]) -> Option<Event> {
    let number = |at: usize| Some(u64::from_le_bytes(body.get(at * 8..at * 8 + 8)?.try_into().ok()?));
    let text = |numbers: usize| Some(String::from_utf8_lossy(body.get(numbers * 8..)?).into_owned());
    let pair = || {
        let text = text(0)?;
        text.split_once('\0').map(|(from, to)| (from.to_owned(), to.to_owned()))
    };
    Some(match tag {
        b'o' => Event::Open { inode: number(0)?, truncated: number(1)? != 0, path: text(2)? },
        b'w' => Event::Write { inode: number(0)?, offset: number(1)?, bytes: body.get(16..)?.into() },
        b't' => Event::Cut { inode: number(0)?, length: number(1)? },
        b's' => Event::SyncBegin { sync: number(0)?, inode: number(1)? },
        b'S' => Event::SyncEnd { sync: number(0)?, done: number(1)? != 0 },
        b'r' => pair().map(|(from, to)| Event::Rename { from, to })?,
        b'u' => Event::Unlink(text(0)?),
        b'm' => Event::MakeFolder { inode: number(0)?, path: text(1)? },
        b'd' => Event::RemoveFolder(text(0)?),
        b'x' => Event::Failed,
        b'!' => Event::Mark(text(0)?),
        _ => return None,
    })
}

/// An entry of a record.
pub(crate) fn entry(tag: u8, numbers: &[u64], bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(numbers.len() * 8 + bytes.len()).unwrap_or(u32::MAX);
    let mut entry = vec![tag];
    entry.extend(length.to_le_bytes());
    numbers.iter().for_each(|number| entry.extend(number.to_le_bytes()));
    entry.extend(bytes);
    entry
}

/// The entry of a mark.
pub(crate) fn mark(text: &str) -> Vec<u8> {
    entry(b'!', &[], text.as_bytes())
}
