//! The plan of window calls: calls of the same window are computed together, and sorted for once.

use datafusion::common::Column;
use datafusion::logical_expr::expr::WindowFunctionParams;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use tidegate_functions::context::planning;
use tidegate_model::{Code, Failure};

use crate::exprs::{any, is_subquery};
use crate::fail::{Planning, Result};
use crate::resolve::resolver::Resolver;

/// How many different windows one SELECT may have. The rows are sorted for each of them, and the time to plan them
/// grows faster than the square of their number.
const MAX_WINDOWS: usize = 64;
/// How many all levels of a statement may have.
const MAX_IN_ALL: usize = 96;

impl Resolver<'_> {
    /// The plan with the window calls computed, each in the column that carries it. Calls of the same window are computed
    /// together. The windows of all levels of a statement count together: each is a level of one plan.
    pub(super) fn windowed(
        &mut self,
        builder: LogicalPlanBuilder,
        calls: Vec<(String, Expr)>,
    ) -> Result<LogicalPlanBuilder> {
        let (builder, windows) = computed(builder, calls)?;
        self.windows += windows;
        if self.windows > MAX_IN_ALL {
            let message = format!("the statement computes over more than {MAX_IN_ALL} windows");
            return Err(Failure::new(Code::TooLarge, message));
        }
        Ok(builder)
    }
}

/// The same, with the number of different windows.
fn computed(mut builder: LogicalPlanBuilder, calls: Vec<(String, Expr)>) -> Result<(LogicalPlanBuilder, usize)> {
    let mut groups: Vec<Vec<(String, Expr)>> = Vec::new();
    let mut keys: Vec<(Expr, String)> = Vec::new();
    let mut windows = Vec::with_capacity(calls.len());
    for (name, call) in calls {
        let call = keyed_by_columns(call, &name, &mut keys);
        windows.push((name, call));
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
    let count = groups.len();
    for group in groups {
        planning::check()?;
        // With an alias, because the engine identifies calls by their text, which leaves out some of their parameters.
        let calls: Vec<Expr> = group.into_iter().map(|(name, call)| call.alias(name)).collect();
        builder = builder.window(calls).planned()?;
    }
    Ok((builder, count))
}

/// The call with a column in place of each computed key, and of each argument with a subquery; `keys` collects them and their
/// columns.
///
/// The engine sorts the rows for a window and then checks that they are sorted. It loses track of a key that is computed
/// from the result of a function, such as a field of a record. It cannot plan subqueries in a call.
fn keyed_by_columns(call: Expr, name: &str, keys: &mut Vec<(Expr, String)>) -> Expr {
    let Expr::WindowFunction(mut function) = call else { return call };
    let params = &mut function.params;
    let sorted = params.order_by.iter_mut().map(|sort| &mut sort.expr);
    let arguments = params.args.iter_mut().chain(params.filter.as_deref_mut()).filter(|part| any(part, is_subquery));
    for key in params.partition_by.iter_mut().chain(sorted).chain(arguments) {
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
