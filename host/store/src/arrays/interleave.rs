//! Rows of several batches in any order, as one batch.
//!
//! The engine's kernel has no way of its own for booleans and takes them one by one through a general one. Every record has a
//! column of booleans, its presence.

use std::sync::Arc;

use datafusion::arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StructArray},
    buffer::{BooleanBuffer, NullBuffer},
    compute::interleave,
    datatypes::DataType,
    error::ArrowError,
};

/// The rows at these places, each a batch and a row of it. The batches have one schema, and there is one at least.
///
/// # Errors
/// If the batches differ in their schema.
pub(crate) fn interleave_rows(batches: &[&RecordBatch], places: &[(usize, usize)]) -> Result<RecordBatch, ArrowError> {
    let Some(schema) = batches.first().map(|batch| batch.schema()) else {
        return Err(ArrowError::InvalidArgumentError("there are no batches".to_owned()));
    };
    let column = |at: usize| interleaved(&batches.iter().map(|batch| batch.column(at)).collect::<Vec<_>>(), places);
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

fn interleaved(arrays: &[&ArrayRef], places: &[(usize, usize)]) -> Result<ArrayRef, ArrowError> {
    match arrays.first().map(|array| array.data_type()) {
        Some(DataType::Boolean) => {
            let flags = arrays.iter().map(|array| array.as_boolean_opt()).collect::<Option<Vec<_>>>();
            let flags = flags.ok_or_else(differ)?;
            let value = |(array, row): (usize, usize)| flags.get(array).is_some_and(|flags| flags.value(row));
            Ok(Arc::new(BooleanArray::new(bits(places, value), nulls(arrays, places))))
        }
        Some(DataType::Struct(fields)) => {
            let records = arrays.iter().map(|array| array.as_struct_opt()).collect::<Option<Vec<_>>>();
            let records = records.filter(|all| all.iter().all(|one| one.num_columns() == fields.len()));
            let records = records.ok_or_else(differ)?;
            let child =
                |at: usize| interleaved(&records.iter().map(|record| record.column(at)).collect::<Vec<_>>(), places);
            let children = (0..fields.len()).map(child).collect::<Result<Vec<_>, _>>()?;
            let nulls = nulls(arrays, places);
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, places.len())?))
        }
        _ => interleave(&arrays.iter().map(|array| array.as_ref()).collect::<Vec<_>>(), places),
    }
}

fn differ() -> ArrowError {
    ArrowError::InvalidArgumentError("the batches differ in their columns".to_owned())
}

fn nulls(arrays: &[&ArrayRef], places: &[(usize, usize)]) -> Option<NullBuffer> {
    let valid = |(array, row): (usize, usize)| arrays.get(array).is_some_and(|array| array.is_valid(row));
    arrays.iter().any(|array| array.null_count() > 0).then(|| NullBuffer::new(bits(places, valid)))
}

fn bits(places: &[(usize, usize)], is: impl Fn((usize, usize)) -> bool) -> BooleanBuffer {
    BooleanBuffer::collect_bool(places.len(), |at| places.get(at).copied().is_some_and(&is))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::{
        array::{Int64Array, StringViewArray},
        compute::interleave_record_batch,
    };
    use proptest::prelude::*;

    use super::*;

    fn batch(rows: &[(Option<bool>, Option<i64>, bool)]) -> RecordBatch {
        let flags: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<BooleanArray>());
        let numbers: ArrayRef = Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>());
        let texts: ArrayRef =
            Arc::new(rows.iter().map(|row| row.1.map(|n| format!("text {n}"))).collect::<StringViewArray>());
        let inner =
            RecordBatch::try_from_iter_with_nullable([("flag", Arc::clone(&flags), true), ("n", numbers, true)])
                .unwrap();
        let there: NullBuffer = rows.iter().map(|row| row.2).collect::<Vec<_>>().into();
        let (fields, columns) = (inner.schema().fields().clone(), inner.columns().to_vec());
        let record: ArrayRef = Arc::new(StructArray::new(fields, columns, Some(there)));
        RecordBatch::try_from_iter_with_nullable([
            ("flag", flags, true),
            ("text", texts, true),
            ("record", record, true),
        ])
        .unwrap()
    }

    proptest! {
        /// The same rows come out as by the kernel.
        #[test]
        fn rows_are_those_of_the_kernel(
            parts in prop::collection::vec(prop::collection::vec((any::<Option<bool>>(), any::<Option<i64>>(), any::<bool>()), 1..9), 1..4),
            picked in prop::collection::vec((0_usize..100, 0_usize..100), 0..40),
        ) {
            let batches: Vec<RecordBatch> = parts.iter().map(|rows| batch(rows)).collect();
            let place = |(part, row): &(usize, usize)| {
                let part = part % parts.len();
                (part, row % parts[part].len())
            };
            let places: Vec<(usize, usize)> = picked.iter().map(place).collect();
            let batches: Vec<&RecordBatch> = batches.iter().collect();
            prop_assert_eq!(interleave_rows(&batches, &places).unwrap(), interleave_record_batch(&batches, &places).unwrap());
        }
    }

    #[test]
    fn batches_that_differ_are_refused() {
        let (one, other) = (batch(&[(None, None, true)]), batch(&[(None, None, true)]).project(&[1, 0, 2]).unwrap());
        assert!(interleave_rows(&[&one, &other], &[(0, 0), (1, 0)]).is_err());
        assert!(interleave_rows(&[], &[]).is_err());
    }
}
