//! Aggregate calls: their arguments and clauses are resolved here, and `table` knows the functions.

mod builders;
mod call;
mod table;

use std::ops::ControlFlow;

use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, lit};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, HavingBound, HavingBoundKind, NullTreatment, Visit, Visitor,
};
use tidegate_functions::aggregate::safe;
use tidegate_model::Position;

use self::call::Clauses;
use crate::fail::{Result, invalid, place, unsupported};
use crate::library::Argument;
use crate::resolve::calls::carried;
use crate::resolve::context::{Clause, Context};
use crate::resolve::resolver::Resolver;
use crate::resolve::sorting::{bounded, sorted};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{float_key, group_key, interval_length, plan_column};

pub(super) use builders::NULLS_LEFT_OUT;
pub(super) use table::{Aggregate, find, names};

/// Whether a call is of an aggregate function, not over a window.
pub(in crate::resolve) fn is_aggregate(call: &Function) -> bool {
    call.over.is_none() && find(&call.name.to_string().to_uppercase()).is_some()
}

/// Whether some expression in `tree` calls an aggregate function.
pub(in crate::resolve) fn calls_aggregate(tree: &impl Visit) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Ast) -> ControlFlow<()> {
            match expr {
                Ast::Function(call) if is_aggregate(call) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    tree.visit(&mut Calls).is_break()
}

/// An aggregate call that has no column of the plan yet.
struct Built {
    expr: Expr,
    ty: Type,
    limit: Option<i64>,
}

impl Resolver<'_> {
    /// An aggregate call of a SELECT; the value is the plan column that carries its result.
    pub(super) fn aggregate(
        &mut self,
        function: &'static Aggregate,
        call: &Function,
        safe: bool,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let name = function.name;
        if cx.calls.is_none() {
            return Err(invalid(format!("the aggregate function {name} is not allowed in {}", cx.clause), at));
        }
        if name == table::GROUPING.name {
            return self.grouping(call, at, cx);
        }
        // STRING_AGG with LIMIT is the list of the first values, joined. So is one in an order: of different values it is theirs
        // and not that of their texts (9 and 10), and the engine sorts for one order of its own STRING_AGG only.
        let of_list = |list: &FunctionArgumentList| {
            let is =
                |clause: &_| matches!(clause, FunctionArgumentClause::Limit(_) | FunctionArgumentClause::OrderBy(_));
            list.clauses.iter().any(is)
        };
        if let FunctionArguments::List(list) = &call.args
            && name == table::STRING_AGG.name
            && of_list(list)
        {
            return self.string_agg_of_list(call, list, at, cx);
        }
        // What is extracted of a merged sketch of quantiles.
        if let FunctionArguments::List(list) = &call.args
            && name != table::MERGED_QUANTILES.name
            && let Some(extracted) = name.strip_prefix("KLL_QUANTILES.MERGE_")
        {
            return self.merged_quantiles(extracted, call, list, safe, at, cx);
        }
        let Built { expr, ty, limit } = self.build_aggregate(function, call, (false, safe), at, cx)?;
        let fresh = self.fresh();
        let Some(calls) = cx.calls.as_deref_mut() else { return Err(unsupported(name, None, at)) };
        let value = (function.finish)(Typed::new(carried(&mut calls.aggregates, expr, fresh), ty));
        Ok(match limit {
            // No array is longer than an i32 counts, and the engine takes no larger number. Of ARRAY_CONCAT_AGG the limit is that of
            // the arrays that are joined.
            Some(limit) if name != table::ARRAY_CONCAT_AGG => {
                let end = lit(limit.min(i64::from(i32::MAX)));
                Typed::new(nested::array_slice(value.expr, lit(1_i64), end, None), value.ty)
            }
            _ => value,
        })
    }

    /// An aggregate call for a window, which no column of a grouping carries.
    pub(super) fn aggregate_call(
        &mut self,
        function: &'static Aggregate,
        call: &Function,
        safe: bool,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Expr, Type)> {
        let name = function.name;
        let Built { expr, ty, limit } = self.build_aggregate(function, call, (true, safe), at, cx)?;
        if limit.is_some() {
            return Err(invalid(format!("{name} ... OVER takes no LIMIT"), at));
        }
        if ty == Type::Interval && function.by_order {
            return Err(unsupported(format!("{name} of INTERVAL ... OVER"), None, at));
        }
        if !function.has_window {
            return Err(unsupported(format!("{name} ... OVER"), None, at));
        }
        Ok((expr, ty))
    }

    /// `GROUPING(key)`: 1 where the key is rolled up. Which key it is is known after grouping.
    fn grouping(&mut self, call: &Function, at: Option<Position>, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let FunctionArguments::List(list) = &call.args else { return Err(invalid("GROUPING needs an argument", at)) };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(key))] = list.args.as_slice() else {
            return Err(invalid("GROUPING takes one GROUP BY key", at));
        };
        let aliases = cx.aliases;
        let mut inner = Context { aliases, ..Context::new(cx.scope, cx.environment, Clause::Grouping) };
        let key = self.expr(key, &mut inner)?.expr;
        let fresh = self.fresh();
        let Some(calls) = cx.calls.as_deref_mut() else { return Err(unsupported("GROUPING", None, at)) };
        Ok(Typed::new(carried(&mut calls.groupings, key, fresh), Type::Int64))
    }

    fn string_agg_of_list(
        &mut self,
        call: &Function,
        list: &FunctionArgumentList,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let separator = match list.args.get(1) {
            None => None,
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(ast))) => Some(self.expr(ast, cx)?),
            Some(other) => return Err(unsupported(format!("the argument {other} of STRING_AGG"), None, at)),
        };
        let mut list = list.clone();
        list.args.truncate(1);
        list.clauses.push(FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::IgnoreNulls));
        let call = Function { args: FunctionArguments::List(list), ..call.clone() };
        let texts = self.aggregate(&table::ARRAY_AGG, &call, false, at, cx)?;
        let of = texts.ty.element().unwrap_or(Type::Null);
        let comma = || match of {
            Type::Bytes => Typed::new(Expr::Literal(ScalarValue::Binary(Some(b",".to_vec())), None), Type::Bytes),
            _ => Typed::text(","),
        };
        let separator = separator.unwrap_or_else(comma);
        builders::check_separator(&separator, &of, at)?;
        let arguments = vec![Argument::Value(texts), Argument::Value(separator)];
        self.build("ARRAY_TO_STRING", arguments, at, cx)
    }

    /// `KLL_QUANTILES.MERGE_INT64(sketch, 4)` and its kin.
    fn merged_quantiles(
        &mut self,
        extracted: &str,
        call: &Function,
        list: &FunctionArgumentList,
        safe: bool,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(of))] = list.args.as_slice() else {
            let name = format!("KLL_QUANTILES.MERGE_{extracted}");
            return Err(invalid(format!("{name} takes a sketch and which of its values, e.g. {name}(sketch, 1)"), at));
        };
        let of = self.expr(of, cx)?;
        let mut list = list.clone();
        list.args.truncate(1);
        let call = Function { args: FunctionArguments::List(list), ..call.clone() };
        let sketch = self.aggregate(&table::MERGED_QUANTILES, &call, safe, at, cx)?;
        let arguments = vec![Argument::Value(sketch), Argument::Value(of)];
        self.build(&format!("KLL_QUANTILES.EXTRACT_{extracted}"), arguments, at, cx)
    }

    fn build_aggregate(
        &mut self,
        function: &'static Aggregate,
        call: &Function,
        (over, is_safe): (bool, bool),
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Built> {
        let name = function.name;
        let FunctionArguments::List(list) = &call.args else {
            return Err(invalid(format!("{name} needs arguments"), at));
        };
        // The arguments are over the rows: no aliases, no aggregates inside. Those of a window
        // are over the groups, and may use aggregates.
        let clause = if over { cx.clause } else { Clause::AggregateArgument };
        let calls = if over { cx.calls.as_deref_mut() } else { None };
        let mut inner = Context { calls, guarded: cx.guarded, ..Context::new(cx.scope, cx.environment, clause) };
        let mut extreme: Option<(bool, Typed)> = None;
        let mut clauses = Clauses {
            distinct: matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)),
            ignore_nulls: ignores_nulls(call, list),
            respect_nulls: matches!(call.null_treatment, Some(NullTreatment::RespectNulls)),
            ..Clauses::default()
        };
        if let Some(filter) = &call.filter {
            clauses.filter = Some(Box::new(self.condition(filter, &mut inner)?));
        }
        let mut ordered_by = Vec::new();
        if !call.within_group.is_empty() {
            return Err(unsupported(
                "WITHIN GROUP",
                Some("write the ORDER BY inside, STRING_AGG(x ORDER BY y), or PERCENTILE_CONT(x, 0.5) OVER ()"),
                at,
            ));
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => {
                    for key in bounded(keys)? {
                        let value = self.expr(&key.expr, &mut inner)?;
                        let value = if clauses.distinct { group_key(value) } else { value };
                        ordered_by.push((value.expr.clone(), place(&key.expr)));
                        let key = sorted(value, key)?;
                        // A key that stands twice decides nothing the second time, and the engine fails on it.
                        if clauses.order_by.iter().all(|before| before.expr != key.expr) {
                            clauses.order_by.push(key);
                        }
                    }
                }
                FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => {
                    clauses.ignore_nulls = matches!(nulls, NullTreatment::IgnoreNulls);
                    clauses.respect_nulls = matches!(nulls, NullTreatment::RespectNulls);
                }
                FunctionArgumentClause::Limit(limit) => {
                    let value = self.expr(limit, &mut inner)?;
                    match value.literal() {
                        Some(ScalarValue::Int64(Some(limit @ 0..))) => clauses.limit = Some(*limit),
                        _ => return Err(invalid("LIMIT in an aggregate takes a number, 0 or more", at)),
                    }
                }
                FunctionArgumentClause::Having(HavingBound(kind, by)) if function.takes_having => {
                    extreme = Some((matches!(kind, HavingBoundKind::Max), self.expr(by, &mut inner)?));
                }
                other => return Err(unsupported(format!("{other} in {name}"), None, at)),
            }
        }
        let mut arguments = Vec::new();
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => {
                    arguments.push(if matches!(ast, Ast::Wildcard(_)) {
                        None
                    } else {
                        let value = self.expr(ast, &mut inner)?;
                        Some(if clauses.distinct { group_key(value) } else { value })
                    });
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_)) => {
                    arguments.push(None)
                }
                other => return Err(unsupported(format!("the argument {other} of {name}"), None, at)),
            }
        }
        let is_argument = |key: &Expr| arguments.iter().flatten().any(|argument| argument.expr == *key);
        if let Some((_, at)) = ordered_by.iter().find(|(key, _)| clauses.distinct && !is_argument(key)) {
            return Err(invalid(format!("{name} with DISTINCT can only be ordered by its arguments"), *at));
        }
        if clauses.limit.is_some() && !function.takes_limit {
            return Err(unsupported(format!("LIMIT in {name}"), None, at));
        }
        let (expr, ty) = match extreme {
            Some(_) if over => return Err(invalid(format!("{name} ... OVER takes no HAVING"), at)),
            // The engine's own finds the row with the key, with less work.
            Some((largest, by)) if name == table::ANY_VALUE => {
                arguments.push(Some(by));
                let function = if largest { &table::MAX_BY } else { &table::MIN_BY };
                function.call(arguments, &clauses, at)?
            }
            Some((largest, by)) => {
                if by.ty != Type::Interval && !by.ty.is_sortable() {
                    return Err(invalid(format!("HAVING cannot compare values of type {}", by.ty), at));
                }
                let by = if by.ty == Type::Interval { interval_length(by.expr) } else { plan_column(float_key(by)) };
                clauses.having = Some((largest, by.expr));
                function.call(arguments, &clauses, at)?
            }
            None => function.call(arguments, &clauses, at)?,
        };
        let expr = match expr {
            Expr::AggregateFunction(mut call) if is_safe => {
                call.func = safe(call.func);
                Expr::AggregateFunction(call)
            }
            expr => expr,
        };
        Ok(Built { expr, ty, limit: clauses.limit })
    }
}

/// Whether a call has IGNORE NULLS. Behind an argument that is a call itself, the parser takes the words for that
/// call's: `ARRAY_AGG(NULLIF(x, '') IGNORE NULLS)`.
pub(super) fn ignores_nulls(call: &Function, list: &FunctionArgumentList) -> bool {
    let of_argument = match list.args.last() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Ast::Function(inner)))) if inner.over.is_none() => {
            inner.null_treatment
        }
        _ => None,
    };
    matches!(call.null_treatment.or(of_argument), Some(NullTreatment::IgnoreNulls))
}
