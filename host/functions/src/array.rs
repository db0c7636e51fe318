//! Kernels of arrays.

use datafusion::arrow::datatypes::DataType;

use crate::array_membership;
use crate::array_sets;
use crate::kernel::{Fallibility, Kernel};
use crate::rows::{Body, Item, Items, MAX_SERIES, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows_with_nulls("join_array", 2..=3, Body::Text(join)),
    Kernel::rows(
        "array_slice_of",
        3..=3,
        Body::Chosen(|row, len| {
            // Both ends count from 0, negative ones from the end; positions outside the array are cut off.
            let size = i64::try_from(len).unwrap_or(i64::MAX);
            let place = |n: i64| if n < 0 { n.saturating_add(size) } else { n };
            let start = place(row.int(1)).max(0);
            let end = place(row.int(2)).min(size - 1).saturating_add(1).max(start.min(size));
            let (start, end) = (usize::try_from(start).unwrap_or(len).min(len), usize::try_from(end).unwrap_or(0));
            Ok(Some(start..end.max(start)))
        }),
    ),
    Kernel::rows("int_series", 2..=3, Body::Ints(ints)),
    Kernel::rows("float_series", 2..=3, Body::Floats(floats)),
    Kernel::arrays(array_membership::VALUE_IN_ARRAY, 2, DataType::Boolean, |a, _| array_membership::included(a))
        .with_whole(array_membership::included_with_constant)
        .with_fallibility(Fallibility::Infallible),
    Kernel::arrays("arrays_share_any", 2, DataType::Boolean, |a, _| array_sets::share(a, false))
        .with_whole(|a| array_sets::share_with_constant(a, false))
        .with_fallibility(Fallibility::Infallible),
    Kernel::arrays("arrays_share_all", 2, DataType::Boolean, |a, _| array_sets::share(a, true))
        .with_whole(|a| array_sets::share_with_constant(a, true))
        .with_fallibility(Fallibility::Infallible),
];

/// NULL elements are left out, or written as the third argument.
fn join(row: &Row, out: &mut Out) -> RowResult<()> {
    if !row.has(0) || !row.has(1) || (row.count() > 2 && !row.has(2)) {
        return Ok(None);
    }
    let mut first = true;
    for text in row.texts(0) {
        let text = match text {
            Some(text) => text,
            None if row.count() > 2 => row.text(2),
            None => continue,
        };
        if !std::mem::take(&mut first) {
            out.text(row.text(1))?;
        }
        out.text(text)?;
    }
    Ok(Some(()))
}

fn too_many(count: impl std::fmt::Display) -> RowError {
    RowError::Limit(format!("GENERATE_ARRAY would make {count} elements; at most {MAX_SERIES} are allowed"))
}

fn ints(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let step = if row.count() > 2 { row.int(2) } else { 1 };
    if step == 0 {
        return Err("the step of GENERATE_ARRAY must not be 0".into());
    }
    let (start, end, step) = (i128::from(row.int(0)), i128::from(row.int(1)), i128::from(step));
    let count = if (end - start).signum() * step.signum() < 0 { 0 } else { (end - start) / step + 1 };
    if count > i128::from(MAX_SERIES) {
        return Err(too_many(count));
    }
    for n in 0..count {
        items.push(Item::Int(i64::try_from(start + n * step).unwrap_or_default()))?;
    }
    Ok(Some(()))
}

fn floats(row: &Row, items: &mut Items<'_>) -> RowResult<()> {
    let step = if row.count() > 2 { row.float(2) } else { 1.0 };
    let (start, end) = (row.float(0), row.float(1));
    if step == 0.0 || !(start.is_finite() && end.is_finite() && step.is_finite()) {
        return Err("GENERATE_ARRAY takes finite numbers, and a step that is not 0".into());
    }
    let count = ((end - start) / step).floor();
    if count >= f64::from(MAX_SERIES) {
        return Err(too_many(count + 1.0));
    }
    let mut n = 0.0;
    while n <= count {
        items.push(Item::Float(start + n * step))?;
        n += 1.0;
    }
    Ok(Some(()))
}
