//! Aggregate calls: collected while expressions are resolved, computed once per group.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::TreeNode;
use datafusion::functions_aggregate as agg;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::expr::{AggregateFunction, NullTreatment as EngineNulls};
use datafusion::logical_expr::{AggregateUDF, Expr, SortExpr, cast, col, lit};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    NullTreatment, Visit, Visitor,
};
use tidegate_model::Position;

use super::expr::Context;
use super::query::sorted;
use super::{Conversion, Resolver, Typed};
use crate::fail::{Result, invalid, unsupported};
use crate::functions::quantiles;
use crate::types::Type;

/// The aggregate calls of one SELECT, each with the plan column that carries its result.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    pub(crate) calls: Vec<(String, Expr)>,
}

impl Aggregates {
    /// Whether an expression uses the result of an aggregate.
    pub(crate) fn used_in(&self, expr: &Expr) -> bool {
        let uses = |part: &Expr| matches!(part, Expr::Column(c) if self.calls.iter().any(|(name, _)| *name == c.name));
        expr.exists(|part| Ok(uses(part))).unwrap_or(false)
    }
}

/// The aggregate functions.
pub(crate) const AGGREGATES: &[&str] = &[
    "COUNT",
    "COUNTIF",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "ANY_VALUE",
    "ARRAY_AGG",
    "STRING_AGG",
    "LOGICAL_OR",
    "LOGICAL_AND",
    "BOOL_OR",
    "BOOL_AND",
    "APPROX_QUANTILES",
    "APPROX_COUNT_DISTINCT",
    "STDDEV",
    "STDDEV_SAMP",
    "STDDEV_POP",
    "VARIANCE",
    "VAR_SAMP",
    "VAR_POP",
    "CORR",
    "COVAR_SAMP",
    "COVAR_POP",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
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
                Ast::Function(call) if is_aggregate(&call.name.to_string().to_uppercase()) => ControlFlow::Break(()),
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

impl Resolver<'_> {
    pub(crate) fn aggregate(
        &mut self,
        name: &str,
        call: &Function,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        if cx.aggregates.is_none() {
            return Err(invalid(format!("the aggregate function {name} is not allowed in {}", cx.clause), at));
        }
        let FunctionArguments::List(list) = &call.args else {
            return Err(invalid(format!("{name} needs arguments"), at));
        };
        // The arguments are over the rows: no aliases, no aggregates inside.
        let mut inner =
            Context { guarded: cx.guarded, ..Context::new(cx.scope, cx.environment, "the argument of an aggregate") };
        let mut clauses = Clauses {
            distinct: matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)),
            ignore_nulls: matches!(call.null_treatment, Some(NullTreatment::IgnoreNulls)),
            ..Clauses::default()
        };
        if let Some(filter) = &call.filter {
            clauses.filter = Some(Box::new(self.condition(filter, &mut inner)?));
        }
        if !call.within_group.is_empty() {
            return Err(unsupported("WITHIN GROUP", at));
        }
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(keys) => {
                    for key in keys {
                        let value = self.expr(&key.expr, &mut inner)?;
                        clauses.order_by.push(sorted(value, key)?);
                    }
                }
                FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => {
                    clauses.ignore_nulls = matches!(nulls, NullTreatment::IgnoreNulls);
                }
                FunctionArgumentClause::Limit(limit) => {
                    let value = self.expr(limit, &mut inner)?;
                    match value.literal() {
                        Some(ScalarValue::Int64(Some(limit))) => clauses.limit = Some(*limit),
                        _ => return Err(invalid("LIMIT in an aggregate takes a number", at)),
                    }
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
        let (expr, ty) = build(name, arguments, &clauses, at)?;
        let carried = self.collect(cx, expr);
        let value = if name == "STRING_AGG" { Typed::new(carried, ty).uniform() } else { Typed::new(carried, ty) };
        match (name, clauses.limit) {
            ("ARRAY_AGG", Some(limit)) => {
                Ok(Typed::new(nested::array_slice(value.expr, lit(1_i64), lit(limit), None), value.ty))
            }
            (_, Some(_)) => Err(unsupported(format!("LIMIT in {name}"), at)),
            _ => Ok(value),
        }
    }

    /// The column that carries an aggregate's result; equal calls share one.
    fn collect(&mut self, cx: &mut Context<'_, '_>, call: Expr) -> Expr {
        let fresh = self.fresh();
        let Some(aggregates) = cx.aggregates.as_deref_mut() else { return call };
        let name = match aggregates.calls.iter().find(|(_, known)| *known == call) {
            Some((name, _)) => name.clone(),
            None => {
                aggregates.calls.push((fresh.clone(), call));
                fresh
            }
        };
        col(Column::new_unqualified(name))
    }
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
    let takes_two = matches!(name, "STRING_AGG" | "APPROX_QUANTILES" | "CORR" | "COVAR_SAMP" | "COVAR_POP");
    if arguments.next().is_some() || (second.is_some() && !takes_two) {
        return Err(invalid(format!("{name} takes {}", if takes_two { "two arguments" } else { "one argument" }), at));
    }
    let number = |value: Typed| -> Result<Typed> {
        if value.ty.is_number() { Ok(value) } else { value.convert(&Type::Float64, how) }
    };
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
        "SUM" => simple(agg::sum::sum_udaf(), number(first)?),
        "AVG" => {
            let (expr, _) = simple(agg::average::avg_udaf(), float(first)?);
            (expr, Type::Float64)
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
            (
                call(agg::array_agg::array_agg_udaf(), vec![super::query::shown(first).expr], clauses),
                Type::Array(Box::new(ty)),
            )
        }
        "STRING_AGG" => {
            let separator = second.unwrap_or_else(|| Typed::text(",")).convert(&Type::String, how)?;
            let value = first.convert(&Type::String, how)?;
            // The engine reads the separator as plain text only.
            let separator = cast(separator.expr, datafusion::arrow::datatypes::DataType::Utf8);
            let separator = super::folded(Typed::new(separator, Type::String)).expr;
            (call(agg::string_agg::string_agg_udaf(), vec![value.expr, separator], clauses), Type::String)
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
