//! Segments that are read without a catalog: by a process that does not own the data folder.
//!
//! Whoever plans a scan has the catalog. Whoever runs it needs of each segment only its place, its length and the root of
//! its checksums, which come with the plan as a [`SegmentName`]. The file must be the one that was named: its length and
//! root are compared before anything is read of it, and every byte afterwards is checked against the table with that
//! root. So a file that was replaced, cut or damaged is an error and never another answer.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tidegate_model::{Code, Failure};
use uuid::Uuid;

use crate::{
    data_folder::paths,
    error::{Result, StoreError},
    scan::{description::SegmentName, held_segments::HeldSegments},
    segment::{
        checksum::file::{check_root, read_table},
        file_error::{Damage, SegmentFileError},
        handle::Segment,
    },
};

/// The most segments that stay known between tasks: some hundred bytes each.
const MOST_KNOWN: usize = 16_384;

/// Why a segment cannot be read, in words without paths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Its file is missing, damaged, or another one.
    #[error("segment {segment} cannot be read: {reason}")]
    Damaged {
        /// The segment.
        segment: Uuid,
        /// What is wrong with it.
        reason: String,
    },
    /// It cannot be read now, for a reason that may pass.
    #[error("segment {segment} cannot be read now: {reason}; try again later")]
    Unavailable {
        /// The segment.
        segment: Uuid,
        /// What refused.
        reason: String,
    },
}

impl SegmentError {
    fn of(segment: Uuid, error: &SegmentFileError) -> SegmentError {
        let reason = error.reason();
        match error.is_damage() {
            true => SegmentError::Damaged { segment, reason },
            false => SegmentError::Unavailable { segment, reason },
        }
    }

    /// The failure of a statement that needs the segment: the same as when a scan finds it.
    pub fn failure(&self) -> Failure {
        let (code, segment) = match self {
            SegmentError::Damaged { segment, .. } => (Code::DataDamaged, segment),
            SegmentError::Unavailable { segment, .. } => (Code::DataUnavailable, segment),
        };
        Failure::new(code, self.to_string()).about(&*segment.to_string())
    }
}

/// Where segments are read without a catalog. Nothing is written there, and no lock is taken: the process that owns the
/// folder keeps the files that somebody was told to read.
#[derive(Debug)]
pub struct SegmentFiles {
    data: PathBuf,
    known: Mutex<KnownSegments>,
}

impl SegmentFiles {
    /// The segments of a data folder.
    ///
    /// # Errors
    /// [`StoreError::Io`] if there is no such folder.
    pub fn folder(data: &Path) -> Result<SegmentFiles> {
        let what = || format!("opening the data folder {}", data.display());
        let data = data.canonicalize().map_err(StoreError::io(what()))?;
        Ok(SegmentFiles { data, known: Mutex::default() })
    }

    /// Segments by their names. Of each file, length and root of checksums are compared with the name; they stay known,
    /// and later only the length is looked at.
    ///
    /// # Errors
    /// For the first segment that cannot be read or is another one.
    pub async fn hold(&self, names: impl IntoIterator<Item = SegmentName>) -> Result<HeldSegments, SegmentError> {
        let data = self.data.clone();
        let named: Vec<_> = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            names.into_iter().map(|name| (known.get(&name), name)).collect()
        };
        let Some(first) = named.first().map(|(_, name)| name.id) else { return Ok(HeldSegments::default()) };
        let open =
            move || named.into_iter().map(|(known, name)| opened(&data, &name, known)).collect::<Result<Vec<_>, _>>();
        let opened = tokio::task::spawn_blocking(open)
            .await
            .map_err(|error| SegmentError::Unavailable { segment: first, reason: error.to_string() })??;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        opened.iter().for_each(|segment| known.insert(segment));
        Ok(HeldSegments::new(opened))
    }
}

/// The segment with this name, after its file was looked at. `known` is the same, if its checksums were compared before.
fn opened(data: &Path, name: &SegmentName, known: Option<Arc<Segment>>) -> Result<Arc<Segment>, SegmentError> {
    let SegmentName { source, id, bytes, rows, checksum } = *name;
    let path = paths::source_folder(data, source).join(paths::segment_file(id));
    let look = || -> Result<Arc<Segment>, SegmentFileError> {
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        if length != bytes {
            return Err(Damage::new(format!("its file has {length} bytes, and {bytes} were named")).into());
        }
        if let Some(known) = known {
            return Ok(known);
        }
        check_root(read_table(&mut file, id)?, checksum)?;
        let rows = usize::try_from(rows).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        Ok(Arc::new(Segment::of_file(source, id, path.clone(), bytes, rows, checksum)))
    };
    look().map_err(|error| {
        tracing::error!(segment = %id, path = %path.display(), %error, "a segment cannot be read");
        SegmentError::of(id, &error)
    })
}

/// Segments whose checksums were compared, and when each was asked for last.
#[derive(Debug, Default)]
struct KnownSegments {
    by_id: HashMap<Uuid, (u64, Arc<Segment>)>,
    by_use: BTreeMap<u64, Uuid>,
    uses: u64,
}

impl KnownSegments {
    /// A segment that is known by this name and was not found to be damaged since.
    fn get(&mut self, name: &SegmentName) -> Option<Arc<Segment>> {
        let segment = Arc::clone(&self.by_id.get(&name.id)?.1);
        if SegmentName::of(&segment) != *name || segment.damage().is_some() {
            return None;
        }
        self.insert(&segment);
        Some(segment)
    }

    fn insert(&mut self, segment: &Arc<Segment>) {
        self.uses += 1;
        self.by_use.insert(self.uses, segment.id);
        if let Some((before, _)) = self.by_id.insert(segment.id, (self.uses, Arc::clone(segment))) {
            self.by_use.remove(&before);
        }
        if self.by_id.len() > MOST_KNOWN
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_id.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_were_asked_for_last_stay_known() {
        let mut known = KnownSegments::default();
        let segment = |n: usize| {
            let (id, path) = (Uuid::from_u128(n as u128), PathBuf::from("/none"));
            Arc::new(Segment::of_file(Uuid::nil(), id, path, 100, 10, Some(7)))
        };
        let name = |n: usize| SegmentName::of(&segment(n));
        for n in 0..MOST_KNOWN {
            known.insert(&segment(n));
        }
        assert!(known.get(&name(0)).is_some());
        known.insert(&segment(MOST_KNOWN));
        assert!(known.get(&name(0)).is_some() && known.get(&name(1)).is_none());
        assert!(known.get(&SegmentName { checksum: Some(8), ..name(2) }).is_none());
        if let Some(segment) = known.get(&name(3)) {
            segment.note_damage("it is gone");
        }
        assert!(known.get(&name(3)).is_none());
        assert_eq!((known.by_id.len(), known.by_use.len()), (MOST_KNOWN, MOST_KNOWN));
    }
}
