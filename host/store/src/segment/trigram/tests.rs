//! An index leaves out no granule that has a text, and leaves out most of the others.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails should fail where it fails")]

use std::collections::BTreeMap;

use datafusion::arrow::array::StringViewArray;
use proptest::prelude::*;
use tidegate_model::TextCondition;

use super::{
    GRANULE_ROWS,
    builder::TrigramIndexBuilder,
    directory::{IndexPlace, Layout, VERSION, chunk_range},
    search::{Search, chunks, granules},
};

/// An index of groups of texts, as a file of which it is all.
fn index(groups: &[Vec<Option<String>>], group_rows: usize) -> (IndexPlace, Vec<u8>) {
    let mut builder = TrigramIndexBuilder::new(group_rows);
    for group in groups {
        // In batches of any length.
        for texts in group.chunks(1_000) {
            builder.add(Some(&StringViewArray::from_iter(texts)), |_| false);
        }
        builder.end_group();
    }
    let (granules, bytes) = builder.finish().unwrap().unwrap();
    let place = IndexPlace { version: VERSION, column: "m".to_owned(), start: 0, bytes: bytes.len() as u64, granules };
    (place, bytes)
}

fn look_up(place: &IndexPlace, bytes: &[u8], condition: &TextCondition) -> Option<Vec<bool>> {
    let layout = Layout::of(place.granules).unwrap();
    let search = Search::of(condition, "m")?;
    let chunks: BTreeMap<usize, &[u8]> = chunks(&search, &layout)
        .into_iter()
        .map(|chunk| {
            let range = chunk_range(place, &layout, &bytes[..layout.directory_bytes()], chunk).unwrap();
            (chunk, &bytes[range.start as usize..range.end as usize])
        })
        .collect();
    Some(granules(&search, place, &layout, &chunks).unwrap())
}

fn has(part: &str) -> TextCondition {
    TextCondition::Contains { column: "m".to_owned(), part: part.to_owned() }
}

/// Whether a condition holds for a text.
fn holds(condition: &TextCondition, text: &str) -> bool {
    match condition {
        TextCondition::All(parts) => parts.iter().all(|part| holds(part, text)),
        TextCondition::Any(parts) => parts.iter().any(|part| holds(part, text)),
        TextCondition::Contains { part, .. } => text.to_ascii_lowercase().contains(&part.to_ascii_lowercase()),
    }
}

fn condition() -> impl Strategy<Value = TextCondition> {
    let part = prop_oneof!["[a-cA-C ]{1,6}", "[äöa]{1,4}"].prop_map(|part| has(&part));
    part.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..3).prop_map(TextCondition::All),
            proptest::collection::vec(inner, 0..3).prop_map(TextCondition::Any),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_granule_with_a_text_is_left_out(
        lengths in proptest::collection::vec(1_usize..6_000, 1..5),
        texts in proptest::collection::vec(proptest::option::of("[a-cA-Cäö ]{0,12}"), 1..40),
        group_rows in prop_oneof![Just(usize::MAX), 1_000_usize..5_000],
        conditions in proptest::collection::vec(condition(), 1..8),
    ) {
        // A text stays the same for 700 rows, so that granules differ.
        let of_row = |row: usize| texts[row / 700 % texts.len()].clone();
        let mut start = 0;
        let groups: Vec<Vec<Option<String>>> = lengths
            .iter()
            .map(|rows| {
                start += rows;
                (start - rows..start).map(of_row).collect()
            })
            .collect();
        let (place, bytes) = index(&groups, group_rows);
        // What the writer makes of it: row groups of at most so many rows, cut into granules.
        let granules: Vec<&[Option<String>]> = groups
            .iter()
            .flat_map(|group| group.chunks(group_rows.min(group.len())))
            .flat_map(|group| group.chunks(GRANULE_ROWS))
            .collect();
        prop_assert_eq!(granules.len(), place.granules);
        for condition in conditions {
            let Some(found) = look_up(&place, &bytes, &condition) else { continue };
            for (granule, found) in granules.iter().zip(found) {
                let matches = granule.iter().flatten().any(|text| holds(&condition, text));
                prop_assert!(found || !matches, "{condition:?} {granule:?}");
            }
        }
    }
}

#[test]
fn a_rare_text_is_found_where_it_is() {
    let mut groups: Vec<Vec<Option<String>>> = vec![Vec::new(), Vec::new()];
    for row in 0..100_000_u64 {
        let noise = row.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let rare = if row == 70_000 { " order not found" } else { "" };
        groups[usize::from(row >= 50_000)].push(Some(format!("GET 200 {noise:016x} /rest/v1/items{rare}")));
    }
    let (place, bytes) = index(&groups, 131_072);
    assert_eq!(place.granules, 50);
    let found = look_up(&place, &bytes, &has("order NOT")).unwrap();
    let places: Vec<usize> = found.iter().enumerate().filter(|(_, found)| **found).map(|(place, _)| place).collect();
    assert_eq!(places, [25 + 20_000 / GRANULE_ROWS]);
    assert!(look_up(&place, &bytes, &has("/rest/v1")).unwrap().iter().all(|found| *found));
    assert!(look_up(&place, &bytes, &has("ab")).is_none());
    // About 8 KiB for each granule before it is compressed.
    assert!(bytes.len() < 200_000, "{}", bytes.len());
}

#[test]
fn bytes_that_are_no_index_are_damage() {
    let texts = (0..20_000).map(|row| Some(format!("text {row}"))).collect();
    let (place, bytes) = index(&[texts], 1 << 17);
    let layout = Layout::of(place.granules).unwrap();
    let search = Search::of(&has("text"), "m").unwrap();
    let directory = vec![0xff; layout.directory_bytes()];
    assert!(chunk_range(&place, &layout, &directory, 0).is_err());
    assert!(chunk_range(&place, &layout, &bytes[..10], 5).is_err());
    for chunk in [&b""[..], b"no chunk", &bytes[layout.directory_bytes()..][..4]] {
        let chunks: BTreeMap<usize, &[u8]> = chunks(&search, &layout).into_iter().map(|of| (of, chunk)).collect();
        assert!(granules(&search, &place, &layout, &chunks).is_err());
    }
}
