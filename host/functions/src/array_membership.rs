//! Whether values are elements of arrays: `value IN UNNEST(array)`.
//!
//! An array that is long and belongs to several rows is looked up in a set of its elements, so that the time grows with
//! the number of values and not with the pairs. Such are constants, and arrays that a subquery over the elements of another
//! array reads of its row, which come as dictionaries.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, UInt32Array, make_comparator};
use datafusion::arrow::compute::{SortOptions, cast};
use datafusion::arrow::datatypes::{DataType, Float64Type, UInt32Type};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use crate::array_sets::converted;
use crate::arrays::arity;
use crate::context::{Transient, check};
use crate::float;

/// The name of the kernel.
pub(crate) const VALUE_IN_ARRAY: &str = "value_in_array";

/// Arrays that are longer are looked up in a set.
const SHORT: usize = 32;
/// The stop sign is checked after so many comparisons.
const BETWEEN_CHECKS: usize = 1 << 16;

/// Whether each value is an element of its array: NULL for NULL, and if none is equal and an element is NULL; of an array
/// that is empty or NULL false.
pub(crate) fn included(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values, arrays] = arguments else { return Err(arity()) };
    looked_up(values, arrays, values.len())
}

/// The same where the value or the array is constant, which is not repeated for each row.
pub(crate) fn included_with_constant(arguments: &[ColumnarValue]) -> Option<ArrayRef> {
    let (values, arrays, rows) = match arguments {
        [ColumnarValue::Array(values), ColumnarValue::Scalar(array)] => {
            (values.clone(), array.to_array().ok()?, values.len())
        }
        [ColumnarValue::Scalar(value), ColumnarValue::Array(arrays)] => {
            (value.to_array().ok()?, arrays.clone(), arrays.len())
        }
        _ => return None,
    };
    // A failure comes again where the values are computed without this.
    looked_up(&values, &arrays, rows).ok()
}

/// The arrays of rows, each of which may belong to several.
struct Arrays {
    lists: ListArray,
    /// Which array belongs to a row; without them each to its own row, or one to all.
    places: Option<UInt32Array>,
    elements: ArrayRef,
}

impl Arrays {
    fn new(arrays: &ArrayRef, item: &DataType) -> Result<Self> {
        let (lists, places) = match arrays.as_dictionary_opt::<UInt32Type>() {
            Some(dictionary) => (dictionary.values(), Some(dictionary.keys().clone())),
            None => (arrays, None),
        };
        let lists = lists.as_list_opt::<i32>().ok_or_else(arity)?.clone();
        Ok(Self { elements: comparable(&cast(lists.values(), item)?)?, lists, places })
    }

    /// The number of the array of a row; `None` for NULL.
    fn of(&self, row: usize) -> Option<usize> {
        let place = match &self.places {
            Some(places) => places.is_valid(row).then(|| places.value(row)).and_then(|place| place.try_into().ok())?,
            None if self.lists.len() == 1 => 0,
            None => row,
        };
        self.lists.is_valid(place).then_some(place)
    }

    /// The places of the elements of an array.
    fn range(&self, array: Option<usize>) -> Range<usize> {
        let bound =
            |place: usize| self.lists.value_offsets().get(place).and_then(|offset| usize::try_from(*offset).ok());
        let bounds = array.and_then(|array| bound(array).zip(bound(array + 1)));
        bounds.map_or(0..0, |(start, end)| start..end)
    }
}

fn looked_up(values: &ArrayRef, arrays: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let arrays = Arrays::new(arrays, values.data_type())?;
    let values = comparable(values)?;
    let value = |row: usize| if values.len() == 1 { 0 } else { row };
    let equal = make_comparator(&values, &arrays.elements, SortOptions::default())?;
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let mut held = Transient::default();
    let mut converted_values: Option<Rows> = None;
    let mut results = Vec::with_capacity(rows);
    let mut compared = 0;
    while results.len() < rows {
        check()?;
        let (first, array) = (results.len(), arrays.of(results.len()));
        let count = (first..rows).take_while(|row| arrays.of(*row) == array).count();
        let range = arrays.range(array);
        let elements = arrays.elements.slice(range.start, range.len());
        let unknown = if elements.null_count() > 0 { None } else { Some(false) };
        let mut of_set = Transient::default();
        let rows_of_set = match count > 1 && range.len() > SHORT {
            true => Some(converted(&converter, elements, &mut of_set)?),
            false => None,
        };
        let set: Option<HashSet<_>> = rows_of_set.as_ref().map(|rows| rows.iter().collect());
        if set.is_some() && converted_values.is_none() {
            converted_values = Some(converted(&converter, Arc::clone(&values), &mut held)?);
        }
        for row in first..first + count {
            let row = value(row);
            if range.is_empty() || values.is_null(row) {
                results.push(if range.is_empty() { Some(false) } else { None });
                continue;
            }
            let found = match (&set, &converted_values) {
                _ if is_nan(&values, row) => false,
                (Some(set), Some(values)) => set.contains(&values.row(row)),
                _ => {
                    compared += range.len();
                    if compared > BETWEEN_CHECKS {
                        compared = 0;
                        check()?;
                    }
                    range.clone().any(|element| equal(row, element).is_eq())
                }
            };
            results.push(if found { Some(true) } else { unknown });
        }
    }
    Ok(Arc::new(BooleanArray::from(results)))
}

/// Values whose bits are equal if they are; FLOAT64 have one zero.
fn comparable(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Float64 => float::keys(std::slice::from_ref(values)),
        _ => Ok(Arc::clone(values)),
    }
}

fn is_nan(values: &ArrayRef, row: usize) -> bool {
    values.as_primitive_opt::<Float64Type>().is_some_and(|floats| floats.value(row).is_nan())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::arrow::array::{DictionaryArray, Float64Array, Int64Array};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::scalar::ScalarValue;

    use super::*;
    use crate::context::{ExecutionContext, Stop};

    fn lists(rows: &[Option<Vec<Option<i64>>>]) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows.to_vec()))
    }

    fn results(array: &ArrayRef) -> Vec<Option<bool>> {
        array.as_boolean().iter().collect()
    }

    #[test]
    fn short_and_long_arrays_answer_alike() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None, Some(7)]));
        for more in [0, 40] {
            let with = |mut list: Vec<Option<i64>>| {
                list.extend((0..more).map(|n| Some(100 + n)));
                list
            };
            let all = [Some(with(vec![Some(1), Some(7)])), Some(with(vec![Some(2), None])), Some(vec![]), None];
            let expected = [
                [Some(true), Some(false), None, Some(true)],
                [None, Some(true), None, None],
                [Some(false); 4],
                [Some(false); 4],
            ];
            let all_lists = lists(&all);
            for (at, expected) in expected.iter().enumerate() {
                let scalar = ScalarValue::try_from_array(&all_lists, at).unwrap();
                let constant = [ColumnarValue::Array(Arc::clone(&values)), ColumnarValue::Scalar(scalar)];
                assert_eq!(results(&included_with_constant(&constant).unwrap()), expected, "{at}");
                let keys = UInt32Array::from(vec![u32::try_from(at).unwrap(); 4]);
                let shared: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::clone(&all_lists)));
                assert_eq!(results(&included(&[Arc::clone(&values), shared]).unwrap()), expected, "{at}");
            }
            let each = included(&[Arc::clone(&values), Arc::clone(&all_lists)]).unwrap();
            assert_eq!(results(&each), [Some(true), Some(true), Some(false), Some(false)]);
            let two = [ColumnarValue::Scalar(ScalarValue::Int64(Some(2))), ColumnarValue::Array(all_lists)];
            let no = Some(false);
            assert_eq!(results(&included_with_constant(&two).unwrap()), [no, Some(true), no, no]);
        }
    }

    #[test]
    fn zeros_are_one_element_and_nan_is_none() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 3.0]));
        for more in [0, 40] {
            let elements = [-0.0, f64::NAN, -f64::NAN].into_iter().chain((0..more).map(|n| 100.0 + f64::from(n)));
            let list = ScalarValue::new_list_nullable(
                &elements.map(|value| ScalarValue::Float64(Some(value))).collect::<Vec<_>>(),
                &DataType::Float64,
            );
            let arguments = [ColumnarValue::Array(Arc::clone(&values)), ColumnarValue::Scalar(ScalarValue::List(list))];
            let (yes, no) = (Some(true), Some(false));
            assert_eq!(results(&included_with_constant(&arguments).unwrap()), [yes, yes, no, no, no]);
        }
    }

    #[test]
    fn an_array_of_many_rows_takes_a_moment_and_can_be_stopped() {
        let numbers: Vec<_> = (0..200_000).map(Some).collect();
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|n| n * 2)));
        let shared: ArrayRef =
            Arc::new(DictionaryArray::new(UInt32Array::from(vec![0; values.len()]), lists(&[Some(numbers)])));
        let began = Instant::now();
        let found = included(&[Arc::clone(&values), Arc::clone(&shared)]).unwrap();
        assert_eq!(found.as_boolean().true_count(), 100_000);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let stop = Stop::after(Duration::ZERO);
        assert!(ExecutionContext::of_request(stop).enter(|| included(&[values, shared])).is_err());
    }
}
