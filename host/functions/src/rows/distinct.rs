//! Computing once for each distinct text of a batch.
//!
//! Most texts of logs repeat: methods, paths, names of programs. Rows with the same text are found without looking at the
//! texts ([`RowNumbers`]), and a kernel with a result for each text is computed once for them; so are conditions of the engine
//! ([`DistinctTexts`]). Rows with the same text that are not found are computed again.

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

use super::numbers::RowNumbers;

/// Batches with fewer rows are computed row by row.
const FEW: usize = 64;

/// The texts of a column that differ, and which of them each row has.
#[derive(Debug, Clone)]
pub struct DistinctTexts {
    /// The texts, and NULL if a row has none. Some may stand here twice.
    pub texts: ArrayRef,
    rows: UInt32Array,
}

impl DistinctTexts {
    /// `None` for what are no texts, for few rows, and if most texts differ: then nothing is saved.
    pub fn of(rows: &ArrayRef) -> Option<Self> {
        if *rows.data_type() != DataType::Utf8View || rows.len() < FEW {
            return None;
        }
        let mut numbers = RowNumbers::new();
        let (firsts, numbers) = numbers.of(std::slice::from_ref(rows))?;
        let texts = take(rows, &UInt32Array::from_iter_values(firsts.iter().copied()), None).ok()?;
        Some(Self { texts, rows: UInt32Array::from_iter_values(numbers.iter().copied()) })
    }

    /// The results of the texts as results of the rows.
    ///
    /// # Errors
    /// Another number of results than of texts.
    pub fn repeated(&self, results: &ArrayRef) -> Result<ArrayRef> {
        if results.len() != self.texts.len() {
            return internal_err!("{} results of {} texts", results.len(), self.texts.len());
        }
        Ok(take(results, &self.rows, None)?)
    }
}

/// Arguments of a kernel with the texts that differ in the place of the texts.
#[derive(Debug)]
pub(super) struct Distinct {
    pub(super) arguments: Vec<ColumnarValue>,
    pub(super) texts: DistinctTexts,
}

impl Distinct {
    /// Those of the one argument that is not constant; `None` if there is no such argument, or if it saves nothing.
    pub(super) fn of(arguments: &[ColumnarValue]) -> Option<Self> {
        let mut arrays = arguments.iter().filter_map(|argument| match argument {
            ColumnarValue::Array(array) => Some(array),
            ColumnarValue::Scalar(_) => None,
        });
        let (Some(array), None) = (arrays.next(), arrays.next()) else { return None };
        let texts = DistinctTexts::of(array)?;
        let arguments = arguments.iter().map(|argument| match argument {
            ColumnarValue::Array(_) => ColumnarValue::Array(ArrayRef::clone(&texts.texts)),
            ColumnarValue::Scalar(scalar) => ColumnarValue::Scalar(scalar.clone()),
        });
        Some(Self { arguments: arguments.collect(), texts })
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
