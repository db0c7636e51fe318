//! UNION, INTERSECT and EXCEPT.

use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};
use tidegate_model::{Failure, Position};

use super::distinct_key::distinct_key;
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::environment::Environment;
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, common, plan_column};

impl Resolver<'_> {
    /// `a UNION ALL b UNION ALL c`: a chain of the same operation is resolved in a loop, not by recursion.
    pub(super) fn set_operation(
        &mut self,
        body: &SetExpr,
        op: SetOperator,
        quantifier: SetQuantifier,
        environment: &Environment<'_>,
        parent: Option<&Scope<'_>>,
    ) -> Result<Resolved> {
        let at = place(body);
        let mut operands = Vec::new();
        let mut next = body;
        while let SetExpr::SetOperation { left, op: o, set_quantifier: q, right } = next {
            if *o != op || *q != quantifier || (op != SetOperator::Union && !operands.is_empty()) {
                break;
            }
            operands.push(right.as_ref());
            next = left;
        }
        operands.push(next);
        operands.reverse();
        let mut resolved = Vec::with_capacity(operands.len());
        for operand in operands {
            resolved.push(stacker::maybe_grow(256 << 10, 4 << 20, || {
                self.body(operand, environment, parent, Order::Dropped)
            })?);
        }
        let row = resolved.first().map_or(Row::Columns, |first| first.row);
        let width = resolved.first().map_or(0, |first| first.columns.len());
        if let Some(other) = resolved.iter().find(|other| other.columns.len() != width) {
            let message = format!("the queries of the {op} have {width} and {} columns", other.columns.len());
            return Err(invalid(message, at));
        }
        let mut types = Vec::with_capacity(width);
        for i in 0..width {
            let column = resolved.iter().filter_map(|query| query.columns.get(i).map(|column| column.ty.clone()));
            let name =
                resolved.first().and_then(|query| query.columns.get(i)).map_or("", |column| column.name.as_str());
            let ty = common(column, at).map_err(|failure| Failure {
                message: format!("the column {name} of the {op}: {}", failure.message),
                ..failure
            })?;
            if ty == Type::Interval && quantifier != SetQuantifier::All {
                let message = format!("the column {name} of the {op}: DISTINCT cannot compare values of type {ty}");
                return Err(invalid(message, at));
            }
            types.push(ty);
        }
        let names: Vec<String> = resolved
            .first()
            .map(|first| first.columns.iter().map(|column| column.name.clone()).collect())
            .unwrap_or_default();
        let unique: Vec<String> = types.iter().map(|_| self.fresh()).collect();
        // A column whose values may be of any kind in each of the queries.
        for (i, name) in unique.iter().enumerate() {
            let is_path = |query: &Resolved| query.columns.get(i).is_some_and(|of| self.is_path_column(&of.column));
            if resolved.iter().all(is_path) {
                self.note_path_column(name);
            }
        }
        let distinct = !matches!((op, quantifier), (SetOperator::Union, SetQuantifier::All));
        let mut plans = Vec::with_capacity(resolved.len());
        for query in resolved {
            let mut exprs = Vec::with_capacity(width);
            for ((column, ty), name) in query.columns.iter().zip(&types).zip(&unique) {
                let value = Typed::new(Expr::Column(column.column.clone()), column.ty.clone());
                let value = plan_column(value.convert(ty, Conversion::implicit(at))?);
                let expr = if distinct { distinct_key(value, &query.plan) } else { value.expr };
                exprs.push(expr.alias(name));
            }
            let plan = LogicalPlanBuilder::from(query.plan).project(exprs).and_then(LogicalPlanBuilder::build);
            plans.push(plan.planned()?);
        }
        let plan = combine(plans, op, quantifier, at)?;
        let columns = plan.schema().columns();
        let columns =
            columns.into_iter().zip(names).zip(types).map(|((column, name), ty)| Output { name, column, ty }).collect();
        Ok(Resolved { plan, columns, row })
    }
}

fn combine(
    plans: Vec<LogicalPlan>,
    op: SetOperator,
    quantifier: SetQuantifier,
    at: Option<Position>,
) -> Result<LogicalPlan> {
    use SetQuantifier as Q;
    let mut plans = plans.into_iter();
    let Some(first) = plans.next() else {
        return Err(invalid("a set operation needs queries", at));
    };
    match (op, quantifier) {
        (SetOperator::Union, Q::All | Q::Distinct | Q::None) => {
            let mut builder = LogicalPlanBuilder::from(first);
            for plan in plans {
                builder = builder.union(plan).planned()?;
            }
            if quantifier != Q::All {
                builder = builder.distinct().planned()?;
            }
            builder.build().planned()
        }
        (SetOperator::Intersect, Q::Distinct | Q::None) => {
            let Some(second) = plans.next() else { return Ok(first) };
            LogicalPlanBuilder::intersect(first, second, false).planned()
        }
        (SetOperator::Except, Q::Distinct | Q::None) => {
            let Some(second) = plans.next() else { return Ok(first) };
            LogicalPlanBuilder::except(first, second, false).planned()
        }
        _ => Err(unsupported(format!("{op} {quantifier}"), None, at)),
    }
}
