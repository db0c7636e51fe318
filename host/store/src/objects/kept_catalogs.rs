//! Which copies of the catalog a store of objects has, and which segments one of them may still name.
//!
//! Whoever recovers takes the newest whole copy. So a segment may be deleted there only when all copies that are kept were
//! taken after it was dropped. Copies are compared by the number of the snapshot of which they were made, in this process;
//! copies that were there before have the number 0.

use std::collections::HashMap;

use uuid::Uuid;

use crate::objects::catalog_object::CatalogName;

/// So many copies are kept: the newest one, and others for the case that it is damaged.
pub(crate) const KEPT: usize = 3;

/// The copies that are there, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct KeptCatalogs {
    /// Whether it is known which ones were there before.
    is_listed: bool,
    /// The copies with the numbers of their snapshots, oldest first.
    copies: Vec<(CatalogName, u64)>,
    /// Snapshots that were begun.
    snapshots: u64,
    /// The last copy that was put or tried.
    last_number: u64,
    /// The snapshot of the last copy, if it is not known whether it was put.
    unsure: Option<u64>,
    /// Segments and sources that are to be deleted, with the first snapshot that was begun after they were dropped.
    waiting: HashMap<Uuid, u64>,
}

impl KeptCatalogs {
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Notes the copies that are there.
    pub(crate) fn listed(&mut self, names: impl IntoIterator<Item = CatalogName>) {
        for name in names {
            if !self.copies.iter().any(|(known, _)| *known == name) {
                self.copies.push((name, 0));
            }
        }
        self.copies.sort();
        self.is_listed = true;
    }

    /// Begins a snapshot; returns its number. What is dropped from now on may be in it.
    pub(crate) fn begin(&mut self) -> u64 {
        self.snapshots += 1;
        self.snapshots
    }

    /// The number of the next copy to put. While it is not known whether one was put, that one.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number + u64::from(self.unsure.is_none())
    }

    /// It is not known whether the copy with the next number was put.
    pub(crate) fn not_known(&mut self, snapshot: u64) {
        self.last_number = self.next_number();
        self.unsure = Some(self.unsure.map_or(snapshot, |earlier| earlier.min(snapshot)));
    }

    /// There is a copy with the next number: the one of which that was not known.
    pub(crate) fn was_there(&mut self, epoch: u64) {
        let snapshot = self.unsure.unwrap_or(0);
        self.put(epoch, snapshot);
    }

    /// The copy with the next number was put.
    pub(crate) fn put(&mut self, epoch: u64, snapshot: u64) {
        let number = self.next_number();
        self.copies.push((CatalogName { epoch, number }, snapshot));
        self.copies.sort();
        (self.last_number, self.unsure) = (number, None);
    }

    /// The copies that are not needed any more.
    pub(crate) fn superfluous(&self) -> Vec<CatalogName> {
        self.copies.iter().rev().skip(KEPT).map(|(name, _)| *name).collect()
    }

    pub(crate) fn deleted(&mut self, names: &[CatalogName]) {
        self.copies.retain(|(name, _)| !names.contains(name));
    }

    /// Of what was dropped, given by segment and source, that which no copy names. The rest waits.
    pub(crate) fn deletable(&mut self, dropped: &[(Uuid, Uuid)]) -> Vec<(Uuid, Uuid)> {
        let (oldest, next) = (self.oldest(), self.snapshots + 1);
        let is_gone = |(id, _): &&(Uuid, Uuid)| *self.waiting.entry(*id).or_insert(next) <= oldest;
        dropped.iter().filter(is_gone).copied().collect()
    }

    pub(crate) fn forget(&mut self, deleted: &[(Uuid, Uuid)]) {
        for (id, _) in deleted {
            self.waiting.remove(id);
        }
    }

    /// Whether something waits for newer copies.
    pub(crate) fn is_awaited(&self) -> bool {
        let oldest = self.oldest();
        self.waiting.values().any(|first| *first > oldest)
    }

    /// The oldest snapshot of which there is a copy. Where there is none, nothing names a segment.
    fn oldest(&self) -> u64 {
        if !self.is_listed {
            return 0;
        }
        let known = self.copies.iter().map(|(_, snapshot)| *snapshot);
        known.chain(self.unsure).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_waits_until_no_copy_names_it() {
        let dropped = |n: u128| (Uuid::from_u128(n), Uuid::from_u128(1000 + n));
        let mut kept = KeptCatalogs::default();
        assert_eq!(kept.deletable(&[dropped(1)]), [], "it is not known what is there");
        kept.listed([2, 1].map(|number| CatalogName { epoch: 1, number }));
        assert!(kept.is_awaited());
        // A snapshot that began before the segment was dropped may name it.
        let early = kept.begin();
        assert_eq!(kept.deletable(&[dropped(2)]), []);
        kept.put(2, early);
        for number in 2..=4 {
            assert_eq!(kept.deletable(&[dropped(2)]), [], "{number}");
            let snapshot = kept.begin();
            assert_eq!(kept.next_number(), number);
            kept.put(2, snapshot);
            let old = kept.superfluous();
            kept.deleted(&old);
        }
        assert_eq!(kept.deletable(&[dropped(1), dropped(2), dropped(3)]), [dropped(1), dropped(2)]);
        assert!(kept.is_awaited());
        kept.forget(&[dropped(1), dropped(2), dropped(3)]);
        assert!(!kept.is_awaited());
    }

    #[test]
    fn a_copy_of_which_it_is_not_known_whether_it_was_put_counts() {
        let segment = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut kept = KeptCatalogs::default();
        kept.listed([]);
        let early = kept.begin();
        kept.not_known(early);
        assert_eq!(kept.deletable(&[segment]), []);
        let late = kept.begin();
        kept.not_known(late);
        assert_eq!((kept.next_number(), kept.deletable(&[segment]).len()), (1, 0));
        kept.was_there(1);
        assert_eq!(kept.next_number(), 2);
        assert_eq!(kept.deletable(&[segment]), []);
        for _ in 0..KEPT {
            let snapshot = kept.begin();
            kept.put(1, snapshot);
        }
        let old = kept.superfluous();
        assert_eq!(old, [CatalogName { epoch: 1, number: 1 }]);
        assert_eq!(kept.deletable(&[segment]), []);
        kept.deleted(&old);
        assert_eq!(kept.deletable(&[segment]), [segment]);
    }
}
