//! The condition of a row policy over a stored table.
//!
//! Rows are a tenant's if the field at the key's path is exactly the tenant's value: a text byte for byte, a number or a BOOL
//! by its JSON text, everything else never. Where records repeat on the way, all that have the field must agree; a
//! row in which they do not is nobody's. Mostly the path leads through single records to a text, and the condition is a
//! plain comparison, which reaches the segments' statistics.

use datafusion::arrow::datatypes::{DataType, Fields, SchemaRef};
use datafusion::common::{Column, ScalarValue};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, lit};
use tidegate_model::{KeyPath, REST_FIELD, RowPolicy, UNLIKE_FIELD};

use crate::typing::kernel;

/// The kernel that finds the value at a path of which not all steps are plain records.
const VALUE_KERNEL: &str = "tenant_value";

/// The condition for the rows of a table that a policy lets through; `table` is the name of the table in the plan.
pub(super) fn condition(policy: &RowPolicy, table: &str, schema: &SchemaRef) -> Expr {
    let is = |(path, value): &(KeyPath, String)| {
        // The JSON of a list or a record, which a path of values of several kinds shows as text, is no tenant.
        if value.starts_with(['[', '{']) {
            return lit(false);
        }
        let column = |name: &str| Expr::Column(Column::new(Some(table), name));
        let Some((first, rest)) = path.names().split_first() else { return lit(false) };
        match schema.field_with_name(first) {
            Ok(field) => at(column(first), field.data_type(), rest, value),
            Err(_) => match schema.field_with_name(REST_FIELD) {
                Ok(_) => in_values(column(REST_FIELD), path.names(), value),
                Err(_) => lit(false),
            },
        }
    };
    policy.values.iter().map(is).reduce(Expr::and).unwrap_or_else(|| lit(false))
}

/// Whether what stands below `base`, which has this type, at these names has the value.
fn at(base: Expr, ty: &DataType, names: &[String], value: &str) -> Expr {
    match (ty, names.split_first()) {
        (DataType::Struct(fields), Some((name, rest))) => match field_of(fields, name) {
            Some(ty) => at(get_field(base, name.as_str()), ty, rest, value),
            None if field_of(fields, REST_FIELD).is_some() => in_values(get_field(base, REST_FIELD), names, value),
            None => lit(false),
        },
        // Where a record came first, a text is beside it.
        (DataType::Struct(fields), None) if field_of(fields, UNLIKE_FIELD).is_some() => in_values(base, names, value),
        (DataType::Utf8View, None) => base.eq(lit(ScalarValue::Utf8View(Some(value.to_owned())))),
        (DataType::Int64, None) => match value.parse::<i64>() {
            Ok(number) if number.to_string() == value => base.eq(lit(number)),
            _ => lit(false),
        },
        (DataType::Boolean, None) => match value {
            "true" => base.eq(lit(true)),
            "false" => base.eq(lit(false)),
            _ => lit(false),
        },
        // Lists of records; numbers that may be fractions.
        (DataType::List(_), Some(_)) | (DataType::Float64, None) => in_values(base, names, value),
        // A list of values, a record or a time is no tenant. Nor is what stands below a text: where a text came first, records
        // are kept as JSON in the same column, and a text that looks like it would choose its tenant.
        _ => lit(false),
    }
}

fn field_of<'f>(fields: &'f Fields, name: &str) -> Option<&'f DataType> {
    fields.iter().find(|field| field.name() == name).map(|field| field.data_type())
}

fn in_values(base: Expr, names: &[String], value: &str) -> Expr {
    let names = serde_json::json!(names).to_string();
    let found = kernel(VALUE_KERNEL, true, vec![base, lit(names)]);
    found.eq(lit(ScalarValue::Utf8View(Some(value.to_owned()))))
}
