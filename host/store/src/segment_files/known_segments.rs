//! Segments that stay known between tasks, so that their checksums are not compared again.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use uuid::Uuid;

use crate::{scan::description::SegmentName, segment::handle::Segment};

/// The most segments that stay known: some hundred bytes each.
const MOST_KNOWN: usize = 16_384;

/// Segments whose checksums were compared, and when each was asked for last.
#[derive(Debug, Default)]
pub(super) struct KnownSegments {
    pub(super) by_id: HashMap<Uuid, (u64, Arc<Segment>)>,
    by_use: BTreeMap<u64, Uuid>,
    uses: u64,
}

impl KnownSegments {
    /// A segment that is known by this name and was not found to be damaged since.
    pub(super) fn get(&mut self, name: &SegmentName) -> Option<Arc<Segment>> {
        let segment = Arc::clone(&self.by_id.get(&name.id)?.1);
        if SegmentName::of(&segment) != *name || segment.damage().is_some() {
            return None;
        }
        self.insert(&segment);
        Some(segment)
    }

    pub(super) fn insert(&mut self, segment: &Arc<Segment>) {
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
    use std::path::PathBuf;

    use super::*;
    use crate::segment::handle::SegmentPlace;

    #[test]
    fn segments_that_were_asked_for_last_stay_known() {
        let mut known = KnownSegments::default();
        let segment = |n: usize| {
            let (id, path) = (Uuid::from_u128(n as u128), PathBuf::from("/none"));
            Arc::new(Segment::of_file((Uuid::nil(), id), SegmentPlace::File(path), 100, 10, Some(7)))
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
