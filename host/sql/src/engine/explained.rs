//! Statements that are planned and not run, for whoever wants to know what they would do.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_functions::context::ExecutionContext;

use super::carrier::CarrierReport;
use super::own_operator::OwnOperator;
use super::shortcuts::shared_part::all_parts;
use super::shortcuts::shared_rows;
use super::{Engine, Plan, correlated, limited};
use crate::fail::{Planning, Result};

/// A statement as it would run.
#[derive(Debug)]
pub struct ExplainedPlan {
    /// The tables that it reads, as often as it names them.
    pub tables: Vec<Arc<dyn TableProvider>>,
    /// The operators without inputs: its scans, and what has no rows to read. Those of a part that several operators
    /// read are there once.
    pub leaves: Vec<Arc<dyn ExecutionPlan>>,
    /// What of it would run elsewhere, if something is said of that.
    pub report: Option<Arc<dyn CarrierReport>>,
}

impl Engine {
    /// What a statement would do that is limited to `rows` rows. Nothing of it runs.
    ///
    /// # Errors
    /// As those of [`Engine::run`] before there are rows.
    pub async fn explained(&self, plan: Plan, rows: Option<usize>) -> Result<ExplainedPlan> {
        let Plan { logical, columns: _, budget, never_seen: _ } = plan;
        let logical = limited(logical, rows)?;
        let planned = ExecutionContext::of_planning(&budget)
            .scope(self.physical(&logical))
            .await
            .and_then(|plan| Ok((self.carried(Arc::clone(&plan))?.report, plan)));
        let (report, operators) = planned.map_err(|error| correlated::of_planning(error, &logical))?;
        let (mut tables, mut leaves) = (Vec::new(), Vec::new());
        tables_of(&logical, &mut tables).planned()?;
        for part in all_parts(&logical).planned()?.values() {
            tables_of(&part.input, &mut tables).planned()?;
        }
        leaves_of(&operators, &mut HashSet::new(), &mut leaves).planned()?;
        Ok(ExplainedPlan { tables, leaves, report })
    }

    /// The physical plan as text, for benchmarks and bug reports of the project's own.
    ///
    /// # Errors
    /// If the plan cannot be made.
    pub async fn explain(&self, plan: &Plan) -> Result<String> {
        let physical =
            ExecutionContext::of_planning(&plan.budget).scope(self.physical(&plan.logical)).await.planned()?;
        Ok(shared_rows::shown(&physical))
    }
}

/// The tables of a plan, of its subqueries and of the views that it reads.
fn tables_of(plan: &LogicalPlan, tables: &mut Vec<Arc<dyn TableProvider>>) -> datafusion::error::Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            match scan.source.get_logical_plan() {
                Some(view) => tables_of(&view, tables)?,
                None => tables.push(source_as_provider(&scan.source)?),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}

/// The operators without inputs; `parts` are the shared parts that were looked into.
fn leaves_of(
    plan: &Arc<dyn ExecutionPlan>,
    parts: &mut HashSet<usize>,
    leaves: &mut Vec<Arc<dyn ExecutionPlan>>,
) -> datafusion::error::Result<()> {
    plan.apply(|node| {
        match OwnOperator::of(node.as_ref()) {
            // Each part once.
            Some(OwnOperator::SharedRows { place, input }) if parts.insert(place.part) => {
                leaves_of(&input, parts, leaves)?;
            }
            Some(OwnOperator::SharedRows { .. }) => {}
            _ if node.children().is_empty() => leaves.push(Arc::clone(node)),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map(|_| ())
}
