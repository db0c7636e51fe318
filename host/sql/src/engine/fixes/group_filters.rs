//! Conditions that read no column stay above an aggregation without keys, and random ones above any.
//!
//! The engine moves a condition below an aggregation if all its columns are keys. One without columns, such as
//! `(SELECT COUNT(*) FROM v) > 9`, went below `SELECT COUNT(*) FROM t`, which has a row where the condition left none; and
//! `HAVING RAND() < 0.5` chose among rows instead of groups.
//!
//! Seen with DataFusion 55.2.0, in `push_down_filter`; not reported upstream as far as found. It can go when the engine alone
//! answers the statement in `tests`.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule that moves filters down, which keeps such conditions where they are.
#[derive(Debug)]
pub(crate) struct GroupFilters(pub(crate) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for GroupFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let Some((stay, go, groups)) = parted(&plan) else { return self.0.rewrite(plan, config) };
        let moved = match conjunction(go) {
            Some(go) => self.0.rewrite(LogicalPlan::Filter(Filter::try_new(go, groups)?), config)?.data,
            None => Arc::unwrap_or_clone(groups),
        };
        // The rule makes one of two filters, and moves that.
        let (kept, input) = match moved {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => (Some(predicate), input),
            moved => (None, Arc::new(moved)),
        };
        let all = conjunction(stay.into_iter().chain(kept));
        let filtered = all.map(|all| Filter::try_new(all, Arc::clone(&input)).map(LogicalPlan::Filter)).transpose()?;
        Ok(Transformed::yes(filtered.unwrap_or_else(|| Arc::unwrap_or_clone(input))))
    }
}

/// Of filters over an aggregation, the conditions that stay, if there are any, those that may go, and the aggregation.
fn parted(plan: &LogicalPlan) -> Option<(Vec<Expr>, Vec<Expr>, Arc<LogicalPlan>)> {
    let (mut conditions, mut input) = (Vec::new(), None);
    let mut next = plan;
    while let LogicalPlan::Filter(filter) = next {
        conditions.push(&filter.predicate);
        input = Some(&filter.input);
        next = filter.input.as_ref();
    }
    let LogicalPlan::Aggregate(aggregate) = next else { return None };
    let has_keys = !aggregate.group_expr.is_empty();
    let stays = |condition: &Expr| condition.is_volatile() || !has_keys && condition.column_refs().is_empty();
    let conditions = conditions.into_iter().flat_map(|condition| split_conjunction_owned(condition.clone()));
    let (stay, go): (Vec<_>, Vec<_>) = conditions.partition(stays);
    input.filter(|_| !stay.is_empty()).map(|input| (stay, go, Arc::clone(input)))
}
