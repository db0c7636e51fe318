//! FLOAT64 where the engine compares by bits: as keys, in comparisons, and as elements of lists.

use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use super::constant::folded;
use super::kernel::kernel;
use crate::typed::Typed;
use crate::types::Type;

const KEY: &str = "float_key";
const NAN_LAST: &str = "float_nan_last";

/// A value as a key of groups, windows, DISTINCT or an order: a FLOAT64 with one zero and one NaN, which is before all
/// numbers; any other as it is.
pub(crate) fn float_key(value: Typed) -> Typed {
    if value.ty != Type::Float64 || keyed_float(&value.expr).is_some() {
        return value;
    }
    folded(Typed::new(kernel(KEY, false, vec![value.expr]), Type::Float64))
}

/// The FLOAT64 of which an expression is the key, if it is one.
pub(crate) fn keyed_float(expr: &Expr) -> Option<&Expr> {
    argument_of(KEY, expr)
}

/// The FLOAT64 of which an expression is the key, or in which NaN was put after all numbers.
pub(crate) fn compared_float(expr: &Expr) -> Option<&Expr> {
    argument_of(KEY, expr).or_else(|| argument_of(NAN_LAST, expr))
}

fn argument_of<'e>(name: &str, expr: &'e Expr) -> Option<&'e Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == name => call.args.first(),
        _ => None,
    }
}

/// A FLOAT64 whose NaN equals no value, and than which nothing is greater.
pub(crate) fn nan_last(float: Expr) -> Expr {
    kernel(NAN_LAST, false, vec![float])
}

/// A value for a sketch of different ones, which takes neither FLOAT64 nor decimals: the bits of its key, or its text.
pub(crate) fn float_key_bits(value: Typed) -> Typed {
    match value.ty {
        Type::Float64 => Typed::new(kernel("float_key_bits", false, vec![value.expr]), Type::Int64),
        Type::Numeric | Type::BigNumeric => Typed::new(kernel("decimal_text", false, vec![value.expr]), Type::String),
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
