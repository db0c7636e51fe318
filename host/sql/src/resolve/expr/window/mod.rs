//! Window functions: `call OVER (PARTITION BY ... ORDER BY ... frame)`, and QUALIFY, which filters by them.
//!
//! A call is collected like an aggregate and computed after grouping, so that its arguments may
//! be aggregates themselves (`RANK() OVER (ORDER BY COUNT(*) DESC)`).

mod spec;
mod table;

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, WindowFunctionDefinition, cast, when};
use sqlparser::ast::{
    Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    NamedWindowDefinition, NullTreatment, Value, WindowType,
};
use tidegate_functions::aggregate::watched;
use tidegate_model::{Position, nearest};

use super::aggregate::{self, Aggregate};
use crate::fail::{Planning, Result, invalid, place_of, unsupported};
use crate::resolve::calls::{Calls, carried};
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;

use self::spec::Over;
use self::table::WindowCall;

pub(super) use table::{find, names};

impl Resolver<'_> {
    /// `name(...) OVER ...`.
    pub(super) fn window(
        &mut self,
        name: &str,
        call: &Function,
        (window, safe): (&WindowType, bool),
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let Some(named) = cx.windows.filter(|_| cx.calls.is_some()) else {
            let message = format!("the window function {name} is not allowed in {}; QUALIFY filters by it", cx.clause);
            return Err(invalid(message, at));
        };
        if let Some(value) = self.with_default(name, call, (window, safe), at, cx)? {
            return Ok(value);
        }
        let over = self.over(window, named, at, cx)?;
        let aggregate = aggregate::find(name);
        let (expr, ty) = match aggregate {
            Some(function) => self.aggregate_over(function, call, safe, at, cx)?,
            None => self.window_call(name, call, &over, at, cx)?,
        };
        let Expr::WindowFunction(mut function) = expr else {
            return Err(unsupported(format!("{name} ... OVER"), None, at));
        };
        if let WindowFunctionDefinition::AggregateUDF(udaf) = function.fun {
            let whole = over.frame.start_bound.is_unbounded() && over.frame.end_bound.is_unbounded();
            function.fun = WindowFunctionDefinition::AggregateUDF(watched(udaf, whole));
        }
        let params = &mut function.params;
        if let Some(only) = over.only {
            match aggregate {
                Some(_) => {
                    params.filter = Some(Box::new(match params.filter.take() {
                        Some(filter) => only.and(*filter),
                        None => only,
                    }));
                }
                // A value of one of its rows, which are all alike here.
                None => {
                    if let Some(value) = params.args.first_mut() {
                        *value = when(only, value.clone()).end().planned()?;
                    }
                }
            }
        }
        if params.distinct && (over.framed || !over.order_by.is_empty()) {
            return Err(invalid(format!("{name}(DISTINCT ...) OVER takes no ORDER BY and no frame"), at));
        }
        params.partition_by = over.partition_by;
        params.order_by = over.order_by;
        params.window_frame = over.frame;
        let fresh = self.fresh();
        let Some(calls) = cx.calls.as_deref_mut() else { return Err(unsupported("OVER", None, at)) };
        let column = carried(&mut calls.windows, Expr::WindowFunction(function), fresh);
        // The engine's ranking functions give unsigned numbers.
        let expr = if ty == Type::Int64 { cast(column, DataType::Int64) } else { column };
        let value = Typed::new(expr, ty);
        let value = aggregate.map_or_else(|| value.clone(), |function| (function.finish)(value.clone())).uniform();
        Ok(value)
    }

    /// LAG and LEAD with a default that is no literal of the engine, such as a STRUCT: it is taken where there is no such row.
    fn with_default(
        &mut self,
        name: &str,
        call: &Function,
        over: (&WindowType, bool),
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Option<Typed>> {
        let FunctionArguments::List(list) = &call.args else { return Ok(None) };
        let [_, _, FunctionArg::Unnamed(FunctionArgExpr::Expr(ast))] = list.args.as_slice() else { return Ok(None) };
        if !matches!(name, "LAG" | "LEAD") {
            return Ok(None);
        }
        let windows = cx.windows.take();
        let default = self.expr(ast, cx);
        cx.windows = windows;
        let default = default?;
        if default.expr.any_column_refs() {
            return Err(invalid(format!("the default of {name} must be a constant"), at));
        }
        if default.literal().is_some() {
            return Ok(None);
        }
        let mut list = list.clone();
        list.args.truncate(2);
        let without = Function { args: FunctionArguments::List(list.clone()), ..call.clone() };
        let value = self.window(name, &without, over, at, cx)?;
        let default = default.convert(&value.ty, Conversion::implicit(at))?;
        if aggregate::ignores_nulls(call, &list) {
            return Ok(Some(Typed::new(core::coalesce(vec![value.expr, default.expr]), value.ty)));
        }
        if let Some(first) = list.args.first_mut() {
            let one = Value::Number("1".to_owned(), false).with_empty_span();
            *first = FunctionArg::Unnamed(FunctionArgExpr::Expr(Ast::Value(one)));
        }
        let one = Function { args: FunctionArguments::List(list), ..call.clone() };
        let there = self.window(name, &one, over, at, cx)?;
        let value_or_default = when(there.expr.is_null(), default.expr).otherwise(value.expr).planned()?;
        Ok(Some(Typed::new(value_or_default, value.ty)))
    }

    /// Checks the windows of a WINDOW clause, used or not.
    pub(in crate::resolve) fn named_windows(
        &mut self,
        named: &[NamedWindowDefinition],
        scope: &Scope<'_>,
        environment: &Environment<'_>,
    ) -> Result<()> {
        for NamedWindowDefinition(name, _) in named {
            let mut calls = Calls::default();
            let mut cx = Context { calls: Some(&mut calls), ..Context::new(scope, environment, Clause::Window) };
            self.over(&WindowType::NamedWindow(name.clone()), named, place_of(name.span), &mut cx)?;
        }
        Ok(())
    }

    /// An aggregate over a window: built as an aggregate call, which is then made a window call.
    fn aggregate_over(
        &mut self,
        function: &'static Aggregate,
        call: &Function,
        safe: bool,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Expr, Type)> {
        // Of a grouped SELECT the arguments may be aggregates, but not window calls again.
        let windows = cx.windows.take();
        let built = self.aggregate_call(function, call, safe, at, cx);
        cx.windows = windows;
        let (expr, ty) = built?;
        let name = function.name;
        let Expr::AggregateFunction(aggregate) = expr else {
            return Err(unsupported(format!("{name} ... OVER"), None, at));
        };
        let params = aggregate.params;
        if !params.order_by.is_empty() {
            return Err(invalid(format!("{name} ... OVER takes its ORDER BY inside of OVER (...)"), at));
        }
        let mut function = WindowFunction::new(WindowFunctionDefinition::AggregateUDF(aggregate.func), params.args);
        function.params.distinct = params.distinct;
        function.params.filter = params.filter;
        function.params.null_treatment = params.null_treatment;
        Ok((Expr::WindowFunction(Box::new(function)), ty))
    }

    /// A call of a function that only windows have.
    fn window_call(
        &mut self,
        name: &str,
        call: &Function,
        over: &Over,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Expr, Type)> {
        let Some(function) = table::find(name) else {
            let hint = nearest(name, table::names()).map_or(String::new(), |near| format!("; did you mean {near}?"));
            return Err(invalid(format!("{name} cannot be used with OVER; it is no window function{hint}"), at));
        };
        let (arguments, ignore_nulls) = self.window_arguments(name, call, at, cx)?;
        if over.framed && !function.takes_frame {
            return Err(invalid(format!("{name} takes no frame (ROWS or RANGE)"), at));
        }
        function.call(&WindowCall {
            name: function.name,
            arguments: &arguments,
            ordered: !over.order_by.is_empty(),
            ignore_nulls,
            respect_nulls: respects_nulls(call),
            at,
        })
    }

    /// The arguments of a call, and whether it has IGNORE NULLS.
    fn window_arguments(
        &mut self,
        name: &str,
        call: &Function,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Vec<Typed>, bool)> {
        let mut ignore_nulls = match &call.args {
            FunctionArguments::List(list) => aggregate::ignores_nulls(call, list),
            _ => false,
        };
        let mut arguments = Vec::new();
        let windows = cx.windows.take();
        let mut read = || -> Result<()> {
            let FunctionArguments::List(list) = &call.args else { return Ok(()) };
            if list.duplicate_treatment.is_some() || call.filter.is_some() {
                return Err(invalid(format!("{name} takes neither DISTINCT nor FILTER"), at));
            }
            for clause in &list.clauses {
                match clause {
                    FunctionArgumentClause::IgnoreOrRespectNulls(nulls) => {
                        ignore_nulls = matches!(nulls, NullTreatment::IgnoreNulls);
                    }
                    other => return Err(unsupported(format!("{other} in {name}"), None, at)),
                }
            }
            for argument in &list.args {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) = argument else {
                    return Err(unsupported(format!("the argument {argument} of {name}"), None, at));
                };
                arguments.push(self.expr(ast, cx)?);
            }
            Ok(())
        };
        let outcome = read();
        cx.windows = windows;
        outcome.map(|()| (arguments, ignore_nulls))
    }
}

/// Whether a call has RESPECT NULLS.
fn respects_nulls(call: &Function) -> bool {
    let inside = match &call.args {
        FunctionArguments::List(list) => list.clauses.as_slice(),
        _ => &[],
    };
    let respects = |clause: &FunctionArgumentClause| {
        matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(NullTreatment::RespectNulls))
    };
    matches!(call.null_treatment, Some(NullTreatment::RespectNulls)) || inside.iter().any(respects)
}
