//! Queries with pipes as plain ones, where that is the same.
//!
//! Subqueries over the arrays of a row are no plans but expressions over it, which are made of one SELECT. So `FROM`, `WHERE`,
//! one `SELECT` or `AGGREGATE`, `ORDER BY` and `LIMIT`, in this order, are read as that.

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, LimitClause, Offset, OffsetRows, OrderBy, OrderByKind, PipeOperator, Query, Select,
    SelectItem, SetExpr, TableFactor,
};

use super::markers::{marked_items, marked_query};
use super::pipes;

/// The query as one SELECT, if it has pipes or no select list, and is the same without.
pub(crate) fn plain_query(query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    if !matches!(marked_items(&select.projection), Some((_, pipes::FROM, []))) {
        return None;
    }
    let mut select = select.as_ref().clone();
    let mut plain = Query { pipe_operators: Vec::new(), ..query.clone() };
    let mut listed = false;
    for operator in &query.pipe_operators {
        match operator {
            _ if plain.limit_clause.is_some() => return None,
            PipeOperator::Where { expr } if !listed && plain.order_by.is_none() => {
                let right = Expr::Nested(Box::new(expr.clone()));
                select.selection = Some(match select.selection.take() {
                    Some(left) => {
                        Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
                    }
                    None => right,
                });
            }
            PipeOperator::OrderBy { exprs } if plain.order_by.is_none() => {
                plain.order_by = Some(OrderBy { kind: OrderByKind::Expressions(exprs.clone()), interpolate: None });
            }
            PipeOperator::Limit { expr, offset } => {
                let offset = offset.as_ref().map(|value| Offset { value: value.clone(), rows: OffsetRows::None });
                plain.limit_clause =
                    Some(LimitClause::LimitOffset { limit: Some(expr.clone()), offset, limit_by: Vec::new() });
            }
            PipeOperator::Union { queries, .. } if !listed && plain.order_by.is_none() => {
                let (first, rest) = queries.split_first()?;
                let (_, name, items) = marked_query(first)?;
                match (name, rest) {
                    (pipes::SELECT, [query]) => {
                        let list = list_of(query)?;
                        select.projection = list.projection.clone();
                        select.distinct = list.distinct.clone();
                        select.value_table_mode = list.value_table_mode;
                    }
                    (pipes::AGGREGATE, []) if is_list(first, items) => select.projection = items.to_vec(),
                    _ => return None,
                }
                listed = true;
            }
            _ => return None,
        }
    }
    if !listed {
        select.projection = vec![whole(&select)?];
    }
    *plain.body = SetExpr::Select(Box::new(select));
    Some(plain)
}

/// The SELECT of a list that has nothing behind it.
fn list_of(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let plain = select.named_window.is_empty()
        && select.from.is_empty()
        && select.selection.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none();
    plain.then_some(select)
}

/// Whether the items of an AGGREGATE have nothing behind them, and no order.
fn is_list(query: &Query, items: &[SelectItem]) -> bool {
    let ordered = items.iter().any(|item| marked_items(std::slice::from_ref(item)).is_some());
    !ordered && query.order_by.is_none() && query.limit_clause.is_none()
}

/// The rows of a FROM as they are: of one array its elements.
fn whole(select: &Select) -> Option<SelectItem> {
    let [table] = select.from.as_slice() else { return None };
    let element = |name: &Ident| SelectItem::UnnamedExpr(Expr::Identifier(name.clone()));
    match &table.relation {
        TableFactor::UNNEST { alias: Some(alias), with_offset: false, .. } if table.joins.is_empty() => {
            Some(element(&alias.name))
        }
        TableFactor::Table { alias: Some(alias), .. } if table.joins.is_empty() => Some(element(&alias.name)),
        _ => None,
    }
}
