//! An expression of the engine with its type in the dialect: what resolving a piece of SQL gives.

use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use crate::types::{Field, Type};

/// An engine expression and its type in the dialect.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Type,
    /// Of a FLOAT64 that stands in the text as a number. Beside a NUMERIC it is one, with all of its digits.
    pub(crate) digits: Option<Digits>,
}

/// The digits of numbers as they stand in the text.
#[derive(Debug, Clone)]
pub(crate) enum Digits {
    Number(String),
    /// Those of the fields of a STRUCT that are such numbers.
    Fields(Vec<Option<Digits>>),
}

impl Digits {
    /// Those of the negated number.
    pub(crate) fn negated(&self) -> Option<Self> {
        match self {
            Self::Number(digits) => Some(Self::Number(match digits.strip_prefix('-') {
                Some(size) => size.to_owned(),
                None => format!("-{digits}"),
            })),
            Self::Fields(_) => None,
        }
    }

    /// The type that a value has beside others: that of a number is left to them.
    pub(crate) fn left_open(&self, ty: &Type) -> Type {
        match (self, ty) {
            (Self::Number(_), _) => Type::Null,
            (Self::Fields(digits), Type::Struct { fields, open }) => {
                let open_field = |(field, digits): (&Field, &Option<Self>)| {
                    let ty = digits.as_ref().map_or_else(|| field.ty.clone(), |digits| digits.left_open(&field.ty));
                    Field { name: field.name.clone(), ty }
                };
                Type::Struct { fields: fields.iter().zip(digits).map(open_field).collect(), open: *open }
            }
            (Self::Fields(_), ty) => ty.clone(),
        }
    }
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: Type) -> Self {
        Self { expr, ty, digits: None }
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
