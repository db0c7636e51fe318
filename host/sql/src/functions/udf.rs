//! A scalar function of the engine made from a plain Rust function over arrays.

use std::hash::{Hash, Hasher};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

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
