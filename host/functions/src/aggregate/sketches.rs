//! HLL_COUNT.INIT and KLL_QUANTILES.INIT_*, which make a sketch of values, and the two MERGE_PARTIAL, which make one of several.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use super::sum::first;
use crate::arrays::arity;
use crate::context::{Transient, check, failed, value_error};
use crate::quantile_sketch::{NO_QUANTILES, QuantileSketch, QuantilesOf, key_of_float};
use crate::rows::{MAX_VALUE, limit};
use crate::sketch::{NO_SKETCH, Sketch, SketchOf};

/// The sketch of values of a type, at a precision; their texts or bytes are the argument.
pub fn sketch(of: SketchOf, precision: u8) -> Arc<AggregateUDF> {
    made(Of::Distinct(Some((of, precision))))
}

/// One sketch of several.
pub fn merged_sketch() -> Arc<AggregateUDF> {
    made(Of::Distinct(None))
}

/// The sketch of the quantiles of INT64 or FLOAT64, at a precision.
pub fn quantile_sketch(of: QuantilesOf, precision: u32) -> Arc<AggregateUDF> {
    made(Of::Quantiles(Some((of, precision))))
}

/// One sketch of quantiles of several.
pub fn merged_quantile_sketch() -> Arc<AggregateUDF> {
    made(Of::Quantiles(None))
}

fn made(of: Of) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Sketches { of, signature: Signature::any(1, Volatility::Immutable) }))
}

/// Which sketches, what their values are, and the precision; `None` if the argument is sketches.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Of {
    Distinct(Option<<Sketch as Sketched>::Values>),
    Quantiles(Option<<QuantileSketch as Sketched>::Values>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sketches {
    of: Of,
    signature: Signature,
}

impl AggregateUDFImpl for Sketches {
    fn name(&self) -> &'static str {
        match self.of {
            Of::Distinct(Some(_)) => "sketch",
            Of::Distinct(None) => "merged_sketch",
            Of::Quantiles(Some(_)) => "quantile_sketch",
            Of::Quantiles(None) => "merged_quantile_sketch",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let memory = Transient::default();
        Ok(match self.of {
            Of::Distinct(values) => Box::new(Held::<Sketch> { values, sketch: None, memory }),
            Of::Quantiles(values) => Box::new(Held::<QuantileSketch> { values, sketch: None, memory }),
        })
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[sketch]", arguments.name), DataType::Binary, true))])
    }
}

/// A sketch of one value or more.
trait Sketched: Debug + Send + Sync + Sized + 'static {
    /// What the values are, and the precision.
    type Values: Debug + Copy + Send + Sync;
    /// What is said of one that is too long.
    const TOO_LONG: &'static str;

    /// Adds values, of which some are not NULL, to a sketch, which may be the first ones.
    fn add(sketch: &mut Option<Self>, of: Self::Values, values: &ArrayRef) -> Result<()>;
    fn of_bytes(bytes: &[u8]) -> Result<Self>;
    fn unite(&mut self, other: Self) -> Result<()>;
    fn bytes(&mut self) -> Vec<u8>;
    fn held(&self) -> usize;
}

impl Sketched for Sketch {
    type Values = (SketchOf, u8);
    const TOO_LONG: &'static str = "a sketch has at most 16 MiB; HLL_COUNT.INIT(x, 20) makes smaller ones";

    fn add(sketch: &mut Option<Self>, (of, precision): Self::Values, values: &ArrayRef) -> Result<()> {
        let sketch = sketch.get_or_insert_with(|| Self::new(of, precision));
        each(values, |value| {
            sketch.add(value);
            Ok(())
        })
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).ok_or_else(|| value_error(NO_SKETCH))
    }

    fn unite(&mut self, other: Self) -> Result<()> {
        let message = "sketches of values of different types cannot be merged by HLL_COUNT functions";
        self.merge(other).ok_or_else(|| value_error(message))
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.written()
    }

    fn held(&self) -> usize {
        self.size()
    }
}

impl Sketched for QuantileSketch {
    type Values = (QuantilesOf, u32);
    const TOO_LONG: &'static str =
        "a sketch has at most 16 MiB; a lower precision of KLL_QUANTILES.INIT makes smaller ones";

    fn add(sketch: &mut Option<Self>, (of, precision): Self::Values, values: &ArrayRef) -> Result<()> {
        let mut add = |key| match sketch {
            Some(sketch) => sketch.add(key),
            None => *sketch = Some(Self::new(of, precision, key)),
        };
        check()?;
        match of {
            QuantilesOf::Int64 => values.as_primitive::<Int64Type>().iter().flatten().for_each(add),
            QuantilesOf::Float64 => {
                values.as_primitive::<Float64Type>().iter().flatten().for_each(|value| add(key_of_float(value)))
            }
        }
        Ok(())
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).ok_or_else(|| value_error(NO_QUANTILES))
    }

    fn unite(&mut self, other: Self) -> Result<()> {
        let message = "sketches of INT64 and FLOAT64 cannot be merged by KLL_QUANTILES functions, nor those of more than 2^63 values";
        self.merge(other).ok_or_else(|| value_error(message))
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.written()
    }

    fn held(&self) -> usize {
        self.size()
    }
}

/// The sketch of one group so far, if it has a value.
#[derive(Debug)]
struct Held<S: Sketched> {
    values: Option<S::Values>,
    sketch: Option<S>,
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

impl<S: Sketched> Held<S> {
    fn merge(&mut self, sketches: &ArrayRef) -> Result<()> {
        each(sketches, |bytes| {
            let other = S::of_bytes(bytes)?;
            match &mut self.sketch {
                Some(sketch) => sketch.unite(other)?,
                none => *none = Some(other),
            }
            self.count()
        })
    }

    fn held(&self) -> usize {
        self.sketch.as_ref().map_or(0, S::held)
    }

    /// Counts what the sketch has grown by.
    fn count(&mut self) -> Result<()> {
        self.memory.grow(self.held().saturating_sub(self.memory.grown())).map_err(failed)
    }
}

impl<S: Sketched> Accumulator for Held<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = first(values)?;
        let Some(of) = self.values else { return self.merge(values) };
        if values.null_count() == values.len() {
            return Ok(());
        }
        S::add(&mut self.sketch, of, values)?;
        self.count()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(first(states)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sketch = self.sketch.as_mut().map(S::bytes);
        if sketch.as_ref().is_some_and(|bytes| bytes.len() > MAX_VALUE) {
            return Err(limit(S::TOO_LONG));
        }
        Ok(ScalarValue::Binary(sketch))
    }

    /// What is not counted yet.
    fn size(&self) -> usize {
        size_of_val(self) + self.held().saturating_sub(self.memory.counted())
    }
}
