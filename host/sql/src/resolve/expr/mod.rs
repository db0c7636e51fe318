//! Expressions, and what is made of expressions alone: select lists and limits.
//!
//! An expression holds expressions. This file owns that recursion: the files below it call back [`Resolver::expr`] and
//! [`Resolver::condition`] here, and each other downwards only, in this order:
//!
//! - `literal`, `access` (fields, paths and subscripts, with `overflow`), `operators`, `membership`, `conditional`;
//! - `aggregate` and `window`, each with the table of its functions; `functions` builds the scalar ones;
//! - `select_list` and `limit`;
//! - `array_subquery` (with `array_from`) and `subquery` (with `subquery_plan`): queries in expressions. All queries but those over the arrays
//!   of one row are resolved by the layer above, through [`Resolver::resolve_query`];
//! - `call` is a function call of any kind.

mod access;
mod aggregate;
mod array_from;
mod array_subquery;
mod call;
mod cast;
mod conditional;
mod functions;
mod limit;
mod literal;
mod membership;
mod operators;
mod overflow;
mod select_list;
mod subquery;
mod subquery_plan;
mod window;
mod with;

use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::{Expr, Operator, lit};
use sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DateTimeField, Expr as Ast, FunctionArg, FunctionArgExpr, StructField,
    TrimWhereField,
};
use tidegate_functions::context::planning;
use tidegate_functions::scalar::bounded;
use tidegate_model::Position;

use self::literal::{field_part, named_type};
use self::membership::in_list;
use super::context::{Context, Decides};
use super::resolver::Resolver;
use crate::exprs::is_truth;
use crate::fail::{Result, invalid, place, place_of, unsupported};
use crate::library::{Argument, at_time_zone};
use crate::typed::{Digits, Typed};
use crate::types::{Field, Type, is_value};
use crate::typing::{Conversion, compare, folded, unify};

pub(in crate::resolve) use aggregate::{calls_aggregate, is_aggregate};
pub use functions::functions;
pub(in crate::resolve) use limit::Limit;
pub(in crate::resolve) use select_list::{Item, nth_item, unique_names};

/// Bytes of stack that must be left where an expression is resolved, and how many there are where they are not: functions within
/// one another take several calls a level.
const STACK_LEFT: usize = 256 << 10;
const STACK: usize = 4 << 20;

impl Resolver<'_> {
    /// Resolves an expression.
    pub(in crate::resolve) fn expr(&mut self, ast: &Ast, cx: &mut Context<'_, '_>) -> Result<Typed> {
        planning::charge(planning::EXPRESSION);
        planning::check()?;
        let before = self.unfolded.enter();
        let value = stacker::maybe_grow(STACK_LEFT, STACK, || self.unbounded(ast, cx));
        // A column or an alias is what it was where it was computed.
        if let (Ast::Identifier(_) | Ast::CompoundIdentifier(_), Ok(value)) = (ast, &value) {
            self.unfolded.account(&value.expr);
        }
        self.unfolded.leave(before, value.as_ref().ok().map(|value| &value.expr), adds(ast), beginning(ast))?;
        value
    }

    fn unbounded(&mut self, ast: &Ast, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let at = beginning(ast);
        let decides = std::mem::take(&mut cx.decides);
        match ast {
            Ast::Nested(inner) => {
                cx.decides = decides;
                self.expr(inner, cx)
            }
            Ast::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                self.connect(left, op, right, decides, cx)
            }
            Ast::Value(value) => self.literal(value),
            Ast::Identifier(name) => {
                if name.quote_style.is_none()
                    && let Some(parameter) = name.value.strip_prefix('@')
                {
                    return self.parameter(parameter, name);
                }
                if let Some((_, value)) = cx.aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(&name.value)) {
                    return Ok(value.clone());
                }
                match self.path(std::slice::from_ref(name), cx.scope) {
                    // The parser knows the others of its kind, which need no parentheses either.
                    Err(failure)
                        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("CURRENT_DATETIME") =>
                    {
                        self.build("CURRENT_DATETIME", Vec::new(), at, cx).map_err(|_| failure)
                    }
                    found => found,
                }
            }
            Ast::CompoundIdentifier(names) => self.path(names, cx.scope),
            Ast::CompoundFieldAccess { root, access_chain } => self.chain(root, access_chain, cx),
            Ast::TypedString(typed) => self.typed_string(&typed.data_type, &typed.value),
            Ast::Interval(interval) => self.interval(interval, cx),
            Ast::BinaryOp { left, op, right } => self.binary(left, op, right, at, cx),
            Ast::UnaryOp { op, expr } => self.unary(*op, expr, at, cx),
            Ast::IsNull(inner) | Ast::IsNotNull(inner) => {
                let value = self.expr(inner, cx)?;
                Ok(negate_if(matches!(ast, Ast::IsNull(_)), is_value(&value.expr, &value.ty)))
            }
            // What is NULL decides as FALSE does.
            Ast::IsTrue(inner) if decides != Decides::Nothing => {
                cx.decides = decides;
                Ok(boolean(self.condition(inner, cx)?))
            }
            Ast::IsTrue(inner) | Ast::IsNotTrue(inner) => {
                let is = is_truth(self.condition(inner, cx)?, true);
                Ok(negate_if(matches!(ast, Ast::IsNotTrue(_)), is))
            }
            Ast::IsFalse(inner) | Ast::IsNotFalse(inner) => {
                let is = is_truth(self.condition(inner, cx)?, false);
                Ok(negate_if(matches!(ast, Ast::IsNotFalse(_)), is))
            }
            Ast::IsDistinctFrom(left, right) | Ast::IsNotDistinctFrom(left, right) => {
                let op = if matches!(ast, Ast::IsDistinctFrom(..)) {
                    Operator::IsDistinctFrom
                } else {
                    Operator::IsNotDistinctFrom
                };
                let (left, right) = (self.expr(left, cx)?, self.expr(right, cx)?);
                compare(left, op, right, at)
            }
            Ast::Between { expr, negated, low, high } => {
                let value = self.expr(expr, cx)?;
                let (low, high) = (self.expr(low, cx)?, self.expr(high, cx)?);
                let above = compare(value.clone(), Operator::GtEq, low, at)?;
                let below = compare(value, Operator::LtEq, high, at)?;
                Ok(negate_if(*negated, above.expr.and(below.expr)))
            }
            Ast::InList { expr, list, negated } => {
                let value = self.expr(expr, cx)?;
                let list = list.iter().map(|item| self.expr(item, cx)).collect::<Result<Vec<_>>>()?;
                in_list(&value, list, *negated, at)
            }
            Ast::InUnnest { expr, array_expr, negated } => {
                let value = self.expr(expr, cx)?;
                let array = self.expr(array_expr, cx)?;
                let (array, _) = self.as_array(array);
                let Some(item) = array.ty.element() else {
                    return Err(invalid(format!("IN UNNEST takes an array, not a value of type {}", array.ty), at));
                };
                if array.ty == Type::Null {
                    return Ok(boolean(lit(*negated)));
                }
                self.in_array(value, array, item, at).map(|found| negate_if(*negated, found))
            }
            Ast::Like { escape_char: Some(_), .. } | Ast::ILike { escape_char: Some(_), .. } => {
                Err(unsupported("LIKE ... ESCAPE", Some("a backslash escapes % and _"), at))
            }
            Ast::Like { negated, any, expr, pattern, .. } => {
                self.like((expr, pattern), *any, (*negated, false), at, cx)
            }
            Ast::ILike { negated, any, expr, pattern, .. } => {
                self.like((expr, pattern), *any, (*negated, true), at, cx)
            }
            Ast::IsUnknown(inner) => Ok(boolean(self.condition(inner, cx)?.is_null())),
            Ast::IsNotUnknown(inner) => Ok(boolean(self.condition(inner, cx)?.is_not_null())),
            Ast::Cast { kind, expr, data_type, format: Some(format), .. } => {
                self.cast_in_format((kind, expr, data_type), format, at, cx)
            }
            Ast::Cast { kind, expr, data_type, format: None, .. } => self.cast(kind, expr, data_type, at, cx),
            Ast::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), at, cx)
            }
            Ast::Function(call) => self.call(call, at, cx),
            Ast::Extract { field, expr, .. } => {
                let part = Argument::Part(field_part(field));
                let value = self.expr(expr, cx)?;
                self.build("EXTRACT", vec![part, Argument::Value(value)], at, cx)
            }
            Ast::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.simple("CEIL", &[expr], at, cx)
            }
            Ast::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                self.simple("FLOOR", &[expr], at, cx)
            }
            Ast::Position { expr, r#in } => self.simple("STRPOS", &[r#in, expr], at, cx),
            Ast::Substring { expr, substring_from, substring_for, .. } => {
                let arguments: Vec<&Ast> =
                    std::iter::once(expr).chain(substring_from).chain(substring_for).map(AsRef::as_ref).collect();
                self.simple("SUBSTR", &arguments, at, cx)
            }
            Ast::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "LTRIM",
                    Some(TrimWhereField::Trailing) => "RTRIM",
                    _ => "TRIM",
                };
                let mut arguments: Vec<&Ast> = vec![expr];
                arguments.extend(trim_what.as_deref());
                arguments.extend(trim_characters.iter().flatten());
                self.simple(name, &arguments, at, cx)
            }
            Ast::AtTimeZone { timestamp, time_zone } => {
                let zone = self.expr(time_zone, cx)?;
                at_time_zone(self.expr(timestamp, cx)?, zone, cx.guarded, at)
            }
            Ast::Array(array) => {
                let items = array.elem.iter().map(|item| self.expr(item, cx)).collect::<Result<Vec<_>>>()?;
                array_of(items, at)
            }
            Ast::Struct { values, fields } => self.structure(values, fields, at, cx),
            Ast::Tuple(values) => self.structure(values, &[], at, cx),
            Ast::Subquery(query) => self.scalar_subquery(query, cx),
            Ast::Exists { subquery, negated } => self.exists(subquery, *negated, cx),
            Ast::InSubquery { expr, subquery, negated } => self.in_subquery(expr, subquery, *negated, decides, at, cx),
            Ast::AnyOp { .. } | Ast::AllOp { .. } => Err(unsupported(
                "ANY or ALL beside a comparison",
                Some("write IN (SELECT ...), IN UNNEST(list) or EXISTS (...)"),
                at,
            )),
            Ast::SimilarTo { .. } | Ast::RLike { .. } => {
                Err(unsupported("SIMILAR TO or RLIKE", Some("write REGEXP_CONTAINS(text, r'pattern')"), at))
            }
            Ast::Collate { .. } => {
                Err(unsupported("COLLATE", Some("write LOWER(text), or NORMALIZE_AND_CASEFOLD(text)"), at))
            }
            Ast::JsonAccess { .. } => Err(unsupported(
                "a path behind a colon",
                Some("write m.key after UNNEST(metadata) AS m, or JSON_VALUE(text, '$.key')"),
                at,
            )),
            other => {
                let text: String = other.to_string().chars().take(60).collect();
                Err(unsupported(format!("the expression {text}"), None, at))
            }
        }
    }

    /// An expression that must be a condition.
    pub(in crate::resolve) fn condition(&mut self, ast: &Ast, cx: &mut Context<'_, '_>) -> Result<Expr> {
        let value = self.expr(ast, cx)?;
        match value.ty {
            Type::Bool => Ok(value.expr),
            Type::Null => Ok(value.convert(&Type::Bool, Conversion::implicit(None))?.expr),
            ty => Err(invalid(format!("{} needs a condition (BOOL), not a value of type {ty}", cx.clause), place(ast))),
        }
    }

    fn simple(
        &mut self,
        name: &str,
        arguments: &[&Ast],
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let arguments = arguments.iter().map(|a| Ok(Argument::Value(self.expr(a, cx)?))).collect::<Result<Vec<_>>>()?;
        self.build(name, arguments, at, cx)
    }

    fn structure(
        &mut self,
        values: &[Ast],
        declared: &[StructField],
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let mut arguments = Vec::new();
        let mut fields: Vec<Field> = Vec::new();
        let mut digits = Vec::new();
        for (i, value) in values.iter().enumerate() {
            let declaration = declared.get(i);
            let (inner, name) = match value {
                Ast::Named { expr, name } => (expr.as_ref(), Some(name.value.clone())),
                other => (other, implied_name(other)),
            };
            let name = declaration
                .and_then(|d| d.field_name.as_ref().map(|n| n.value.clone()))
                .or(name)
                .unwrap_or_else(|| format!("_field_{}", i + 1));
            if fields.iter().any(|field| field.name == name) {
                return Err(invalid(format!("the STRUCT has two fields {name}"), at));
            }
            let mut value = self.expr(inner, cx)?;
            if let Some(declaration) = declaration {
                let ty = named_type(&declaration.field_type, at)?;
                value = value.convert(&ty, Conversion::implicit(at))?;
            }
            arguments.extend([lit(name.as_str()), value.expr]);
            fields.push(Field { name, ty: value.ty });
            digits.push(value.digits);
        }
        if fields.is_empty() {
            return Err(invalid("a STRUCT needs at least one field", at));
        }
        let digits = digits.iter().any(Option::is_some).then_some(Digits::Fields(digits));
        Ok(Typed {
            digits,
            ..Typed::new(core::named_struct(arguments), Type::Struct { fields: fields.into(), open: false })
        })
    }
}

fn plain_argument(argument: &FunctionArg) -> Result<&Ast> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => Ok(ast),
        FunctionArg::Named { name, .. } => {
            Err(unsupported("a named argument", Some("give the arguments in their order"), place_of(name.span)))
        }
        other => Err(invalid(format!("{other} cannot be an argument here"), None)),
    }
}

/// The name that a select item or struct field takes from its expression.
fn implied_name(ast: &Ast) -> Option<String> {
    match ast {
        Ast::Identifier(name) if !name.value.starts_with('@') => Some(name.value.clone()),
        Ast::CompoundIdentifier(names) => names.last().map(|name| name.value.clone()),
        Ast::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(sqlparser::ast::AccessExpr::Dot(Ast::Identifier(name))) => Some(name.value.clone()),
            _ => None,
        },
        Ast::Nested(inner) => implied_name(inner),
        _ => None,
    }
}

pub(in crate::resolve) fn boolean(expr: Expr) -> Typed {
    folded(Typed::new(expr, Type::Bool))
}

/// An array of values of one type.
fn array_of(items: Vec<Typed>, at: Option<Position>) -> Result<Typed> {
    let (items, ty) = unify(items, at)?;
    let values: Vec<Expr> = items.into_iter().map(|item| item.expr).collect();
    let array = match values.iter().any(Expr::any_column_refs) {
        true => bounded(make_array_udf(), values),
        false => nested::make_array(values),
    };
    Ok(Typed::new(array, Type::Array(Box::new(ty))))
}

fn negate_if(negated: bool, expr: Expr) -> Typed {
    boolean(if negated { Expr::Not(Box::new(expr)) } else { expr })
}

/// Whether what an expression becomes has the values of its parts once each.
fn adds(ast: &Ast) -> bool {
    use BinaryOperator::{And, Minus, Multiply, Or, Plus};
    matches!(ast, Ast::Nested(_) | Ast::BinaryOp { op: And | Or | Plus | Minus | Multiply, .. })
}

/// Where an expression begins. The parser computes the place of an expression from those of all its parts; in a
/// chain of operators, each the left side of the next, that work would be repeated at each level.
fn beginning(ast: &Ast) -> Option<Position> {
    let mut left = ast;
    loop {
        left = match left {
            Ast::BinaryOp { left, .. } => left,
            Ast::IsNull(inner)
            | Ast::IsNotNull(inner)
            | Ast::IsTrue(inner)
            | Ast::IsNotTrue(inner)
            | Ast::IsFalse(inner)
            | Ast::IsNotFalse(inner) => inner,
            Ast::Cast { kind: CastKind::DoubleColon, expr, .. } => expr,
            _ if std::ptr::eq(left, ast) => return place(ast),
            _ => return place(left).or_else(|| place(ast)),
        };
    }
}
