//! The engine's functions that make arrays, within bounds. The engine does not count what its own functions allocate.

use std::sync::Arc;

use datafusion::arrow::array::{Array, BooleanArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::arrays::{copied_size, held_size};
use crate::context::count_copied;
use crate::rows::check_batch;

/// A call of one of the engine's functions that make arrays out of arrays or values. That the result is not too large
/// is checked before it is made, and its memory is counted after.
pub fn bounded(inner: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    bounded_as(inner, arguments, false)
}

/// The same, but NULL where any argument is NULL.
pub fn all_or_null(inner: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    bounded_as(inner, arguments, true)
}

fn bounded_as(inner: Arc<ScalarUDF>, arguments: Vec<Expr>, strict: bool) -> Expr {
    // A constant array would be folded, and then copied into each row.
    let late = arguments.iter().all(|argument| !argument.any_column_refs());
    ScalarUDF::from(Bounded::new(inner, strict, late)).call(arguments)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounded {
    /// A NULL argument makes a NULL.
    strict: bool,
    name: String,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Bounded {
    /// A `late` one is never computed before the statement runs.
    pub(crate) fn new(inner: Arc<ScalarUDF>, strict: bool, late: bool) -> Self {
        let mut signature = inner.signature().clone();
        if late {
            signature.volatility = Volatility::Volatile;
        }
        Self { strict, name: format!("bounded_{}", inner.name()), inner, signature }
    }

    /// The name of the engine's function.
    pub(crate) fn inner(&self) -> &str {
        self.inner.name()
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    pub(crate) fn is_late(&self) -> bool {
        self.signature.volatility == Volatility::Volatile
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let size = |argument: &ColumnarValue| match argument {
            ColumnarValue::Array(array) => copied_size(array),
            ColumnarValue::Scalar(scalar) => {
                let one = scalar.to_array_of_size(1).map_or(usize::MAX, |one| held_size(&one));
                one.saturating_mul(call.number_rows)
            }
        };
        check_batch(call.args.iter().map(size).fold(0, usize::saturating_add))?;
        let missing = if self.strict { missing(&call.args) } else { Missing::None };
        if let Missing::All = missing {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(call.return_field.data_type())?));
        }
        let result = match (self.inner.invoke_with_args(call)?, missing) {
            (ColumnarValue::Array(array), Missing::Some(rows)) => ColumnarValue::Array(nullif(&array, &rows)?),
            (result, _) => result,
        };
        if let ColumnarValue::Array(array) = &result {
            count_copied(array)?;
        }
        Ok(result)
    }
}

/// The rows of a batch in which an argument is NULL.
enum Missing {
    None,
    Some(BooleanArray),
    All,
}

fn missing(arguments: &[ColumnarValue]) -> Missing {
    let mut present: Option<NullBuffer> = None;
    for argument in arguments {
        match argument {
            ColumnarValue::Scalar(scalar) if scalar.is_null() => return Missing::All,
            ColumnarValue::Scalar(_) => {}
            ColumnarValue::Array(array) => present = NullBuffer::union(present.as_ref(), array.nulls()),
        }
    }
    present.map_or(Missing::None, |present| Missing::Some(BooleanArray::new(!present.inner(), None)))
}
