//! APPROX_QUANTILES, computed exactly: `n` parts have `n + 1` borders, the first the smallest
//! value, the last the largest.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{concat, filter, is_not_null, sort, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

/// The aggregate for `parts` parts.
pub(crate) fn quantiles(parts: usize) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::from(Quantiles { parts, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quantiles {
    parts: usize,
    signature: Signature,
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

impl AggregateUDFImpl for Quantiles {
    fn name(&self) -> &'static str {
        "quantiles"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(list_of(arguments.first().cloned().unwrap_or(DataType::Null)))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let item = match arguments.return_field.data_type() {
            DataType::List(item) => item.data_type().clone(),
            other => other.clone(),
        };
        Ok(Box::new(Values { parts: self.parts, item, chunks: Vec::new() }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let name = format!("{}[values]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, arguments.return_field.data_type().clone(), true))])
    }
}

/// All values of one group.
#[derive(Debug)]
struct Values {
    parts: usize,
    item: DataType,
    chunks: Vec<ArrayRef>,
}

impl Values {
    fn all(&self) -> Result<ArrayRef> {
        if self.chunks.is_empty() {
            return Ok(new_empty_array(&self.item));
        }
        let chunks: Vec<&dyn Array> = self.chunks.iter().map(AsRef::as_ref).collect();
        Ok(concat(&chunks)?)
    }

    fn push(&mut self, values: &ArrayRef) -> Result<()> {
        let present = if values.null_count() > 0 { filter(values, &is_not_null(values)?)? } else { Arc::clone(values) };
        if !present.is_empty() {
            self.chunks.push(present);
        }
        // Many small batches of one group would cost more in headers than in values.
        if self.chunks.len() > 64 {
            self.chunks = vec![self.all()?];
        }
        Ok(())
    }

    fn list(&self, values: ArrayRef) -> ScalarValue {
        let field = Arc::new(Field::new_list_field(self.item.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        ScalarValue::List(Arc::new(ListArray::new(field, offsets, values, None)))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.push(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let Some(lists) = states.first().and_then(|state| state.as_list_opt::<i32>()) {
            for values in lists.iter().flatten() {
                self.push(&values)?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list(self.all()?)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sorted = sort(&self.all()?, None)?;
        if sorted.is_empty() {
            return ScalarValue::try_new_null(&list_of(self.item.clone()));
        }
        // Border k is the smallest value that at least k/parts of all values do not exceed.
        let rank = |k: usize| (k * sorted.len()).div_ceil(self.parts).saturating_sub(1);
        let borders = (0..=self.parts).map(|k| u32::try_from(rank(k)).unwrap_or(u32::MAX));
        let picked = take(&sorted, &UInt32Array::from_iter_values(borders), None)?;
        Ok(self.list(picked))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.chunks.iter().map(|chunk| chunk.get_array_memory_size()).sum::<usize>()
    }
}
