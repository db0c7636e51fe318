//! A copy of the catalog as an object: its name, and its bytes.
//!
//! The name has the epoch of the server that put it and its number in that epoch, so that names in their order are copies
//! in the order of their age. The bytes are the SQLite database as zstd writes it, after a frame that zstd skips
//! (<https://www.rfc-editor.org/rfc/rfc8878#section-3.1.2>) with the [`CatalogHeader`] as JSON and its CRC-32. So `zstd -d`
//! makes the database of it.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use bytes::Bytes;
use object_store::path::Path as ObjectPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The folder of the copies, below the prefix of the address.
pub(crate) const FOLDER: &str = "catalog";

/// What the names of copies end with.
const SUFFIX: &str = ".sqlite.zst";

/// The magic number of a frame that zstd skips.
const SKIPPED: u32 = 0x184d_2a50;

/// A longer header is none of ours: it has some bytes for each source.
const MOST_HEADER_BYTES: usize = 64 << 20;

/// A level that compresses a catalog about as far as higher ones do, in a fraction of their time.
const LEVEL: i32 = 3;

/// The epoch and the number of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CatalogName {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
}

impl CatalogName {
    /// Where the copy is.
    pub(crate) fn place(self, prefix: &ObjectPath) -> ObjectPath {
        let CatalogName { epoch, number } = self;
        prefix.clone().join(FOLDER).join(format!("{epoch:010}-{number:010}{SUFFIX}"))
    }

    /// The epoch and the number of an object that has a name as [`Self::place`] gives it.
    pub(crate) fn of(prefix: &ObjectPath, object: &ObjectPath) -> Option<CatalogName> {
        let (epoch, number) = object.filename()?.strip_suffix(SUFFIX)?.split_once('-')?;
        let name = CatalogName { epoch: epoch.parse().ok()?, number: number.parse().ok()? };
        (name.place(prefix) == *object).then_some(name)
    }
}

/// What a copy says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CatalogHeader {
    /// The identity of the catalog.
    #[serde(with = "crate::uuid_text")]
    pub(crate) catalog: Uuid,
    /// The identity of the data folder that put it, as text; empty in copies of older releases.
    #[serde(default)]
    pub(crate) writer: String,
    /// When the state was read that it has, in microseconds since 1970, UTC.
    pub(crate) taken_at: i64,
    /// The highest number of a call that was acknowledged until then.
    pub(crate) last_seq: i64,
    /// Of each source with calls that no segment held then, by its identity, the number of the first. The events of that and of
    /// later ones were on the disk of the server only. A segment of such calls was written after the copy was taken.
    pub(crate) unflushed: BTreeMap<String, i64>,
    /// Bytes of the database.
    pub(crate) bytes: u64,
    /// The SHA-256 of the database, as hexadecimal digits.
    pub(crate) sha256: String,
}

impl CatalogHeader {
    /// Whether calls of a source, from this number on, were in no segment when the copy was taken.
    pub(crate) fn is_later(&self, source: Uuid, first_seq: i64) -> bool {
        let first = self.unflushed.get(&source.to_string()).copied();
        first_seq >= first.unwrap_or(self.last_seq.saturating_add(1))
    }
}

/// Makes the bytes of an object of a database: the frame with the header, and the compressed database. All of the second is
/// in memory. `header` gives the rest of the header for the length and the digest of the database.
pub(crate) fn pack(database: &Path, header: impl FnOnce(u64, String) -> CatalogHeader) -> io::Result<[Bytes; 2]> {
    let mut file = Digesting { inner: File::open(database)?, digest: Sha256::new(), bytes: 0 };
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    io::copy(&mut file, &mut encoder)?;
    let body = encoder.finish()?;
    let header = header(file.bytes, hex::encode(file.digest.finalize()));
    let header = serde_json::to_vec(&header)?;
    let length = u32::try_from(header.len() + 4).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let sum = crc32fast::hash(&header).to_le_bytes();
    let head = [&SKIPPED.to_le_bytes()[..], &length.to_le_bytes(), &sum, &header].concat();
    Ok([head.into(), body.into()])
}

/// Makes the database of the bytes of an object, at `target`. It is not synced. The inner error says what is wrong with the
/// bytes.
pub(crate) fn unpack(object: &[u8], target: &Path) -> io::Result<Result<CatalogHeader, String>> {
    let Some((header, body)) = split(object) else {
        return Ok(Err("its object does not begin like a copy of a catalog".to_owned()));
    };
    let mut decoder = match zstd::Decoder::with_buffer(body) {
        // Little more is written to the disk than the header says, and the end of the object is read as well.
        Ok(decoder) => decoder.take(header.bytes.saturating_add(1)),
        Err(error) => return Ok(Err(format!("it cannot be decompressed: {error}"))),
    };
    let mut file = File::create(target)?;
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 128 << 10]);
    loop {
        let read = match decoder.read(&mut buffer) {
            Ok(read) => read,
            Err(error) => return Ok(Err(format!("it cannot be decompressed: {error}"))),
        };
        let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
        file.write_all(part)?;
        digest.update(part);
        bytes += part.len() as u64;
    }
    if bytes != header.bytes || hex::encode(digest.finalize()) != header.sha256 {
        return Ok(Err("its digest is not the one that was written with it".to_owned()));
    }
    Ok(Ok(header))
}

/// The header of the bytes of an object; `None` if they do not begin like a copy of a catalog.
pub(crate) fn header(object: &[u8]) -> Option<CatalogHeader> {
    split(object).map(|(header, _)| header)
}

fn split(object: &[u8]) -> Option<(CatalogHeader, &[u8])> {
    let (magic, rest) = object.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= MOST_HEADER_BYTES)?;
    if u32::from_le_bytes(*magic) != SKIPPED {
        return None;
    }
    let (head, body) = rest.split_at_checked(length)?;
    let (sum, header) = head.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*sum) != crc32fast::hash(header) {
        return None;
    }
    Some((serde_json::from_slice(header).ok()?, body))
}

/// A reader that digests what it reads.
struct Digesting<R> {
    inner: R,
    digest: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_of_age() {
        let prefix = ObjectPath::from("logs/a");
        let names = [(1, 1), (1, 2), (1, 10), (2, 1), (10, 1)].map(|(epoch, number)| CatalogName { epoch, number });
        let places = names.map(|name| name.place(&prefix));
        assert!(places.is_sorted() && names.is_sorted());
        for (name, place) in names.iter().zip(&places) {
            assert_eq!(CatalogName::of(&prefix, place), Some(*name));
        }
        assert_eq!(places[0].as_ref(), "logs/a/catalog/0000000001-0000000001.sqlite.zst");
        for other in ["catalog/0000000001-0000000001.sqlite.zst", "logs/a/catalog/1-1.sqlite.zst", "logs/a/catalog/x"] {
            assert_eq!(CatalogName::of(&prefix, &ObjectPath::from(other)), None, "{other}");
        }
    }

    #[test]
    fn no_changed_byte_goes_unnoticed() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let content: Vec<u8> = (0..50_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        std::fs::write(&from, &content).unwrap();
        let header = |bytes, sha256| CatalogHeader {
            catalog: Uuid::from_u128(7),
            writer: String::new(),
            taken_at: 5,
            last_seq: 9,
            unflushed: BTreeMap::new(),
            bytes,
            sha256,
        };
        let [head, body] = pack(&from, header).unwrap();
        let object = [head.as_ref(), body.as_ref()].concat();
        let said = unpack(&object, &to).unwrap().unwrap();
        assert_eq!((said.bytes, said.last_seq, said.catalog), (content.len() as u64, 9, Uuid::from_u128(7)));
        assert_eq!(std::fs::read(&to).unwrap(), content);
        // Any decompressor makes the same of it.
        assert_eq!(zstd::decode_all(object.as_slice()).unwrap(), content);
        for at in (0..object.len()).step_by(1 + object.len() / 300) {
            let mut damaged = object.clone();
            damaged[at] ^= 1;
            assert!(unpack(&damaged, &to).unwrap().is_err(), "{at}");
        }
        for length in [0, 3, 8, head.len(), object.len() / 2, object.len() - 1] {
            assert!(unpack(&object[..length], &to).unwrap().is_err(), "{length}");
        }
    }
}
