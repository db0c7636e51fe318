//! Calls of functions over typed values that need no conversions, so that conversions can use them.

use tidegate_functions::scalar;

use crate::typed::Typed;
use crate::types::Type;

/// TO_JSON_STRING.
pub(crate) fn to_json_string(value: &Typed) -> Typed {
    Typed::new(scalar::json_text(value.expr.clone(), &value.ty), Type::String)
}
