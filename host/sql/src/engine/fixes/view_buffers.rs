//! Keeping the buffers of texts few.
//!
//! An array of texts is a list of buffers, and views that say where in which buffer a text lies. Who joins batches puts
//! their lists together, and who takes rows of an array copies its whole list, whatever the rows use of it. So an operator
//! that joins its input, and then hands it on in batches, hands on each buffer as many times as it has batches: after twelve
//! joins the lists had millions of entries of the same few buffers, which nobody counts. Here a list is
//! replaced by one of what is used, each buffer once.
//!
//! Seen with arrow 59.3.2: issue 10692 of arrow-rs, closed on its main branch. It can go with the first version in which joined
//! arrays of one buffer have one, which the test below tells; `tests/growth.rs` shows what it is for.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, ByteView, FixedSizeListArray, ListArray, RecordBatch, StructArray,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;

use crate::engine::wrapper::{Wrapper, each_batch, wrapped};

/// Lists of so many buffers stay as they are.
const FEW: usize = 16;

/// So do those with at most one buffer for so many rows: the list is then small beside the views.
const ROWS: usize = 16;

/// The longest text that lies in its view.
const INLINE: u32 = 12;

/// The plan with operators that hand on few buffers.
pub(crate) fn with_few_buffers(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let has_views = plan.schema().fields().iter().any(|field| has_views(field.data_type()));
        Ok(match has_views && !plan.children().is_empty() {
            true => Transformed::yes(wrapped(plan, FewBuffers)),
            false => Transformed::no(plan),
        })
    })
    .data()
}

/// Whether arrays of a type have views, or their children do.
fn has_views(ty: &DataType) -> bool {
    match ty {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        DataType::List(item) | DataType::FixedSizeList(item, _) => has_views(item.data_type()),
        _ => false,
    }
}

/// Replaces long lists of buffers in the rows of an operator.
#[derive(Debug, Clone)]
struct FewBuffers;

impl Wrapper for FewBuffers {
    const NAME: &'static str = "FewBuffers";

    fn wrap(&self, rows: SendableRecordBatchStream, _: &TaskContext) -> SendableRecordBatchStream {
        each_batch(rows, few_of_batch)
    }
}

fn few_of_batch(batch: RecordBatch) -> Result<RecordBatch> {
    if !batch.columns().iter().any(is_long) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(few).collect::<Result<Vec<_>, _>>()?;
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Whether an array, or one of its children, has a list of buffers that is long for its rows.
fn is_long(array: &ArrayRef) -> bool {
    let long = |buffers: &[Buffer], rows: usize| buffers.len() > FEW.max(rows / ROWS);
    match array.data_type() {
        DataType::Utf8View => long(array.as_string_view().data_buffers(), array.len()),
        DataType::BinaryView => long(array.as_binary_view().data_buffers(), array.len()),
        DataType::Struct(_) => array.as_struct().columns().iter().any(is_long),
        DataType::List(_) => is_long(array.as_list::<i32>().values()),
        DataType::FixedSizeList(..) => is_long(array.as_fixed_size_list().values()),
        _ => false,
    }
}

/// The same array with each buffer that it uses once.
fn few(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !is_long(array) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Utf8View => {
            Arc::new(few_of_views(array.as_string_view().clone().to_binary_view())?.to_string_view()?)
        }
        DataType::BinaryView => Arc::new(few_of_views(array.as_binary_view().clone())?),
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(few).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())?)
        }
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = few(list.values())?;
            Arc::new(ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned())?)
        }
        DataType::FixedSizeList(item, length) => {
            let list = array.as_fixed_size_list();
            let values = few(list.values())?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *length, values, list.nulls().cloned())?)
        }
        _ => Arc::clone(array),
    })
}

fn few_of_views(array: BinaryViewArray) -> Result<BinaryViewArray, ArrowError> {
    let (views, buffers, nulls) = array.into_parts();
    let mut used = UsedBuffers { numbers: vec![None; buffers.len()], by_place: HashMap::new(), kept: Vec::new() };
    let moved = views.iter().enumerate().map(|(row, view)| {
        // What stands in the place of NULL may be anything, and is looked at when an array is made.
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return 0;
        }
        match ByteView::from(*view) {
            view if view.length <= INLINE => view.as_u128(),
            view => {
                used.number(view.buffer_index, &buffers).map_or(0, |number| view.with_buffer_index(number).as_u128())
            }
        }
    });
    let moved: Vec<u128> = moved.collect();
    BinaryViewArray::try_new(moved.into(), used.kept, nulls)
}

/// The buffers that views use, with their new numbers.
struct UsedBuffers {
    /// The new number of each old one.
    numbers: Vec<Option<u32>>,
    /// The new number of the buffer at an address, with a length.
    by_place: HashMap<(usize, usize), u32>,
    kept: Vec<Buffer>,
}

impl UsedBuffers {
    /// The new number of a buffer; `None` if there is no such buffer.
    fn number(&mut self, old: u32, buffers: &[Buffer]) -> Option<u32> {
        let old = usize::try_from(old).ok()?;
        if let Some(known) = *self.numbers.get(old)? {
            return Some(known);
        }
        let buffer = buffers.get(old)?;
        let next = u32::try_from(self.kept.len()).ok()?;
        let number = *self.by_place.entry((buffer.as_ptr() as usize, buffer.len())).or_insert_with(|| {
            self.kept.push(buffer.clone());
            next
        });
        *self.numbers.get_mut(old)? = Some(number);
        Some(number)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringViewArray, StringViewBuilder, UInt32Array};
    use datafusion::arrow::compute::{concat, take};
    use datafusion::arrow::datatypes::{Field, Fields};

    use super::*;

    /// Texts in buffers of a few each.
    fn texts(from: usize, count: usize) -> ArrayRef {
        let mut builder = StringViewBuilder::new().with_fixed_block_size(64);
        for number in from..from + count {
            match number % 5 {
                0 => builder.append_null(),
                1 => builder.append_value("short"),
                _ => builder.append_value(format!("a text that is longer than a view, {number}")),
            }
        }
        Arc::new(builder.finish())
    }

    fn buffers(array: &ArrayRef) -> usize {
        array.as_string_view().data_buffers().len()
    }

    /// What a chain of joins does to a column.
    #[test]
    fn lists_do_not_grow_from_one_operator_to_the_next() {
        let mut batches: Vec<ArrayRef> = (0..8).map(|part| texts(part * 100, 100)).collect();
        let expected = concat(&batches.iter().map(|batch| batch.as_ref()).collect::<Vec<_>>()).unwrap();
        let distinct = buffers(&expected);
        for _ in 0..12 {
            let whole = concat(&batches.iter().map(|batch| batch.as_ref()).collect::<Vec<_>>()).unwrap();
            assert!(buffers(&whole) <= distinct * 2, "{} of {distinct}", buffers(&whole));
            let rows = |part: u32| UInt32Array::from_iter_values(part * 100..(part + 1) * 100);
            batches = (0..8).map(|part| few(&take(&whole, &rows(part), None).unwrap()).unwrap()).collect();
        }
        let whole = concat(&batches.iter().map(|batch| batch.as_ref()).collect::<Vec<_>>()).unwrap();
        assert_eq!(&whole, &expected);
    }

    #[test]
    fn children_of_records_and_lists_have_few_buffers_too() {
        let one = texts(0, 100);
        let many: ArrayRef = concat(&vec![one.as_ref(); 50]).unwrap().slice(0, 100);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
        let fields =
            Fields::from(vec![Field::new("t", DataType::Utf8View, true), Field::new("n", DataType::Int64, true)]);
        let record: ArrayRef = Arc::new(StructArray::new(fields, vec![Arc::clone(&many), numbers], None));
        let item = Arc::new(Field::new_list_field(record.data_type().clone(), true));
        let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([40, 0, 60]);
        let list: ArrayRef = Arc::new(ListArray::new(item, offsets, record, None));
        assert!(is_long(&list) && has_views(list.data_type()));
        let fewer = few(&list).unwrap();
        assert_eq!(&fewer, &list);
        assert!(buffers(fewer.as_list::<i32>().values().as_struct().column(0)) <= buffers(&one));
        let batch = RecordBatch::try_from_iter([("l", list)]).unwrap();
        assert_eq!(few_of_batch(batch.clone()).unwrap(), batch);
    }

    /// When this fails, who joins arrays keeps their buffers few, and this file can go.
    #[test]
    fn arrow_alone_lists_one_buffer_as_often_as_it_is_joined() {
        let one = texts(2, 1);
        assert_eq!((buffers(&one), buffers(&concat(&vec![one.as_ref(); 50]).unwrap())), (1, 50));
    }

    #[test]
    fn what_has_few_buffers_is_the_same_array() {
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(["a text that is longer than a view"; 3]));
        assert!(Arc::ptr_eq(&few(&array).unwrap(), &array));
    }
}
