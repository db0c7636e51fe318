//! Reading from the page cache without leaving the thread.
//!
//! A read that may wait for the disk is done by another thread, so that a thread that computes never waits. Handing it
//! over and back takes longer than copying what the kernel has in memory, and a query reads each row group by itself. So
//! the kernel is asked for the bytes first, on the condition that it need not wait.

use std::{fs::File, ops::Range};

use bytes::Bytes;

/// The bytes of the ranges, if the kernel has all of them in memory. `None` also where it cannot be asked that, and
/// where the file is shorter or cannot be read: an ordinary read then tells why.
pub(crate) fn read(file: &File, ranges: &[Range<u64>]) -> Option<Vec<Bytes>> {
    ranges.iter().map(|range| read_range(file, range)).collect()
}

#[cfg(target_os = "linux")]
fn read_range(file: &File, range: &Range<u64>) -> Option<Bytes> {
    use std::io::IoSliceMut;

    use rustix::io::{ReadWriteFlags, preadv2};

    let mut bytes = vec![0; usize::try_from(range.end.checked_sub(range.start)?).ok()?];
    let mut filled = 0;
    // The kernel gives a part if the rest is not in memory, or if it was interrupted; the next read tells which.
    while filled < bytes.len() {
        let rest = IoSliceMut::new(bytes.get_mut(filled..)?);
        match preadv2(file, &mut [rest], range.start + filled as u64, ReadWriteFlags::NOWAIT) {
            Ok(read) if read > 0 => filled += read,
            _ => return None,
        }
    }
    Some(Bytes::from(bytes))
}

#[cfg(not(target_os = "linux"))]
fn read_range(_: &File, _: &Range<u64>) -> Option<Bytes> {
    None
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let written: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        std::fs::write(&path, &written).unwrap();
        let file = File::open(&path).unwrap();
        // Whether the file system can be asked is its own matter; what it gives must be right.
        if let Some(read) = read(&file, &[5..5, 0..100_000, 70_000..70_001]) {
            let expected: [&[u8]; 3] = [&[], &written, &[(70_000_u32 % 256) as u8]];
            assert_eq!(read, expected);
        }
        assert!(read(&file, &[0..10, 99_999..100_001]).is_none(), "a range beyond the end");
    }
}
