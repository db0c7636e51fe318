//! Values as keys: of groups and DISTINCT, where only equality counts, and where the engine has to sort them.
//!
//! The engine compares by bits. So a FLOAT64 becomes its key, an INTERVAL the form in which days have 24 hours and months 30
//! days, and a STRUCT or ARRAY one of such values.

use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, col, lit, when};

use super::constant::folded;
use super::float::float_key;
use super::kernel::{kernel, to_json_string};
use super::list::mapped;
use super::records::stored_field;
use crate::typed::Typed;
use crate::types::Type;

/// Whether equal values of a type may differ in bits.
fn has_forms(ty: &Type) -> bool {
    match ty {
        Type::Float64 | Type::Interval => true,
        Type::Array(item) => has_forms(item),
        Type::Struct { fields, .. } => fields.iter().any(|field| has_forms(&field.ty)),
        _ => false,
    }
}

/// A value in the form that all values have that are equal to it.
pub(crate) fn group_key(value: Typed) -> Typed {
    let Typed { expr, ty, .. } = value;
    let key: Option<Expr> = match &ty {
        Type::Float64 => return float_key(Typed::new(expr, ty)),
        _ if !has_forms(&ty) => None,
        Type::Interval => Some(kernel("interval_key", false, vec![expr.clone()])),
        Type::Struct { fields, .. } => {
            let whole = Typed::new(expr.clone(), ty.clone());
            let parts =
                fields.iter().flat_map(|field| [lit(field.name.as_str()), group_key(stored_field(&whole, field)).expr]);
            when(expr.clone().is_not_null(), core::named_struct(parts.collect())).end().ok()
        }
        Type::Array(item) => {
            let name = "item".to_owned();
            let element = group_key(Typed::new(col(&name), (**item).clone()));
            let list = mapped(expr.clone(), name, element.expr).ok();
            list.and_then(|list| when(expr.clone().is_not_null(), list).end().ok())
        }
        _ => None,
    };
    folded(Typed::new(key.unwrap_or(expr), ty))
}

/// A value that is equal to another one as the given value is, of a type that the engine can sort and hash.
pub(crate) fn sort_key(value: Typed) -> Typed {
    match value.ty {
        Type::Interval => folded(Typed::new(kernel("interval_length", false, vec![value.expr]), Type::Int64)),
        Type::Array(_) | Type::Struct { .. } => {
            let there = value.expr.clone().is_not_null();
            let text = to_json_string(&group_key(value));
            let text_if_there = when(there, text.expr.clone()).end();
            Typed::new(text_if_there.unwrap_or(text.expr), Type::String)
        }
        _ => float_key(value),
    }
}
