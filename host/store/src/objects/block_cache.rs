//! Blocks on disk, up to a bound; least recently used goes.
//!
//! ```text
//! FOLDER/lock                            held by the process that uses the folder
//! FOLDER/blocks-SIZE/SEGMENT-NUMBER      a block
//! FOLDER/blocks-SIZE/SEGMENT-NUMBER.tmp  a block that is being written
//! ```
//!
//! Nothing here must survive: nothing is synced, and the folder may be deleted at any time. After a crash a block may have
//! any content. Who reads checks that, and has the blocks forgotten and fetched again. What cannot be written or read
//! is only not in the cache.

use std::{
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::SystemTime,
};

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    data_folder::{lock::lock, page_cache, paths::list_folder, private::create_private_folder},
    error::{Result, StoreError},
    objects::{
        block_index::{BlockIndex, BlockKey},
        counters::{Counters, add},
    },
};

/// Blocks of objects on disk.
#[derive(Debug)]
pub(crate) struct BlockCache {
    folder: PathBuf,
    pub(crate) block_bytes: u64,
    index: Mutex<BlockIndex>,
    counters: Arc<Counters>,
    _lock: File,
}

/// The name of a block's file.
fn name(key: &BlockKey) -> String {
    format!("{}-{}", key.segment, key.number)
}

/// The block with a name.
fn named(name: &str) -> Option<BlockKey> {
    let (segment, number) = name.rsplit_once('-')?;
    let key = BlockKey { segment: Uuid::parse_str(segment).ok()?, number: number.parse().ok()? };
    (self::name(&key) == name).then_some(key)
}

impl BlockCache {
    /// The cache in a folder, which is created if it is missing, with the blocks that are in it. Other blocks than those
    /// of this size are deleted.
    ///
    /// # Errors
    /// [`StoreError::Io`]; [`StoreError::Locked`] if another process uses the folder.
    pub(crate) fn open(
        folder: &Path,
        most_bytes: u64,
        block_bytes: u64,
        counters: Arc<Counters>,
    ) -> Result<BlockCache> {
        create_private_folder(folder)?;
        let lock = lock(folder)?;
        let blocks = folder.join(format!("blocks-{block_bytes}"));
        let is_other = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            *path != blocks && name.is_some_and(|name| name.starts_with("blocks-"))
        };
        for other in list_folder(folder)?.into_iter().filter(is_other) {
            fs::remove_dir_all(&other).map_err(StoreError::io(format!("deleting {}", other.display())))?;
        }
        create_private_folder(&blocks)?;
        let mut found: Vec<(SystemTime, BlockKey, u64)> = Vec::new();
        for path in list_folder(&blocks)? {
            let key = path.file_name().and_then(|name| named(name.to_str()?));
            match (key, fs::metadata(&path)) {
                (Some(key), Ok(file)) if file.is_file() && file.len() <= block_bytes => {
                    found.push((file.modified().unwrap_or(SystemTime::UNIX_EPOCH), key, file.len()));
                }
                // What a crash left.
                (None, Ok(file)) if file.is_file() => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        found.sort_unstable();
        let cache = BlockCache {
            folder: blocks,
            block_bytes,
            index: Mutex::new(BlockIndex::new(most_bytes)),
            counters,
            _lock: lock,
        };
        for (_, key, bytes) in found {
            let gone = cache.index().reserve(key, bytes);
            cache.index().written(&key);
            gone.unwrap_or_else(|| vec![key]).iter().for_each(|gone| cache.delete(gone));
        }
        cache.count();
        Ok(cache)
    }

    fn index(&self) -> MutexGuard<'_, BlockIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, key: &BlockKey) -> PathBuf {
        self.folder.join(name(key))
    }

    fn count(&self) {
        self.counters.cached_bytes.store(self.index().bytes(), Ordering::Relaxed);
    }

    fn delete(&self, key: &BlockKey) {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path(key).display(), %error, "a block stays in the cache of segments");
            }
            _ => {}
        }
    }

    /// Whether a block is there.
    pub(crate) fn has(&self, key: &BlockKey) -> bool {
        self.index().has(key)
    }

    /// The file of a block that has `length` bytes.
    fn file(&self, key: &BlockKey, length: u64) -> Option<File> {
        let file = File::open(self.path(key)).ok()?;
        let is_whole = file.metadata().is_ok_and(|file| file.len() == length);
        is_whole.then_some(file)
    }

    /// Parts of a block that has `length` bytes, if the kernel has them in memory: this does not wait for the disk.
    pub(crate) fn read_now(&self, key: &BlockKey, length: u64, parts: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let read = page_cache::read(&self.file(key, length)?, parts)?;
        self.index().touch(key);
        Some(read)
    }

    /// Parts of a block that has `length` bytes. `None`, and the block is no longer there, if it cannot be read.
    pub(crate) fn read(&self, key: &BlockKey, length: u64, parts: &[Range<u64>]) -> Option<Vec<Bytes>> {
        let read =
            self.file(key, length).and_then(|file| parts.iter().map(|part| read_part(&file, part).ok()).collect());
        match read {
            Some(read) => {
                self.index().touch(key);
                Some(read)
            }
            None => {
                self.forget_blocks(&[*key]);
                None
            }
        }
    }

    /// Writes a block.
    pub(crate) fn write(&self, key: BlockKey, bytes: &[u8]) {
        let Some(gone) = self.index().reserve(key, bytes.len() as u64) else { return };
        add(&self.counters.evicted, gone.len() as u64);
        gone.iter().for_each(|gone| self.delete(gone));
        let temporary = self.folder.join(format!("{}.tmp", name(&key)));
        let written = File::create(&temporary)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&temporary, self.path(&key)));
        let is_wanted = match &written {
            Ok(()) => self.index().written(&key),
            Err(error) => {
                tracing::warn!(path = %temporary.display(), %error, "a block cannot be written to the cache of segments");
                add(&self.counters.failed_writes, 1);
                let _ = fs::remove_file(&temporary);
                false
            }
        };
        if !is_wanted {
            self.forget_blocks(&[key]);
        }
        self.count();
    }

    fn forget_blocks(&self, keys: &[BlockKey]) {
        for key in keys {
            self.index().remove(key);
            self.delete(key);
        }
        self.count();
    }

    /// Deletes the blocks of a segment.
    pub(crate) fn forget(&self, segment: Uuid) {
        let keys = self.index().of_segment(segment);
        self.forget_blocks(&keys);
    }
}

#[cfg(unix)]
fn read_part(file: &File, part: &Range<u64>) -> io::Result<Bytes> {
    use std::os::unix::fs::FileExt;
    let length = usize::try_from(part.end.saturating_sub(part.start)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, part.start)?;
    Ok(bytes.into())
}

#[cfg(not(unix))]
fn read_part(mut file: &File, part: &Range<u64>) -> io::Result<Bytes> {
    use std::io::{Read, Seek, SeekFrom};
    let length = usize::try_from(part.end.saturating_sub(part.start)).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(part.start))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes.into())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn key(number: u32) -> BlockKey {
        BlockKey { segment: Uuid::from_u128(0xAB), number }
    }

    fn open(folder: &Path, most: u64) -> BlockCache {
        BlockCache::open(folder, most, 8192, Arc::default()).unwrap()
    }

    fn whole(cache: &BlockCache, number: u32) -> Option<Vec<u8>> {
        cache.read(&key(number), 8192, std::slice::from_ref(&(0..8192))).map(|read| read.concat())
    }

    #[test]
    fn blocks_stay_within_the_bound_and_over_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 4 * 8192);
        for number in 0..6 {
            cache.write(key(number), &[number as u8; 8192]);
        }
        assert_eq!(
            (0..6).map(|number| cache.has(&key(number))).collect::<Vec<_>>(),
            [false, false, true, true, true, true]
        );
        assert_eq!(whole(&cache, 3).unwrap(), [3; 8192]);
        assert_eq!(cache.counters.stats(false).cached_bytes, 4 * 8192);
        assert!(matches!(BlockCache::open(folder.path(), 1, 8192, Arc::default()), Err(StoreError::Locked(_))));
        drop(cache);

        // What a crash left, what is not ours, and blocks of another size.
        let blocks = folder.path().join("blocks-8192");
        fs::write(blocks.join(format!("{}-9.tmp", key(9).segment)), [9; 100]).unwrap();
        fs::create_dir(folder.path().join("blocks-4096")).unwrap();
        fs::write(folder.path().join("blocks-4096/x"), [9; 100]).unwrap();
        let cache = open(folder.path(), 2 * 8192);
        assert_eq!(fs::read_dir(&blocks).unwrap().count(), 2);
        assert!(!folder.path().join("blocks-4096").exists());
        assert_eq!(cache.counters.stats(false).cached_bytes, 2 * 8192);
        assert_eq!((0..6).filter(|number| whole(&cache, *number).is_some()).count(), 2);
    }

    #[test]
    fn a_block_that_cannot_be_read_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(folder.path(), 1 << 20);
        let blocks = folder.path().join("blocks-8192");
        for number in 0..4 {
            cache.write(key(number), &[number as u8; 8192]);
        }
        // Cut, and deleted.
        fs::write(blocks.join(name(&key(0))), [0; 5000]).unwrap();
        fs::remove_file(blocks.join(name(&key(1)))).unwrap();
        for number in 0..2 {
            assert!(cache.has(&key(number)) && whole(&cache, number).is_none() && !cache.has(&key(number)));
            cache.write(key(number), &[7; 8192]);
            assert_eq!(whole(&cache, number).unwrap(), [7; 8192]);
        }
        cache.forget(key(0).segment);
        assert_eq!((fs::read_dir(&blocks).unwrap().count(), cache.counters.stats(false).cached_bytes), (0, 0));
        // Without its folder nothing is kept, and nothing else happens.
        fs::remove_dir_all(folder.path()).unwrap();
        cache.write(key(5), &[7; 8192]);
        assert!(!cache.has(&key(5)));
        assert_eq!((cache.counters.stats(false).failed_writes, cache.counters.stats(false).cached_bytes), (1, 0));
    }
}
