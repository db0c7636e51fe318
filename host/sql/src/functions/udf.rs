//! A scalar function of the engine made from a plain Rust function over arrays.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as EngineResult;
use datafusion::functions_nested::concat::array_concat_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::rows::{self, Body};

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

/// ARRAY_CONCAT: the engine's, once it is known that the result is not too large.
pub(super) fn bounded_concat(arrays: Vec<Expr>) -> Expr {
    let inner = array_concat_udf();
    let mut signature = inner.signature().clone();
    // A constant array would be folded, and then copied into each row.
    if arrays.iter().all(|array| !array.any_column_refs()) {
        signature.volatility = Volatility::Volatile;
    }
    ScalarUDF::from(BoundedConcat { inner, signature }).call(arrays)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BoundedConcat {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for BoundedConcat {
    fn name(&self) -> &'static str {
        "bounded_array_concat"
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
            ColumnarValue::Array(array) => array.get_array_memory_size(),
            ColumnarValue::Scalar(scalar) => scalar.size().saturating_mul(call.number_rows),
        };
        rows::check_batch(call.args.iter().map(size).fold(0, usize::saturating_add))?;
        self.inner.invoke_with_args(call)
    }
}
