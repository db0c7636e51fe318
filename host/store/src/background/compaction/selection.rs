//! Which segments of a source are merged next.
//!
//! Segments have sizes in tiers. Neighbours of the same or a smaller tier are merged when there are enough of them, so
//! that each row is written again only a few times, and a source has a bounded number of segments in each tier below
//! the largest. Only neighbours in the order of their write-ahead rows are merged: see the list in `segment`.

use std::{sync::Arc, time::Duration};

use crate::{options::StoreOptions, schema::tenant_path::TenantPath, segment::handle::Segment, source_info::Retention};

/// Tiers below the largest. Each is eight times as large as the one before.
const SMALL_TIERS: u32 = 3;

const TIER_FACTOR: u64 = 8;

/// The most segments that are merged at once.
const MOST_INPUTS: usize = 64;

/// A part of the retention's age: rows of segments whose ages differ by more are not merged, so that retention by age
/// stays about so exact.
const AGE_PARTS: u32 = 32;

/// A part of the retention's bytes: no merged segment is larger, so that retention by bytes stays about so exact.
const BYTE_PARTS: u64 = 16;

/// The limits of a merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeLimits {
    /// Rows of a full segment.
    pub(crate) rows: u64,
    /// Bytes of a full segment.
    pub(crate) bytes: u64,
    /// So many segments are merged at least, unless they make a full one or nothing can be added to them.
    pub(crate) least: usize,
    /// Segments up to this tier are merged with each other, before those of higher tiers.
    first_tier: u32,
    /// The largest difference between the ages of two segments, in microseconds.
    pub(crate) age: i64,
    /// A segment without runs by the path in force that has so many rows is written again with them.
    pub(crate) reorder_rows: usize,
}

impl MergeLimits {
    pub(crate) fn new(options: &StoreOptions, retention: Retention) -> MergeLimits {
        let bytes = retention.max_bytes.map_or(u64::MAX, |bytes| bytes / BYTE_PARTS);
        let age = retention.max_age.map_or(Duration::MAX, |age| age / AGE_PARTS);
        MergeLimits {
            rows: options.compaction_rows as u64,
            bytes: options.compaction_bytes.min(bytes),
            least: options.compaction_fan_in.max(2),
            first_tier: 0,
            age: i64::try_from(age.as_micros()).unwrap_or(i64::MAX),
            reorder_rows: options.run_rows.saturating_mul(2),
        }
    }

    /// The same for a merge of everything that fits together, whatever its size.
    pub(crate) fn at_once(self) -> MergeLimits {
        MergeLimits { least: 2, first_tier: SMALL_TIERS - 1, ..self }
    }

    /// The size of a segment as rows: its rows, or its bytes at the rate of a full segment. At most twice that of a full
    /// one.
    fn size(&self, segment: &Segment) -> u64 {
        let rows = u64::try_from(segment.rows).unwrap_or(u64::MAX);
        let by_bytes = u128::from(segment.bytes) * u128::from(self.rows) / u128::from(self.bytes.max(1));
        rows.max(u64::try_from(by_bytes).unwrap_or(u64::MAX)).clamp(1, self.rows.saturating_mul(2))
    }

    /// The tier of a size, from 0.
    fn tier(&self, size: u64) -> u32 {
        // The largest tier begins at half of a full segment: two of them would not fit into one.
        (0..SMALL_TIERS)
            .find(|tier| size < (self.rows / 2) / TIER_FACTOR.pow(SMALL_TIERS - 1 - tier))
            .unwrap_or(SMALL_TIERS)
    }
}

/// Segments that are neighbours and may be merged with each other, oldest first.
#[derive(Debug)]
pub(crate) struct Neighbours(pub(crate) Vec<Arc<Segment>>);

/// The neighbours among the segments of a source. `may_merge` excludes single segments; `barriers` are ranges of
/// write-ahead rows of segments in the quarantine, across which nothing may be merged.
pub(crate) fn neighbours(
    segments: &[Arc<Segment>],
    may_merge: impl Fn(&Segment) -> bool,
    barriers: &[(i64, i64)],
) -> Vec<Neighbours> {
    let mut sorted: Vec<&Arc<Segment>> = segments.iter().collect();
    // Segments of versions that did not record their write-ahead rows come first, and stay as they are.
    sorted.sort_by_key(|segment| segment.seqs);
    let mut out: Vec<Neighbours> = Vec::new();
    let mut end: Option<i64> = None;
    for segment in sorted {
        let range = segment.seqs.filter(|_| segment.damage().is_none() && may_merge(segment));
        let Some((first, last)) = range else {
            end = None;
            continue;
        };
        let is_next =
            end.is_some_and(|end| end < first && !barriers.iter().any(|(from, to)| *from < first && *to > end));
        match out.last_mut() {
            Some(group) if is_next => group.0.push(Arc::clone(segment)),
            _ => out.push(Neighbours(vec![Arc::clone(segment)])),
        }
        end = Some(last);
    }
    out
}

/// The segments to merge next, oldest first; `None` if nothing is to be done. `tenant_path` is the path by which segments are
/// ordered now.
pub(crate) fn select(
    groups: &[Neighbours],
    limits: &MergeLimits,
    tenant_path: &TenantPath,
) -> Option<Vec<Arc<Segment>>> {
    let is_unordered = |segment: &&Arc<Segment>| {
        let is_ordered = segment.has_runs && segment.tenant_path == *tenant_path;
        !is_ordered && segment.rows >= limits.reorder_rows
    };
    if let Some(segment) = groups.iter().flat_map(|group| &group.0).find(is_unordered) {
        return Some(vec![Arc::clone(segment)]);
    }
    (limits.first_tier..SMALL_TIERS).find_map(|tier| {
        groups.iter().find_map(|group| {
            let mut stretches = group.0.split(|segment| limits.tier(limits.size(segment)) > tier);
            stretches.find_map(|stretch| window(stretch, limits))
        })
    })
}

/// The oldest segments of a stretch that are to be merged.
fn window(stretch: &[Arc<Segment>], limits: &MergeLimits) -> Option<Vec<Arc<Segment>>> {
    let mut rest = stretch;
    while let Some(first) = rest.first() {
        let (mut size, mut count) = (0_u64, 0_usize);
        let (mut youngest, mut oldest) = (first.created_at, first.created_at);
        for segment in rest.iter().take(MOST_INPUTS) {
            let more = size.saturating_add(limits.size(segment));
            (youngest, oldest) = (youngest.max(segment.created_at), oldest.min(segment.created_at));
            if count > 0 && (more > limits.rows || youngest.saturating_sub(oldest) > limits.age) {
                break;
            }
            (size, count) = (more, count + 1);
        }
        // Nothing can be added any more to segments that are followed by one which does not fit.
        let is_closed = count < rest.len();
        if count >= limits.least || (count >= 2 && (is_closed || size >= limits.rows / 2)) {
            return rest.get(..count).map(<[_]>::to_vec);
        }
        rest = rest.get(count.max(1)..).unwrap_or_default();
    }
    None
}
