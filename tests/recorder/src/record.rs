//! The form of the record: a sequence of entries, each appended by one write.
//!
//! An entry is a tag (1 byte), the length of the rest (4 bytes), and the rest: numbers of 8 bytes, then bytes to the
//! end. Numbers are little-endian. Paths are relative to the root; two paths are separated by a zero byte.
//!
//! | Tag | Entry | Numbers | Bytes |
//! |---|---|---|---|
//! | `o` | a file was opened for writing | inode, 1 if it was truncated | path |
//! | `w` | bytes were written | inode, offset | the bytes |
//! | `t` | a file was cut or extended | inode, length | |
//! | `s` | a sync of a file or folder begins | number of the sync, inode | |
//! | `S` | it ended | number of the sync, 1 if it succeeded | |
//! | `r` | renamed | | path, path |
//! | `l` | linked | | path, path |
//! | `u` | unlinked | | path |
//! | `m` | a folder was made | inode | path |
//! | `d` | a folder was removed | | path |
//! | `x` | an operation failed and changed nothing | error | tag and path |
//! | `?` | an operation that is not understood | | name |
//! | `!` | a mark of the program itself, which it appends to the file | | text |

pub(crate) const OPEN: u8 = b'o';
pub(crate) const WRITE: u8 = b'w';
pub(crate) const CUT: u8 = b't';
pub(crate) const SYNC_BEGIN: u8 = b's';
pub(crate) const SYNC_END: u8 = b'S';
pub(crate) const RENAME: u8 = b'r';
pub(crate) const LINK: u8 = b'l';
pub(crate) const UNLINK: u8 = b'u';
pub(crate) const MAKE_FOLDER: u8 = b'm';
pub(crate) const REMOVE_FOLDER: u8 = b'd';
pub(crate) const FAILED: u8 = b'x';
pub(crate) const UNKNOWN: u8 = b'?';

/// The bytes of an entry.
pub(crate) fn entry(tag: u8, numbers: &[u64], bytes: &[&[u8]]) -> Vec<u8> {
    let length = numbers.len() * 8 + bytes.iter().map(|part| part.len()).sum::<usize>();
    let mut entry = Vec::with_capacity(length + 5);
    entry.push(tag);
    entry.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    numbers.iter().for_each(|number| entry.extend(number.to_le_bytes()));
    bytes.iter().for_each(|part| entry.extend(*part));
    entry
}
