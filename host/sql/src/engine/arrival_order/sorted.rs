//! What is sorted by a time, with the place of the row as its last key: rows, calls of windows, and what groups collect.

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Window, WindowFrameUnits, WindowFunctionDefinition};
use tidegate_functions::aggregate::first;
use tidegate_functions::make;

/// Windows of numbers of rows, and of neighbours: each row has a number of its own, whatever the frame.
const BY_ROW: [&str; 4] = ["row_number", "lag", "lead", "ntile"];

/// The names under which a place is carried. No name of a resolved plan has a space at its begin.
pub(super) type Names = [String; 2];

/// The place that belongs to a time.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Which column the time is.
    pub(super) time: usize,
    pub(super) names: Names,
}

/// The columns under which places are carried, each once.
pub(super) fn carried(places: &[Place]) -> impl Iterator<Item = Expr> + use<> {
    let mut names: Vec<String> = Vec::new();
    for place in places {
        for name in &place.names {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names.into_iter().map(|name| Expr::Column(Column::new_unqualified(name)))
}

/// The keys of rows of `input`, with the places of the times among them after them.
pub(super) fn with_places(keys: &[Sort], input: &LogicalPlan, places: &[Place]) -> Vec<Sort> {
    let more = keys.iter().filter_map(|key| {
        let time = column_of(&key.expr, input.schema())?;
        let place = places.iter().find(|place| place.time == time)?;
        Some(place.names.iter().map(|name| Expr::Column(Column::new_unqualified(name)).sort(key.asc, key.nulls_first)))
    });
    keys.iter().cloned().chain(more.flatten()).collect()
}

/// The calls of a window in which each row has its own number, sorted by places. Where rows with equal keys are one to it,
/// as they are to RANK, they stay that.
pub(super) fn numbered(window: &Window, places: &[Place]) -> Option<Vec<Expr>> {
    let calls = window.window_expr.iter().map(by_row).collect::<Option<Vec<_>>>()?;
    let keys = &calls.first()?.params.order_by;
    let all = with_places(keys, &window.input, places);
    // The calls of a node share their window.
    if all.len() == keys.len() || calls.iter().any(|call| call.params.order_by != *keys) {
        return None;
    }
    let named = window.schema.columns().into_iter().skip(window.input.schema().fields().len());
    let calls = calls.into_iter().zip(named).map(|(call, column)| {
        let mut call = call.clone();
        call.params.order_by.clone_from(&all);
        Expr::from(call).alias_qualified(column.relation, column.name)
    });
    Some(calls.collect())
}

/// A call over groups whose values are collected, or of which one is taken, in an order; and whether places are in it.
pub(super) fn in_order(call: Expr, input: &LogicalPlan, places: &[Place]) -> (Expr, bool) {
    let Expr::AggregateFunction(AggregateFunction { mut func, mut params }) = call else { return (call, false) };
    let mut is_sorted = false;
    if !params.distinct {
        let keys = with_places(&params.order_by, input, places);
        is_sorted = keys.len() > params.order_by.len();
        params.order_by = keys;
        // Of this one the keys are arguments, after the value.
        if let make::AggregateFunction::First { number, mut order, ignore_nulls } = make::AggregateFunction::of(&func) {
            let keys = params.args.iter().skip(1).zip(&order);
            let keys: Vec<_> = keys.map(|(key, by)| key.clone().sort(!by.descending, by.nulls_first)).collect();
            for key in with_places(&keys, input, places).into_iter().skip(keys.len()) {
                order.push(SortOptions { descending: !key.asc, nulls_first: key.nulls_first });
                params.args.push(key.expr);
                is_sorted = true;
            }
            func = first(number, order, ignore_nulls);
        }
    }
    (Expr::AggregateFunction(AggregateFunction { func, params }), is_sorted)
}

/// A call for which each row counts by itself, whichever of those with equal keys comes first.
pub(super) fn by_row(call: &Expr) -> Option<&WindowFunction> {
    let call = match call {
        Expr::Alias(alias) => alias.expr.as_ref(),
        call => call,
    };
    let Expr::WindowFunction(function) = call else { return None };
    let is_numbering = match &function.fun {
        WindowFunctionDefinition::WindowUDF(udf) => BY_ROW.contains(&udf.name()),
        WindowFunctionDefinition::AggregateUDF(_) => false,
    };
    (is_numbering || function.params.window_frame.units == WindowFrameUnits::Rows).then_some(function.as_ref())
}

/// The column whose times an expression has, each under the same value.
pub(super) fn column_of(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => column_of(&alias.expr, schema),
        Expr::Cast(Cast { expr, field }) if matches!(field.data_type(), DataType::Timestamp(..)) => {
            column_of(expr, schema)
        }
        _ => None,
    }
}
