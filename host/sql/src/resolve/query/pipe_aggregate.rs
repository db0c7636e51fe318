//! `|> AGGREGATE ... GROUP BY ...`, as the SELECT that it is: the keys, then the aggregates.

use sqlparser::ast::{
    Expr as Ast, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, Spanned, Value,
};
use tidegate_model::Position;

use super::own_aggregates::aggregates as calls_own;
use super::pipe_columns::refuse_others;
use crate::fail::{Result, invalid, place};
use crate::text::{grouping_call, marked_items, marked_query, marker_name, pipes};

/// The operator, in messages.
const AGGREGATE: &str = "AGGREGATE";

/// The SELECT that an AGGREGATE is, and the order that it asks for.
pub(super) struct AggregateOperator {
    pub(super) select: Select,
    pub(super) order_by: Option<OrderBy>,
}

/// An item of one of its lists, and how it orders.
struct Listed<'a> {
    item: &'a SelectItem,
    options: Option<OrderByOptions>,
}

impl AggregateOperator {
    /// Reads the lists that the operator was respelled as.
    pub(super) fn read(queries: &[Query], at: Option<Position>) -> Result<Self> {
        let unread = || invalid("AGGREGATE cannot be read", at);
        let (first, rest) = queries.split_first().ok_or_else(unread)?;
        let (.., aggregates) = marked_query(first).ok_or_else(unread)?;
        let mut select = select_of(first).ok_or_else(unread)?.clone();
        refuse_others(&select, AGGREGATE)?;
        let (ordered, keys) = match rest {
            [] => (false, &[][..]),
            [keys] => {
                refuse_others(select_of(keys).ok_or_else(unread)?, AGGREGATE)?;
                let (_, name, keys) = marked_query(keys).ok_or_else(unread)?;
                (name == pipes::GROUP_AND_ORDER, keys)
            }
            _ => return Err(unread()),
        };
        if aggregates.is_empty() && keys.is_empty() {
            return Err(invalid("AGGREGATE needs an aggregate function or GROUP BY", at));
        }
        let (mut projection, mut group_by, mut sorts) = (Vec::new(), Vec::new(), Vec::new());
        let is_set = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(expr) if grouping_call(expr).is_some());
        let has_sets = keys.iter().any(is_set);
        for Listed { item, options } in listed(keys) {
            let options = options.or(ordered.then(OrderByOptions::default));
            let before = projection.len();
            group_by.push(match item {
                SelectItem::UnnamedExpr(expr) if grouping_call(expr).is_some() => grouped(expr, &mut projection),
                // Beside grouping sets a key that is there already is no column of its own.
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    let known = place_of(expr, &projection).filter(|_| has_sets);
                    let place = known.unwrap_or_else(|| {
                        projection.push(item.clone());
                        projection.len() - 1
                    });
                    number(place + 1, expr)
                }
                other => return Err(invalid("GROUP BY takes expressions, not *", place(other))),
            });
            if let Some(options) = options {
                sorts.extend((before..projection.len()).map(|place| sort(place + 1, options, item)));
            }
        }
        for Listed { item, options } in listed(aggregates) {
            let is_expression = matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            if !is_expression || !calls_own(item) {
                let message =
                    "AGGREGATE takes aggregate functions; keys stand after GROUP BY, other columns in |> EXTEND";
                return Err(invalid(message, place(item)));
            }
            projection.push(item.clone());
            sorts.extend(options.map(|options| sort(projection.len(), options, item)));
        }
        select.projection = projection;
        select.group_by = GroupByExpr::Expressions(group_by, Vec::new());
        let order_by = OrderBy { kind: OrderByKind::Expressions(sorts), interpolate: None };
        let has_order = !matches!(&order_by.kind, OrderByKind::Expressions(keys) if keys.is_empty());
        Ok(Self { select, order_by: has_order.then_some(order_by) })
    }
}

/// The items of a list, each with the marker after it that says how it orders.
fn listed(items: &[SelectItem]) -> Vec<Listed<'_>> {
    let mut all: Vec<Listed<'_>> = Vec::with_capacity(items.len());
    for item in items {
        let order = marked_items(std::slice::from_ref(item)).and_then(|(_, name, _)| name.strip_prefix(pipes::ORDER));
        match (order, all.last_mut()) {
            (Some(order), Some(last)) => {
                let nulls_first = order.contains("nulls").then(|| order.ends_with("first"));
                last.options = Some(OrderByOptions { asc: Some(!order.contains(" desc")), nulls_first });
            }
            _ => all.push(Listed { item, options: None }),
        }
    }
    all
}

/// Grouping sets with the numbers of their keys, which become columns of the result, in the place of the keys.
fn grouped(ast: &Ast, projection: &mut Vec<SelectItem>) -> Ast {
    match ast {
        Ast::Function(call) if grouping_call(ast).is_some() => {
            let mut call = call.clone();
            if let FunctionArguments::List(list) = &mut call.args {
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                        *expr = grouped(expr, projection);
                    }
                }
            }
            Ast::Function(call)
        }
        Ast::Tuple(keys) => Ast::Tuple(keys.iter().map(|key| grouped(key, projection)).collect()),
        Ast::Nested(inner) if matches!(inner.as_ref(), Ast::Identifier(name) if marker_name(name).is_some()) => {
            ast.clone()
        }
        Ast::Nested(inner) => grouped(inner, projection),
        key => {
            let place = place_of(key, projection).unwrap_or_else(|| {
                projection.push(SelectItem::UnnamedExpr(key.clone()));
                projection.len() - 1
            });
            number(place + 1, key)
        }
    }
}

/// The item that has an expression.
fn place_of(key: &Ast, projection: &[SelectItem]) -> Option<usize> {
    projection.iter().position(|item| match item {
        SelectItem::UnnamedExpr(known) | SelectItem::ExprWithAlias { expr: known, .. } => known == key,
        _ => false,
    })
}

/// The number of a column, at the place of an expression.
fn number(n: usize, of: &impl Spanned) -> Ast {
    Ast::Value(Value::Number(n.to_string(), false).with_span(of.span()))
}

fn sort(n: usize, options: OrderByOptions, of: &SelectItem) -> OrderByExpr {
    OrderByExpr { expr: number(n, of), options, with_fill: None }
}

/// The one SELECT that a query is.
pub(super) fn select_of(query: &Query) -> Option<&Select> {
    match query.body.as_ref() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}
