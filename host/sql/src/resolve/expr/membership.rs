//! Whether a value is one of others, or matches a pattern: IN, IN UNNEST, LIKE.

use datafusion::arrow::array::Array;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, Operator, col, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{Expr as Ast, Function, FunctionArguments};
use tidegate_functions::array_subquery::Finish;
use tidegate_functions::scalar::nullable;
use tidegate_model::{Code, Position};

use super::{boolean, negate_if, plain_argument};
use crate::exprs::{any as any_part, is_subquery, is_truth};
use crate::fail::{Planning, Result, fail, invalid, unsupported};
use crate::library::like_pattern;
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::resolve::unfolded::charge_copies;
use crate::text::{LIKE_ALL, LIKE_ANY, marker_name};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{BYTES_AS_TEXT, Conversion, comparable, compare, kernel, listed_floats, over_list};

/// The most values of a list that are compared one by one, and of a constant array that becomes a list.
const MOST_ITEMS: usize = 5_000;

impl Resolver<'_> {
    /// `value IN UNNEST(array)`: true if an element is equal, else NULL if one might be.
    pub(super) fn in_array(&mut self, value: Typed, array: Typed, item: Type, at: Option<Position>) -> Result<Expr> {
        if let Type::Record(_) = array.ty {
            return Err(invalid("IN UNNEST takes an array of values, not of records", at));
        }
        if !item.is_sortable() {
            return self.over_array(array, |this, array| this.compared_in_array(value, array, item, at));
        }
        let null = Expr::Literal(ScalarValue::Null, None);
        let (value, item) = comparable(value, Typed::new(null, item), at)?;
        let array = array.convert(&Type::Array(Box::new(item.ty)), Conversion::implicit(at))?;
        if let Some(items) = literal_items(&array) {
            self.unfolded.account_elements(items.len());
            return match items.is_empty() {
                true => Ok(boolean(lit(false)).expr),
                false => in_list(&value, items, false, at).map(|found| found.expr),
            };
        }
        // The engine looks a constant up in each array, and each value in a constant array, in ways of its own.
        if value.literal().is_none() && array.literal().is_none() {
            return Ok(kernel("value_in_array", false, vec![value.expr, array.expr]));
        }
        let found = match value.ty {
            Type::Float64 => kernel("float_included", false, vec![value.expr.clone(), array.expr.clone()]),
            _ => nested::array_has(array.expr.clone(), value.expr.clone()),
        };
        let empty = nested::array_empty(array.expr.clone());
        let null = Typed::null().convert(&value.ty, Conversion::implicit(at))?.expr;
        let unknown = nested::array_position(array.expr.clone(), null, lit(1_i64)).is_not_null();
        let unknown_value = Expr::Literal(ScalarValue::Boolean(None), None);
        let value = when(array.expr.is_null().or(empty), lit(false))
            .when(found.is_true(), lit(true))
            .when(unknown.or(value.expr.is_null()), unknown_value)
            .otherwise(lit(false));
        // The engine does not always agree with itself on whether the CASE can be NULL.
        Ok(nullable(boolean(value.planned()?).expr))
    }

    /// LIKE and ILIKE, also of several patterns: `LIKE ANY (...)`, `LIKE ALL (...)`.
    pub(super) fn like(
        &mut self,
        (value, pattern): (&Ast, &Ast),
        any: bool,
        (negated, without_case): (bool, bool),
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let value = self.expr(value, cx)?;
        // The parser takes ALL and SOME for functions.
        let quantified = |call: &Function| match call.name.to_string().to_uppercase().as_str() {
            "ALL" => Some(false),
            "ANY" | "SOME" => Some(true),
            _ => None,
        };
        let (any, patterns): (bool, Vec<&Ast>) = match pattern {
            Ast::Tuple(patterns) if any => (true, patterns.iter().collect()),
            Ast::Nested(pattern) if any => (true, vec![pattern]),
            Ast::Function(call) if let Some((any, array)) = patterns_of_array(call) => match array {
                Ast::Array(patterns) if patterns.elem.is_empty() => return Ok(boolean(lit(!any))),
                Ast::Array(patterns) => (any, patterns.elem.iter().collect()),
                array => return self.like_array(value, (array, any), (negated, without_case), at, cx),
            },
            Ast::Function(call) if quantified(call).is_some() => match &call.args {
                FunctionArguments::List(list) => {
                    let patterns = list.args.iter().map(plain_argument).collect::<Result<_>>()?;
                    (quantified(call).unwrap_or(any), patterns)
                }
                _ => return Err(unsupported("LIKE of a subquery", Some("write EXISTS (...)"), at)),
            },
            _ if any => {
                let instead = Some("write LIKE ANY ('a%', 'b%')");
                return Err(unsupported("LIKE ANY of other than a list", instead, at));
            }
            pattern => (true, vec![pattern]),
        };
        let mut all = Vec::new();
        charge_copies(&value.expr, patterns.len())?;
        for pattern in patterns {
            let pattern = self.expr(pattern, cx)?;
            check_pattern(&pattern, at)?;
            let (value, pattern) = texts(value.clone(), pattern, without_case, at)?;
            all.push(like_pattern(value.expr, pattern, negated, without_case));
        }
        let all = balanced(all, if any { Expr::or } else { Expr::and }, at)?;
        all.map(boolean).ok_or_else(|| invalid("LIKE needs a pattern", at))
    }

    /// `value LIKE ANY UNNEST(array)`: true if an element matches, else NULL if one might, else false; and as all of them
    /// would be joined by AND for ALL.
    fn like_array(
        &mut self,
        value: Typed,
        (array, any): (&Ast, bool),
        (negated, without_case): (bool, bool),
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let array = self.expr(array, cx)?;
        let (array, _) = self.as_array(array);
        let item = match (&array.ty, array.ty.element()) {
            // NULL has no elements.
            (Type::Null, _) => return Ok(boolean(lit(!any))),
            (Type::Array(_), Some(item)) => item,
            (ty, _) => return Err(invalid(format!("LIKE ANY UNNEST takes an array of patterns, not {ty}"), at)),
        };
        if let Some(patterns) = literal_items(&array) {
            self.unfolded.account_elements(patterns.len());
            charge_copies(&value.expr, patterns.len())?;
            let mut all = Vec::with_capacity(patterns.len());
            for pattern in patterns {
                check_pattern(&pattern, at)?;
                let (value, pattern) = texts(value.clone(), pattern, without_case, at)?;
                all.push(like_pattern(value.expr, pattern, negated, without_case));
            }
            let all = balanced(all, if any { Expr::or } else { Expr::and }, at)?;
            return Ok(boolean(all.unwrap_or_else(|| lit(!any))));
        }
        let condition = |this: &mut Self, array: Typed| {
            let name = this.fresh();
            let (value, pattern) = texts(value, Typed::new(col(&name), item), without_case, at)?;
            let like = like_pattern(value.expr, pattern, negated, without_case);
            quantified(&array.expr, &name, like, any)
        };
        self.over_array(array, condition).map(boolean)
    }

    /// The same where values are compared one by one, because no order of them is their equality.
    fn compared_in_array(&mut self, value: Typed, array: Typed, item: Type, at: Option<Position>) -> Result<Expr> {
        // Fields of records have a type in common; others are compared as they are.
        let (value, item) = match item {
            Type::Struct { .. } => {
                let null = Expr::Literal(ScalarValue::Null, None);
                let (value, item) = comparable(value, Typed::new(null, item), at)?;
                (value, item.ty)
            }
            _ => (value, item),
        };
        let array = array.convert(&Type::Array(Box::new(item.clone())), Conversion::implicit(at))?;
        if let Some(items) = literal_items(&array) {
            self.unfolded.account_elements(items.len());
            return match items.is_empty() {
                true => Ok(boolean(lit(false)).expr),
                false => in_list(&value, items, false, at).map(|found| found.expr),
            };
        }
        let name = self.fresh();
        let equal = compare(value, Operator::Eq, Typed::new(col(&name), item), at)?.expr;
        quantified(&array.expr, &name, equal, true)
    }

    /// What `build` makes of an array. The kernels of lists take subqueries only as their arguments, which columns become:
    /// so a column stands for an array that holds a subquery.
    fn over_array(&mut self, array: Typed, build: impl FnOnce(&mut Self, Typed) -> Result<Expr>) -> Result<Expr> {
        if !any_part(&array.expr, is_subquery) {
            return build(self, array);
        }
        let name = self.fresh();
        let built = build(self, Typed::new(col(&name), array.ty))?;
        let with_subquery = built.transform(|part| match &part {
            Expr::Column(own) if own.name == name => Ok(Transformed::yes(array.expr.clone())),
            _ => Ok(Transformed::no(part)),
        });
        Ok(with_subquery.planned()?.data)
    }
}

/// A condition on the elements of an array, which are the column `element` in it: with `any` true if it holds for one, else
/// NULL if it might, else false; without, as if AND joined it for all.
fn quantified(array: &Expr, element: &str, condition: Expr, any: bool) -> Result<Expr> {
    let exists =
        |condition: Expr| over_list(array.clone(), element.to_owned(), Some(condition), lit(1_i64), Finish::Exists);
    let decided = is_truth(condition.clone(), any);
    let null = Expr::Literal(ScalarValue::Boolean(None), None);
    let outcome = when(exists(decided)?, lit(any)).when(exists(condition.is_null())?, null).otherwise(lit(!any));
    Ok(boolean(outcome.planned()?).expr)
}

/// The array of patterns of `LIKE ANY UNNEST(array)`, and whether one of them is enough.
fn patterns_of_array(call: &Function) -> Option<(bool, &Ast)> {
    let [part] = call.name.0.as_slice() else { return None };
    let any = match marker_name(part.as_ident()?)? {
        LIKE_ANY => true,
        LIKE_ALL => false,
        _ => return None,
    };
    let FunctionArguments::List(list) = &call.args else { return None };
    let [array] = list.args.as_slice() else { return None };
    plain_argument(array).ok().map(|array| (any, array))
}

/// Refuses a constant pattern whose last backslash escapes nothing.
fn check_pattern(pattern: &Typed, at: Option<Position>) -> Result<()> {
    let bytes = match pattern.literal() {
        Some(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text))) => text.as_bytes(),
        Some(ScalarValue::Binary(Some(bytes)) | ScalarValue::BinaryView(Some(bytes))) => bytes,
        _ => return Ok(()),
    };
    match bytes.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 {
        0 => Ok(()),
        _ => Err(fail(Code::InvalidValue, "a pattern of LIKE ends with a backslash, which escapes nothing", at)),
    }
}

/// What LIKE compares, as texts. Of BYTES each byte is a character, because `_` is one byte of them.
fn texts(value: Typed, pattern: Typed, without_case: bool, at: Option<Position>) -> Result<(Typed, Typed)> {
    let of_bytes = |value: &Typed| value.ty == Type::Bytes;
    if !of_bytes(&value) && !of_bytes(&pattern) {
        let how = Conversion::implicit(at);
        return Ok((value.convert(&Type::String, how)?, pattern.convert(&Type::String, how)?));
    }
    let fits = |value: &Typed| matches!(value.ty, Type::Bytes | Type::Null);
    if without_case || !fits(&value) || !fits(&pattern) {
        let (name, one, other) = (if without_case { "ILIKE" } else { "LIKE" }, &value.ty, &pattern.ty);
        return Err(invalid(format!("{name} cannot compare {one} with {other}; {BYTES_AS_TEXT}"), at));
    }
    let text = |value: Typed| match value.ty {
        Type::Bytes => Ok(Typed::new(kernel("bytes_as_characters", false, vec![value.expr]), Type::String)),
        _ => value.convert(&Type::String, Conversion::implicit(at)),
    };
    Ok((text(value)?, text(pattern)?))
}

/// Conditions joined as a balanced tree, because trees are walked by recursion.
fn balanced(mut conditions: Vec<Expr>, join: fn(Expr, Expr) -> Expr, at: Option<Position>) -> Result<Option<Expr>> {
    if conditions.len() > MOST_ITEMS {
        let message =
            format!("a list of {} computed values is too long; at most {MOST_ITEMS} are taken", conditions.len());
        return Err(fail(Code::LimitExceeded, message, at));
    }
    while conditions.len() > 1 {
        let mut pairs = conditions.into_iter();
        conditions = std::iter::from_fn(|| {
            let first = pairs.next()?;
            Some(match pairs.next() {
                Some(second) => join(first, second),
                None => first,
            })
        })
        .collect();
    }
    Ok(conditions.pop())
}

/// The elements of a constant array that is not long, of which a list can be written.
fn literal_items(array: &Typed) -> Option<Vec<Typed>> {
    let (Type::Array(item), Some(ScalarValue::List(list))) = (&array.ty, array.literal()) else { return None };
    let values = if list.is_valid(0) { list.value(0) } else { return Some(Vec::new()) };
    if values.len() > MOST_ITEMS {
        return None;
    }
    let literal = |place| {
        let value = ScalarValue::try_from_array(&values, place).ok()?;
        Some(Typed::new(Expr::Literal(value, None), (**item).clone()))
    };
    (0..values.len()).map(literal).collect()
}

/// `left = right` of two values of one type.
fn equal(left: Typed, right: Typed, at: Option<Position>) -> Result<Expr> {
    match matches!(left.ty, Type::Float64 | Type::Struct { .. }) {
        true => compare(left, Operator::Eq, right, at).map(|equal| equal.expr),
        false => Ok(left.expr.eq(right.expr)),
    }
}

/// `value IN (list)`.
///
/// # Errors
/// If the value and an item of the list cannot be compared.
pub(super) fn in_list(value: &Typed, list: Vec<Typed>, negated: bool, at: Option<Position>) -> Result<Typed> {
    // Items of one type become one list, which the engine can look up; the others are compared
    // one by one with the conversions of a comparison.
    let mut plain = Vec::new();
    let mut computed = Vec::new();
    if list.iter().any(|item| item.literal().is_none() || item.ty != value.ty) {
        charge_copies(&value.expr, list.len())?;
    }
    for item in list {
        let (left, right) = comparable(value.clone(), item, at)?;
        // In the engine's list, a computed item that is NULL would count as not equal.
        let is_struct = matches!(left.ty, Type::Struct { .. });
        let is_plain = left.expr == value.expr && right.literal().is_some() && !is_struct;
        match listed_floats(&right.expr).filter(|_| is_plain) {
            Some(items) => plain.extend(items),
            None => computed.push(equal(left, right, at)?),
        }
    }
    let any = balanced(computed, Expr::or, at)?;
    let listed = (!plain.is_empty()).then(|| value.expr.clone().in_list(plain, false));
    let expr = match (listed, any) {
        (Some(listed), Some(any)) => listed.or(any),
        (Some(expr), None) | (None, Some(expr)) => expr,
        (None, None) => return Err(invalid("IN needs at least one value", at)),
    };
    Ok(negate_if(negated, expr))
}
