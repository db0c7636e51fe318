//! Reading stored log records: a field, a record as a list, and a record as text.
//!
//! A nested object of a log event is an array of one struct to the dialect and a plain struct to the
//! engine ([`Type::Record`]). A record of which other events hold a text or a number under the same
//! name keeps such values as JSON in a hidden field; it is called mixed here.

use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, when};
use tidegate_functions::scalar::field;
use tidegate_model::UNLIKE_FIELD;

use crate::fail::{Planning, Result};

use super::kernel::{kernel, to_json_string};
use crate::typed::Typed;
use crate::types::{Field, Type, has_hidden, is_there};

/// A field that the type of `value` has.
pub(crate) fn stored_field(value: &Typed, of: &Field) -> Typed {
    Typed::new(field(value.expr.clone(), &of.name), of.ty.clone())
}

/// A stored record as the list of one element that it is to the dialect; NULL where there is no record.
///
/// # Errors
/// If the engine does not take the expression, which is a bug.
pub(crate) fn list_of_record(expr: Expr) -> Result<Expr> {
    when(expr.clone().is_not_null(), nested::make_array(vec![expr])).end().planned()
}

/// Whether a type is that of mixed records: in place of a record, an event may have a value of another kind.
pub(super) fn is_mixed(ty: &Type) -> bool {
    matches!(ty, Type::Record(fields) if has_hidden(fields, UNLIKE_FIELD))
}

/// A mixed record as text: the value that is there in place of the record, else the record's JSON.
/// `None` if `value` is no mixed record.
///
/// # Errors
/// If the engine does not take the expression, which is a bug.
pub(super) fn text_of_mixed(value: &Typed) -> Result<Option<Expr>> {
    let Type::Record(fields) = &value.ty else { return Ok(None) };
    if !is_mixed(&value.ty) {
        return Ok(None);
    }
    let element = Typed::new(value.expr.clone(), Type::Struct { fields: fields.clone(), open: true });
    let record = when(is_there(&value.expr, &value.ty), to_json_string(&element).expr).end().planned()?;
    let unlike = kernel("log_text", true, vec![core::get_field(value.expr.clone(), UNLIKE_FIELD)]);
    Ok(Some(core::coalesce(vec![unlike, record])))
}
