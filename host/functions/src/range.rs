//! Kernels of RANGEs: from a time up to another one, each of which may be missing.
//!
//! A RANGE is held as 16 bytes: its start and its end in microseconds, big-endian, with the sign turned around. So the
//! order of the bytes is that of the RANGEs, and equal RANGEs have the same bytes: the engine sorts, groups and joins by
//! them with what it has for BYTES. A missing start is the least number, and a missing end the greatest. All others are
//! within the years 1 to 9999, so that what reads a RANGE cannot fail.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::scalar::ScalarValue;

use crate::arrays::shortened;
use crate::conversion::{read_datetime, read_instant, write_moment};
use crate::kernel::{Fallibility, Kernel};
use crate::rows::{Body, Item, Items, MAX_SERIES, MOMENTS, Out, Row, RowError, RowResult, TOO_FAR, compute};
use crate::time::{DAY, add_months, interval_length};
use crate::types::Type;

/// Start and end in microseconds.
type Bounds = (i64, i64);

const NO_START: i64 = i64::MIN;
const NO_END: i64 = i64::MAX;
/// What stands for a missing bound in the text of a RANGE.
const UNBOUNDED: [&str; 2] = ["UNBOUNDED", "NULL"];
const EMPTY: &str = "the start of a RANGE must be before its end";

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows_with_nulls(
        "range_of",
        2..=2,
        Body::Bytes(|row, out| {
            let bound = |i: usize, missing: i64| match row.int(i) {
                _ if !row.has(i) => Ok(missing),
                moment if MOMENTS.contains(&moment) => Ok(moment),
                _ => Err(RowError::from(TOO_FAR)),
            };
            write(held((bound(0, NO_START)?, bound(1, NO_END)?))?, out)
        }),
    ),
    // Of a text and the type of the bounds.
    Kernel::rows(
        "parse_range",
        2..=2,
        Body::Bytes(|row, out| match read(row.text(0), row.text(1)) {
            Some(bounds) => write(held(bounds)?, out),
            None => {
                let (short, of) = (shortened(row.text(0)), row.text(1));
                Err(format!(
                    "the text '{short}' cannot be read as RANGE<{of}>; write '[start, end)', with UNBOUNDED for a bound that \
                     is missing"
                )
                .into())
            }
        }),
    ),
    Kernel::rows("range_text", 2..=2, Body::Text(text)).with_fallibility(Fallibility::Infallible),
    Kernel::rows("range_start", 1..=1, Body::Timestamp(start)).with_fallibility(Fallibility::Infallible),
    Kernel::rows("range_end", 1..=1, Body::Timestamp(end)).with_fallibility(Fallibility::Infallible),
    Kernel::rows(
        "range_contains",
        2..=2,
        Body::Bool(|row| {
            let (start, end) = bounds(row, 0)?;
            Ok(Some((start..end).contains(&row.int(1))))
        }),
    )
    .with_fallibility(Fallibility::Infallible),
    Kernel::rows(
        "range_covers",
        2..=2,
        Body::Bool(|row| {
            let (outer, inner) = (bounds(row, 0)?, bounds(row, 1)?);
            Ok(Some(outer.0 <= inner.0 && inner.1 <= outer.1))
        }),
    )
    .with_fallibility(Fallibility::Infallible),
    Kernel::rows(
        "range_overlaps",
        2..=2,
        Body::Bool(|row| {
            let (start, end) = shared(row)?;
            Ok(Some(start < end))
        }),
    )
    .with_fallibility(Fallibility::Infallible),
    Kernel::rows(
        "range_intersect",
        2..=2,
        Body::Bytes(|row, out| match held(shared(row)?) {
            Ok(range) => write(range, out),
            Err(_) => Err("the RANGEs do not overlap; ask RANGE_OVERLAPS before, or write SAFE.RANGE_INTERSECT".into()),
        }),
    ),
    // Of a RANGE, a step, whether the last part may be shorter, and the type of the bounds.
    Kernel::rows("range_series", 4..=4, Body::ByteStrings(series)),
];

/// The bytes of a RANGE.
fn held((start, end): Bounds) -> Result<[u8; 16], RowError> {
    if start >= end {
        return Err(EMPTY.into());
    }
    let number = |bound: i64| u128::from((bound ^ i64::MIN).cast_unsigned());
    Ok((number(start) << 64 | number(end)).to_be_bytes())
}

fn write(range: [u8; 16], out: &mut Out) -> RowResult<()> {
    out.bytes(&range)?;
    Ok(Some(()))
}

/// The bounds of the RANGE of these bytes, `None` for one that is missing.
pub fn range_bounds(bytes: &[u8]) -> Option<(Option<i64>, Option<i64>)> {
    let (start, end) = unheld(bytes)?;
    Some(((start != NO_START).then_some(start), (end != NO_END).then_some(end)))
}

fn unheld(bytes: &[u8]) -> Option<Bounds> {
    let (start, end) = bytes.split_first_chunk::<8>()?;
    let end: [u8; 8] = end.try_into().ok()?;
    Some((i64::from_be_bytes(*start) ^ i64::MIN, i64::from_be_bytes(end) ^ i64::MIN))
}

fn bounds(row: &Row, i: usize) -> Result<Bounds, RowError> {
    unheld(row.bytes(i)).ok_or_else(|| "these bytes are no RANGE".into())
}

fn start(row: &Row) -> RowResult<i64> {
    Ok(Some(bounds(row, 0)?.0).filter(|start| *start != NO_START))
}

fn end(row: &Row) -> RowResult<i64> {
    Ok(Some(bounds(row, 0)?.1).filter(|end| *end != NO_END))
}

/// What two RANGEs have in common: nothing where it does not begin before its end.
fn shared(row: &Row) -> Result<Bounds, RowError> {
    let (one, other) = (bounds(row, 0)?, bounds(row, 1)?);
    Ok((one.0.max(other.0), one.1.min(other.1)))
}

/// `[start, end)`, with exactly one blank.
fn read(text: &str, of: &str) -> Option<Bounds> {
    let (start, end) = text.strip_prefix('[')?.strip_suffix(')')?.split_once(", ")?;
    let bound = |text: &str, missing: i64| match of {
        _ if UNBOUNDED.iter().any(|word| word.eq_ignore_ascii_case(text)) => Some(missing),
        _ if text.starts_with(' ') || text.ends_with(' ') => None,
        // A time of day would be lost.
        "DATE" => read_instant(text).filter(|micros| micros.rem_euclid(DAY) == 0),
        "DATETIME" => read_datetime(text),
        _ => read_instant(text),
    };
    Some((bound(start, NO_START)?, bound(end, NO_END)?))
}

fn text(row: &Row, out: &mut Out) -> RowResult<()> {
    written(row, out, "UNBOUNDED")
}

/// As GoogleSQL's evaluator writes it in results.
fn result_text(row: &Row, out: &mut Out) -> RowResult<()> {
    written(row, out, "NULL")
}

fn written(row: &Row, out: &mut Out, missing: &str) -> RowResult<()> {
    let (start, end) = bounds(row, 0)?;
    let bound = |micros: i64, out: &mut Out| match (micros, row.text(1)) {
        (NO_START | NO_END, _) => out.write_str(missing),
        (_, "DATE") => write_moment(micros, true, "", out),
        (_, "DATETIME") => write_moment(micros, false, "", out),
        _ => write_moment(micros, false, "+00", out),
    };
    out.char('[')?;
    bound(start, out)?;
    out.text(", ")?;
    bound(end, out)?;
    out.char(')')?;
    Ok(Some(()))
}

/// The parts of a RANGE, each as long as a step; the last one may be shorter, and is left out where that is not wanted.
fn series(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let (start, end) = bounds(row, 0)?;
    if start == NO_START || end == NO_END {
        return Err("a RANGE without a start or an end cannot be cut into parts".into());
    }
    let (months, _, nanos) = row.interval(1);
    match row.text(3) {
        "DATE" if nanos != 0 => return Err("a RANGE<DATE> has parts of DAY, MONTH and YEAR only".into()),
        "TIMESTAMP" if months != 0 => return Err("a RANGE<TIMESTAMP> has no parts of MONTH and YEAR".into()),
        _ => {}
    }
    let step = interval_length(row, 1)?;
    if matches!(step, Ok(size) | Err(size) if size < 0) {
        return Err("the step of a RANGE is above 0".into());
    }
    let (mut begin, mut count) = (start, 0_i64);
    while begin < end {
        count += 1;
        if count > i64::from(MAX_SERIES) {
            return Err(RowError::Limit(format!(
                "an array of RANGEs would have more than {MAX_SERIES} elements; take a larger step"
            )));
        }
        let next = match step {
            Ok(months) => months.checked_mul(count).and_then(|months| add_months(start, months)),
            Err(micros) => micros.checked_mul(count).and_then(|by| start.checked_add(by)),
        };
        let next = next.unwrap_or(NO_END);
        if next <= end || row.bool(2) {
            items.push(Item::Bytes(held((begin, next.min(end)))?.to_vec()))?;
        }
        begin = next;
    }
    Ok(Some(()))
}

/// RANGEs of `of` as results show them.
///
/// # Errors
/// If the array holds no RANGEs.
pub fn range_texts(array: &ArrayRef, of: &Type) -> EngineResult<StringViewArray> {
    let of = ColumnarValue::Scalar(ScalarValue::Utf8View(Some(of.to_string())));
    let arguments = [ColumnarValue::Array(Arc::clone(array)), of];
    let (texts, _) = compute(Body::Text(result_text), false, true, &arguments, array.len())?;
    Ok(texts.as_string_view().clone())
}

/// The starts and the ends of RANGEs of `of`, NULL where they are missing.
///
/// # Errors
/// If the array holds no RANGEs.
pub fn range_parts(array: &ArrayRef, of: &Type) -> EngineResult<[ArrayRef; 2]> {
    let arguments = [ColumnarValue::Array(Arc::clone(array))];
    let part = |bound: fn(&Row) -> RowResult<i64>| -> EngineResult<ArrayRef> {
        let (micros, _) = compute(Body::Timestamp(bound), false, true, &arguments, array.len())?;
        Ok(cast(&micros, &of.arrow())?)
    };
    Ok([part(start)?, part(end)?])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_order_of_ranges() {
        let ordered =
            [(NO_START, -5), (NO_START, NO_END), (-7, -6), (-7, 3), (-7, NO_END), (0, 1), (2, 3), (2, NO_END)];
        let bytes: Vec<_> = ordered.iter().map(|bounds| held(*bounds).unwrap()).collect();
        assert!(bytes.is_sorted_by(|one, other| one < other));
        for (bytes, bounds) in bytes.iter().zip(ordered) {
            assert_eq!(unheld(bytes), Some(bounds));
        }
        assert!(held((3, 3)).is_err() && unheld(b"abc").is_none());
    }

    #[test]
    fn texts_are_read_in_their_exact_form_only() {
        for (text, of, expected) in [
            ("[1970-01-02, unbounded)", "DATE", Some((DAY, NO_END))),
            ("[Null, 1970-01-01 00:00:01)", "DATETIME", Some((NO_START, 1_000_000))),
            ("[1970-1-1, 1970-01-01 01:00:00+01)", "TIMESTAMP", Some((0, 0))),
            ("[1970-01-02, 1970-01-03 10:00:00)", "DATE", None),
            ("[1970-01-02,1970-01-03)", "DATE", None),
            ("[1970-01-02,  1970-01-03)", "DATE", None),
            ("[1970-01-02 , 1970-01-03)", "DATE", None),
            ("[1970-01-02, 1970-01-03]", "DATE", None),
            ("[1970-01-02, 1970-01-03, 1970-01-04)", "DATE", None),
            ("[, 1970-01-03)", "DATE", None),
            ("", "DATE", None),
        ] {
            assert_eq!(read(text, of), expected, "{text}");
        }
    }
}
