//! Computing once for each distinct text of a batch.
//!
//! Most texts of logs repeat: methods, paths, names of programs. Rows with the same text are found without looking at the
//! texts ([`RowNumbers`]), and a kernel with a result for each text is computed once for them. Rows with the same text that
//! are not found are computed again.

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use super::numbers::RowNumbers;

/// Batches with fewer rows are computed row by row.
const FEW: usize = 64;

/// The distinct texts of an argument.
#[derive(Debug)]
pub(super) struct Distinct {
    /// The arguments, with the distinct texts in the place of the texts.
    pub(super) arguments: Vec<ColumnarValue>,
    /// How many there are.
    pub(super) count: usize,
    /// For each row the number of its text.
    rows: UInt32Array,
}

impl Distinct {
    /// The distinct texts of the one argument that is not constant; `None` if there is no such argument, or if most of
    /// its texts differ.
    pub(super) fn of(arguments: &[ColumnarValue]) -> Option<Self> {
        let mut arrays = arguments.iter().filter_map(|argument| match argument {
            ColumnarValue::Array(array) => Some(array),
            ColumnarValue::Scalar(_) => None,
        });
        let texts = arrays.next().filter(|array| *array.data_type() == DataType::Utf8View)?;
        if arrays.next().is_some() || texts.len() < FEW {
            return None;
        }
        let mut numbers = RowNumbers::new();
        let (firsts, rows) = numbers.of(std::slice::from_ref(texts))?;
        let distinct = take(texts, &UInt32Array::from_iter_values(firsts.iter().copied()), None).ok()?;
        let rows = UInt32Array::from_iter_values(rows.iter().copied());
        let count = distinct.len();
        let arguments = arguments.iter().map(|argument| match argument {
            ColumnarValue::Array(_) => ColumnarValue::Array(ArrayRef::clone(&distinct)),
            ColumnarValue::Scalar(scalar) => ColumnarValue::Scalar(scalar.clone()),
        });
        Some(Self { arguments: arguments.collect(), count, rows })
    }

    /// The results of the distinct texts as results of the rows.
    pub(super) fn repeated(&self, results: &ArrayRef) -> Result<ArrayRef> {
        Ok(take(results, &self.rows, None)?)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use datafusion::arrow::array::{AsArray, StringViewArray};
    use datafusion::scalar::ScalarValue;

    use super::*;
    use crate::rows::{Body, compute};

    thread_local! {
        static CALLS: Cell<usize> = const { Cell::new(0) };
    }

    fn texts(texts: impl Iterator<Item = Option<&'static str>>) -> ColumnarValue {
        let distinct: StringViewArray =
            [Some("a text that is longer than a view"), Some("short"), None].into_iter().collect();
        let number = |text: Option<&str>| distinct.iter().position(|known| known == text).map(|at| at as u32);
        let rows: UInt32Array = texts.map(number).collect();
        ColumnarValue::Array(take(&distinct, &rows, None).unwrap())
    }

    fn length() -> Body {
        Body::Int(|row| {
            CALLS.set(CALLS.get() + 1);
            Ok(i64::try_from(row.text(0).len()).ok())
        })
    }

    #[test]
    fn repeated_texts_are_computed_once() {
        let given = ["a text that is longer than a view", "short"];
        let rows = (0..1_000).map(|i| if i % 7 == 0 { None } else { given.get(i % 2).copied() });
        let argument = texts(rows.clone());
        CALLS.set(0);
        let (lengths, constant) = compute(length(), false, false, &[argument], 1_000).unwrap();
        assert!(!constant && CALLS.get() == 2, "{}", CALLS.get());
        let expected: Vec<_> = rows.map(|text| text.map(|text| text.len() as i64)).collect();
        assert_eq!(
            lengths.as_primitive::<datafusion::arrow::datatypes::Int64Type>().iter().collect::<Vec<_>>(),
            expected
        );
    }

    /// With texts that differ, with two columns and with few rows every row is computed.
    #[test]
    fn other_batches_are_computed_row_by_row() {
        let many: StringViewArray = (0..1_000).map(|i| Some(format!("a text of its own, number {i}"))).collect();
        let many = ColumnarValue::Array(Arc::new(many));
        let few = |rows: usize| texts((0..rows).map(|_| Some("short")));
        let constant = || ColumnarValue::Scalar(ScalarValue::Utf8View(Some("x".to_owned())));
        for (arguments, rows, expected) in [
            (vec![many.clone()], 1_000, 1_000),
            (vec![few(1_000), many], 1_000, 1_000),
            (vec![few(63)], 63, 63),
            (vec![few(64)], 64, 1),
            (vec![few(1_000), constant()], 1_000, 1),
        ] {
            CALLS.set(0);
            compute(length(), false, false, &arguments, rows).unwrap();
            assert_eq!(CALLS.get(), expected);
        }
    }

    /// A limit on what a batch makes holds for its rows, however few texts they have.
    #[test]
    fn limits_count_rows() {
        let body = Body::Text(|_, out| out.repeated("x", 1 << 20).map(Some));
        let batch = |rows: usize| compute(body, false, false, &[texts((0..rows).map(|_| Some("short")))], rows);
        assert!(batch(64).is_ok());
        assert!(batch(65).is_err());
    }
}
