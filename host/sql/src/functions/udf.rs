//! A scalar function of the engine made from a plain Rust function over arrays.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::nullif;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::rows::{self, Body};
use crate::engine::memory::count_copied;

/// What a kernel computes: one array out of its arguments' arrays, all of one length.
pub(crate) type Compute = fn(&[ArrayRef], safe: bool) -> EngineResult<ArrayRef>;

/// A kernel as the engine sees it. Its arguments are typed by the resolver, so any are taken.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) safe: bool,
    signature: Signature,
    returns: DataType,
    compute: Compute,
}

impl Kernel {
    pub(crate) fn new(name: &'static str, safe: bool, arguments: usize, returns: DataType, compute: Compute) -> Self {
        Self { name, safe, signature: Signature::any(arguments, Volatility::Immutable), returns, compute }
    }
}

// A kernel is its name and its safety; the rest follows from them.
impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.safe == other.safe
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.safe.hash(state);
    }
}

impl ScalarUDFImpl for Kernel {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> EngineResult<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let scalar = call.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { call.number_rows };
        let arrays = call.args.iter().map(|argument| argument.to_array(rows)).collect::<EngineResult<Vec<_>>>()?;
        let result = (self.compute)(&arrays, self.safe)?;
        count_copied(&result)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// A kernel that computes a row at a time, within bounds.
#[derive(Debug)]
pub(crate) struct RowKernel {
    name: &'static str,
    safe: bool,
    signature: Signature,
    /// Whether the kernel sees NULLs; otherwise a NULL argument makes a NULL.
    nulls: bool,
    body: Body,
}

impl RowKernel {
    /// A volatile one is never computed before the statement runs.
    pub(super) fn new(name: &'static str, safe: bool, nulls: bool, body: Body, volatile: bool) -> Self {
        let volatility = if volatile { Volatility::Volatile } else { Volatility::Immutable };
        Self { name, safe, signature: Signature::variadic_any(volatility), nulls, body }
    }
}

impl PartialEq for RowKernel {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.safe == other.safe && self.signature.volatility == other.signature.volatility
    }
}

impl Eq for RowKernel {}

impl Hash for RowKernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.safe.hash(state);
    }
}

impl ScalarUDFImpl for RowKernel {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> EngineResult<DataType> {
        Ok(self.body.returns(arguments))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let (array, constant) = rows::compute(self.body, self.nulls, self.safe, &call.args, call.number_rows)?;
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// One of the engine's functions that make arrays out of arrays or values, within bounds: it is
/// known before that the result is not too large, and counted after.
pub(crate) fn bounded(inner: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    bounded_as(inner, arguments, false)
}

/// The same, but NULL where any argument is.
pub(crate) fn all_or_null(inner: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    bounded_as(inner, arguments, true)
}

fn bounded_as(inner: Arc<ScalarUDF>, arguments: Vec<Expr>, strict: bool) -> Expr {
    let mut signature = inner.signature().clone();
    // A constant array would be folded, and then copied into each row.
    if arguments.iter().all(|argument| !argument.any_column_refs()) {
        signature.volatility = Volatility::Volatile;
    }
    let name = format!("bounded_{}", inner.name());
    ScalarUDF::from(Bounded { name, inner, signature, strict }).call(arguments)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    /// A NULL argument makes a NULL.
    strict: bool,
    name: String,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> EngineResult<DataType> {
        self.inner.return_type(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> EngineResult<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let size = |argument: &ColumnarValue| match argument {
            ColumnarValue::Array(array) => copied_size(array),
            ColumnarValue::Scalar(scalar) => {
                let one = scalar.to_array_of_size(1).map_or(usize::MAX, |one| held_size(&one));
                one.saturating_mul(call.number_rows)
            }
        };
        rows::check_batch(call.args.iter().map(size).fold(0, usize::saturating_add))?;
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

/// What a copy of an array takes: texts are shared.
pub(crate) fn copied_size(array: &ArrayRef) -> usize {
    size(array, false)
}

/// What an array takes that has its texts for itself.
pub(super) fn held_size(array: &ArrayRef) -> usize {
    size(array, true)
}

fn size(array: &ArrayRef, with_texts: bool) -> usize {
    match array.data_type() {
        DataType::Utf8View => {
            let texts = if with_texts { array.as_string_view().total_buffer_bytes_used() } else { 0 };
            array.len().saturating_mul(size_of::<u128>()).saturating_add(texts)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let bound =
                |offset: Option<&i32>| offset.and_then(|offset| usize::try_from(*offset).ok()).unwrap_or_default();
            let (from, to) = (bound(list.value_offsets().first()), bound(list.value_offsets().last()));
            let elements = size(&list.values().slice(from, to.saturating_sub(from)), with_texts);
            elements.saturating_add(array.len().saturating_mul(size_of::<i32>()))
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|column| size(column, with_texts)).fold(0, usize::saturating_add)
        }
        // Of plain values only.
        _ => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX),
    }
}

/// An array that is chosen among others, by CASE for example, is copied: counted.
pub(crate) fn counted(array: Expr) -> Expr {
    ScalarUDF::from(Counted { signature: Signature::any(1, Volatility::Immutable) }).call(vec![array])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Counted {
    signature: Signature,
}

impl ScalarUDFImpl for Counted {
    fn name(&self) -> &'static str {
        "counted"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> EngineResult<DataType> {
        arguments.first().cloned().ok_or_else(super::kernels::arity)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let value = call.args.into_iter().next().ok_or_else(super::kernels::arity)?;
        if let ColumnarValue::Array(array) = &value {
            count_copied(array)?;
        }
        Ok(value)
    }
}
