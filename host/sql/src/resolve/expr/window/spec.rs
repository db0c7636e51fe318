//! The OVER clause: partitions, order, frame, and the named windows of a WINDOW clause.

use datafusion::logical_expr::{Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{
    Expr as Ast, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByExpr, WindowFrame as AstFrame,
    WindowFrameBound as AstBound, WindowFrameUnits as AstUnits, WindowSpec, WindowType,
};
use tidegate_model::{Position, nearest};

use crate::fail::{Result, invalid, place, place_of, unsupported};
use crate::resolve::context::{Clause, Context};
use crate::resolve::resolver::Resolver;
use crate::resolve::sorting::sorted;
use crate::types::Type;
use crate::typing::float_key;

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
    /// Whether the frame has no row by its bounds, such as `ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING`. Then it is not
    /// `frame`, which is the whole partition: the engine fails for such bounds.
    pub(super) empty: bool,
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
                    partition_by.push(float_key(value).expr);
                }
            }
            let mut order_by = Vec::new();
            let mut ty = Type::Null;
            for key in &spec.order_by {
                let value = self.expr(&key.expr, cx)?;
                ty = value.ty.clone();
                by_peers |= matches!(ty, Type::Time | Type::Bytes);
                order_by.push(sorted(float_key(value), key)?);
            }
            Ok((partition_by, order_by, ty))
        };
        let resolved = resolve();
        cx.windows = windows;
        let (partition_by, order_by, ty) = resolved?;
        let frame = match spec.frame {
            None => Some(WindowFrame::new((!order_by.is_empty()).then_some(false))),
            Some(frame) => self.frame(frame, &order_by, &ty, at, cx)?,
        };
        let empty = frame.is_none();
        let frame = frame.unwrap_or_else(|| WindowFrame::new(None));
        let frame = if by_peers { in_groups(frame) } else { frame };
        let framed = spec.frame.is_some();
        Ok(Over { partition_by, order_by, frame, empty, framed })
    }

    /// The frame; `None` if it is empty by its bounds.
    fn frame(
        &mut self,
        frame: &AstFrame,
        order_by: &[SortExpr],
        key: &Type,
        at: Option<Position>,
        cx: &mut Context<'_, '_>,
    ) -> Result<Option<WindowFrame>> {
        let units = match frame.units {
            AstUnits::Rows => WindowFrameUnits::Rows,
            AstUnits::Range => WindowFrameUnits::Range,
            AstUnits::Groups => return Err(unsupported("a frame of GROUPS", Some("there are ROWS and RANGE"), at)),
        };
        let mut bound = |bound: &AstBound| -> Result<(i8, Option<String>)> {
            let (side, distance) = match bound {
                AstBound::CurrentRow => return Ok((0, None)),
                AstBound::Preceding(distance) => (-1, distance),
                AstBound::Following(distance) => (1, distance),
            };
            let Some(distance) = distance else { return Ok((side * 2, None)) };
            let value = self.expr(distance, &mut Context::new(cx.scope, cx.environment, Clause::Frame))?;
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
            Ok((side, Some(number)))
        };
        let (start, from) = bound(&frame.start_bound)?;
        let (end, to) = frame.end_bound.as_ref().map_or(Ok((0, None)), &mut bound)?;
        if start > end || start == 2 || end == -2 {
            return Err(invalid("the frame ends before it starts", at));
        }
        // The same frame is the same value, however it is written: the engine computes equal calls once, and fails for two
        // that differ in a value that their names do not show.
        match (units, start, end) {
            (_, -2, 2) => return Ok(Some(WindowFrame::new(None))),
            (WindowFrameUnits::Range, ..) if order_by.is_empty() => {
                return Err(invalid("a frame of RANGE needs an ORDER BY", at));
            }
            (WindowFrameUnits::Range, -2, 0) => return Ok(Some(WindowFrame::new(Some(false)))),
            _ => {}
        }
        if let (Some(from), Some(to)) = (&from, &to)
            && start == end
            && if start < 0 { is_less(from, to) } else { is_less(to, from) }
        {
            return Ok(None);
        }
        let scalar = |distance: Option<String>| match (units, distance) {
            (WindowFrameUnits::Rows, distance) => ScalarValue::UInt64(distance.and_then(|number| number.parse().ok())),
            // Converted to the type of the key by the engine.
            (_, Some(number)) => ScalarValue::Utf8(Some(number)),
            (_, None) => ScalarValue::Null,
        };
        let engine = |side: i8, distance: Option<String>| match side {
            0 => WindowFrameBound::CurrentRow,
            side if side < 0 => WindowFrameBound::Preceding(scalar(distance)),
            _ => WindowFrameBound::Following(scalar(distance)),
        };
        Ok(Some(WindowFrame::new_bounds(units, engine(start, from), engine(end, to))))
    }
}

/// Whether a number is less than another one; both are not negative.
fn is_less(number: &str, other: &str) -> bool {
    match (number.parse::<u64>(), other.parse::<u64>()) {
        (Ok(number), Ok(other)) => number < other,
        _ => number.parse::<f64>().unwrap_or(f64::NAN) < other.parse::<f64>().unwrap_or(f64::NAN),
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
