//! Checks of a file on the local disk: reading its table of checksums, and checking every byte.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use uuid::Uuid;

use crate::segment::{
    checksum::table::{ChecksumTable, TableParse},
    file_error::{Damage, SegmentFileError},
};

/// Reads the table of a file; `None` if it has none.
pub(crate) fn read_table(file: &mut File, segment: Uuid) -> Result<Option<ChecksumTable>, SegmentFileError> {
    let size = file.metadata()?.len();
    let mut from = ChecksumTable::guess(size);
    loop {
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        Read::by_ref(file).take(size - from).read_to_end(&mut end)?;
        match ChecksumTable::parse(&end, size, segment)? {
            TableParse::Complete(checksums) => return Ok(Some(checksums)),
            TableParse::Absent => return Ok(None),
            // The position only ever decreases.
            TableParse::NeedsFrom(earlier) if earlier < from => from = earlier,
            TableParse::NeedsFrom(_) => return Err(Damage::new("its end is cut off").into()),
        }
    }
}

/// Checks every byte of a file. `root` is the root in the catalog, if it has one; the file must then have the table
/// with that root. Returns the table; `None` if neither the file nor the catalog has one.
pub(crate) fn check_file(
    path: &Path,
    segment: Uuid,
    root: Option<u32>,
) -> Result<Option<ChecksumTable>, SegmentFileError> {
    let mut file = File::open(path)?;
    let checksums = read_table(&mut file, segment)?;
    let Some(checksums) = check_root(checksums, root)? else { return Ok(None) };
    file.seek(SeekFrom::Start(0))?;
    let mut position = 0;
    while position < checksums.size {
        let range = checksums.widen(&(position..(position + (1 << 20)).min(checksums.size)));
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(range.end - range.start).read_to_end(&mut bytes)?;
        if bytes.len() as u64 != range.end - range.start {
            return Err(Damage::new("it became shorter while it was read").into());
        }
        checksums.check(range.start, &bytes)?;
        position = range.end;
    }
    Ok(Some(checksums))
}

/// Compares the table of a file with the root in the catalog.
pub(crate) fn check_root(checksums: Option<ChecksumTable>, root: Option<u32>) -> Result<Option<ChecksumTable>, Damage> {
    match (&checksums, root) {
        (None, Some(_)) => Err(Damage::new("the table of its checksums is missing")),
        (Some(found), Some(root)) if found.root != root => {
            Err(Damage::new("its checksums are not those that the catalog has"))
        }
        _ => Ok(checksums),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails should fail where it fails")]
mod tests {
    use super::*;
    use std::io::Write;

    use crate::segment::checksum::{table::PARQUET, writer::ChecksumWriter};

    /// A file of so many bytes of data, and a footer that only has its form.
    fn file(dir: &Path, data: usize, id: Uuid) -> (std::path::PathBuf, u32) {
        let path = dir.join("file");
        let mut writer = ChecksumWriter::new(Vec::new());
        let bytes: Vec<u8> = (0..data).map(|i| (i * 31 % 251) as u8).collect();
        let (early, late) = bytes.split_at(data / 2);
        writer.write_all(early).unwrap();
        writer.hold();
        writer.write_all(late).unwrap();
        writer.write_all(b"what the footer says").unwrap();
        writer.write_all(&20_u32.to_le_bytes()).unwrap();
        writer.write_all(&PARQUET).unwrap();
        let (bytes, root) = writer.finish(id).unwrap();
        std::fs::write(&path, bytes).unwrap();
        (path, root)
    }

    #[test]
    fn every_changed_bit_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let id = Uuid::new_v4();
        for data in [4, 4095, 4096, 4097, 9000] {
            let (path, root) = file(dir.path(), data, id);
            let good = std::fs::read(&path).unwrap();
            assert_eq!(good[data - 1], ((data - 1) * 31 % 251) as u8);
            assert_eq!(check_file(&path, id, Some(root)).unwrap().unwrap().root, root);
            assert_eq!(check_file(&path, id, None).unwrap().unwrap().root, root);
            let step = if data > 100 { 41 } else { 1 };
            for bit in (0..good.len() * 8).step_by(step) {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, &bad).unwrap();
                assert!(
                    matches!(check_file(&path, id, Some(root)), Err(SegmentFileError::Damaged(_))),
                    "bit {bit} of {data}"
                );
            }
            for length in [0, 3, 11, good.len() / 2, good.len() - 1] {
                std::fs::write(&path, &good[..length]).unwrap();
                assert!(
                    matches!(check_file(&path, id, Some(root)), Err(SegmentFileError::Damaged(_))),
                    "{length} of {data}"
                );
            }
            std::fs::write(&path, &good).unwrap();
            assert!(check_file(&path, Uuid::new_v4(), Some(root)).is_err(), "another segment's file");
            assert!(check_file(&path, id, Some(root ^ 1)).is_err(), "another file of the segment");
        }
    }

    #[test]
    fn ranges_are_widened_to_what_has_a_checksum() {
        let dir = tempfile::tempdir().unwrap();
        let id = Uuid::new_v4();
        let (path, _) = file(dir.path(), 10_000, id);
        let bytes = std::fs::read(&path).unwrap();
        let checksums = read_table(&mut File::open(&path).unwrap(), id).unwrap().unwrap();
        let size = bytes.len() as u64;
        let table = 10_000..size - 28;
        for (range, wide) in [
            (0..1, 0..4096),
            (4095..4097, 0..8192),
            (8192..10_000, 8192..10_000),
            (9_999..10_001, 8192..table.end),
            (size - 8..size, table.end..size),
            (5..5, 5..5),
            (1..size, 0..size),
        ] {
            assert_eq!(checksums.widen(&range), wide, "{range:?}");
            checksums.check(wide.start, &bytes[wide.start as usize..wide.end as usize]).unwrap();
        }
        assert!(checksums.check(1, &bytes[1..4096]).is_err());
        assert!(checksums.check(0, &bytes[..100]).is_err());
    }
}
