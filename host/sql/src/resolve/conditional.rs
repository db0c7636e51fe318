//! CASE, IF and COALESCE: the arms that are not taken must not fail.

use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{CaseWhen, Expr as Ast};
use tidegate_model::{Code, Position};

use super::coerce::{compare, unify};
use super::expr::Context;
use super::{Resolver, Typed, folded};
use crate::fail::{Planning, Result, fail, place};
use crate::functions;
use crate::types::Type;

/// How deep conditions of CASE and IF may stand in each other. What the engine's optimizer does with them grows by
/// two thirds with each level.
const DEEPEST: usize = 12;

impl Resolver<'_> {
    /// Resolves what stands in the condition of a CASE or IF.
    fn deciding<T>(&mut self, at: Option<Position>, resolve: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.deciding >= DEEPEST {
            let message = format!("conditions of CASE and IF stand in each other deeper than {DEEPEST} levels");
            return Err(fail(Code::TooLarge, message, at));
        }
        self.deciding += 1;
        let resolved = resolve(self);
        self.deciding -= 1;
        resolved
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&Ast>,
        conditions: &[CaseWhen],
        otherwise: Option<&Ast>,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let operand = operand.map(|operand| self.deciding(at, |this| this.expr(operand, cx))).transpose()?;
        let mut arms: Vec<(Expr, Typed)> = Vec::new();
        let mut last = None;
        for CaseWhen { condition, result } in conditions {
            let condition = match &operand {
                None => self.deciding(at, |this| this.condition(condition, cx))?,
                Some(operand) => {
                    let value = self.deciding(at, |this| this.expr(condition, cx))?;
                    compare(operand.clone(), Operator::Eq, value, place(condition))?.expr
                }
            };
            match settled(&condition) {
                // Never taken; still resolved, so that its names are checked and its type counts.
                Some(false) => {
                    cx.guarded(|cx| self.expr(result, cx))?;
                }
                Some(true) => {
                    last = Some(if arms.is_empty() {
                        self.expr(result, cx)?
                    } else {
                        cx.guarded(|cx| self.expr(result, cx))?
                    });
                    break;
                }
                None => arms.push((condition, cx.guarded(|cx| self.expr(result, cx))?)),
            }
        }
        let last = match (last, otherwise) {
            (Some(value), _) => value,
            (None, Some(ast)) if arms.is_empty() => self.expr(ast, cx)?,
            (None, Some(ast)) => cx.guarded(|cx| self.expr(ast, cx))?,
            (None, None) => Typed::null(),
        };
        choose(arms, last, at)
    }

    /// `IF(condition, then, otherwise)`.
    pub(super) fn if_then(
        &mut self,
        condition: &Ast,
        then: &Ast,
        otherwise: &Ast,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let condition = self.deciding(at, |this| this.condition(condition, cx))?;
        let (then, otherwise) = match settled(&condition) {
            Some(true) => (self.expr(then, cx)?, cx.guarded(|cx| self.expr(otherwise, cx))?),
            Some(false) => (cx.guarded(|cx| self.expr(then, cx))?, self.expr(otherwise, cx)?),
            None => {
                cx.guarded(|cx| Ok::<_, tidegate_model::Failure>((self.expr(then, cx)?, self.expr(otherwise, cx)?)))?
            }
        };
        choose(vec![(condition, then)], otherwise, at)
    }

    /// COALESCE and IFNULL.
    pub(super) fn first_known(
        &mut self,
        first: &Ast,
        rest: &[&Ast],
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let mut values = vec![self.expr(first, cx)?];
        for ast in rest {
            values.push(cx.guarded(|cx| self.expr(ast, cx))?);
        }
        let (values, ty) = unify(values, at)?;
        let values = values.into_iter().map(|value| value.expr).collect();
        Ok(folded(Typed::new(core::coalesce(values), ty)))
    }
}

/// A condition whose outcome is known: true, or false (which NULL counts as).
fn settled(condition: &Expr) -> Option<bool> {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), _) => Some(value.unwrap_or(false)),
        Expr::Literal(ScalarValue::Null, _) => Some(false),
        _ => None,
    }
}

/// CASE over resolved arms.
fn choose(arms: Vec<(Expr, Typed)>, last: Typed, at: Option<Position>) -> Result<Typed> {
    let (conditions, mut values): (Vec<Expr>, Vec<Typed>) = arms.into_iter().unzip();
    values.push(last);
    let (mut values, ty) = unify(values, at)?;
    let last = values.pop().map_or_else(|| Typed::null().expr, |value| value.expr);
    let mut arms = conditions.into_iter().zip(values).filter(|(condition, _)| settled(condition) != Some(false));
    let Some((condition, value)) = arms.next() else {
        return Ok(Typed::new(last, ty));
    };
    if settled(&condition) == Some(true) {
        return Ok(value);
    }
    let mut case = datafusion::logical_expr::when(condition, value.expr);
    for (condition, value) in arms {
        case = case.when(condition, value.expr);
    }
    Ok(copied(Typed::new(case.otherwise(last).planned()?, ty)))
}

/// One of several values: arrays and bytes are copied by the choice, so they are counted.
fn copied(value: Typed) -> Typed {
    match value.ty {
        Type::Array(_) | Type::Struct { .. } | Type::Bytes if value.expr.any_column_refs() => {
            Typed::new(functions::counted(value.expr), value.ty)
        }
        _ => value,
    }
}
