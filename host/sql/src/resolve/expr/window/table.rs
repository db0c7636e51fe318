//! The functions that exist only with OVER: one row for each, with its arguments, its flags and its builder.

use std::sync::Arc;

use datafusion::functions_window::expr_fn as engine;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::{AggregateUDF, Expr, WindowFunctionDefinition, lit};
use datafusion::scalar::ScalarValue;
use tidegate_functions::aggregate::{exact_percentile, percentile};
use tidegate_model::Position;

use super::super::aggregate::NULLS_LEFT_OUT;
use crate::fail::{Result, invalid, unsupported};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, float_key, plan_column};

/// A window function.
#[derive(Debug)]
pub(in crate::resolve::expr) struct Window {
    pub(super) name: &'static str,
    /// The least and the most arguments.
    least: usize,
    most: usize,
    /// Whether it needs an ORDER BY in its window.
    needs_order: bool,
    /// Whether its window may have a frame.
    pub(super) takes_frame: bool,
    build: fn(&WindowCall<'_>) -> Result<Built>,
}

/// The engine's call of a window function, and the type of its value.
type Built = (Expr, Type);

/// A call with resolved arguments.
pub(super) struct WindowCall<'c> {
    pub(super) name: &'static str,
    pub(super) arguments: &'c [Typed],
    /// Whether the window has an ORDER BY.
    pub(super) ordered: bool,
    pub(super) ignore_nulls: bool,
    pub(super) respect_nulls: bool,
    pub(super) at: Option<Position>,
}

static TABLE: [Window; 13] = [
    Window::new("ROW_NUMBER", 0, |_| Ok((engine::row_number(), Type::Int64))),
    Window::new("RANK", 0, |_| Ok((engine::rank(), Type::Int64))).with_order(),
    Window::new("DENSE_RANK", 0, |_| Ok((engine::dense_rank(), Type::Int64))).with_order(),
    Window::new("PERCENT_RANK", 0, |_| Ok((engine::percent_rank(), Type::Float64))).with_order(),
    Window::new("CUME_DIST", 0, |_| Ok((engine::cume_dist(), Type::Float64))).with_order(),
    Window::new("NTILE", 1, |call| Ok((engine::ntile(lit(call.whole(0, 1)?)), Type::Int64))).with_order(),
    Window::new("LAG", 1, |call| shifted(call, engine::lag)).at_most(3).with_order(),
    Window::new("LEAD", 1, |call| shifted(call, engine::lead)).at_most(3).with_order(),
    Window::new("FIRST_VALUE", 1, |call| of_frame(call, engine::first_value)).with_frame(),
    Window::new("LAST_VALUE", 1, |call| of_frame(call, engine::last_value)).with_frame(),
    Window::new("NTH_VALUE", 2, |call| {
        let n = call.whole(1, 1)?;
        of_frame(call, |value| engine::nth_value(value, n))
    })
    .with_frame(),
    Window::new("PERCENTILE_CONT", 2, |call| percentile_of(call, true)),
    Window::new("PERCENTILE_DISC", 2, |call| percentile_of(call, false)),
];

/// The window function of a name, in capitals.
pub(in crate::resolve::expr) fn find(name: &str) -> Option<&'static Window> {
    TABLE.iter().find(|function| function.name == name)
}

/// The names of all window functions.
pub(in crate::resolve::expr) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|function| function.name)
}

impl Window {
    /// A function of so many arguments, with no flags.
    const fn new(name: &'static str, arguments: usize, build: fn(&WindowCall<'_>) -> Result<Built>) -> Self {
        Self { name, least: arguments, most: arguments, needs_order: false, takes_frame: false, build }
    }

    const fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    const fn with_order(self) -> Self {
        Self { needs_order: true, ..self }
    }

    const fn with_frame(self) -> Self {
        Self { takes_frame: true, ..self }
    }

    /// Builds a call.
    ///
    /// # Errors
    /// If the function does not take the arguments or the window.
    pub(super) fn call(&self, call: &WindowCall<'_>) -> Result<Built> {
        let Self { name, least, most, .. } = self;
        let count = call.arguments.len();
        let message = match (count, *most) {
            (0, 0) => None,
            (_, 0) => Some(format!("{name} takes no arguments")),
            // NTILE tells the number of arguments also of a call without any.
            (0, _) if *name != "NTILE" => Some(format!("{name} needs an argument")),
            _ if (*least..=*most).contains(&count) => None,
            _ if least == most => Some(format!("{name} takes {least} arguments, not {count}")),
            _ => Some(format!("{name} takes {least} to {most} arguments, not {count}")),
        };
        if let Some(message) = message {
            return Err(invalid(message, call.at));
        }
        if self.needs_order && !call.ordered {
            return Err(invalid(format!("{name} needs an ORDER BY inside of OVER (...)"), call.at));
        }
        (self.build)(call)
    }
}

impl WindowCall<'_> {
    /// The first argument, as a column of a plan.
    fn value(&self) -> Typed {
        self.arguments.first().cloned().map_or_else(Typed::null, plan_column)
    }

    /// Argument `i`, which must be a literal whole number of at least `least`.
    fn whole(&self, i: usize, least: i64) -> Result<i64> {
        match self.arguments.get(i).and_then(Typed::literal) {
            Some(ScalarValue::Int64(Some(n))) if *n >= least => Ok(*n),
            _ => {
                let message = format!("{} takes a constant whole number of at least {least}", self.name);
                Err(invalid(message, self.at))
            }
        }
    }

    /// The engine's call with the NULLs of this one.
    fn with_nulls(&self, expr: Expr) -> Expr {
        match expr {
            Expr::WindowFunction(mut function) if self.ignore_nulls => {
                function.params.null_treatment = Some(NullTreatment::IgnoreNulls);
                Expr::WindowFunction(function)
            }
            other => other,
        }
    }
}

/// LAG and LEAD: the value of a row so many rows away.
fn shifted(call: &WindowCall<'_>, function: fn(Expr, Option<i64>, Option<ScalarValue>) -> Expr) -> Result<Built> {
    let value = call.value();
    let offset = if call.arguments.len() > 1 { call.whole(1, 0)? } else { 1 };
    let default = match call.arguments.get(2) {
        Some(default) => match default.clone().convert(&value.ty, Conversion::implicit(call.at))?.literal() {
            Some(scalar) => Some(scalar.clone()),
            None => return Err(invalid(format!("the default of {} must be a constant", call.name), call.at)),
        },
        None => None,
    };
    Ok((call.with_nulls(function(value.expr, Some(offset), default)), value.ty))
}

/// A value of one row of the frame.
fn of_frame(call: &WindowCall<'_>, function: impl FnOnce(Expr) -> Expr) -> Result<Built> {
    let value = call.value();
    Ok((call.with_nulls(function(value.expr)), value.ty))
}

/// PERCENTILE_CONT, which interpolates, and PERCENTILE_DISC.
fn percentile_of(call: &WindowCall<'_>, interpolates: bool) -> Result<Built> {
    let WindowCall { name, arguments, ordered, ignore_nulls, respect_nulls, at } = *call;
    if respect_nulls {
        return Err(unsupported(format!("{name} with RESPECT NULLS"), Some(NULLS_LEFT_OUT), at));
    }
    if ordered {
        return Err(invalid(format!("{name} takes no ORDER BY inside of OVER (...)"), at));
    }
    let how = Conversion::implicit(at);
    if let Some(part) = arguments.get(1).filter(|part| part.ty.is_decimal()) {
        return exact_percentile_of(call, part, interpolates);
    }
    let part = arguments.get(1).cloned().map(|part| part.convert(&Type::Float64, how)).transpose()?;
    let part = match part.as_ref().and_then(Typed::literal) {
        Some(ScalarValue::Float64(Some(part))) if (0.0..=1.0).contains(part) => *part,
        _ => return Err(invalid(format!("{name}(x, p) takes a constant p from 0 to 1"), at)),
    };
    let value = call.value();
    let value = if interpolates { value.convert(&Type::Float64, how)? } else { value };
    // NaN is the smallest.
    Ok(of_partition(percentile(part, interpolates), float_key(value), ignore_nulls))
}

/// The same with a part of NUMERIC or BIGNUMERIC, whose digits all count.
fn exact_percentile_of(call: &WindowCall<'_>, part: &Typed, interpolates: bool) -> Result<Built> {
    let how = Conversion::implicit(call.at);
    let value = call.value();
    let exact = part.clone().convert(&Type::BigNumeric, how)?;
    let units = match exact.literal() {
        Some(ScalarValue::Decimal256(Some(units), ..)) => units.to_i128().and_then(|units| u128::try_from(units).ok()),
        _ => None,
    };
    let Some(units) = units.filter(|units| *units <= 10_u128.pow(38)) else {
        return Err(invalid(format!("{}(x, p) takes a constant p from 0 to 1", call.name), call.at));
    };
    let value = match (interpolates, &value.ty) {
        (false, _) => float_key(value),
        // Between FLOAT64 the part is one as well.
        (true, Type::Float64) => {
            let part = part.clone().convert(&Type::Float64, how)?;
            let arguments = [value, part];
            return percentile_of(&WindowCall { arguments: &arguments, ..*call }, true);
        }
        (true, _) if part.ty == Type::BigNumeric => value.convert(&Type::BigNumeric, how)?,
        (true, Type::BigNumeric) => value,
        (true, _) => value.convert(&Type::Numeric, how)?,
    };
    Ok(of_partition(exact_percentile(units, interpolates), value, call.ignore_nulls))
}

/// An aggregate of all values of a partition.
fn of_partition(function: Arc<AggregateUDF>, value: Typed, ignore_nulls: bool) -> Built {
    let definition = WindowFunctionDefinition::AggregateUDF(function);
    let mut function = WindowFunction::new(definition, vec![value.expr]);
    function.params.null_treatment = ignore_nulls.then_some(NullTreatment::IgnoreNulls);
    (Expr::WindowFunction(Box::new(function)), value.ty)
}
