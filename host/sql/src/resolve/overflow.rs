//! Fields of log records that have no column, and paths that hold values of several kinds.
//!
//! A source has a bounded number of columns, and each has one type. What does not fit is kept as JSON beside
//! them, and is read here under its own name, as text (see `functions/log.rs`): a name that no column has is
//! looked up in what its record keeps; a path of text, which may be such a value, has fields and elements; a
//! record in whose place something else may stand can be used as text.

use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, lit, when};
use tidegate_model::{REST_FIELD, UNLIKE_FIELD};

use super::scope::{Found, Relation, Scope, ScopeColumn};
use super::{Resolver, Typed};
use crate::fail::{Planning, Result};
use crate::functions::{kernel, to_json_string};
use crate::types::{Field, Type, has_hidden, is_there};

const FIELD_KERNEL: &str = "log_field";

/// The field of a text that is a JSON object.
pub(super) fn field_of_text(text: Expr, name: &str) -> Typed {
    Typed::new(kernel(FIELD_KERNEL, true, vec![text, lit(name)]), Type::String)
}

/// A field that has no column, of a record with these; nothing where the record never had such fields.
pub(super) fn field_of_rest(record: &Expr, fields: &[Field], name: &str) -> Option<Typed> {
    has_hidden(fields, REST_FIELD).then(|| field_of_text(core::get_field(record.clone(), REST_FIELD), name))
}

/// The same for an event, of which these are the columns.
pub(super) fn field_of_event(columns: &[ScopeColumn], name: &str) -> Option<Typed> {
    let rest = columns.iter().find(|column| column.hidden && column.name == REST_FIELD)?;
    Some(field_of_text(rest.value.expr.clone(), name))
}

/// A name that stands alone and has no column: what the tables and elements in scope keep under it, the first
/// that is there.
fn field_in_scope(scope: &Scope<'_>, name: &str) -> Option<Typed> {
    let of_relation = |relation: &Relation| match relation {
        Relation::Table { columns, open: true, .. } => field_of_event(columns, name),
        Relation::Element { value: Typed { expr, ty: Type::Struct { fields, open: true } }, .. } => {
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
    pub(super) fn is_path(&self, value: &Typed) -> bool {
        value.ty == Type::String
            && match &value.expr {
                Expr::ScalarFunction(call) => matches!(call.func.name(), "get_field" | FIELD_KERNEL),
                Expr::Column(column) => self.paths.contains(&column.name),
                _ => false,
            }
    }

    /// The value as an array: the elements of a path of text are texts. Tells whether it is one.
    pub(super) fn as_array(&self, value: Typed) -> (Typed, bool) {
        if !self.is_path(&value) {
            return (value, false);
        }
        let elements = kernel("log_elements", true, vec![value.expr]);
        (Typed::new(elements, Type::Array(Box::new(Type::String))), true)
    }

    /// Says of a column that it is such a path.
    pub(super) fn note_path(&mut self, value: &Typed) {
        if let (Expr::Column(column), Type::String) = (&value.expr, &value.ty) {
            self.paths.insert(column.name.clone());
        }
    }
}

/// Whether a type is that of records in whose place something else may stand.
pub(crate) fn is_mixed(ty: &Type) -> bool {
    matches!(ty, Type::Record(fields) if has_hidden(fields, UNLIKE_FIELD))
}

/// Such a record as text: what stands in its place, else its JSON.
pub(crate) fn text_of_mixed(value: &Typed) -> Result<Option<Expr>> {
    let Type::Record(fields) = &value.ty else { return Ok(None) };
    if !is_mixed(&value.ty) {
        return Ok(None);
    }
    let element = Typed::new(value.expr.clone(), Type::Struct { fields: fields.clone(), open: true });
    let record = when(is_there(&value.expr, &value.ty), to_json_string(&element).expr).end().planned()?;
    let unlike = kernel("log_text", true, vec![core::get_field(value.expr.clone(), UNLIKE_FIELD)]);
    Ok(Some(core::coalesce(vec![unlike, record])))
}

/// What a name is where it stands alone and nothing that is known has it.
pub(super) fn found_in(scope: &Scope<'_>, name: &str, found: Found) -> Found {
    match found {
        Found::Absent => field_in_scope(scope, name).map_or(Found::Absent, Found::Value),
        found => found,
    }
}
