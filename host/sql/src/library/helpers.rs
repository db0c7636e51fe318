//! Calls of functions that no statement names, over typed values. They need no conversions, so that conversions can use
//! them.

use tidegate_functions::scalar;

use super::kernel::kernel;
use crate::resolve::folded;
use crate::typed::Typed;
use crate::types::Type;

/// TO_JSON_STRING.
pub(crate) fn to_json_string(value: &Typed) -> Typed {
    Typed::new(scalar::json_text(value.expr.clone(), &value.ty), Type::String)
}

/// A call of ERROR in the place of a `ty`; `None` if the value is no such call.
pub(crate) fn raised_as(value: &Typed, ty: &Type) -> Option<Typed> {
    Some(Typed::new(scalar::raised_as(&value.expr, &ty.arrow())?, ty.clone()))
}

/// What INTERVALs are compared by: microseconds, of which 24 hours are a day and 30 days a month.
pub(crate) fn interval_length(interval: Typed) -> Typed {
    folded(Typed::new(kernel("interval_length", false, vec![interval.expr]), Type::Int64))
}
