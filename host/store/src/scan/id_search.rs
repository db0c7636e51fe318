//! Which row groups of a file may have the ids that a query demands, by the filters that the file has of its ids.
//!
//! The engine's reader knows these filters too. It looks at them when a file is open, which takes a third of a
//! millisecond, and reads them as a whole: 32 KiB of each row group. An id is in one block of 32 bytes. So the blocks are
//! looked up before the file is opened, and most files never are: where they lie stays with the segment
//! ([`search_places`](crate::segment::search_places)).

use std::{collections::HashMap, ops::Range, sync::Arc};

use bytes::Bytes;
use datafusion::{
    datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess},
    error::Result,
    logical_expr::{Expr, Operator, expr::InList},
    scalar::ScalarValue,
};
use parquet::{arrow::async_reader::AsyncFileReader, bloom_filter::Sbbf};

use crate::{
    arrays::packed_uuids::packed,
    field_names::ID,
    schema::{
        kind::{Kind, Scalar},
        shape::Shape,
    },
    segment::search_places::SearchPlaces,
};

/// The most ids of a search. With more of them, most row groups have one.
const MOST_IDS: usize = 64;

/// Bytes of a block of a filter.
const BLOCK: usize = 32;

/// The most bytes of a filter; a row group has some 2^14 rows, whose filter has 2^15 bytes.
const MOST_FILTER_BYTES: usize = 1 << 20;

/// The ids that a query demands: only rows that have one of them are wanted. It is attached to the files of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdSearch(Arc<[String]>);

impl IdSearch {
    /// What the conditions of a scan demand together; `None` if they demand no id, or too many.
    pub(crate) fn of(filters: &[Expr], shape: &Shape) -> Option<IdSearch> {
        fewest(filters.iter().filter_map(demanded)).and_then(|ids| IdSearch::of_ids(ids, shape))
    }

    /// For rows that have one of these ids; `None` if filters cannot tell, or for too many ids.
    pub(crate) fn of_ids(ids: Vec<String>, shape: &Shape) -> Option<IdSearch> {
        // Values of a mixed path are also in the overflow, which filters do not cover.
        let is_text = matches!(shape.fields.get(ID), Some(Kind::Scalar { ty: Scalar::Text, mixed: false, .. }));
        (is_text && ids.len() <= MOST_IDS).then(|| IdSearch(ids.into()))
    }

    /// The ids.
    pub(crate) fn ids(&self) -> &[String] {
        &self.0
    }

    /// The access plan without row groups that have none of the ids; `None` if none is left.
    pub(crate) async fn pruned(
        &self,
        reader: &mut (dyn AsyncFileReader + Send),
        places: &SearchPlaces,
        before: Option<&ParquetAccessPlan>,
    ) -> Result<Option<ParquetAccessPlan>> {
        let count = places.rows.len();
        let mut access = match before {
            Some(before) if before.len() == count => before.inner().to_vec(),
            Some(before) => return Ok(Some(before.clone())),
            None => vec![RowGroupAccess::Scan; count],
        };
        // Of a file of packed ids, no other text is an id.
        let ids: Vec<Vec<u8>> = match places.has_packed_ids {
            true => self.0.iter().filter_map(|id| Some(packed(id)?.to_vec())).collect(),
            false => self.0.iter().map(|id| id.clone().into_bytes()).collect(),
        };
        if ids.is_empty() {
            return Ok(None);
        }
        let mut layouts = Layouts::of(&ids);
        let known = places.known_headers.get_or_try_init(|| known_headers(reader, places, &mut layouts)).await?;
        let (mut asked, mut ranges) = (Vec::new(), Vec::new());
        for ((filter, is_known), access) in places.id_filters.iter().zip(known).zip(&mut access) {
            let Some(filter) = filter.as_ref().filter(|_| *is_known && access.should_scan()) else { continue };
            let Some(layout) = layouts.of_filter(filter) else { continue };
            ranges.extend(layout.blocks(filter.start));
            asked.push(access);
        }
        let read = reader.get_byte_ranges(ranges).await?;
        let mut read = read.as_slice();
        for access in asked {
            let Some((blocks, rest)) = read.split_at_checked(ids.len()) else { break };
            read = rest;
            if !may_have(blocks, &ids) {
                *access = RowGroupAccess::Skip;
            }
        }
        let is_read = access.iter().any(RowGroupAccess::should_scan);
        Ok(is_read.then(|| ParquetAccessPlan::new(access)))
    }
}

/// Reads of each row group's filter whether its header is that of its layout. It is read once for a file.
async fn known_headers(
    reader: &mut (dyn AsyncFileReader + Send),
    places: &SearchPlaces,
    layouts: &mut Layouts<'_>,
) -> Result<Vec<bool>> {
    let (mut expected, mut ranges) = (Vec::new(), Vec::new());
    for filter in &places.id_filters {
        let header = filter.as_ref().and_then(|filter| {
            let header = layouts.of_filter(filter)?.header.clone();
            ranges.push(filter.start..filter.start + header.len() as u64);
            Some(header)
        });
        expected.push(header);
    }
    let mut read = reader.get_byte_ranges(ranges).await?.into_iter();
    Ok(expected.into_iter().map(|header| header.is_some_and(|header| read.next() == Some(header))).collect())
}

/// The layouts of filters, by their lengths: those of a source have a few lengths.
struct Layouts<'a> {
    ids: &'a [Vec<u8>],
    known: HashMap<u64, Option<Layout>>,
}

impl Layouts<'_> {
    fn of(ids: &[Vec<u8>]) -> Layouts<'_> {
        Layouts { ids, known: HashMap::new() }
    }

    /// The layout of a filter that has these bytes of the file; `None` if there is none with such a length.
    fn of_filter(&mut self, filter: &Range<u64>) -> Option<&Layout> {
        let length = filter.end.saturating_sub(filter.start);
        let ids = self.ids;
        let layout = self.known.entry(length).or_insert_with(|| Layout::of(usize::try_from(length).ok()?, ids));
        layout.as_ref()
    }
}

/// How a filter of some length lies in the file: a header, then its blocks.
#[derive(Debug)]
struct Layout {
    header: Bytes,
    /// The number of the block of each id.
    blocks: Vec<usize>,
}

impl Layout {
    /// The layout of filters of so many bytes, header included; `None` if there is none with such a length. The library
    /// that writes filters does not tell which block a value is in. So it writes one with this value only.
    fn of(length: usize, ids: &[Vec<u8>]) -> Option<Layout> {
        // The header is shorter than a block. If that changes, the lengths differ.
        let bytes = length / BLOCK * BLOCK;
        if bytes == 0 || length > MOST_FILTER_BYTES {
            return None;
        }
        let empty = Sbbf::new(&vec![0; bytes]);
        let mut written = Vec::with_capacity(length);
        empty.write(&mut written).ok()?;
        if written.len() != length {
            return None;
        }
        let header = Bytes::copy_from_slice(written.get(..length - bytes)?);
        let block = |id: &Vec<u8>| {
            let mut filter = empty.clone();
            filter.insert(id);
            written.clear();
            filter.write_bitset(&mut written).ok()?;
            Some(written.iter().position(|byte| *byte != 0)? / BLOCK)
        };
        let blocks = ids.iter().map(block).collect::<Option<_>>()?;
        Some(Layout { header, blocks })
    }

    /// What is read of a filter that begins at `start`: the block of each id.
    fn blocks(&self, start: u64) -> impl Iterator<Item = Range<u64>> {
        let first = start + self.header.len() as u64;
        self.blocks.iter().map(move |number| {
            let start = first + (number * BLOCK) as u64;
            start..start + BLOCK as u64
        })
    }
}

/// Whether a row group may have one of the ids, by the block of each.
fn may_have(blocks: &[Bytes], ids: &[Vec<u8>]) -> bool {
    // In a filter of one block, every value is in that.
    blocks.iter().zip(ids).any(|(block, id)| block.len() != BLOCK || Sbbf::new(block).check(id))
}

/// The shortest of several lists of ids, one of which all wanted rows have.
fn fewest(lists: impl Iterator<Item = Vec<String>>) -> Option<Vec<String>> {
    lists.min_by_key(Vec::len).filter(|ids| ids.len() <= MOST_IDS)
}

/// The ids one of which a row has for which the expression is true; `None` if it may have any.
fn demanded(expr: &Expr) -> Option<Vec<String>> {
    match expr {
        Expr::BinaryExpr(binary) => {
            let (left, right) = (&binary.left, &binary.right);
            match binary.op {
                Operator::And => fewest([demanded(left), demanded(right)].into_iter().flatten()),
                Operator::Or => {
                    let mut ids = demanded(left)?;
                    ids.extend(demanded(right)?);
                    (ids.len() <= MOST_IDS).then_some(ids)
                }
                Operator::Eq => equal(left, right).or_else(|| equal(right, left)),
                _ => None,
            }
        }
        Expr::InList(InList { expr, list, negated: false }) if list.len() <= MOST_IDS => {
            let ids = list.iter().map(|value| equal(expr, value)).collect::<Option<Vec<_>>>()?;
            Some(ids.concat())
        }
        _ => None,
    }
}

fn equal(column: &Expr, value: &Expr) -> Option<Vec<String>> {
    match (column, value) {
        (
            Expr::Column(column),
            Expr::Literal(ScalarValue::Utf8(value) | ScalarValue::Utf8View(value) | ScalarValue::LargeUtf8(value), _),
        ) if column.name == ID => {
            // Nothing equals NULL.
            Some(value.iter().cloned().collect())
        }
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn conditions_demand_ids() {
        let list = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        let id = || col("id");
        for (condition, expected) in [
            (id().eq(lit("a")), list(&["a"])),
            (lit("a").eq(id()), list(&["a"])),
            (id().eq(lit("a")).and(col("n").gt(lit(1))), list(&["a"])),
            (id().eq(lit("a")).or(col("n").gt(lit(1))), None),
            (id().eq(lit("a")).or(id().eq(lit("b"))), list(&["a", "b"])),
            (id().in_list(vec![lit("a"), lit("b")], false), list(&["a", "b"])),
            (id().in_list(vec![lit("a"), lit("b")], true), None),
            (id().in_list(vec![lit("a"), lit("b")], false).and(id().eq(lit("c"))), list(&["c"])),
            (id().eq(lit(ScalarValue::Utf8(None))), list(&[])),
            (id().not_eq(lit("a")), None),
            (id().gt(lit("a")), None),
            (col("other").eq(lit("a")), None),
            (id().eq(col("other")), None),
            (id().eq(lit("a")).is_not_true(), None),
        ] {
            assert_eq!(demanded(&condition), expected, "{condition}");
        }
        assert_eq!(demanded(&id().in_list((0..65).map(|n| lit(n.to_string())).collect(), false)), None);
    }

    #[test]
    fn a_block_tells_what_its_filter_tells() {
        let ids: Vec<Vec<u8>> = (0..64).map(|number| format!("id-{number}").into_bytes()).collect();
        for blocks in [1, 2, 8, 1024] {
            let mut filter = Sbbf::new(&vec![0; blocks * BLOCK]);
            for id in ids.iter().step_by(2) {
                filter.insert(id);
            }
            let mut file = vec![7; 5];
            filter.write(&mut file).unwrap();
            let file = Bytes::from(file);
            let length = file.len() - 5;
            for id in &ids {
                let id = std::slice::from_ref(id);
                let layout = Layout::of(length, id).unwrap();
                assert_eq!(file.slice(5..5 + layout.header.len()), layout.header);
                let read: Vec<Bytes> =
                    layout.blocks(5).map(|range| file.slice(range.start as usize..range.end as usize)).collect();
                assert_eq!(may_have(&read, id), filter.check(id.first().unwrap()), "{blocks} {id:?}");
            }
            assert!(Layout::of(length + 1, &ids).is_none());
            assert!(Layout::of(blocks * BLOCK, &ids).is_none());
        }
    }
}
