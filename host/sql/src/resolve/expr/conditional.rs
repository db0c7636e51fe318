//! CASE, IF and COALESCE: the arms that are not taken must not fail.

use datafusion::logical_expr::{Expr, Operator, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{CaseWhen, Expr as Ast};
use tidegate_functions::scalar::counted;
use tidegate_model::{Code, Failure, Position};

use crate::exprs::coalesced;
use crate::fail::{Planning, Result, fail, place};
use crate::resolve::context::Context;
use crate::resolve::resolver::Resolver;
use crate::resolve::unfolded::charge_copies;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{compare, folded, unify};

/// How deep conditions of CASE and IF may be nested. The work of the engine's optimizer grows by two thirds with each
/// level.
const DEEPEST: usize = 12;

impl Resolver<'_> {
    /// Resolves something in the condition of a CASE or IF.
    fn in_condition<T>(&mut self, at: Option<Position>, resolve: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.conditions >= DEEPEST {
            let message = format!("conditions of CASE and IF stand in each other deeper than {DEEPEST} levels");
            return Err(fail(Code::TooLarge, message, at));
        }
        self.conditions += 1;
        let resolved = resolve(self);
        self.conditions -= 1;
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
        let operand = operand.map(|operand| self.in_condition(at, |this| this.expr(operand, cx))).transpose()?;
        let mut arms: Vec<(Expr, Typed)> = Vec::new();
        let mut last = None;
        if let Some(operand) = &operand {
            charge_copies(&operand.expr, conditions.len())?;
        }
        for CaseWhen { condition, result } in conditions {
            let condition = match &operand {
                None => self.in_condition(at, |this| this.condition(condition, cx))?,
                Some(operand) => {
                    let value = self.in_condition(at, |this| this.expr(condition, cx))?;
                    compare(operand.clone(), Operator::Eq, value, place(condition))?.expr
                }
            };
            // An arm that is never taken is still resolved: its names are checked, and its type counts.
            let taken = if last.is_some() { Some(false) } else { settled(&condition) };
            match taken {
                Some(true) if is_sure(&arms) => last = Some(self.expr(result, cx)?),
                Some(true) => last = Some(cx.guarded(|cx| self.expr(result, cx))?),
                Some(false) => arms.push((lit(false), cx.guarded(|cx| self.expr(result, cx))?)),
                None => arms.push((condition, cx.guarded(|cx| self.expr(result, cx))?)),
            }
        }
        let last = match (last, otherwise) {
            (Some(value), None) => value,
            (Some(value), Some(ast)) => {
                arms.push((lit(false), cx.guarded(|cx| self.expr(ast, cx))?));
                value
            }
            (None, Some(ast)) if is_sure(&arms) => self.expr(ast, cx)?,
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
        let condition = self.in_condition(at, |this| this.condition(condition, cx))?;
        let (then, otherwise) = match settled(&condition) {
            Some(true) => (self.expr(then, cx)?, cx.guarded(|cx| self.expr(otherwise, cx))?),
            Some(false) => (cx.guarded(|cx| self.expr(then, cx))?, self.expr(otherwise, cx)?),
            None => cx.guarded(|cx| Ok::<_, Failure>((self.expr(then, cx)?, self.expr(otherwise, cx)?)))?,
        };
        choose(vec![(condition, then)], otherwise, at)
    }

    /// COALESCE and IFNULL.
    pub(super) fn coalesce(
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
        Ok(folded(Typed::new(coalesced(values), ty)))
    }
}

/// Whether none of these arms is ever taken.
fn is_sure(arms: &[(Expr, Typed)]) -> bool {
    arms.iter().all(|(condition, _)| settled(condition) == Some(false))
}

/// The outcome of a condition that is a literal, where NULL counts as false.
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
    let mut case = when(condition, value.expr);
    for (condition, value) in arms {
        case = case.when(condition, value.expr);
    }
    Ok(copied(Typed::new(case.otherwise(last).planned()?, ty)))
}

/// The value of a CASE, with its memory counted where the engine copies the chosen values: arrays, STRUCTs and bytes.
fn copied(value: Typed) -> Typed {
    match value.ty {
        Type::Array(_) | Type::Struct { .. } | Type::Bytes | Type::Range(_) if value.expr.any_column_refs() => {
            Typed::new(counted(value.expr), value.ty)
        }
        _ => value,
    }
}
