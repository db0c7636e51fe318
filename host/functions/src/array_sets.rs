//! Whether lists have elements in common: with a set of the elements of one, so that the time grows with their number.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use crate::arrays::arity;
use crate::context::{Transient, check, failed};
use crate::row_form::row_forms;

/// Bytes of an element in a set, beside its own.
const ENTRY: usize = 32;

/// Whether the first list of each row has an element of the second, or `all` of them. A NULL is an element as another; of
/// a list that is NULL nothing is known.
pub(crate) fn share(arguments: &[ArrayRef], all: bool) -> Result<ArrayRef> {
    let [one, other] = arguments else { return Err(arity()) };
    shared([one, other], one.len(), all)
}

/// The same where one of the lists is constant, which is not repeated for each row.
pub(crate) fn share_with_constant(arguments: &[ColumnarValue], all: bool) -> Option<ArrayRef> {
    let (one, other, rows) = match arguments {
        [ColumnarValue::Array(one), ColumnarValue::Scalar(other)] => (one.clone(), other.to_array().ok()?, one.len()),
        [ColumnarValue::Scalar(one), ColumnarValue::Array(other)] => (one.to_array().ok()?, other.clone(), other.len()),
        _ => return None,
    };
    // A failure comes again where the values are computed without this.
    shared([&one, &other], rows, all).ok()
}

/// Lists of all rows, or one for all of them.
struct Side {
    lists: ListArray,
    constant: bool,
    /// The elements of the constant one.
    rows: Option<Rows>,
}

impl Side {
    fn new(array: &ArrayRef, rows: usize) -> Result<Self> {
        let lists: ListArray = array.as_list_opt().ok_or_else(arity)?.clone();
        let constant = lists.len() == 1 && rows > 1;
        Ok(Self { lists, constant, rows: None })
    }

    /// The elements of a row; `None` if the list is NULL.
    fn elements(&self, row: usize) -> Option<ArrayRef> {
        let row = if self.constant { 0 } else { row };
        self.lists.is_valid(row).then(|| self.lists.value(row))
    }
}

fn shared(arguments: [&ArrayRef; 2], rows: usize, all: bool) -> Result<ArrayRef> {
    let [one, other] = arguments;
    let other = if other.data_type() == one.data_type() { Arc::clone(other) } else { cast(other, one.data_type())? };
    let (mut one, mut other) = (Side::new(one, rows)?, Side::new(&other, rows)?);
    let converter = RowConverter::new(vec![SortField::new(one.lists.value_type())])?;
    let mut held = Transient::default();
    for side in [&mut one, &mut other] {
        if side.constant
            && let Some(elements) = side.elements(0)
        {
            side.rows = Some(converted(&converter, elements, &mut held)?);
        }
    }
    let constant_set: Option<HashSet<_>> = one.rows.as_ref().map(|rows| rows.iter().collect());
    let mut results = Vec::with_capacity(rows);
    for row in 0..rows {
        check()?;
        let (Some(of_one), Some(of_other)) = (one.elements(row), other.elements(row)) else {
            results.push(None);
            continue;
        };
        let mut held = Transient::default();
        let wanted;
        let wanted = match &other.rows {
            Some(rows) => rows,
            None => {
                wanted = converted(&converter, of_other, &mut held)?;
                &wanted
            }
        };
        let own;
        let own_set;
        let set = match &constant_set {
            Some(set) => set,
            None => {
                own = converted(&converter, of_one, &mut held)?;
                own_set = own.iter().collect();
                &own_set
            }
        };
        results.push(Some(match all {
            true => wanted.iter().all(|element| set.contains(&element)),
            false => wanted.iter().any(|element| set.contains(&element)),
        }));
    }
    Ok(Arc::new(BooleanArray::from(results)))
}

/// The elements in a form in which they are compared by their bytes.
pub(crate) fn converted(converter: &RowConverter, elements: ArrayRef, held: &mut Transient) -> Result<Rows> {
    held.grow(elements.len().saturating_mul(ENTRY)).map_err(failed)?;
    row_forms(converter, &[elements], held)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::time::{Duration, Instant};

    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::scalar::ScalarValue;

    use super::*;
    use crate::context::{ExecutionContext, Stop};

    fn lists(rows: &[Option<Vec<Option<i64>>>]) -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows.to_vec()))
    }

    fn values(array: &ArrayRef) -> Vec<Option<bool>> {
        array.as_boolean().iter().collect()
    }

    #[test]
    fn a_null_is_an_element_and_nothing_is_known_of_a_null() {
        let one = lists(&[Some(vec![Some(1), None]), Some(vec![Some(1)]), None, Some(vec![]), Some(vec![Some(3)])]);
        let other = lists(&[Some(vec![None]), Some(vec![None, Some(1)]), Some(vec![]), Some(vec![]), None]);
        let arguments = [Arc::clone(&one), other];
        let no = Some(false);
        assert_eq!(values(&share(&arguments, true).unwrap()), [Some(true), no, None, Some(true), None]);
        assert_eq!(values(&share(&arguments, false).unwrap()), [Some(true), Some(true), None, no, None]);
        let constant = ScalarValue::try_from_array(&lists(&[Some(vec![Some(1), Some(1)])]), 0).unwrap();
        let column = ColumnarValue::Array(one);
        let constant = ColumnarValue::Scalar(constant);
        let of = |arguments: &[ColumnarValue], all| values(&share_with_constant(arguments, all).unwrap());
        assert_eq!(of(&[column.clone(), constant.clone()], true), [Some(true), Some(true), None, no, no]);
        assert_eq!(of(&[constant.clone(), column.clone()], true), [no, Some(true), None, Some(true), no]);
        assert_eq!(of(&[constant.clone(), column], false), [Some(true), Some(true), None, no, no]);
        assert!(share_with_constant(&[constant.clone(), constant], true).is_none());
    }

    #[test]
    fn long_lists_take_a_moment_and_can_be_stopped() {
        let up: Vec<_> = (0..200_000).map(Some).collect();
        let down: Vec<_> = up.iter().rev().copied().collect();
        let arguments = [lists(&[Some(up)]), lists(&[Some(down)])];
        let began = Instant::now();
        assert_eq!(values(&share(&arguments, true).unwrap()), [Some(true)]);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        let stop = Stop::after(Duration::ZERO);
        assert!(ExecutionContext::of_request(stop).enter(|| share(&arguments, true)).is_err());
    }
}
