//! One SELECT: FROM, WHERE, grouping, HAVING, the select list, DISTINCT, ORDER BY and LIMIT.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, SortExpr, col};
use sqlparser::ast::{
    Distinct, Expr as Ast, GroupByExpr, OrderBy, Select, SelectFlavor, TableFactor, ValueTableMode as Mode,
};

use super::distinct_key::distinct_key;
use super::fallible_filters::guarded;
use super::group::Grouped;
use super::join::Input;
use super::own_aggregates::aggregates;
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::{Item, Limit, calls_aggregate, nth_item, unique_names};
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::resolve::sorting::{ordinal, sort_keys, sorted, with_stored_last};
use crate::resolve::stored::with_stored_floats;
use crate::typed::Typed;
use crate::typing::{float_key, keyed_float, plan_column};

impl Resolver<'_> {
    pub(super) fn select(
        &mut self,
        select: &Select,
        order_by: Option<&OrderBy>,
        limit: Limit,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
        order: Order,
    ) -> Result<Resolved> {
        refuse_foreign_clauses(select)?;
        let inner_order = if keeps_order(select, order_by, is_distinct(select)) { order } else { Order::Dropped };
        let input = self.from(&select.from, environment, parent, inner_order)?;
        self.select_over(input, select, order_by, limit, environment, order)
    }

    /// One SELECT over the rows of `input`, whatever its FROM says.
    pub(super) fn select_over(
        &mut self,
        input: Input<'_>,
        select: &Select,
        order_by: Option<&OrderBy>,
        limit: Limit,
        environment: &Environment<'_>,
        order: Order,
    ) -> Result<Resolved> {
        let Input { plan, scope } = input;
        let distinct = is_distinct(select);
        let mut builder = LogicalPlanBuilder::from(plan);
        if let Some(condition) = &select.selection {
            let condition = self.condition(condition, &mut Context::new(&scope, environment, Clause::Where))?;
            let condition = with_stored_floats(condition, &[builder.plan()])?;
            let condition = guarded(condition, &scope, builder.plan())?;
            builder = builder.filter(condition).planned()?;
        }

        let named = select.named_window.as_slice();
        let mut calls = Calls::default();
        self.named_windows(named, &scope, environment)?;
        let mut items = self.items(&select.projection, &scope, environment, &mut calls, Some(named), false)?;
        let keys = self.keys(&select.group_by, &mut items, &scope, environment, &calls)?;
        let aliases: Vec<(String, Typed)> =
            items.iter().filter_map(|item| Some((item.name.clone()?, item.value.clone()))).collect();
        let mut conditional = |this: &mut Self, ast: &Option<Ast>, clause, windows| -> Result<Option<Expr>> {
            let Some(ast) = ast else { return Ok(None) };
            let (aliases, calls) = (aliases.as_slice(), Some(&mut calls));
            let mut cx = Context { aliases, calls, windows, ..Context::new(&scope, environment, clause) };
            this.condition(ast, &mut cx).map(Some)
        };
        let having = conditional(self, &select.having, Clause::Having, None)?;
        let qualify = conditional(self, &select.qualify, Clause::Qualify, Some(named))?;
        if having.is_some() && !select_groups(select) && !aggregates(&select.projection) {
            let message = "HAVING needs GROUP BY, or an aggregate in the select list; WHERE filters rows";
            return Err(invalid(message, select.having.as_ref().and_then(place)));
        }
        if let Some(having) = &having
            && calls.windowed(having)
        {
            return Err(invalid("HAVING cannot use a window function; QUALIFY can", place(select)));
        }
        let mut sorts: Vec<SortExpr> = Vec::new();
        for key in sort_keys(order_by)? {
            let value = match ordinal(&key.expr) {
                Some(n) => nth_item(&items, n, place(&key.expr))?.value.clone(),
                None => {
                    let calls = Some(&mut calls);
                    let mut cx = Context {
                        aliases: &aliases,
                        calls,
                        windows: Some(named),
                        ..Context::new(&scope, environment, Clause::OrderBy)
                    };
                    self.expr(&key.expr, &mut cx)?
                }
            };
            sorts.push(sorted(value, key)?);
        }
        if order == Order::Dropped && limit.rows.is_none() && limit.skip == 0 {
            sorts.clear();
        }

        let mut values: Vec<Typed> = items.iter().map(|item| plan_column(item.value.clone())).collect();
        let mut qualify = qualify;
        let groups = !keys.is_empty() || !calls.aggregates.is_empty() || having.is_some() || select_groups(select);
        if groups {
            let prefix = self.fresh();
            let rows = Arc::clone(builder.schema());
            let grouped = Grouped { keys, calls: &calls, labels: &self.labels, rows };
            builder = grouped.plan(builder, &prefix)?;
            for (value, item) in values.iter_mut().zip(&items) {
                value.expr = grouped.over(value.expr.clone(), item.at)?;
            }
            for sort in &mut sorts {
                sort.expr = grouped.over(sort.expr.clone(), None)?;
            }
            if let Some(condition) = having {
                let condition = with_stored_floats(grouped.over(condition, None)?, &[builder.plan()])?;
                builder = builder.filter(condition).planned()?;
            }
            qualify = qualify.map(|condition| grouped.over(condition, None)).transpose()?;
            let mut windows = calls.windows.clone();
            for (_, call) in &mut windows {
                *call = grouped.over(std::mem::take(call), None)?;
            }
            builder = self.windowed(builder, windows)?;
        } else {
            if !calls.groupings.is_empty() {
                return Err(invalid("GROUPING needs a GROUP BY", place(select)));
            }
            builder = self.windowed(builder, calls.windows)?;
        }
        if let Some(condition) = qualify {
            builder = builder.filter(condition).planned()?;
        }
        let row = match select.value_table_mode {
            None => Row::Columns,
            Some(Mode::AsStruct | Mode::DistinctAsStruct) => Row::Struct,
            Some(Mode::AsValue | Mode::DistinctAsValue) if values.len() == 1 => Row::Value,
            Some(_) => return Err(invalid("SELECT AS VALUE takes exactly one value", place(select))),
        };
        let mut resolved = self.project(builder, items, values, sorts, distinct, limit)?;
        if row == Row::Value {
            // The value has no name, whatever it is computed of.
            resolved.columns.iter_mut().for_each(|column| column.written = None);
        }
        Ok(Resolved { row, ..resolved })
    }

    /// Select list, DISTINCT, ORDER BY and LIMIT over the grouped or plain rows.
    fn project(
        &mut self,
        builder: LogicalPlanBuilder,
        items: Vec<Item>,
        values: Vec<Typed>,
        sorts: Vec<SortExpr>,
        distinct: bool,
        limit: Limit,
    ) -> Result<Resolved> {
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        let names = unique_names(&items);
        for ((item, value), name) in items.iter().zip(&values).zip(names) {
            if distinct && !value.ty.is_groupable() {
                return Err(invalid(format!("DISTINCT cannot compare values of type {}", value.ty), item.at));
            }
            let unique = self.fresh();
            self.labels.insert(unique.clone(), name.clone());
            if self.is_path(&item.value) {
                self.note_path_column(&unique);
            }
            self.note_digits(&unique, &item.value);
            let expr = if distinct { distinct_key(value.clone(), builder.plan()) } else { value.expr.clone() };
            exprs.push(expr.alias(&unique));
            let (written, column) = (item.name.clone(), Column::new_unqualified(unique));
            columns.push(Output { name, written, column, ty: value.ty.clone() });
        }
        let shown_columns = exprs.len();
        let mut sorts = with_stored_last(sorts, builder.plan());
        for sort in &mut sorts {
            let float = keyed_float(&sort.expr);
            let wanted = float.unwrap_or(&sort.expr);
            let at = values.iter().position(|value| value.expr == *wanted);
            let column = match at.and_then(|at| columns.get(at)) {
                // A distinct value is a key already.
                Some(output) if float.is_some() && !distinct => {
                    sort.expr = float_key(Typed::new(col(output.column.clone()), output.ty.clone())).expr;
                    continue;
                }
                Some(output) => output.column.clone(),
                None if distinct => {
                    return Err(invalid("with SELECT DISTINCT, ORDER BY can only use selected columns", None));
                }
                None => {
                    let unique = self.fresh();
                    exprs.push(sort.expr.clone().alias(&unique));
                    Column::new_unqualified(unique)
                }
            };
            sort.expr = col(column);
        }
        let extended = exprs.len() > shown_columns;
        let mut builder = builder.project(exprs).planned()?;
        if distinct {
            builder = builder.distinct().planned()?;
        }
        if !sorts.is_empty() {
            builder = builder.sort(sorts).planned()?;
        }
        let mut plan = limit.applied_to(builder)?;
        if extended {
            let shown = columns.iter().map(|output| Expr::Column(output.column.clone()));
            plan = LogicalPlanBuilder::from(plan).project(shown).and_then(LogicalPlanBuilder::build).planned()?;
        }
        Ok(Resolved { plan, columns, row: Row::Columns })
    }
}

/// Whether equal rows become one.
fn is_distinct(select: &Select) -> bool {
    match &select.distinct {
        None | Some(Distinct::All) => {
            matches!(select.value_table_mode, Some(Mode::DistinctAsStruct | Mode::DistinctAsValue))
        }
        Some(Distinct::Distinct | Distinct::On(_)) => true,
    }
}

/// Refuses clauses that the parser reads and the dialect does not have.
pub(super) fn refuse_foreign_clauses(select: &Select) -> Result<()> {
    let at = place(select);
    if let Some(Distinct::On(_)) = select.distinct {
        let instead = Some("write QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1");
        return Err(unsupported("DISTINCT ON", instead, at));
    }
    let clustered = !select.cluster_by.is_empty() || !select.distribute_by.is_empty() || !select.sort_by.is_empty();
    let foreign: [(bool, &str, Option<&str>); 8] = [
        (select.into.is_some(), "SELECT INTO", None),
        (select.top.is_some(), "TOP", Some("write LIMIT at the end")),
        (!select.lateral_views.is_empty(), "LATERAL VIEW", Some("write CROSS JOIN UNNEST(...) AS x")),
        (select.prewhere.is_some(), "PREWHERE", Some("write WHERE")),
        (!select.connect_by.is_empty(), "CONNECT BY", None),
        (clustered, "CLUSTER BY", None),
        (select.flavor != SelectFlavor::Standard, "FROM before SELECT", Some("write SELECT ... FROM ...")),
        (select.exclude.is_some() || select.select_modifiers.is_some(), "a modifier of SELECT", None),
    ];
    match foreign.into_iter().find(|(there, ..)| *there) {
        Some((_, what, instead)) => Err(unsupported(what, instead, at)),
        None => Ok(()),
    }
}

fn select_groups(select: &Select) -> bool {
    match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    }
}

/// Whether the rows leave this SELECT in the order in which its FROM delivers them.
fn keeps_order(select: &Select, order_by: Option<&OrderBy>, distinct: bool) -> bool {
    let one_table = matches!(select.from.as_slice(), [table] if table
        .joins
        .iter()
        .all(|join| matches!(join.relation, TableFactor::UNNEST { .. })));
    one_table && order_by.is_none() && !distinct && !select_groups(select) && !calls_aggregate(&select.projection)
}
