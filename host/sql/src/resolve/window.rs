//! Window functions: `call OVER (PARTITION BY ... ORDER BY ... frame)`, and QUALIFY's ground.
//!
//! A call is collected like an aggregate and computed after grouping, so that its arguments may
//! be aggregates themselves (`RANK() OVER (ORDER BY COUNT(*) DESC)`).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::functions_window as engine;
use datafusion::logical_expr::expr::{NullTreatment as EngineNulls, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{
    Expr, LogicalPlanBuilder, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
    cast, lit,
};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, NamedWindowDefinition,
    NamedWindowExpr, NullTreatment, OrderByExpr, WindowFrame as AstFrame, WindowFrameBound as AstBound,
    WindowFrameUnits as AstUnits, WindowSpec, WindowType,
};
use tidegate_model::{Code, Failure, Position, nearest};

use super::aggregate::is_aggregate;
use super::calls::{Calls, carried};
use super::expr::Context;
use super::query::{shown, sorted};
use super::scope::Scope;
use super::{Conversion, Environment, Resolver, Typed};
use crate::engine::planning;
use crate::fail::{Planning, Result, invalid, place, place_of, unsupported};
use crate::functions::{percentile, watched};
use crate::types::Type;

/// The functions that exist only with OVER.
pub(crate) const WINDOW_FUNCTIONS: [&str; 13] = [
    "ROW_NUMBER",
    "RANK",
    "DENSE_RANK",
    "PERCENT_RANK",
    "CUME_DIST",
    "NTILE",
    "LAG",
    "LEAD",
    "FIRST_VALUE",
    "LAST_VALUE",
    "NTH_VALUE",
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
];

/// An OVER clause with the named windows that it builds on put in.
struct Spec<'a> {
    partition_by: Vec<&'a sqlparser::ast::Expr>,
    order_by: Vec<&'a OrderByExpr>,
    frame: Option<&'a AstFrame>,
}

/// A resolved OVER clause.
struct Over {
    partition_by: Vec<Expr>,
    order_by: Vec<SortExpr>,
    frame: WindowFrame,
    framed: bool,
}

impl Resolver<'_> {
    /// `name(...) OVER ...`.
    pub(crate) fn window(
        &mut self,
        name: &str,
        call: &Function,
        over: &WindowType,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Typed> {
        let Some(named) = cx.windows.filter(|_| cx.calls.is_some()) else {
            let message = format!("the window function {name} is not allowed in {}; QUALIFY filters by it", cx.clause);
            return Err(invalid(message, at));
        };
        let over = self.over(over, named, at, cx)?;
        let (expr, ty) = if is_aggregate(name) {
            self.aggregate_over(name, call, at, cx)?
        } else {
            self.navigation(name, call, &over, at, cx)?
        };
        let Expr::WindowFunction(mut function) = expr else {
            return Err(unsupported(format!("{name} ... OVER"), at));
        };
        if let WindowFunctionDefinition::AggregateUDF(aggregate) = function.fun {
            let whole = over.frame.start_bound.is_unbounded() && over.frame.end_bound.is_unbounded();
            function.fun = WindowFunctionDefinition::AggregateUDF(watched(aggregate, whole));
        }
        let params = &mut function.params;
        if params.distinct && over.framed {
            return Err(invalid(format!("{name}(DISTINCT ...) OVER takes no ORDER BY and no frame"), at));
        }
        let slides = matches!(name, "COUNT" | "COUNTIF" | "SUM" | "AVG" | "MIN" | "MAX");
        if is_aggregate(name) && !slides && !over.frame.start_bound.is_unbounded() {
            let message = format!("{name} over a frame that does not start at UNBOUNDED PRECEDING");
            return Err(unsupported(message, at));
        }
        params.partition_by = over.partition_by;
        params.order_by = over.order_by;
        params.window_frame = over.frame;
        let fresh = self.fresh();
        let Some(calls) = cx.calls.as_deref_mut() else { return Err(unsupported("OVER", at)) };
        let column = carried(&mut calls.windows, Expr::WindowFunction(function), fresh);
        // The engine counts in unsigned numbers.
        let expr = if ty == Type::Int64 { cast(column, DataType::Int64) } else { column };
        Ok(Typed::new(expr, ty).uniform())
    }

    /// The windows of a WINDOW clause, used or not: what stands in them must be right.
    pub(crate) fn named_windows(
        &mut self,
        named: &[NamedWindowDefinition],
        scope: &Scope<'_>,
        environment: &Environment,
    ) -> Result<()> {
        for NamedWindowDefinition(name, _) in named {
            let mut calls = Calls::default();
            let mut cx = Context { calls: Some(&mut calls), ..Context::new(scope, environment, "WINDOW") };
            self.over(&WindowType::NamedWindow(name.clone()), named, place_of(name.span), &mut cx)?;
        }
        Ok(())
    }

    /// An aggregate over a window: built as the aggregate, then given a window instead of groups.
    fn aggregate_over(
        &mut self,
        name: &str,
        call: &Function,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Expr, Type)> {
        // Of a grouped SELECT the arguments may be aggregates, but not window calls again.
        let windows = cx.windows.take();
        let built = self.aggregate_call(name, call, at, cx);
        cx.windows = windows;
        let (expr, ty) = built?;
        let Expr::AggregateFunction(aggregate) = expr else {
            return Err(unsupported(format!("{name} ... OVER"), at));
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

    /// The functions that only windows have.
    fn navigation(
        &mut self,
        name: &str,
        call: &Function,
        over: &Over,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Expr, Type)> {
        if !WINDOW_FUNCTIONS.contains(&name) {
            let known = WINDOW_FUNCTIONS.iter().copied();
            let hint = nearest(name, known).map_or(String::new(), |near| format!("; did you mean {near}?"));
            return Err(invalid(format!("{name} cannot be used with OVER; it is no window function{hint}"), at));
        }
        let (arguments, ignore_nulls) = self.window_arguments(name, call, at, cx)?;
        let counted = |least: usize, most: usize| {
            if (least..=most).contains(&arguments.len()) {
                return Ok(());
            }
            let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            Err(invalid(format!("{name} takes {wanted} arguments, not {}", arguments.len()), at))
        };
        let needs_order = || {
            if over.order_by.is_empty() {
                return Err(invalid(format!("{name} needs an ORDER BY inside of OVER (...)"), at));
            }
            Ok(())
        };
        let unframed = || {
            if over.framed && !matches!(name, "FIRST_VALUE" | "LAST_VALUE" | "NTH_VALUE") {
                return Err(invalid(format!("{name} takes no frame (ROWS or RANGE)"), at));
            }
            Ok(())
        };
        unframed()?;
        let first = || arguments.first().cloned().map(shown);
        let whole = |value: Option<&Typed>, least: i64| match value.and_then(Typed::literal) {
            Some(ScalarValue::Int64(Some(n))) if *n >= least => Ok(*n),
            _ => Err(invalid(format!("{name} takes a constant whole number of at least {least}"), at)),
        };
        let ranking = |expr: Expr, ty: Type| (expr, ty);
        Ok(match (name, first()) {
            ("ROW_NUMBER", None) => ranking(engine::expr_fn::row_number(), Type::Int64),
            ("RANK" | "DENSE_RANK" | "PERCENT_RANK" | "CUME_DIST", None) => {
                needs_order()?;
                match name {
                    "RANK" => ranking(engine::expr_fn::rank(), Type::Int64),
                    "DENSE_RANK" => ranking(engine::expr_fn::dense_rank(), Type::Int64),
                    "PERCENT_RANK" => ranking(engine::expr_fn::percent_rank(), Type::Float64),
                    _ => ranking(engine::expr_fn::cume_dist(), Type::Float64),
                }
            }
            ("NTILE", first) => {
                counted(1, 1)?;
                needs_order()?;
                ranking(engine::expr_fn::ntile(lit(whole(first.as_ref(), 1)?)), Type::Int64)
            }
            ("LAG" | "LEAD", Some(value)) => {
                counted(1, 3)?;
                needs_order()?;
                let offset = if arguments.len() > 1 { whole(arguments.get(1), 0)? } else { 1 };
                let default = match arguments.get(2) {
                    Some(default) => match default.clone().convert(&value.ty, Conversion::implicit(at))?.literal() {
                        Some(scalar) => Some(scalar.clone()),
                        None => return Err(invalid(format!("the default of {name} must be a constant"), at)),
                    },
                    None => None,
                };
                let ty = value.ty;
                let expr = if name == "LAG" {
                    engine::expr_fn::lag(value.expr, Some(offset), default)
                } else {
                    engine::expr_fn::lead(value.expr, Some(offset), default)
                };
                (with_nulls(expr, ignore_nulls), ty)
            }
            ("FIRST_VALUE" | "LAST_VALUE", Some(value)) => {
                counted(1, 1)?;
                let expr = if name == "FIRST_VALUE" {
                    engine::expr_fn::first_value(value.expr)
                } else {
                    engine::expr_fn::last_value(value.expr)
                };
                (with_nulls(expr, ignore_nulls), value.ty)
            }
            ("NTH_VALUE", Some(value)) => {
                counted(2, 2)?;
                let expr = engine::expr_fn::nth_value(value.expr, whole(arguments.get(1), 1)?);
                (with_nulls(expr, ignore_nulls), value.ty)
            }
            ("PERCENTILE_CONT" | "PERCENTILE_DISC", Some(value)) => {
                counted(2, 2)?;
                if respects_nulls(call) {
                    return Err(unsupported(format!("{name} with RESPECT NULLS; NULLs are left out, which"), at));
                }
                if !over.order_by.is_empty() {
                    return Err(invalid(format!("{name} takes no ORDER BY inside of OVER (...)"), at));
                }
                let part = arguments.get(1).cloned().map(|v| v.convert(&Type::Float64, Conversion::implicit(at)));
                let part = match part.transpose()?.as_ref().and_then(Typed::literal) {
                    Some(ScalarValue::Float64(Some(part))) if (0.0..=1.0).contains(part) => *part,
                    _ => return Err(invalid(format!("{name}(x, p) takes a constant p from 0 to 1"), at)),
                };
                let value = if name == "PERCENTILE_CONT" {
                    value.convert(&Type::Float64, Conversion::implicit(at))?
                } else {
                    value
                };
                let function = percentile(part, name == "PERCENTILE_CONT");
                let definition = WindowFunctionDefinition::AggregateUDF(function);
                let mut function = WindowFunction::new(definition, vec![value.expr]);
                function.params.null_treatment = ignore_nulls.then_some(EngineNulls::IgnoreNulls);
                (Expr::WindowFunction(Box::new(function)), value.ty)
            }
            (_, None) => return Err(invalid(format!("{name} needs an argument"), at)),
            (_, Some(_)) => return Err(invalid(format!("{name} takes no arguments"), at)),
        })
    }

    fn window_arguments(
        &mut self,
        name: &str,
        call: &Function,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(Vec<Typed>, bool)> {
        let mut ignore_nulls = match &call.args {
            FunctionArguments::List(list) => super::aggregate::ignores_nulls(call, list),
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
                    other => return Err(unsupported(format!("{other} in {name}"), at)),
                }
            }
            for argument in &list.args {
                let FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) = argument else {
                    return Err(unsupported(format!("the argument {argument} of {name}"), at));
                };
                arguments.push(self.expr(ast, cx)?);
            }
            Ok(())
        };
        let outcome = read();
        cx.windows = windows;
        outcome.map(|()| (arguments, ignore_nulls))
    }

    fn over(
        &mut self,
        over: &WindowType,
        named: &[NamedWindowDefinition],
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Over> {
        let spec = match over {
            WindowType::WindowSpec(spec) => self::spec(spec, named)?,
            WindowType::NamedWindow(name) => named_spec(name, named)?,
        };
        let windows = cx.windows.take();
        let mut by_peers = false;
        let mut resolve = || -> Result<(Vec<Expr>, Vec<SortExpr>, Type)> {
            let mut partition_by = Vec::new();
            for ast in &spec.partition_by {
                let value = self.expr(ast, cx)?;
                if !value.ty.is_groupable() {
                    let message = format!("PARTITION BY cannot group values of type {}", value.ty);
                    return Err(invalid(message, place(*ast)));
                }
                // A constant is one partition: the same as none.
                if value.literal().is_none() {
                    partition_by.push(value.expr);
                }
            }
            let mut order_by = Vec::new();
            let mut ty = Type::Null;
            for key in &spec.order_by {
                let value = self.expr(&key.expr, cx)?;
                ty = value.ty.clone();
                by_peers |= matches!(ty, Type::Time | Type::Bytes);
                order_by.push(sorted(value, key)?);
            }
            Ok((partition_by, order_by, ty))
        };
        let resolved = resolve();
        cx.windows = windows;
        let (partition_by, order_by, ty) = resolved?;
        let frame = match spec.frame {
            None => WindowFrame::new((!order_by.is_empty()).then_some(false)),
            Some(frame) => self.frame(frame, &order_by, &ty, at, cx)?,
        };
        let frame = if by_peers { in_groups(frame) } else { frame };
        let framed = spec.frame.is_some();
        Ok(Over { partition_by, order_by, frame, framed })
    }

    fn frame(
        &mut self,
        frame: &AstFrame,
        order_by: &[SortExpr],
        key: &Type,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<WindowFrame> {
        let units = match frame.units {
            AstUnits::Rows => WindowFrameUnits::Rows,
            AstUnits::Range => WindowFrameUnits::Range,
            AstUnits::Groups => return Err(unsupported("a frame of GROUPS; there are ROWS and RANGE", at)),
        };
        let mut bound = |bound: &AstBound| -> Result<(i8, Option<ScalarValue>)> {
            let (side, distance) = match bound {
                AstBound::CurrentRow => return Ok((0, None)),
                AstBound::Preceding(distance) => (-1, distance),
                AstBound::Following(distance) => (1, distance),
            };
            let Some(distance) = distance else { return Ok((side * 2, None)) };
            let value = self.expr(distance, &mut Context::new(cx.scope, cx.environment, "a window's frame"))?;
            let number = match value.literal() {
                Some(ScalarValue::Int64(Some(n))) if *n >= 0 => n.to_string(),
                Some(ScalarValue::Float64(Some(n))) if *n >= 0.0 && units == WindowFrameUnits::Range => n.to_string(),
                _ => return Err(invalid("a frame's distance is a constant number that is not negative", at)),
            };
            if units == WindowFrameUnits::Range && !(key.is_number() && order_by.len() == 1) {
                let message =
                    "RANGE with a distance needs one numeric ORDER BY key; for times, write UNIX_SECONDS(...)";
                return Err(invalid(message, at));
            }
            let scalar = match units {
                WindowFrameUnits::Rows => ScalarValue::UInt64(number.parse().ok()),
                // Converted to the type of the key by the engine.
                _ => ScalarValue::Utf8(Some(number)),
            };
            Ok((side, Some(scalar)))
        };
        let (start, from) = bound(&frame.start_bound)?;
        let (end, to) = frame.end_bound.as_ref().map_or(Ok((0, None)), &mut bound)?;
        if start > end || start == 2 || end == -2 {
            return Err(invalid("the frame ends before it starts", at));
        }
        if units == WindowFrameUnits::Range && order_by.is_empty() && (start, end) != (-2, 2) {
            return Err(invalid("a frame of RANGE needs an ORDER BY", at));
        }
        let null = || match units {
            WindowFrameUnits::Rows => ScalarValue::UInt64(None),
            _ => ScalarValue::Null,
        };
        let engine = |side: i8, distance: Option<ScalarValue>| match side {
            0 => WindowFrameBound::CurrentRow,
            side if side < 0 => WindowFrameBound::Preceding(distance.unwrap_or_else(null)),
            _ => WindowFrameBound::Following(distance.unwrap_or_else(null)),
        };
        Ok(WindowFrame::new_bounds(units, engine(start, from), engine(end, to)))
    }
}

/// A frame of RANGE as one of GROUPS, which without a distance is the same: rows and all that are equal to them.
/// The engine looks for a distance between the keys of every RANGE, and has none between times of day or bytes.
fn in_groups(frame: WindowFrame) -> WindowFrame {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    if frame.units != WindowFrameUnits::Range {
        return frame;
    }
    let bound = |bound: WindowFrameBound| match bound {
        Preceding(_) => Preceding(ScalarValue::UInt64(None)),
        CurrentRow => CurrentRow,
        Following(_) => Following(ScalarValue::UInt64(None)),
    };
    WindowFrame::new_bounds(WindowFrameUnits::Groups, bound(frame.start_bound), bound(frame.end_bound))
}

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

fn with_nulls(expr: Expr, ignore: bool) -> Expr {
    match expr {
        Expr::WindowFunction(mut function) if ignore => {
            function.params.null_treatment = Some(EngineNulls::IgnoreNulls);
            Expr::WindowFunction(function)
        }
        other => other,
    }
}

fn named_spec<'a>(name: &sqlparser::ast::Ident, named: &'a [NamedWindowDefinition]) -> Result<Spec<'a>> {
    let found = named.iter().position(|NamedWindowDefinition(known, _)| known.value.eq_ignore_ascii_case(&name.value));
    let Some((NamedWindowDefinition(_, window), before)) = found.and_then(|i| Some((named.get(i)?, named.get(..i)?)))
    else {
        let known: Vec<&str> = named.iter().map(|NamedWindowDefinition(known, _)| known.value.as_str()).collect();
        let hint = match nearest(&name.value, known.iter().copied()) {
            Some(near) => format!("; did you mean {near}?"),
            None => "; name it with WINDOW after the conditions, or write OVER (...)".to_owned(),
        };
        return Err(invalid(format!("there is no window {}{hint}", name.value), place_of(name.span)));
    };
    // A window sees those before it, so that no definition can go round in circles.
    match window {
        NamedWindowExpr::NamedWindow(other) => named_spec(other, before),
        NamedWindowExpr::WindowSpec(spec) => self::spec(spec, before),
    }
}

fn spec<'a>(spec: &'a WindowSpec, named: &'a [NamedWindowDefinition]) -> Result<Spec<'a>> {
    let mut base = match &spec.window_name {
        None => Spec { partition_by: Vec::new(), order_by: Vec::new(), frame: None },
        Some(name) => {
            let base = named_spec(name, named)?;
            if !spec.partition_by.is_empty() || (!base.order_by.is_empty() && !spec.order_by.is_empty()) {
                let message = format!("the window {} already says how to partition or order", name.value);
                return Err(invalid(message, place_of(name.span)));
            }
            base
        }
    };
    base.partition_by.extend(&spec.partition_by);
    base.order_by.extend(&spec.order_by);
    base.frame = spec.window_frame.as_ref().or(base.frame);
    Ok(base)
}

/// How many different windows one SELECT may have. Each is sorted for by itself, and planning them takes time
/// that grows with the square of their number and more.
const MAX_WINDOWS: usize = 64;

/// The plan with the window calls computed, each in the column that carries it. Calls of the
/// same window are computed together.
pub(crate) fn windowed(
    mut builder: LogicalPlanBuilder,
    calls: &Calls,
    over: impl Fn(Expr) -> Result<Expr>,
) -> Result<LogicalPlanBuilder> {
    let mut groups: Vec<Vec<(String, Expr)>> = Vec::new();
    let mut keys: Vec<(Expr, String)> = Vec::new();
    let mut windows = Vec::with_capacity(calls.windows.len());
    for (name, call) in &calls.windows {
        windows.push((name.clone(), keyed_by_columns(over(call.clone())?, name, &mut keys)));
    }
    if !keys.is_empty() {
        let all = builder.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
        let keys = keys.into_iter().map(|(key, name)| key.alias(name));
        builder = builder.project(all.into_iter().chain(keys)).planned()?;
    }
    for (name, call) in windows {
        let same = |group: &&mut Vec<(String, Expr)>| group.first().is_some_and(|(_, first)| same_window(first, &call));
        match groups.iter_mut().find(same) {
            Some(group) => group.push((name, call)),
            None => groups.push(vec![(name, call)]),
        }
    }
    if groups.len() > MAX_WINDOWS {
        let message = format!(
            "a SELECT computes over {} different windows; at most {MAX_WINDOWS} are allowed: let calls share a PARTITION BY and ORDER BY",
            groups.len()
        );
        return Err(Failure::new(Code::TooLarge, message));
    }
    for group in groups {
        planning::check()?;
        // Named, because the engine tells calls apart by their text, which does not say everything.
        let calls: Vec<Expr> = group.into_iter().map(|(name, call)| call.alias(name)).collect();
        builder = builder.window(calls).planned()?;
    }
    Ok(builder)
}

/// The call with columns in the place of keys that are computed. `keys` collects what these are; each has one column.
///
/// The engine sorts for a window and then checks that it is sorted. Of a key that is computed from what a function
/// gives, such as a field of a record, it loses track in between.
fn keyed_by_columns(call: Expr, name: &str, keys: &mut Vec<(Expr, String)>) -> Expr {
    let Expr::WindowFunction(mut function) = call else { return call };
    let params = &mut function.params;
    let sorted = params.order_by.iter_mut().map(|sort| &mut sort.expr);
    for key in params.partition_by.iter_mut().chain(sorted) {
        if matches!(key, Expr::Column(_) | Expr::Literal(..)) {
            continue;
        }
        let column = match keys.iter().find(|(known, _)| known == key) {
            Some((_, column)) => column.clone(),
            None => {
                let column = format!("{name}_key{}", keys.len());
                keys.push((key.clone(), column.clone()));
                column
            }
        };
        *key = Expr::Column(Column::new_unqualified(column));
    }
    Expr::WindowFunction(function)
}

fn same_window(one: &Expr, other: &Expr) -> bool {
    let window = |expr: &Expr| match expr {
        Expr::WindowFunction(function) => {
            let WindowFunctionParams { partition_by, order_by, .. } = &function.params;
            Some((partition_by.clone(), order_by.clone()))
        }
        _ => None,
    };
    window(one) == window(other)
}
