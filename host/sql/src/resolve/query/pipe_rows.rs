//! Pipe operators that keep the columns: WHERE, ASSERT, ORDER BY, DISTINCT.

use datafusion::common::Column;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, col};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr as Ast, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, ObjectNamePart, OrderByExpr, Value,
};
use tidegate_model::Position;

use super::distinct_key::distinct_key;
use super::fallible_filters::guarded;
use super::join::Input;
use super::pipe_scope::visible;
use crate::fail::{Planning, Result, invalid, place};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Item, nth_item};
use crate::resolve::resolved::Order;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::resolve::sorting::{bounded, ordinal, sorted, with_stored_last};
use crate::resolve::stored::with_stored_floats;
use crate::text::{marker_name, pipes, spelled};
use crate::typed::Typed;
use crate::typing::plan_column;

impl Resolver<'_> {
    /// The rows that fulfil the conditions of operators that follow one another: those before protect those behind.
    pub(super) fn filtered<'p>(
        &mut self,
        input: Input<'p>,
        conditions: &[&Ast],
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        let mut builder = LogicalPlanBuilder::from(plan);
        let mut waiting = Vec::new();
        for condition in conditions {
            let mut calls = Calls::default();
            let context = Context::new(&scope, environment, Clause::Where);
            let mut cx = Context { calls: Some(&mut calls), windows: Some(&[]), ..context };
            let expr = self.condition(condition, &mut cx)?;
            refuse_aggregates(&calls, "WHERE", place(*condition))?;
            if calls.windows.is_empty() {
                waiting.push(with_stored_floats(expr, &[builder.plan()])?);
                continue;
            }
            // A window is over the rows that the conditions before it keep.
            builder = kept(builder, std::mem::take(&mut waiting), &scope)?;
            builder = self.windowed(builder, calls.windows)?.filter(expr).planned()?;
        }
        Ok(Input { plan: kept(builder, waiting, &scope)?.build().planned()?, scope })
    }

    pub(super) fn sorted_by<'p>(
        &mut self,
        input: Input<'p>,
        keys: &[OrderByExpr],
        environment: &Environment<'_>,
        order: Order,
    ) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        let mut calls = Calls::default();
        let mut sorts = Vec::with_capacity(keys.len());
        for key in bounded(keys)? {
            let at = place(&key.expr);
            let value = match ordinal(&key.expr) {
                Some(n) => nth_item(&visible(&scope), n, at)?.value.clone(),
                None => {
                    let context = Context::new(&scope, environment, Clause::OrderBy);
                    self.expr(&key.expr, &mut Context { calls: Some(&mut calls), windows: Some(&[]), ..context })?
                }
            };
            refuse_aggregates(&calls, "ORDER BY", at)?;
            sorts.push(sorted(value, key)?);
        }
        let builder = self.windowed(LogicalPlanBuilder::from(plan), calls.windows)?;
        if order == Order::Dropped {
            return Ok(Input { plan: builder.build().planned()?, scope });
        }
        let sorts = with_stored_last(sorts, builder.plan());
        Ok(Input { plan: builder.sort(sorts).and_then(LogicalPlanBuilder::build).planned()?, scope })
    }

    /// Equal rows become one. Columns that only an alias has are gone.
    pub(super) fn distinct<'p>(&mut self, input: Input<'p>, at: Option<Position>) -> Result<Input<'p>> {
        let Input { plan, mut scope } = input;
        let items = visible(&scope);
        let (mut exprs, mut columns) = (Vec::new(), Vec::new());
        for Item { name, value, .. } in items {
            if !value.ty.is_groupable() {
                return Err(invalid(format!("DISTINCT cannot compare values of type {}", value.ty), at));
            }
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.unwrap_or_default());
            if self.is_path(&value) {
                self.note_path_column(&unique);
            }
            let key = plan_column(value.clone());
            exprs.push(distinct_key(key.clone(), &plan).alias(&unique));
            columns.push((value.expr, Typed::new(col(Column::new_unqualified(unique)), key.ty)));
        }
        let kept = |value: &Typed| columns.iter().find(|(of, _)| *of == value.expr).map(|(_, value)| value.clone());
        for relation in &mut scope.relations {
            match relation {
                Relation::Table { columns, .. } => {
                    let own = std::mem::take(columns).into_iter();
                    *columns =
                        own.filter_map(|column| Some(ScopeColumn { value: kept(&column.value)?, ..column })).collect();
                }
                Relation::Element { value, .. } => {
                    if let Some(kept) = kept(value) {
                        *value = kept;
                    }
                }
            }
        }
        let plan = LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::distinct);
        Ok(Input { plan: plan.and_then(LogicalPlanBuilder::build).planned()?, scope })
    }
}

/// The rows that fulfil all of these conditions.
fn kept(builder: LogicalPlanBuilder, conditions: Vec<Expr>, scope: &Scope<'_>) -> Result<LogicalPlanBuilder> {
    let Some(condition) = conjunction(conditions) else { return Ok(builder) };
    let condition = guarded(condition, scope, builder.plan())?;
    builder.filter(condition).planned()
}

/// Refuses aggregates where a pipe operator has none.
pub(super) fn refuse_aggregates(calls: &Calls, clause: &str, at: Option<Position>) -> Result<()> {
    if calls.aggregates.is_empty() && calls.groupings.is_empty() {
        return Ok(());
    }
    Err(invalid(format!("{clause} after |> cannot aggregate; write |> AGGREGATE before it"), at))
}

/// The rows above a limit that none reaches: the engine moves no condition past it, so that an ASSERT looks at just the rows
/// that reach it.
pub(super) fn fenced(input: Input<'_>) -> Result<Input<'_>> {
    const ALL: usize = i64::MAX as usize;
    let plan = LogicalPlanBuilder::from(input.plan).limit(0, Some(ALL)).and_then(LogicalPlanBuilder::build);
    Ok(Input { plan: plan.planned()?, ..input })
}

/// The condition that `ASSERT condition, payload` is: it fails where it does not hold.
pub(super) fn asserts(function: &Function) -> Option<Ast> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    if marker_name(name) != Some(pipes::ASSERT) {
        return None;
    }
    let mut args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    let condition = args.next()??;
    let text = |text: &str| Ast::Value(Value::SingleQuotedString(text.to_owned()).into());
    let call = |called: &str, args: Vec<Ast>| {
        Ast::Function(Function {
            name: ObjectName(vec![ObjectNamePart::Identifier(Ident { value: called.to_owned(), ..name.clone() })]),
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args: args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect(),
                clauses: Vec::new(),
            }),
            ..function.clone()
        })
    };
    // One flat call: the depth of the tree was checked before, and a payload may stand here a thousand times.
    let mut message = vec![text("Assert failed:")];
    for payload in args {
        let shown = Ast::Cast {
            kind: CastKind::Cast,
            expr: Box::new(payload?),
            data_type: DataType::String(None),
            array: false,
            format: None,
        };
        message.extend([text(" "), call("IFNULL", vec![shown, text("NULL")])]);
    }
    if message.len() == 1 {
        message.push(text(&format!(" {}", spelled(&condition.to_string()))));
    }
    let error = call("ERROR", vec![call("CONCAT", message)]);
    // As a number, because the engine makes an OR of a CASE of conditions, of which it computes both sides.
    let one = || Ast::Value(Value::Number("1".to_owned(), false).into());
    let holds = Ast::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: one() }],
        else_result: Some(Box::new(error)),
    };
    Some(Ast::BinaryOp { left: Box::new(holds), op: BinaryOperator::Eq, right: Box::new(one()) })
}
