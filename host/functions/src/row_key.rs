//! The key of a row: bytes that are equal where all values of the row are the same, of whatever types they are.
//!
//! NULL is a value among others here, and so is each NaN: the keys are compared with keys of the same rows, computed again.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::error::Result;

use crate::arrays::arity;
use crate::context::Transient;
use crate::kernel::Kernel;
use crate::row_form::row_forms;
use crate::rows::limit;

pub(crate) const KERNELS: &[Kernel] = &[Kernel::arrays("row_key", 1, DataType::Binary, |arguments, _| keys(arguments))];

/// The keys of records, each a row.
fn keys(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [records] = arguments else { return Err(arity()) };
    let columns = records.as_struct().columns();
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let mut held = Transient::default();
    let rows = row_forms(&RowConverter::new(fields)?, columns, &mut held)?;
    let too_long = |_| limit("the values that a subquery takes of its query are 2 GiB or more in a batch of rows");
    Ok(Arc::new(rows.try_into_binary().map_err(too_long)?))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Float64Array, Int64Array, StringViewArray, StructArray};

    use super::*;

    /// Rows have one key only where they have the same values, NULL, empty text and both zeros among them.
    #[test]
    fn keys_are_of_all_values() {
        let number: ArrayRef =
            Arc::new(Int64Array::from(vec![None, Some(0), Some(0), Some(0), Some(0), Some(0), None]));
        let text: ArrayRef = Arc::new(StringViewArray::from(vec![
            Some(""),
            Some(""),
            None,
            Some("a text that is longer than a view"),
            Some(""),
            Some(""),
            Some(""),
        ]));
        let nan = f64::NAN;
        let float: ArrayRef = Arc::new(Float64Array::from(vec![0.0, 0.0, 0.0, 0.0, -0.0, nan, 0.0]));
        let rows = StructArray::try_from(vec![("n", number), ("t", text), ("f", float)]).unwrap();
        let keys = keys(&[Arc::new(rows)]).unwrap();
        let keys: Vec<_> = keys.as_binary::<i32>().iter().collect();
        for (i, one) in keys.iter().enumerate() {
            for (j, other) in keys.iter().enumerate() {
                let same = i == j || (i.min(j), i.max(j)) == (0, 6);
                assert_eq!(one == other, same, "{i} {j}");
            }
        }
        assert!(keys.iter().all(Option::is_some));
    }
}
