//! Fields of log records that have no column, and paths that hold values of several kinds.
//!
//! A source has a bounded number of columns, and each has one type. Values that do not fit are kept as JSON in a
//! hidden column beside them, and are read here under their own names, as text: a name that no column has is looked
//! up in the JSON of its record; a path of text, which may hold any kind of value, has fields and elements.

use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, lit};
use tidegate_model::REST_FIELD;

use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Found, Relation, Scope, ScopeColumn};
use crate::typed::Typed;
use crate::types::{Field, Type, has_hidden};
use crate::typing::kernel;

const FIELD_KERNEL: &str = "log_field";

/// The field of a text that is a JSON object.
pub(super) fn field_of_text(text: Expr, name: &str) -> Typed {
    Typed::new(kernel(FIELD_KERNEL, true, vec![text, lit(name)]), Type::String)
}

/// A field without a column of a record with these fields; `None` if no such fields are kept of it.
pub(super) fn field_of_rest(record: &Expr, fields: &[Field], name: &str) -> Option<Typed> {
    has_hidden(fields, REST_FIELD).then(|| field_of_text(core::get_field(record.clone(), REST_FIELD), name))
}

/// The same of an event, which has these columns.
pub(super) fn field_of_event(columns: &[ScopeColumn], name: &str) -> Option<Typed> {
    let rest = columns.iter().find(|column| column.hidden && column.name == REST_FIELD)?;
    Some(field_of_text(rest.value.expr.clone(), name))
}

/// A name that stands alone and has no column: the first value that is kept under it by a table or element in scope.
fn field_in_scope(scope: &Scope<'_>, name: &str) -> Option<Typed> {
    let of_relation = |relation: &Relation| match relation {
        Relation::Table { columns, open: true, .. } => field_of_event(columns, name),
        Relation::Element { value: Typed { expr, ty: Type::Struct { fields, open: true }, .. }, .. } => {
            field_of_rest(expr, fields, name)
        }
        _ => None,
    };
    let mut found: Vec<Expr> = scope.relations.iter().filter_map(of_relation).map(|value| value.expr).collect();
    match found.len() {
        0 => None,
        1 => found.pop().map(|expr| Typed::new(expr, Type::String)),
        _ => Some(Typed::new(core::coalesce(found), Type::String)),
    }
}

impl Resolver<'_> {
    /// Whether a text is a path of a log record, whose values may be of any kind.
    pub(in crate::resolve) fn is_path(&self, value: &Typed) -> bool {
        value.ty == Type::String
            && match &value.expr {
                Expr::ScalarFunction(call) => matches!(call.func.name(), "get_field" | FIELD_KERNEL),
                Expr::Column(column) => self.is_path_column(column),
                _ => false,
            }
    }

    /// The value as an array, and whether it is a path of text, whose elements are texts.
    pub(in crate::resolve) fn as_array(&self, value: Typed) -> (Typed, bool) {
        if !self.is_path(&value) {
            return (value, false);
        }
        let elements = kernel("log_elements", true, vec![value.expr]);
        (Typed::new(elements, Type::Array(Box::new(Type::String))), true)
    }
}

/// What was found for a name that stands alone; where nothing was, a field without a column, if such are kept.
pub(super) fn found_in(scope: &Scope<'_>, name: &str, found: Found) -> Found {
    match found {
        Found::Absent => field_in_scope(scope, name).map_or(Found::Absent, Found::Value),
        found => found,
    }
}
