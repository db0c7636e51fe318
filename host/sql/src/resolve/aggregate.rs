//! Aggregate calls: resolved to the engine's aggregates, or ours.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::functions_aggregate as agg;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment as EngineNulls};
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr, cast, lit};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, HavingBound, HavingBoundKind, NullTreatment, Visit, Visitor,
};
use tidegate_model::Position;

use super::calls::carried;
use super::expr::Context;
use super::query::sorted;
use super::{Conversion, Resolver, Typed};
use crate::fail::{Result, invalid, place, unsupported};
use crate::functions::{Argument, first, interval_sum, quantiles, top, whole_sum};
use crate::types::{Field, Type};

/// The aggregate functions.
pub(crate) const AGGREGATES: [&str; 33] = [
    "ANY_VALUE",
    "APPROX_COUNT_DISTINCT",
    "APPROX_QUANTILES",
    "APPROX_TOP_COUNT",
    "APPROX_TOP_SUM",
    "ARRAY_AGG",
    "ARRAY_CONCAT_AGG",
    "AVG",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "BOOL_AND",
    "BOOL_OR",
    "CORR",
    "COUNT",
    "COUNTIF",
    "COVAR_POP",
    "COVAR_SAMP",
    "GROUPING",
    "LOGICAL_AND",
    "LOGICAL_OR",
    "MAX",
    "MAX_BY",
    "MIN",
    "MIN_BY",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "STRING_AGG",
    "SUM",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
];

/// Whether `name` (in capitals) is an aggregate function.
pub(crate) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name)
}

/// Whether some expression in `tree` calls an aggregate function.
pub(crate) fn calls_aggregate(tree: &impl Visit) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Ast) -> ControlFlow<()> {
            match expr {
                Ast::Function(call) if call.over.is_none() && is_aggregate(&call.name.to_string().to_uppercase()) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    tree.visit(&mut Calls).is_break()
}

/// What stands around an aggregate's arguments.
#[derive(Default)]
struct Clauses {
    distinct: bool,
    filter: Option<Box<Expr>>,
    order_by: Vec<SortExpr>,
    limit: Option<i64>,
    ignore_nulls: bool,
}

/// An aggregate that is not collected yet.
struct Built {
    expr: Expr,
    ty: Type,
    limit: Option<i64>,
}

impl Resolver<'_> {
    /// An aggregate call, collected; the value is the column that carries its result.
    pub(crate) fn aggregate(
        &mut self,
        name: &str,
        call: &Function,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        if cx.calls.is_none() {
            return Err(invalid(format!("the aggregate function {name} is not allowed in {}", cx.clause), at));
        }
        if name == "GROUPING" {
            return self.grouping(call, at, cx);
        }
        // STRING_AGG with LIMIT is the list of the first texts, joined.
        let has_limit = |list: &FunctionArgumentList| {
            list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::Limit(_)))
        };
        if let ("STRING_AGG", FunctionArguments::List(list)) = (name, &call.args)
            && has_limit(list)
        {
            return self.string_agg_limited(call, list, at, cx);
        }
        let Built { expr, ty, limit } = self.build_aggregate(name, call, false, at, cx)?;
        let fresh = self.fresh();
        let Some(calls) = cx.calls.as_deref_mut() else { return Err(unsupported(name, at)) };
        let value = Typed::new(carried(&mut calls.aggregates, expr, fresh), ty);
        let value = match name {
            "STRING_AGG" => value.uniform(),
            "ARRAY_CONCAT_AGG" => Typed::new(nested::flatten(value.expr), value.ty),
            // The engine's number has no sign, and cannot be negated.
            "APPROX_COUNT_DISTINCT" => Typed::new(cast(value.expr, value.ty.arrow()), value.ty),
            _ => value,
        };
        Ok(match limit {
            // No array is longer, and the engine counts on from the end.
            Some(limit) => {
                let end = lit(limit.min(i64::from(i32::MAX)));
                Typed::new(nested::array_slice(value.expr, lit(1_i64), end, None), value.ty)
            }
            None => value,
        })
    }

    /// An aggregate call for a window: not collected as an aggregate.
    pub(crate) fn aggregate_call(
        &mut self,
        name: &str,
        call: &Function,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Expr, Type)> {
        match self.build_aggregate(name, call, true, at, cx)? {
            Built { limit: Some(_), .. } => Err(invalid(format!("{name} ... OVER takes no LIMIT"), at)),
            Built { ty: Type::Interval, .. } if matches!(name, "MIN" | "MAX") => {
                Err(unsupported(format!("{name} of INTERVAL ... OVER"), at))
            }
            Built { .. } if name == "ARRAY_CONCAT_AGG" => Err(unsupported("ARRAY_CONCAT_AGG ... OVER", at)),
            Built { expr, ty, .. } => Ok((expr, ty)),
        }
    }

    /// `GROUPING(key)`: 1 where the key is rolled up. Which key it is is known after grouping.
    fn grouping(&mut self, call: &Function, at: Option<Position>, cx: &mut Context<'_, '_>) -> Result<Typed> {
        let FunctionArguments::List(list) = &call.args else { return Err(invalid("GROUPING needs an argument", at)) };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(key))] = list.args.as_slice() else {
            return Err(invalid("GROUPING takes one GROUP BY key", at));
        };
        let aliases = cx.aliases;
        let mut inner = Context { aliases, ..Context::new(cx.scope, cx.environment, "GROUPING") };
        let key = self.expr(key, &mut inner)?.expr;
        let fresh = self.fresh();
        let Some(calls) = cx.calls.as_deref_mut() else { return Err(unsupported("GROUPING", at)) };
        Ok(Typed::new(carried(&mut calls.groupings, key, fresh), Type::Int64))
    }

    fn string_agg_limited(
        &mut self,
        call: &Function,
        list: &FunctionArgumentList,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let separator = match list.args.get(1) {
            None => Typed::text(","),
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(ast))) => self.expr(ast, cx)?,
            Some(other) => return Err(unsupported(format!("the argument {other} of STRING_AGG"), at)),
        };
        let mut list = list.clone();
        list.args.truncate(1);
        list.clauses.push(FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::IgnoreNulls));
        let call = Function { args: FunctionArguments::List(list), ..call.clone() };
        let texts = self.aggregate("ARRAY_AGG", &call, at, cx)?;
        let arguments = vec![Argument::Value(texts), Argument::Value(separator)];
        self.build("ARRAY_TO_STRING", arguments, at, cx)
    }

    fn build_aggregate(
        &mut self,
        name: &str,
        call: &Function,
        over: bool,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Built> {
        let FunctionArguments::List(list) = &call.args else {
            return Err(invalid(format!("{name} needs arguments"), at));
        };
        // The arguments are over the rows: no aliases, no aggregates inside. Those of a window
        // are over the groups, and may use aggregates.
        let clause = if over { cx.clause } else { "the argument of an aggregate" };
        let calls = if over { cx.calls.as_deref_mut() } else { None };
        let mut inner = Context { calls, guarded: cx.guarded, ..Context::new(cx.scope, cx.environment, clause) };
        let mut extreme: Option<(bool, Typed)> = None;
        let mut clauses = Clauses {
            distinct: matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)),
            ignore_nulls: ignores_nulls(call, list),
            ..Clauses::default()
        };
        if let Some(filter) = &call.filter {
            clauses.filter = Some(Box::new(self.condition(filter, &mut inner)?));
        }
        let mut ordered_by = Vec::new();
        if !call.within_group.is_empty() {
            return Err(unsupported(
                "WITHIN GROUP; write the ORDER BY inside, STRING_AGG(x ORDER BY y), or PERCENTILE_CONT(x, 0.5) OVER ()",
                at,
            ));
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => {
                    for key in keys {
                        let value = self.expr(&key.expr, &mut inner)?;
                        ordered_by.push((value.expr.clone(), place(&key.expr)));
                        let key = sorted(value, key)?;
                        // One that stood before decides already; the engine's own bookkeeping fails on it.
                        if clauses.order_by.iter().all(|before| before.expr != key.expr) {
                            clauses.order_by.push(key);
                        }
                    }
                }
                FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => {
                    clauses.ignore_nulls = matches!(nulls, NullTreatment::IgnoreNulls);
                }
                FunctionArgumentClause::Limit(limit) => {
                    let value = self.expr(limit, &mut inner)?;
                    match value.literal() {
                        Some(ScalarValue::Int64(Some(limit @ 0..))) => clauses.limit = Some(*limit),
                        _ => return Err(invalid("LIMIT in an aggregate takes a number, 0 or more", at)),
                    }
                }
                FunctionArgumentClause::Having(HavingBound(kind, by)) if name == "ANY_VALUE" => {
                    extreme = Some((matches!(kind, HavingBoundKind::Max), self.expr(by, &mut inner)?));
                }
                other => return Err(unsupported(format!("{other} in {name}"), at)),
            }
        }
        let mut arguments = Vec::new();
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => {
                    arguments.push(if matches!(ast, Ast::Wildcard(_)) {
                        None
                    } else {
                        Some(self.expr(ast, &mut inner)?)
                    });
                }
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard | FunctionArgExpr::WildcardWithOptions(_)) => {
                    arguments.push(None)
                }
                other => return Err(unsupported(format!("the argument {other} of {name}"), at)),
            }
        }
        let is_argument = |key: &Expr| arguments.iter().flatten().any(|argument| argument.expr == *key);
        if let Some((_, at)) = ordered_by.iter().find(|(key, _)| clauses.distinct && !is_argument(key)) {
            return Err(invalid(format!("{name} with DISTINCT can only be ordered by its arguments"), *at));
        }
        if clauses.limit.is_some() && name != "ARRAY_AGG" {
            return Err(unsupported(format!("LIMIT in {name}"), at));
        }
        let (expr, ty) = match extreme {
            Some((largest, by)) => {
                arguments.push(Some(by));
                build(if largest { "MAX_BY" } else { "MIN_BY" }, arguments, &clauses, at)?
            }
            None => build(name, arguments, &clauses, at)?,
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

fn build(name: &str, arguments: Vec<Option<Typed>>, clauses: &Clauses, at: Option<Position>) -> Result<(Expr, Type)> {
    let how = Conversion::implicit(at);
    if name == "COUNT" && matches!(arguments.as_slice(), [None]) {
        if clauses.distinct {
            return Err(invalid("COUNT(DISTINCT *) is not possible; name a column", at));
        }
        return Ok((call(agg::count::count_udaf(), vec![lit(1_i64)], clauses), Type::Int64));
    }
    let mut arguments = arguments
        .into_iter()
        .map(|argument| argument.ok_or_else(|| invalid(format!("{name} cannot take *"), at)))
        .collect::<Result<Vec<_>>>()?
        .into_iter();
    let Some(first) = arguments.next() else {
        return Err(invalid(format!("{name} needs an argument"), at));
    };
    let second = arguments.next();
    let third = arguments.next();
    let most = match name {
        "APPROX_TOP_SUM" => 3,
        "STRING_AGG" | "APPROX_QUANTILES" | "APPROX_TOP_COUNT" | "CORR" | "COVAR_SAMP" | "COVAR_POP" | "MAX_BY"
        | "MIN_BY" => 2,
        _ => 1,
    };
    let count = 1 + usize::from(second.is_some()) + usize::from(third.is_some()) + arguments.count();
    if count > most || (count < most && name != "STRING_AGG") {
        let wanted = ["one argument", "two arguments", "three arguments"].get(most - 1).copied().unwrap_or_default();
        return Err(invalid(format!("{name} takes {wanted}, not {count}"), at));
    }
    let number = number_of(how);
    let float = |value: Typed| value.convert(&Type::Float64, how);
    let simple = |udaf: Arc<AggregateUDF>, value: Typed| {
        let ty = value.ty.clone();
        (call(udaf, vec![super::query::shown(value).expr], clauses), ty)
    };
    let comparable = |value: &Typed| -> Result<()> {
        if value.ty.is_groupable() {
            Ok(())
        } else {
            Err(invalid(format!("{name} cannot compare values of type {}", value.ty), at))
        }
    };
    Ok(match name {
        "COUNT" => {
            if clauses.distinct {
                comparable(&first)?;
            }
            (call(agg::count::count_udaf(), vec![super::query::shown(first).expr], clauses), Type::Int64)
        }
        "COUNTIF" => {
            let condition = first.convert(&Type::Bool, how)?.expr;
            let filter = match &clauses.filter {
                Some(filter) => condition.clone().and((**filter).clone()),
                None => condition.clone(),
            };
            let with = Clauses { filter: Some(Box::new(filter)), distinct: clauses.distinct, ..Clauses::default() };
            let counted = if clauses.distinct { condition } else { lit(1_i64) };
            (call(agg::count::count_udaf(), vec![counted], &with), Type::Int64)
        }
        "SUM" | "AVG" if first.ty == Type::Interval => {
            if clauses.distinct {
                return Err(invalid(format!("{name} cannot compare values of type INTERVAL"), at));
            }
            simple(interval_sum(name == "AVG"), first)
        }
        "SUM" => {
            let value = number(first)?;
            let whole = value.ty == Type::Int64;
            simple(if whole { whole_sum() } else { agg::sum::sum_udaf() }, value)
        }
        "AVG" => {
            let (expr, _) = simple(agg::average::avg_udaf(), float(first)?);
            (expr, Type::Float64)
        }
        "MIN" | "MAX" if first.ty == Type::Interval => {
            let by = crate::functions::interval_length(first.clone());
            let arguments = vec![Some(first), Some(by)];
            return build(if name == "MIN" { "MIN_BY" } else { "MAX_BY" }, arguments, clauses, at);
        }
        "MIN" | "MAX" => {
            comparable(&first)?;
            simple(if name == "MIN" { agg::min_max::min_udaf() } else { agg::min_max::max_udaf() }, first)
        }
        "ANY_VALUE" => {
            let with = Clauses { filter: clauses.filter.clone(), ignore_nulls: true, ..Clauses::default() };
            let ty = first.ty.clone();
            (call(agg::first_last::first_value_udaf(), vec![super::query::shown(first).expr], &with), ty)
        }
        "ARRAY_AGG" => {
            let ty = first.ty.clone();
            if matches!(ty, Type::Array(_) | Type::Record(_)) {
                return Err(invalid("ARRAY_AGG cannot collect arrays; collect STRUCTs or one field", at));
            }
            let value = super::query::shown(first).expr;
            let collected = match clauses.limit.and_then(|limit| usize::try_from(limit).ok()) {
                Some(limit) if !clauses.distinct => first_of(limit, value, clauses),
                _ => call(collecting(clauses), vec![value], clauses),
            };
            (collected, Type::Array(Box::new(ty)))
        }
        "STRING_AGG" => {
            let separator = second.unwrap_or_else(|| Typed::text(",")).convert(&Type::String, how)?;
            let value = first.convert(&Type::String, how)?;
            // The engine reads the separator as plain text only.
            let separator = cast(separator.expr, datafusion::arrow::datatypes::DataType::Utf8);
            let separator = super::folded(Typed::new(separator, Type::String));
            if separator.literal().is_none() {
                return Err(invalid("the separator of STRING_AGG is a constant: a text or a parameter", at));
            }
            (call(agg::string_agg::string_agg_udaf(), vec![value.expr, separator.expr], clauses), Type::String)
        }
        "ARRAY_CONCAT_AGG" => {
            let value = match &first.ty {
                Type::Array(_) => first,
                Type::Record(fields) => {
                    let element = Type::Struct { fields: Arc::clone(fields), open: true };
                    Typed::new(super::list_of_record(first.expr)?, Type::Array(Box::new(element)))
                }
                ty => return Err(invalid(format!("ARRAY_CONCAT_AGG takes arrays, not values of type {ty}"), at)),
            };
            let with =
                Clauses { filter: present(&value, clauses), order_by: clauses.order_by.clone(), ..Clauses::default() };
            let lists = call(collecting(&with), vec![value.expr], &with);
            (lists, value.ty)
        }
        "MAX_BY" | "MIN_BY" => {
            let Some(by) = second else { return Err(invalid(format!("{name} takes two arguments"), at)) };
            let by = if by.ty == Type::Interval { crate::functions::interval_length(by) } else { by };
            comparable(&by)?;
            let ty = first.ty.clone();
            let order_by = vec![by.expr.clone().sort(name == "MIN_BY", false)];
            let with = Clauses { filter: present(&by, clauses), order_by, ..Clauses::default() };
            (call(agg::first_last::first_value_udaf(), vec![super::query::shown(first).expr], &with), ty)
        }
        "APPROX_TOP_COUNT" | "APPROX_TOP_SUM" => {
            comparable(&first)?;
            let (weight, number) = if name == "APPROX_TOP_SUM" { (second, third) } else { (None, second) };
            let number = match number.as_ref().and_then(Typed::literal) {
                Some(ScalarValue::Int64(Some(n @ 1..=10_000))) => usize::try_from(*n).unwrap_or(1),
                _ => return Err(invalid(format!("{name} takes a number from 1 to 10000 as its last argument"), at)),
            };
            let weight = weight.map(number_of(how)).transpose()?;
            let value = super::query::shown(first);
            let sum = weight.as_ref().map_or(Type::Int64, |weight| weight.ty.clone());
            let label = if weight.is_some() { "sum" } else { "count" };
            let fields =
                [Field { name: "value".to_owned(), ty: value.ty.clone() }, Field { name: label.to_owned(), ty: sum }];
            let function = top(number, weight.is_some());
            let arguments = std::iter::once(value.expr).chain(weight.map(|weight| weight.expr)).collect();
            let element = Type::Struct { fields: fields.into(), open: false };
            (call(function, arguments, clauses), Type::Array(Box::new(element)))
        }
        "LOGICAL_OR" | "BOOL_OR" => simple(agg::bool_and_or::bool_or_udaf(), first.convert(&Type::Bool, how)?),
        "LOGICAL_AND" | "BOOL_AND" => simple(agg::bool_and_or::bool_and_udaf(), first.convert(&Type::Bool, how)?),
        "BIT_AND" => simple(agg::bit_and_or_xor::bit_and_udaf(), first.convert(&Type::Int64, how)?),
        "BIT_OR" => simple(agg::bit_and_or_xor::bit_or_udaf(), first.convert(&Type::Int64, how)?),
        "BIT_XOR" => simple(agg::bit_and_or_xor::bit_xor_udaf(), first.convert(&Type::Int64, how)?),
        "APPROX_COUNT_DISTINCT" => {
            comparable(&first)?;
            let (expr, _) = simple(agg::approx_distinct::approx_distinct_udaf(), first);
            (expr, Type::Int64)
        }
        "STDDEV" | "STDDEV_SAMP" => simple(agg::stddev::stddev_udaf(), float(first)?),
        "STDDEV_POP" => simple(agg::stddev::stddev_pop_udaf(), float(first)?),
        "VARIANCE" | "VAR_SAMP" => simple(agg::variance::var_samp_udaf(), float(first)?),
        "VAR_POP" => simple(agg::variance::var_pop_udaf(), float(first)?),
        "CORR" | "COVAR_SAMP" | "COVAR_POP" => {
            let Some(second) = second else { return Err(invalid(format!("{name} takes two arguments"), at)) };
            let udaf = match name {
                "CORR" => agg::correlation::corr_udaf(),
                "COVAR_SAMP" => agg::covariance::covar_samp_udaf(),
                _ => agg::covariance::covar_pop_udaf(),
            };
            (call(udaf, vec![float(first)?.expr, float(second)?.expr], clauses), Type::Float64)
        }
        "APPROX_QUANTILES" => {
            comparable(&first)?;
            let parts = match second.as_ref().and_then(Typed::literal) {
                Some(ScalarValue::Int64(Some(parts @ 1..=10_000))) => usize::try_from(*parts).unwrap_or(1),
                _ => return Err(invalid("APPROX_QUANTILES(x, n) takes a number n from 1 to 10000", at)),
            };
            let value = if first.ty == Type::Null { first.convert(&Type::Float64, how)? } else { first };
            let ty = value.ty.clone();
            (call(quantiles(parts), vec![value.expr], clauses), Type::Array(Box::new(ty)))
        }
        other => return Err(unsupported(format!("the aggregate function {other}"), at)),
    })
}

/// A value as a number: what is one already stays as it is.
fn number_of(how: Conversion) -> impl Fn(Typed) -> Result<Typed> {
    move |value| if value.ty.is_number() { Ok(value) } else { value.convert(&Type::Float64, how) }
}

/// The filter of a call and that a value is there.
fn present(value: &Typed, clauses: &Clauses) -> Option<Box<Expr>> {
    let there = value.expr.clone().is_not_null();
    Some(Box::new(match &clauses.filter {
        Some(filter) => there.and((**filter).clone()),
        None => there,
    }))
}

/// ARRAY_AGG with a LIMIT, which holds no more than that.
fn first_of(limit: usize, value: Expr, clauses: &Clauses) -> Expr {
    let with = Clauses { filter: clauses.filter.clone(), ..Clauses::default() };
    let (order, keys): (Vec<_>, Vec<_>) = clauses.order_by.iter().map(|key| (options(key), key.expr.clone())).unzip();
    let arguments = std::iter::once(value).chain(keys).collect();
    call(first(limit, order, clauses.ignore_nulls), arguments, &with)
}

/// The order of a key.
pub(super) fn options(key: &SortExpr) -> SortOptions {
    SortOptions { descending: !key.asc, nulls_first: key.nulls_first }
}

fn collecting(clauses: &Clauses) -> Arc<AggregateUDF> {
    crate::functions::collecting(!clauses.distinct && clauses.order_by.is_empty())
}

fn call(udaf: Arc<AggregateUDF>, arguments: Vec<Expr>, clauses: &Clauses) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(
        udaf,
        arguments,
        clauses.distinct,
        clauses.filter.clone(),
        clauses.order_by.clone(),
        clauses.ignore_nulls.then_some(EngineNulls::IgnoreNulls),
    ))
}
