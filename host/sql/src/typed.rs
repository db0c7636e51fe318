//! An expression of the engine with its type in the dialect: what resolving a piece of SQL gives.

use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use crate::types::Type;

/// An engine expression and its type in the dialect.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Type,
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: Type) -> Self {
        Self { expr, ty }
    }

    /// NULL, of the type NULL.
    pub(crate) fn null() -> Self {
        Self::new(Expr::Literal(ScalarValue::Null, None), Type::Null)
    }

    /// A literal STRING.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::new(Expr::Literal(ScalarValue::Utf8View(Some(text.into())), None), Type::String)
    }

    /// The value of a literal.
    pub(crate) fn literal(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }
}
