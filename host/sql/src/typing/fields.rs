//! The fields of a STRUCT, one by one: the engine compares STRUCTs by bits, which neither FLOAT64 nor NULL are compared by.

use std::collections::BTreeSet;

use datafusion::arrow::array::{Array, ArrayRef, StructArray};
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use tidegate_functions::scalar::field;

use crate::typed::Typed;
use crate::types::{Field, Type};

/// Whether a type is a STRUCT with a FLOAT64 in it.
pub(crate) fn holds_float(ty: &Type) -> bool {
    match ty {
        Type::Struct { fields, .. } => fields.iter().any(|field| field.ty == Type::Float64 || holds_float(&field.ty)),
        _ => false,
    }
}

/// The fields of a STRUCT as values; `None` if they cannot be told apart.
pub(super) fn fields_of(value: &Typed) -> Option<Vec<Typed>> {
    let Type::Struct { fields, open: false } = &value.ty else { return None };
    let exprs: Vec<Expr> = match &value.expr {
        Expr::ScalarFunction(call) if call.func.name() == "named_struct" => {
            call.args.chunks_exact(2).filter_map(|pair| pair.last().cloned()).collect()
        }
        Expr::Literal(ScalarValue::Struct(record), _) => literals(record)?,
        expr if are_unique(fields) => fields.iter().map(|of| field(expr.clone(), &of.name)).collect(),
        _ => return None,
    };
    (exprs.len() == fields.len())
        .then(|| exprs.into_iter().zip(fields.iter()).map(|(expr, field)| Typed::new(expr, field.ty.clone())).collect())
}

fn literals(record: &StructArray) -> Option<Vec<Expr>> {
    if record.len() != 1 || record.is_null(0) {
        return None;
    }
    let literal = |values: &ArrayRef| Some(Expr::Literal(ScalarValue::try_from_array(values, 0).ok()?, None));
    record.columns().iter().map(literal).collect()
}

fn are_unique(fields: &[Field]) -> bool {
    let names: BTreeSet<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    names.len() == fields.len()
}
