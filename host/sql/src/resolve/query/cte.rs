//! CTEs, grants, and saved queries of other endpoints, where they are read as tables.

use std::sync::{Arc, PoisonError};

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use tidegate_functions::context::planning;
use tidegate_model::{Code, Position};

use crate::barrier::above_barrier;
use crate::catalog::SavedTable;
use crate::fail::{Planning, Result, fail};
use crate::resolve::environment::{Environment, Meaning, Unfolded, Visible};
use crate::resolve::resolved::{Order, Output, Resolved};
use crate::resolve::resolver::Resolver;

impl Resolver<'_> {
    /// The rows of a CTE or grant that a text with `environment` reads: a copy of its plan under fresh column names.
    pub(super) fn expand(
        &mut self,
        visible: &Visible<'_>,
        environment: &Environment<'_>,
        order: Order,
        at: Option<Position>,
    ) -> Result<Resolved> {
        let before = {
            let all = visible.unfolded.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().find(|unfolded| unfolded.order == order).cloned()
        };
        // The text of a grant sees sources, and the statement that reads the grant does not. Between two grants, which
        // both see sources, there is no security barrier.
        let is_granted = visible.environment.sources.is_some() && environment.sources.is_none();
        let unfolded = match before {
            Some(unfolded) => {
                planning::charge(unfolded.bytes);
                self.count_relations(unfolded.relations, at)?;
                unfolded
            }
            None => {
                let (before, charged, mark) = (self.relations(), planning::charged(), self.remarks.mark());
                let resolved = match visible.meaning {
                    Meaning::Recursive => self.recursive_cte(visible, order),
                    _ => self.query(&visible.cte.query, &visible.environment, None, order),
                };
                if is_granted {
                    self.remarks.forget(mark);
                }
                let resolved = resolved?;
                let (relations, bytes) = (self.relations() - before, planning::charged() - charged);
                let Resolved { plan, columns, row } = resolved;
                let above_barrier = Arc::new(above_barrier(plan.clone()));
                let plan = Arc::new(plan);
                let unfolded = Unfolded { order, plan, above_barrier, columns, row, relations, bytes };
                visible.unfolded.lock().unwrap_or_else(PoisonError::into_inner).push(unfolded.clone());
                unfolded
            }
        };
        let Unfolded { plan, above_barrier, columns: outputs, row, .. } = unfolded;
        // The copies share their nodes: the engine finds what is read several times by that.
        let plan = if is_granted { above_barrier } else { plan };
        let mut exprs = Vec::with_capacity(outputs.len());
        let mut columns = Vec::with_capacity(outputs.len());
        for Output { name, written, column, ty } in outputs {
            let unique = self.fresh();
            if self.is_path_column(&column) {
                self.note_path_column(&unique);
            }
            exprs.push(Expr::Column(column).alias(&unique));
            self.labels.insert(unique.clone(), name.clone());
            columns.push(Output { name, written, column: Column::new_unqualified(unique), ty });
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, plan).planned()?);
        Ok(Resolved { plan, columns, row })
    }

    /// The rows of another endpoint's saved query. It sees its own CTEs and sources, and nothing of the place
    /// where it is read.
    pub(super) fn endpoint(
        &mut self,
        name: &str,
        table: &SavedTable<'_>,
        environment: &Environment<'_>,
        order: Order,
        at: Option<Position>,
    ) -> Result<Resolved> {
        self.count_relation(at)?;
        if environment.endpoints.iter().any(|outer| outer == name) {
            let message = format!("the endpoint {name} reads itself, by way of {}", environment.endpoints.join(", "));
            return Err(fail(Code::InvalidQuery, message, at).about(name));
        }
        let inside = environment.of_endpoint(name, table.sources.as_ref());
        let mark = self.remarks.mark();
        let resolved = self.query(&table.query.query, &inside, None, order);
        self.remarks.forget(mark);
        resolved.map_err(|mut failure| {
            // The author of this text cannot see that one: the place of the failure is where the endpoint is named.
            let inside =
                failure.position.map(|Position { line, column }| format!(" (its line {line}, column {column})"));
            failure.message = format!("in the endpoint {name}{}: {}", inside.unwrap_or_default(), failure.message);
            failure.at(at)
        })
    }
}
