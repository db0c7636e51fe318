//! ARRAY_AGG without an order, with what it holds counted; and with DISTINCT.
//!
//! The engine's own counts a text as the 16 bytes that refer to it, and counts all that it holds again with every
//! batch. A statement could so hold ten times its limit, and its time grew with the square of its rows. Here texts count
//! too, and each value is counted once.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, MutableArrayData, make_array};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature};
use datafusion::scalar::ScalarValue;

use crate::arrays::held_size;

/// Bytes for the place of each element, kept while collecting and when the arrays are concatenated.
const PLACES: usize = 24;

/// ARRAY_AGG: an `own` one without an order, or with DISTINCT. Otherwise it is the engine's, which then holds single values
/// and counts them well.
///
/// With DISTINCT it is the engine's too, but one that the engine does not take for the reverse of another one: it would
/// forget to reverse its result.
pub fn collecting(own: bool) -> Arc<AggregateUDF> {
    let inner = array_agg_udaf();
    if own { Arc::new(AggregateUDF::from(Collect { inner })) } else { inner }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Collect {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Collect {
    fn name(&self) -> &'static str {
        "collect"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn supports_null_handling_clause(&self) -> bool {
        true
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return self.inner.accumulator(arguments);
        }
        Ok(Box::new(Collected { inner: self.inner.accumulator(arguments)?, held: 0 }))
    }

    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(arguments)
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Collected { inner: self.inner.create_groups_accumulator(arguments)?, held: 0 }))
    }
}

/// The values in buffers that hold little else, and their size.
pub(super) fn owned(values: &[ArrayRef]) -> (Vec<ArrayRef>, usize) {
    let own = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View => {
            let texts = array.as_string_view();
            let buffers: usize = texts.data_buffers().iter().map(|buffer| buffer.len()).sum();
            let wasteful = buffers > 2 * texts.total_buffer_bytes_used();
            if wasteful { Arc::new(texts.gc()) as ArrayRef } else { Arc::clone(array) }
        }
        // A slice of a large array would hold all of the array.
        _ if array.get_buffer_memory_size() > 2 * held_size(array).max(1 << 10) => copied(array),
        _ => Arc::clone(array),
    };
    let values: Vec<ArrayRef> = values.iter().map(own).collect();
    let size = values.iter().map(|array| held_size(array) + size_of::<ArrayRef>()).sum();
    (values, size)
}

/// The same values in buffers of their own.
fn copied(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, array.len());
    match copy.try_extend(0, 0, array.len()) {
        Ok(()) => make_array(copy.freeze()),
        Err(_) => Arc::clone(array),
    }
}

#[derive(Debug)]
struct Collected<A: ?Sized> {
    /// Bytes that were taken since all of it was last emitted.
    held: usize,
    inner: Box<A>,
}

impl Accumulator for Collected<dyn Accumulator> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (values, size) = owned(values);
        self.held += size;
        self.inner.update_batch(&values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.held += states.iter().map(held_size).sum::<usize>();
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held
    }
}

impl GroupsAccumulator for Collected<dyn GroupsAccumulator> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let (values, size) = owned(values);
        self.held += size + groups.len() * PLACES;
        self.inner.update_batch(&values, groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let elements = |state: &ArrayRef| state.as_list_opt::<i32>().map_or(0, |list| list.values().len());
        self.held += states.iter().map(|state| held_size(state) + elements(state) * PLACES).sum::<usize>();
        self.inner.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.given(emit_to);
        self.inner.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.given(emit_to);
        self.inner.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held
    }
}

impl Collected<dyn GroupsAccumulator> {
    fn given(&mut self, emit_to: EmitTo) {
        // The bytes of the first groups alone are not known: they stay counted.
        if matches!(emit_to, EmitTo::All) {
            self.held = 0;
        }
    }
}
