//! Which granules may have a text for which a condition holds.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_model::TextCondition;

use crate::segment::{
    file_error::Damage,
    trigram::{
        buckets::buckets,
        directory::{IndexPlace, Layout},
    },
};

/// The most trigrams of a condition that are looked up. Each may cost a read.
const MOST_BUCKETS: usize = 48;

/// A condition by the numbers of trigrams, for the column of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Search {
    All(Vec<Search>),
    Any(Vec<Search>),
    Has(u16),
}

impl Search {
    /// The part of a condition that the index of a column can answer; `None` if there is none.
    pub(crate) fn of(condition: &TextCondition, column: &str) -> Option<Search> {
        let share = (MOST_BUCKETS / condition.parts().max(1)).max(1);
        Search::part(condition, column, share)
    }

    /// With at most `share` trigrams for each part of the condition.
    fn part(condition: &TextCondition, column: &str, share: usize) -> Option<Search> {
        match condition {
            TextCondition::All(conditions) => {
                let known: Vec<Search> =
                    conditions.iter().filter_map(|condition| Search::part(condition, column, share)).collect();
                (!known.is_empty()).then_some(Search::All(known))
            }
            TextCondition::Any(conditions) => conditions
                .iter()
                .map(|condition| Search::part(condition, column, share))
                .collect::<Option<_>>()
                .map(Search::Any),
            TextCondition::Contains { column: of, part } if of == column => {
                let buckets = buckets(part);
                // Some of a long text's trigrams, from all of it: numbers are in no order of the text.
                let step = buckets.len().div_ceil(share).max(1);
                let chosen: Vec<Search> = buckets.into_iter().step_by(step).map(Search::Has).collect();
                (!chosen.is_empty()).then_some(Search::All(chosen))
            }
            TextCondition::Contains { .. } => None,
        }
    }

    /// The numbers in it.
    pub(crate) fn buckets(&self) -> BTreeSet<u16> {
        match self {
            Search::All(parts) | Search::Any(parts) => parts.iter().flat_map(Search::buckets).collect(),
            Search::Has(bucket) => BTreeSet::from([*bucket]),
        }
    }

    /// A bit for each granule that may have such a text. `rows` has the row of each number in it.
    fn granules(&self, rows: &BTreeMap<u16, Vec<u8>>, bytes: usize) -> Vec<u8> {
        match self {
            Search::All(parts) => parts.iter().fold(vec![0xff; bytes], |mut all, part| {
                all.iter_mut().zip(part.granules(rows, bytes)).for_each(|(all, part)| *all &= part);
                all
            }),
            Search::Any(parts) => parts.iter().fold(vec![0; bytes], |mut any, part| {
                any.iter_mut().zip(part.granules(rows, bytes)).for_each(|(any, part)| *any |= part);
                any
            }),
            // Of a bucket that was not read, each granule may have the trigram.
            Search::Has(bucket) => rows.get(bucket).cloned().unwrap_or_else(|| vec![0xff; bytes]),
        }
    }
}

/// The chunks that a search reads.
pub(crate) fn chunks(search: &Search, layout: &Layout) -> Vec<usize> {
    let chunks: BTreeSet<usize> = search.buckets().into_iter().map(|bucket| layout.chunk_of(bucket)).collect();
    chunks.into_iter().collect()
}

/// Whether each granule may have a text for which the search holds. `chunks` are the compressed chunks by their
/// numbers.
///
/// # Errors
/// [`Damage`] if a chunk does not have the form of one.
pub(crate) fn granules(
    search: &Search,
    place: &IndexPlace,
    layout: &Layout,
    chunks: &BTreeMap<usize, impl AsRef<[u8]>>,
) -> Result<Vec<bool>, Damage> {
    let wrong = || Damage::new("an index of trigrams is wrong");
    let mut rows = BTreeMap::new();
    let mut wanted = search.buckets().into_iter().peekable();
    for (number, chunk) in chunks {
        let chunk = zstd::bulk::decompress(chunk.as_ref(), layout.chunk_bytes()).map_err(|_| wrong())?;
        while let Some(bucket) = wanted.next_if(|bucket| layout.chunk_of(*bucket) == *number) {
            rows.insert(bucket, chunk.get(layout.row_of(bucket)).ok_or_else(wrong)?.to_vec());
        }
    }
    let bits = search.granules(&rows, layout.row_bytes);
    let is_set = |granule: usize| bits.get(granule / 8).is_none_or(|byte| byte >> (granule % 8) & 1 == 1);
    Ok((0..place.granules).map(is_set).collect())
}
