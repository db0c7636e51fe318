//! A kernel as a scalar function of the engine.

use std::hash::{Hash, Hasher};

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

use crate::arrays::arity;
use crate::context::{check, count_copied};
use crate::kernel::{Computation, Kernel};
use crate::rows;

/// A kernel in one of its forms. Its arguments are typed by whoever builds the call, so any types are taken.
#[derive(Debug)]
pub(crate) struct KernelFunction {
    kernel: &'static Kernel,
    safe: bool,
    signature: Signature,
}

impl KernelFunction {
    /// A `safe` one gives NULL where the other fails; a `late` one is never computed before the statement runs.
    pub(crate) fn new(kernel: &'static Kernel, safe: bool, late: bool) -> Self {
        let volatility = if late { Volatility::Volatile } else { Volatility::Immutable };
        let signature = match kernel.computation() {
            Computation::Rows { .. } | Computation::OfFirst(_) => Signature::variadic_any(volatility),
            Computation::Arrays(..) | Computation::Lists(_) => Signature::any(*kernel.arity().end(), volatility),
        };
        Self { kernel, safe, signature }
    }

    pub(crate) fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.safe
    }

    pub(crate) fn is_late(&self) -> bool {
        self.signature.volatility == Volatility::Volatile
    }
}

// Equal are functions of the same name and flags: everything else follows from these.
impl PartialEq for KernelFunction {
    fn eq(&self, other: &Self) -> bool {
        self.kernel.name() == other.kernel.name() && self.safe == other.safe && self.is_late() == other.is_late()
    }
}

impl Eq for KernelFunction {}

impl Hash for KernelFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kernel.name(), self.safe, self.is_late()).hash(state);
    }
}

/// The most bytes that constants take where they are repeated for rows.
const REPEATED: usize = 16 << 20;

/// Computes rows of arrays, of so many at a time that constants, which are repeated for them, take little memory.
fn in_parts(
    arguments: &[ColumnarValue],
    rows: usize,
    compute: impl Fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let size = |argument: &ColumnarValue| match argument {
        ColumnarValue::Scalar(value) => value.size(),
        ColumnarValue::Array(_) => 0,
    };
    let of_row: usize = arguments.iter().map(size).sum();
    if of_row.saturating_mul(rows) <= REPEATED || rows <= 1 {
        let arrays = arguments.iter().map(|argument| argument.to_array(rows));
        return compute(&arrays.collect::<Result<Vec<_>>>()?);
    }
    let most = (REPEATED / of_row.max(1)).max(1);
    let mut parts = Vec::new();
    for start in (0..rows).step_by(most) {
        check()?;
        let length = most.min(rows - start);
        let arrays = arguments.iter().map(|argument| match argument {
            ColumnarValue::Array(array) => Ok(array.slice(start, length)),
            constant @ ColumnarValue::Scalar(_) => constant.to_array(length),
        });
        let part = compute(&arrays.collect::<Result<Vec<_>>>()?)?;
        count_copied(&part)?;
        parts.push(part);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(concat(&parts)?)
}

/// Whether all columns have a type. The resolver converts NULLs; the engine asks what a predicate makes of a column of NULLs
/// without a type, and does without an answer (DataFusion 55.2.0, `is_restrict_null_predicate`).
fn typed(arguments: &[ColumnarValue]) -> Result<()> {
    match arguments
        .iter()
        .any(|argument| matches!(argument, ColumnarValue::Array(array) if array.data_type().is_null()))
    {
        true => internal_err!("a column without a type"),
        false => Ok(()),
    }
}

impl ScalarUDFImpl for KernelFunction {
    fn name(&self) -> &str {
        self.kernel.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if !self.kernel.arity().contains(&arguments.len()) {
            return Err(arity());
        }
        Ok(self.kernel.returns(arguments))
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(array) = self.kernel.whole(&call.args) {
            check()?;
            count_copied(&array)?;
            return Ok(ColumnarValue::Array(array));
        }
        // Constants are repeated now, which is for nothing if the statement was stopped.
        check()?;
        let (array, constant) = match self.kernel.computation() {
            Computation::Rows { body, nulls } => rows::compute(*body, *nulls, self.safe, &call.args, call.number_rows)?,
            Computation::Arrays(_, compute) | Computation::OfFirst(compute) | Computation::Lists(compute) => {
                typed(&call.args)?;
                let constant = call.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
                let rows = if constant { 1 } else { call.number_rows };
                let array = in_parts(&call.args, rows, |arrays| compute(arrays, self.safe))?;
                count_copied(&array)?;
                (array, constant)
            }
        };
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        let is_kept = |number: usize, input: &ExprProperties| {
            self.kernel.keeps_order_of() == Some(number) || input.sort_properties == SortProperties::Singleton
        };
        Ok(match self.kernel.keeps_order_of().and_then(|argument| inputs.get(argument)) {
            Some(kept) if inputs.iter().enumerate().all(|(number, input)| is_kept(number, input)) => {
                kept.sort_properties
            }
            _ => SortProperties::Unordered,
        })
    }
}
