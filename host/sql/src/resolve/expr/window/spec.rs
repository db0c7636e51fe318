//! The OVER clause: partitions, order, frame, and the named windows of a WINDOW clause.

use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::functions::math::expr_fn as math;
use datafusion::logical_expr::{Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, cast, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    Expr as Ast, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByExpr, WindowFrame as AstFrame,
    WindowFrameBound as AstBound, WindowFrameUnits as AstUnits, WindowSpec, WindowType,
};
use tidegate_functions::scalar::{raised, raised_as};
use tidegate_model::{Position, nearest};

use crate::fail::{Planning, Result, invalid, place, place_of, unsupported};
use crate::resolve::context::{Clause, Context};
use crate::resolve::resolver::Resolver;
use crate::resolve::sorting::{bounded, sorted};
use crate::types::Type;
use crate::typing::{Conversion, float_key, kernel, sort_key};

/// An OVER clause as written, merged with the named windows that it builds on.
struct Spec<'a> {
    partition_by: Vec<&'a Ast>,
    order_by: Vec<&'a OrderByExpr>,
    frame: Option<&'a AstFrame>,
}

/// A resolved OVER clause.
pub(super) struct Over {
    pub(super) partition_by: Vec<Expr>,
    pub(super) order_by: Vec<SortExpr>,
    pub(super) frame: WindowFrame,
    /// Of a frame that has no row by its bounds, such as `ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING`: which rows it has
    /// nevertheless. Then it is not `frame`, for the engine fails for such bounds.
    pub(super) only: Option<Expr>,
    /// Whether the text gives the frame.
    pub(super) framed: bool,
}

impl Resolver<'_> {
    /// Resolves an OVER clause; `named` are the windows of the WINDOW clause.
    pub(super) fn over(
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
                    partition_by.push(sort_key(value).expr);
                }
            }
            let mut order_by = Vec::new();
            let mut ty = Type::Null;
            for key in bounded(&spec.order_by)? {
                let value = self.expr(&key.expr, cx)?;
                ty = value.ty.clone();
                by_peers |= matches!(ty, Type::Time | Type::Bytes | Type::Range(_));
                order_by.push(sorted(float_key(value), key)?);
            }
            Ok((partition_by, order_by, ty))
        };
        let resolved = resolve();
        cx.windows = windows;
        let (mut partition_by, mut order_by, ty) = resolved?;
        let (frame, only) = match spec.frame {
            None => (WindowFrame::new((!order_by.is_empty()).then_some(false)), None),
            Some(frame) => self.frame(frame, &mut partition_by, &mut order_by, &ty, at, cx)?,
        };
        let frame = if by_peers { in_groups(frame) } else { frame };
        let framed = spec.frame.is_some();
        Ok(Over { partition_by, order_by, frame, only, framed })
    }

    /// The frame, and `Over::only`. The keys are changed where the engine could not compute with them.
    fn frame(
        &mut self,
        frame: &AstFrame,
        partition_by: &mut Vec<Expr>,
        order_by: &mut [SortExpr],
        key: &Type,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<(WindowFrame, Option<Expr>)> {
        let units = match frame.units {
            AstUnits::Rows => WindowFrameUnits::Rows,
            AstUnits::Range => WindowFrameUnits::Range,
            AstUnits::Groups => return Err(unsupported("a frame of GROUPS", Some("there are ROWS and RANGE"), at)),
        };
        let is_single_number = key.is_number() && order_by.len() == 1;
        let mut bound = |bound: &AstBound| -> Result<(i8, Option<Distance>)> {
            let (side, distance) = match bound {
                AstBound::CurrentRow => return Ok((0, None)),
                AstBound::Preceding(distance) => (-1, distance),
                AstBound::Following(distance) => (1, distance),
            };
            let Some(distance) = distance else { return Ok((side * 2, None)) };
            let value = self.expr(distance, &mut Context::new(cx.scope, cx.environment, Clause::Frame))?;
            let is_range = units == WindowFrameUnits::Range;
            if is_range && !is_single_number {
                let message =
                    "RANGE with a distance needs one numeric ORDER BY key; for times, write UNIX_SECONDS(...)";
                return Err(invalid(message, at));
            }
            let is_beside = key.is_decimal() || *key == Type::Float64 && value.ty.is_decimal();
            let value = match is_range && is_beside && value.ty != Type::Null {
                true => value.convert(key, Conversion::implicit(at))?,
                false => value,
            };
            let distance = match value.literal() {
                Some(ScalarValue::Decimal128(Some(n), ..)) if *n >= 0 && *key == Type::Numeric => {
                    Distance::Units(i256::from_i128(*n))
                }
                Some(ScalarValue::Decimal256(Some(n), ..)) if !n.is_negative() && *key == Type::BigNumeric => {
                    Distance::Units(*n)
                }
                Some(ScalarValue::Int64(Some(n))) if *n >= 0 => {
                    Distance::of_whole(*n, is_range && *key == Type::Float64)
                }
                Some(ScalarValue::Float64(Some(x))) if *x >= 0.0 && is_range && *key == Type::Float64 => {
                    Distance::Float(*x)
                }
                Some(ScalarValue::Float64(Some(x))) if *x >= 0.0 && is_range => {
                    return Err(invalid(format!("a frame's distance of {x} needs a key of FLOAT64, not {key}"), at));
                }
                _ => return Err(invalid("a frame's distance is a constant number that is not negative", at)),
            };
            Ok((side, Some(distance)))
        };
        let (start, from) = bound(&frame.start_bound)?;
        let (end, to) = frame.end_bound.as_ref().map_or(Ok((0, None)), &mut bound)?;
        if start > end || start == 2 || end == -2 {
            return Err(invalid("the frame ends before it starts", at));
        }
        // The same frame is the same value, however it is written: the engine computes equal calls once, and fails for two
        // that differ in a value that their names do not show.
        match (units, start, end) {
            (_, -2, 2) => return Ok((WindowFrame::new(None), None)),
            (WindowFrameUnits::Range, ..) if order_by.is_empty() => {
                return Err(invalid("a frame of RANGE needs an ORDER BY", at));
            }
            (WindowFrameUnits::Range, -2, 0) => return Ok((WindowFrame::new(Some(false)), None)),
            _ => {}
        }
        let is_empty = match (from, to) {
            (Some(from), Some(to)) if start == end => {
                if start < 0 {
                    from.is_less(to)
                } else {
                    to.is_less(from)
                }
            }
            _ => false,
        };
        let is_range = units == WindowFrameUnits::Range && (from.is_some() || to.is_some());
        if let (true, Some(sort)) = (is_range, order_by.first_mut()) {
            for (side, distance) in [(start, from), (end, to)] {
                if distance.is_some_and(Distance::is_infinite) {
                    refuse_far_infinity(sort, side)?;
                }
            }
        }
        if is_empty {
            return Ok(match (is_range, order_by.first()) {
                // No distance leads away from NULL, NaN and the infinities: their frames are their peers.
                (true, Some(sort)) => {
                    let bound = || WindowFrameBound::CurrentRow;
                    (WindowFrame::new_bounds(units, bound(), bound()), Some(is_immovable(&sort.expr, key)))
                }
                _ => (WindowFrame::new(None), Some(lit(false))),
            });
        }
        // A key that is moved beyond its type must neither wrap nor reach the infinities.
        let scale = match (is_range, order_by.first_mut()) {
            (true, Some(sort)) if *key == Type::Int64 => {
                sort.expr = cast(sort.expr.clone(), WIDE);
                1.0
            }
            (true, Some(sort)) if *key == Type::Numeric => {
                sort.expr = cast(sort.expr.clone(), WIDE_NUMERIC);
                1.0
            }
            (true, Some(sort)) if *key == Type::BigNumeric => {
                let far = from.into_iter().chain(to).any(Distance::is_far);
                match edges_have_nulls(start, end, sort) {
                    // The frames of NULLs are NULLs alone.
                    None => partition_by.push(sort.expr.clone().is_null()),
                    Some(false) => {}
                    Some(true) => sort.expr = kernel("bignumeric_key", false, vec![sort.expr.clone(), lit(far)]),
                }
                1.0
            }
            (true, Some(sort)) if from.into_iter().chain(to).any(Distance::is_far) => {
                sort.expr = sort.expr.clone() * lit(QUARTER);
                QUARTER
            }
            _ => 1.0,
        };
        let scalar = |distance: Option<Distance>| match (units, distance) {
            (WindowFrameUnits::Rows, Some(Distance::Whole(n))) => ScalarValue::UInt64(u64::try_from(n).ok()),
            (WindowFrameUnits::Rows, _) => ScalarValue::UInt64(None),
            (_, Some(Distance::Whole(n))) => ScalarValue::Decimal128(Some(n.into()), 38, 0),
            (_, Some(Distance::Units(n))) if *key == Type::Numeric => ScalarValue::Decimal256(Some(n), 76, 9),
            (_, Some(Distance::Units(n))) => ScalarValue::Decimal256(Some(n), 76, 38),
            (_, Some(Distance::Float(x))) => ScalarValue::Float64(Some(x * scale)),
            (_, None) => ScalarValue::Null,
        };
        let engine = |side: i8, distance: Option<Distance>| match side {
            0 => WindowFrameBound::CurrentRow,
            side if side < 0 => WindowFrameBound::Preceding(scalar(distance)),
            _ => WindowFrameBound::Following(scalar(distance)),
        };
        Ok((WindowFrame::new_bounds(units, engine(start, from), engine(end, to)), None))
    }
}

/// A type in which no INT64 is moved too far by another one.
const WIDE: DataType = DataType::Decimal128(38, 0);
/// The same of NUMERIC.
const WIDE_NUMERIC: DataType = DataType::Decimal256(76, 9);

/// From here on two BIGNUMERIC may have a sum that the type does not have.
const HALF_OF_BIGNUMERIC: i256 = i256::from_parts(0, 1 << 126);

/// The part of a FLOAT64 of which no sum of two overflows.
const QUARTER: f64 = 0.25;

/// How far from the key a frame of RANGE begins or ends, or how many rows from the current one a frame of ROWS.
#[derive(Clone, Copy)]
enum Distance {
    Whole(i64),
    Float(f64),
    /// Units of a key of NUMERIC or BIGNUMERIC.
    Units(i256),
}

impl Distance {
    #[expect(clippy::cast_precision_loss, reason = "the key has no more digits")]
    fn of_whole(n: i64, as_float: bool) -> Self {
        if as_float { Self::Float(n as f64) } else { Self::Whole(n) }
    }

    fn is_less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(one), Self::Whole(other)) => one < other,
            (Self::Float(one), Self::Float(other)) => one < other,
            (Self::Units(one), Self::Units(other)) => one < other,
            _ => false,
        }
    }

    fn is_infinite(self) -> bool {
        matches!(self, Self::Float(x) if x.is_infinite())
    }

    /// Whether a key that is moved so far may overflow.
    fn is_far(self) -> bool {
        match self {
            Self::Float(x) => x.is_finite() && x > 1e290,
            Self::Units(n) => n >= HALF_OF_BIGNUMERIC,
            Self::Whole(_) => false,
        }
    }
}

/// Where a key is moved beyond its type, the engine takes the frame to begin or end with the partition: whether the NULLs are
/// there, which then belong to the frame wrongly. `None`: both bounds of the frame have distances, or are the current row.
fn edges_have_nulls(start: i8, end: i8, sort: &SortExpr) -> Option<bool> {
    match (start, end) {
        (-2, -1) => Some(false),
        (-1, 2) => Some(sort.nulls_first),
        (-2, _) | (_, 2) => Some(!sort.nulls_first),
        _ => None,
    }
}

/// Refuses the infinity from which an infinite distance leads nowhere, which is on the side to which the frame reaches.
fn refuse_far_infinity(sort: &mut SortExpr, side: i8) -> Result<()> {
    let infinity = if (side < 0) == sort.asc { f64::INFINITY } else { f64::NEG_INFINITY };
    let message = "an infinite distance of a frame leads nowhere from a key that is infinite as well";
    let error = raised_as(&raised(lit(message)), &DataType::Float64);
    if let Some(error) = error {
        let key = sort.expr.clone();
        sort.expr = when(key.clone().eq(lit(infinity)), error).otherwise(key).planned()?;
    }
    Ok(())
}

/// Whether a key is a value from which no distance leads away.
fn is_immovable(key: &Expr, ty: &Type) -> Expr {
    let is_null = key.clone().is_null();
    match ty {
        Type::Float64 => is_null
            .or(math::isnan(key.clone()))
            .or(key.clone().eq(lit(f64::INFINITY)))
            .or(key.clone().eq(lit(f64::NEG_INFINITY))),
        _ => is_null,
    }
}

/// A frame of RANGE without a distance as one of GROUPS, which means the same: the current row and its peers. The engine
/// computes differences of keys for every RANGE, and cannot do so for times of day and bytes.
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

fn named_spec<'a>(name: &Ident, named: &'a [NamedWindowDefinition]) -> Result<Spec<'a>> {
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
