//! Counting the values of a column chunk, without making a row of each.
//!
//! A column of few values is a dictionary and a number for each row, of a few bits. A question such as "requests by status" needs
//! of it only how often each number stands there: making rows of them, and finding the same numbers again by looking at the
//! rows, takes ten times as long.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::arrow::{
    array::{ArrayRef, Int64Array, StringViewBuilder},
    buffer::Buffer,
    datatypes::DataType,
};
use parquet::{
    basic::{Encoding, PageType, Type},
    column::page::{Page, PageReader},
    errors::{ParquetError, Result},
    file::{
        metadata::ColumnChunkMetaData,
        reader::{ChunkReader, Length},
        serialized_reader::SerializedPageReader,
    },
};

/// Neighbours mostly have the same number, and a count that was just written is slow to read: they are counted apart.
const LANES: usize = 4;
/// The bytes of a text's length, before the text.
const TEXT_LENGTH: usize = size_of::<u32>();
/// The values of a group of packed numbers.
const GROUP: usize = 8;

/// Whether the values of a chunk can be counted as values of this type: each row has one, and all are numbers of one
/// dictionary of texts or integers.
pub(crate) fn is_countable(chunk: &ColumnChunkMetaData, kind: &DataType) -> bool {
    let column = chunk.column_descr();
    let is_known =
        matches!((chunk.column_type(), kind), (Type::BYTE_ARRAY, DataType::Utf8View) | (Type::INT64, DataType::Int64));
    let all_numbers = match (chunk.page_encoding_stats_mask(), chunk.page_encoding_stats()) {
        (Some(mask), _) => mask.is_only(Encoding::RLE_DICTIONARY) || mask.is_only(Encoding::PLAIN_DICTIONARY),
        (None, Some(pages)) => pages
            .iter()
            .filter(|pages| pages.page_type != PageType::DICTIONARY_PAGE)
            .all(|pages| is_of_dictionary(pages.encoding)),
        (None, None) => false,
    };
    is_known
        && column.max_def_level() == 0
        && column.max_rep_level() == 0
        && chunk.dictionary_page_offset().is_some()
        && all_numbers
        && u32::try_from(chunk.num_values()).is_ok()
}

/// The distinct values of a chunk that [`is_countable`], and how often each stands there. A value may come twice, if the
/// dictionary has it twice. `bytes` are those of the chunk.
///
/// # Errors
/// Bytes that are no such chunk.
pub(crate) fn value_counts(chunk: &ColumnChunkMetaData, bytes: Bytes) -> Result<(ArrayRef, Int64Array)> {
    let (start, _) = chunk.byte_range();
    let rows = usize::try_from(chunk.num_values()).unwrap_or(0);
    let chunk_bytes = Arc::new(ChunkBytes { start, bytes });
    let mut pages = SerializedPageReader::new(chunk_bytes, chunk, rows, None)?;
    let mut dictionary = None;
    let mut counts: Vec<[u32; LANES]> = Vec::new();
    let mut counted = 0;
    while let Some(page) = pages.get_next_page()? {
        // Before they are counted, so that no count is larger than the chunk.
        if page.is_data_page() && page.num_values() as usize > rows - counted {
            return Err(unlike("more values than rows"));
        }
        match page {
            Page::DictionaryPage {
                buf, num_values, encoding: Encoding::PLAIN | Encoding::PLAIN_DICTIONARY, ..
            } if dictionary.is_none() => {
                let least = if chunk.column_type() == Type::INT64 { size_of::<i64>() } else { TEXT_LENGTH };
                let values = usize::try_from(num_values).ok().filter(|values| *values <= buf.len() / least);
                counts = vec![[0; LANES]; values.ok_or_else(|| unlike("a dictionary of more values than bytes"))?];
                dictionary = Some(buf);
            }
            Page::DataPage { buf, num_values, encoding, .. } if is_of_dictionary(encoding) => {
                counted += count(&buf, num_values, &mut counts)?;
            }
            Page::DataPageV2 { buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, .. }
                if is_of_dictionary(encoding) =>
            {
                let levels = (def_levels_byte_len as usize).saturating_add(rep_levels_byte_len as usize);
                let numbers = buf.get(levels..).ok_or_else(|| unlike("a page shorter than its levels"))?;
                counted += count(numbers, num_values, &mut counts)?;
            }
            _ => return Err(unlike("a page of another encoding")),
        }
    }
    if counted != rows {
        return Err(unlike("another number of values"));
    }
    let counts: Vec<i64> = counts.iter().map(|lanes| lanes.iter().map(|count| i64::from(*count)).sum()).collect();
    let dictionary = dictionary.unwrap_or_default();
    let values = match chunk.column_type() {
        Type::INT64 => integers(dictionary, &counts),
        _ => texts(dictionary, &counts),
    };
    let values = values.ok_or_else(|| unlike("a dictionary that is cut off or no UTF-8"))?;
    Ok((values, counts.into_iter().filter(|count| *count > 0).collect()))
}

fn is_of_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

fn unlike(what: &str) -> ParquetError {
    ParquetError::General(format!("a column chunk cannot be counted: {what}"))
}

/// The integers of a dictionary that occur; `None` if it is cut off.
fn integers(mut dictionary: Bytes, counts: &[i64]) -> Option<ArrayRef> {
    let mut values = Vec::with_capacity(counts.len());
    for count in counts {
        let value = dictionary.try_get_i64_le().ok()?;
        if *count > 0 {
            values.push(value);
        }
    }
    Some(Arc::new(Int64Array::from(values)))
}

/// The texts of a dictionary that occur, over its bytes; `None` if it is cut off, or one is no UTF-8.
fn texts(dictionary: Bytes, counts: &[i64]) -> Option<ArrayRef> {
    let mut values = StringViewBuilder::with_capacity(counts.len());
    let block = values.append_block(Buffer::from(dictionary.clone()));
    let mut place = 0_usize;
    for count in counts {
        let length = dictionary.get(place..)?.try_get_u32_le().ok()?;
        place += TEXT_LENGTH;
        if *count > 0 {
            values.try_append_view(block, u32::try_from(place).ok()?, length).ok()?;
        } else {
            str::from_utf8(dictionary.get(place..)?.get(..length as usize)?).ok()?;
        }
        place += length as usize;
    }
    Some(Arc::new(values.finish()))
}

/// Counts the numbers of a page: a byte with their width in bits, then runs of one number and groups of packed numbers
/// (Parquet's hybrid encoding). Returns how many there are.
fn count(page: &[u8], values: u32, counts: &mut [[u32; LANES]]) -> Result<usize> {
    let values = values as usize;
    let counted = page.split_first().and_then(|(width, runs)| count_runs(usize::from(*width), runs, values, counts));
    counted.map(|()| values).ok_or_else(|| unlike("numbers that are cut off or outside of the dictionary"))
}

fn count_runs(width: usize, mut runs: &[u8], values: usize, counts: &mut [[u32; LANES]]) -> Option<()> {
    if width > 32 {
        return None;
    }
    let mut left = values;
    while left > 0 {
        let header = varint(&mut runs)?;
        let length = usize::try_from(header >> 1).ok()?;
        if header & 1 == 0 {
            let (number, rest) = runs.split_at_checked(width.div_ceil(8))?;
            runs = rest;
            let number = number.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
            let length = length.min(left);
            let [count, ..] = counts.get_mut(number)?;
            *count = count.checked_add(u32::try_from(length).ok()?)?;
            // A run of nothing would never end.
            left -= Some(length).filter(|length| *length > 0)?;
        } else {
            let (packed, rest) = runs.split_at_checked(length.checked_mul(width)?)?;
            runs = rest;
            let length = length.checked_mul(GROUP)?.min(left);
            count_packed(width, packed, length, counts)?;
            left -= Some(length).filter(|length| *length > 0)?;
        }
    }
    Some(())
}

/// Counts the first `values` of packed numbers, each of `width` bits, at most 32, the lowest bits first.
fn count_packed(width: usize, packed: &[u8], values: usize, counts: &mut [[u32; LANES]]) -> Option<()> {
    let (groups, rest) = (values / GROUP, values % GROUP);
    match width {
        0 => {
            let [count, ..] = counts.first_mut()?;
            *count = count.checked_add(u32::try_from(values).ok()?)?;
            return Some(());
        }
        1..=8 => count_groups::<8>(width, packed, groups, counts)?,
        9..=16 => count_groups::<4>(width, packed, groups, counts)?,
        _ => count_groups::<1>(width, packed, groups, counts)?,
    }
    for place in groups * GROUP..values {
        count_word::<1>(width, packed, place, counts)?;
    }
    // The last group is whole in the file, too.
    (packed.len() >= (groups + usize::from(rest > 0)) * width).then_some(())
}

/// Counts groups of packed numbers, of which `VALUES` are together in a word wherever they begin.
fn count_groups<const VALUES: usize>(
    width: usize,
    packed: &[u8],
    groups: usize,
    counts: &mut [[u32; LANES]],
) -> Option<()> {
    (0..groups * GROUP).step_by(VALUES).try_for_each(|first| count_word::<VALUES>(width, packed, first, counts))
}

/// Counts the packed numbers from the place `first`.
#[inline]
fn count_word<const VALUES: usize>(
    width: usize,
    packed: &[u8],
    first: usize,
    counts: &mut [[u32; LANES]],
) -> Option<()> {
    let bit = first * width;
    let bytes = packed.get(bit / 8..)?;
    let word = match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    let (mut word, mask) = (word >> (bit % 8), (1 << width) - 1);
    for lane in 0..VALUES {
        let count = counts.get_mut((word & mask) as usize)?.get_mut(lane % LANES)?;
        *count += 1;
        word >>= width;
    }
    Some(())
}

/// A number of seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The bytes of a chunk, at their place in the file.
struct ChunkBytes {
    start: u64,
    bytes: Bytes,
}

impl ChunkBytes {
    fn from(&self, start: u64) -> Result<Bytes> {
        let offset = start.checked_sub(self.start).and_then(|offset| usize::try_from(offset).ok());
        let rest = offset.filter(|offset| *offset <= self.bytes.len()).map(|offset| self.bytes.slice(offset..));
        rest.ok_or_else(|| unlike("a page outside of it"))
    }
}

impl Length for ChunkBytes {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ChunkBytes {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let rest = self.from(start)?;
        if length > rest.len() {
            return Err(unlike("a page longer than it"));
        }
        Ok(rest.slice(..length))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
