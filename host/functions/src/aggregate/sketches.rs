//! HLL_COUNT.INIT, which makes a sketch of values, and HLL_COUNT.MERGE_PARTIAL, which makes one of several.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::first;
use crate::arrays::arity;
use crate::context::{Transient, check, failed, value_error};
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
        Ok(Box::new(Held { values: self.values, sketch: None, memory: Transient::default() }))
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
    /// The memory of a large sketch: one batch may be of thousands of groups, and the engine counts after it.
    memory: Transient,
}

/// Looks at the stop sign after so many bytes of values or sketches: a millisecond or so.
const BETWEEN_CHECKS: usize = 1 << 20;

/// The bytes of each value of an array of texts or BYTES, of whichever type.
fn each(values: &ArrayRef, mut see: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut seen = BETWEEN_CHECKS;
    let mut see = |bytes: &[u8]| {
        seen = seen.saturating_add(bytes.len()).saturating_add(size_of::<u128>());
        if seen > BETWEEN_CHECKS {
            seen = 0;
            check()?;
        }
        see(bytes)
    };
    match values.data_type() {
        DataType::Null => Ok(()),
        DataType::Utf8View => values.as_string_view().iter().flatten().try_for_each(|text| see(text.as_bytes())),
        DataType::Utf8 => values.as_string::<i32>().iter().flatten().try_for_each(|text| see(text.as_bytes())),
        DataType::LargeUtf8 => values.as_string::<i64>().iter().flatten().try_for_each(|text| see(text.as_bytes())),
        DataType::BinaryView => values.as_binary_view().iter().flatten().try_for_each(see),
        DataType::Binary => values.as_binary::<i32>().iter().flatten().try_for_each(see),
        DataType::LargeBinary => values.as_binary::<i64>().iter().flatten().try_for_each(see),
        _ => Err(arity()),
    }
}

impl Held {
    fn merge(&mut self, sketches: &ArrayRef) -> Result<()> {
        each(sketches, |bytes| {
            let other = Sketch::read(bytes).ok_or_else(|| value_error(NO_SKETCH))?;
            match &mut self.sketch {
                Some(sketch) => sketch.merge(other).ok_or_else(|| {
                    value_error("sketches of values of different types cannot be merged by HLL_COUNT functions")
                })?,
                none => *none = Some(other),
            }
            self.count()
        })
    }

    /// Counts what the sketch has grown by.
    fn count(&mut self) -> Result<()> {
        let size = self.sketch.as_ref().map_or(0, Sketch::size);
        self.memory.grow(size.saturating_sub(self.memory.grown())).map_err(failed)
    }
}

impl Accumulator for Held {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = first(values)?;
        let Some((of, precision)) = self.values else { return self.merge(values) };
        if values.null_count() == values.len() {
            return Ok(());
        }
        let sketch = self.sketch.get_or_insert_with(|| Sketch::new(of, precision));
        each(values, |value| {
            sketch.add(value);
            Ok(())
        })?;
        self.count()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(first(states)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sketch = self.sketch.as_mut().map(Sketch::written);
        if sketch.as_ref().is_some_and(|bytes| bytes.len() > MAX_VALUE) {
            return Err(limit("a sketch has at most 16 MiB; HLL_COUNT.INIT(x, 20) makes smaller ones"));
        }
        Ok(ScalarValue::Binary(sketch))
    }

    /// What is not counted yet.
    fn size(&self) -> usize {
        let sketch = self.sketch.as_ref().map_or(0, Sketch::size);
        size_of_val(self) + sketch.saturating_sub(self.memory.counted())
    }
}
