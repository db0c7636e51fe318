//! Which worker reads which segment.
//!
//! Rendezvous hashing: each worker has a score for a segment, and the highest one reads it. A segment goes to the same
//! worker as long as that worker is there, so that what the worker keeps of it (footer, bytes) is of use again. When a
//! worker leaves, only its own segments go to others.

use std::sync::Arc;

use uuid::Uuid;

/// The place of the worker that reads a segment; `None` if there are no workers.
pub(crate) fn worker_of(workers: &[Arc<str>], segment: &Uuid) -> Option<usize> {
    let scored = workers.iter().enumerate().map(|(place, name)| (score(name, segment), name, place));
    scored.max().map(|(_, _, place)| place)
}

/// The score of a worker for a segment. All coordinators must compute the same one, of whatever version: FNV-1a over the
/// name and the id, mixed by the last steps of SplitMix64, because close inputs give close sums.
fn score(worker: &str, segment: &Uuid) -> u64 {
    let bytes = worker.bytes().chain([0]).chain(*segment.as_bytes());
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|n| format!("worker-{n}").into()).collect()
    }

    #[test]
    fn segments_are_shared_out_evenly() {
        let workers = names(4);
        let mut counts = [0; 4];
        for n in 0..4000_u128 {
            counts[worker_of(&workers, &Uuid::from_u128(n << 40)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn only_the_segments_of_a_worker_that_left_go_to_others() {
        let (all, mut left) = (names(5), names(5));
        left.remove(2);
        for n in 0..1000 {
            let segment = Uuid::from_u128(n);
            let (before, after) = (worker_of(&all, &segment).unwrap(), worker_of(&left, &segment).unwrap());
            assert!(before == 2 || all[before] == left[after]);
        }
        assert_eq!(worker_of(&[], &Uuid::nil()), None);
    }

    /// Coordinators of other versions compute the same.
    #[test]
    fn the_score_does_not_change() {
        assert_eq!(score("worker-1", &Uuid::from_u128(7)), 0xc647_c60b_1049_802f);
    }
}
