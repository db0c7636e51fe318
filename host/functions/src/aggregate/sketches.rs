//! HLL_COUNT.INIT, which makes a sketch of values, and HLL_COUNT.MERGE_PARTIAL, which makes one of several.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::first;
use crate::context::value_error;
use crate::rows::{MAX_VALUE, limit};
use crate::sketch::{NO_SKETCH, Sketch, SketchOf};

/// The sketch of values of a type, at a precision; their texts or bytes are the argument.
pub fn sketch(of: SketchOf, precision: u8) -> Arc<AggregateUDF> {
    made(Some((of, precision)))
}

/// One sketch of several.
pub fn merged_sketch() -> Arc<AggregateUDF> {
    made(None)
}

fn made(values: Option<(SketchOf, u8)>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Sketches { values, signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sketches {
    /// What the values are, and the precision; `None` if they are sketches.
    values: Option<(SketchOf, u8)>,
    signature: Signature,
}

impl AggregateUDFImpl for Sketches {
    fn name(&self) -> &'static str {
        if self.values.is_some() { "sketch" } else { "merged_sketch" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Held { values: self.values, sketch: None }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sketch]", arguments.name), DataType::Binary, true))])
    }
}

/// The sketch of one group so far, if it has a value.
#[derive(Debug)]
struct Held {
    values: Option<(SketchOf, u8)>,
    sketch: Option<Sketch>,
}

impl Held {
    fn merge(&mut self, sketches: &ArrayRef) -> Result<()> {
        let sketches = cast(sketches, &DataType::Binary)?;
        for bytes in sketches.as_binary::<i32>().iter().flatten() {
            let other = Sketch::read(bytes).ok_or_else(|| value_error(NO_SKETCH))?;
            match &mut self.sketch {
                Some(sketch) => sketch.merge(other).ok_or_else(|| {
                    value_error("sketches of values of different types cannot be merged by HLL_COUNT functions")
                })?,
                none => *none = Some(other),
            }
        }
        Ok(())
    }
}

impl Accumulator for Held {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = first(values)?;
        let Some((of, precision)) = self.values else { return self.merge(values) };
        if values.null_count() == values.len() {
            return Ok(());
        }
        let sketch = self.sketch.get_or_insert_with(|| Sketch::new(of as u8, precision));
        let values = cast(values, &DataType::Binary)?;
        values.as_binary::<i32>().iter().flatten().for_each(|value| sketch.add(value));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(first(states)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sketch = self.sketch.as_ref().map(Sketch::written);
        if sketch.as_ref().is_some_and(|bytes| bytes.len() > MAX_VALUE) {
            return Err(limit("a sketch has at most 16 MiB; HLL_COUNT.INIT(x, 20) makes smaller ones"));
        }
        Ok(ScalarValue::Binary(sketch))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sketch.as_ref().map_or(0, Sketch::size)
    }
}
