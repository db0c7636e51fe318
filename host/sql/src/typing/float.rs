//! FLOAT64 where the engine compares by bits: as keys, and as elements of lists.

use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use super::constant::folded;
use super::kernel::kernel;
use crate::typed::Typed;
use crate::types::Type;

const KEY: &str = "float_key";

/// A value as a key of groups, windows or DISTINCT: a FLOAT64 with one zero and one NaN; any other as it is.
pub(crate) fn float_key(value: Typed) -> Typed {
    if value.ty != Type::Float64 || matches!(&value.expr, Expr::ScalarFunction(call) if call.func.name() == KEY) {
        return value;
    }
    folded(Typed::new(kernel(KEY, false, vec![value.expr]), Type::Float64))
}

/// A value for a sketch of different ones, which takes no FLOAT64: the bits of its key.
pub(crate) fn float_key_bits(value: Typed) -> Typed {
    match value.ty {
        Type::Float64 => Typed::new(kernel("float_key_bits", false, vec![value.expr]), Type::Int64),
        _ => value,
    }
}

/// What a FLOAT64 that is written in a list stands for: both zeros for one of them, none for NaN, which equals nothing.
/// The value that is looked up stays as it is, so that the storage prunes by the list.
pub(crate) fn listed_floats(item: &Expr) -> Option<Vec<Expr>> {
    let float = |value: f64| Expr::Literal(ScalarValue::Float64(Some(value)), None);
    match item {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) if value.is_nan() => None,
        Expr::Literal(ScalarValue::Float64(Some(0.0)), _) => Some(vec![float(0.0), float(-0.0)]),
        item => Some(vec![item.clone()]),
    }
}
