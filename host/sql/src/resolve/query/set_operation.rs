//! UNION, INTERSECT and EXCEPT, by the places of columns or by their names.

use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{SetExpr, SetOperator, SetQuantifier};
use tidegate_functions::context::planning;
use tidegate_model::{Failure, Position};

use super::distinct_key::distinct_key;
use super::set_columns::{OutputColumn, by_name, by_place};
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::environment::Environment;
use crate::resolve::resolved::{Order, Output, Resolved, Row};
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::Scope;
use crate::text::{Matching, matching_of};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, common_of, plan_column};

/// A set operation: what it does with the rows of its queries, and how it matches their columns.
pub(super) struct SetOperation {
    pub(super) op: SetOperator,
    pub(super) quantifier: SetQuantifier,
    /// None: by their places.
    pub(super) matching: Option<Matching>,
    pub(super) at: Option<Position>,
}

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
        let mut matching = None;
        let mut operands = Vec::new();
        let mut next = body;
        while let SetExpr::SetOperation { left, op: o, set_quantifier: q, right } = next {
            if *o != op || *q != quantifier || (op != SetOperator::Union && !operands.is_empty()) {
                break;
            }
            let (left, own) = unmarked(left)?;
            if !operands.is_empty() && own != matching {
                break;
            }
            matching = own;
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
        self.combined(resolved, &SetOperation { op, quantifier, matching, at })
    }

    /// The rows of several queries under a set operation.
    pub(super) fn combined(&mut self, queries: Vec<Resolved>, operation: &SetOperation) -> Result<Resolved> {
        let SetOperation { op, quantifier, at, .. } = *operation;
        let row = match operation.matching {
            Some(_) => Row::Columns,
            None => queries.first().map_or(Row::Columns, |first| first.row),
        };
        let outputs = match &operation.matching {
            Some(matching) => by_name(&queries, matching, op, at)?,
            None => by_place(&queries, op, at)?,
        };
        let mut types = Vec::with_capacity(outputs.len());
        for OutputColumn { name, from, .. } in &outputs {
            planning::check()?;
            let of_query = |(query, place): (&Resolved, &Option<usize>)| self.constant_of(query, *place);
            let values: Vec<Typed> = queries.iter().zip(from).map(of_query).collect();
            let ty = common_of(&values, at).map_err(|failure| Failure {
                message: format!("the column {name} of the {op}: {}", failure.message),
                ..failure
            })?;
            if ty == Type::Interval && quantifier != SetQuantifier::All {
                let message = format!("the column {name} of the {op}: DISTINCT cannot compare values of type {ty}");
                return Err(invalid(message, at));
            }
            types.push(ty);
        }
        let unique: Vec<String> = types.iter().map(|_| self.fresh()).collect();
        // A column whose values may be of any kind in each of the queries.
        for (OutputColumn { from, .. }, name) in outputs.iter().zip(&unique) {
            let is_path = |(query, place): (&Resolved, &Option<usize>)| {
                let column = place.and_then(|place| query.columns.get(place));
                column.is_some_and(|of| self.is_path_column(&of.column))
            };
            if queries.iter().zip(from).all(is_path) {
                self.note_path_column(name);
            }
        }
        let distinct = !matches!((op, quantifier), (SetOperator::Union, SetQuantifier::All));
        let mut plans = Vec::with_capacity(queries.len());
        for (i, query) in queries.into_iter().enumerate() {
            // Each query has all columns of the result; those of the result itself are counted with their names.
            planning::charge(outputs.len() * planning::COLUMN);
            planning::check()?;
            let mut exprs = Vec::with_capacity(outputs.len());
            for ((OutputColumn { from, .. }, ty), name) in outputs.iter().zip(&types).zip(&unique) {
                let place = from.get(i).copied().flatten();
                let mut value = typed_of(&query, place, false);
                if value.ty != *ty {
                    value = self.constant_of(&query, place);
                }
                let value = plan_column(value.convert(ty, Conversion::implicit(at))?);
                let expr = if distinct { distinct_key(value, &query.plan) } else { value.expr };
                exprs.push(expr.alias(name));
            }
            let plan = LogicalPlanBuilder::from(query.plan).project(exprs).and_then(LogicalPlanBuilder::build);
            plans.push(plan.planned()?);
        }
        let plan = combine(plans, op, quantifier, at)?;
        let columns = plan.schema().columns().into_iter().zip(outputs).zip(types);
        let columns = columns
            .map(|((column, OutputColumn { name, written, .. }), ty)| Output { name, written, column, ty })
            .collect();
        Ok(Resolved { plan, columns, row })
    }
}

impl Resolver<'_> {
    /// A column of a query as the literal that it is, if it is one.
    fn constant_of(&self, query: &Resolved, place: Option<usize>) -> Typed {
        let column = place.and_then(|place| query.columns.get(place));
        let digits = column.and_then(|column| self.digits_of(&column.column));
        Typed { digits, ..typed_of(query, place, true) }
    }
}

/// The left side of a set operation without the marker of how it matches columns, and that.
pub(super) fn unmarked(left: &SetExpr) -> Result<(&SetExpr, Option<Matching>)> {
    if let SetExpr::SetOperation { left: inner, right, .. } = left
        && let Some(matching) = matching_of(right)
    {
        return Ok((inner, Some(matching?)));
    }
    Ok((left, None))
}

/// A column of a query, or NULL where it has none; `constant` asks for the literal that the column is, if it is one.
pub(super) fn typed_of(query: &Resolved, place: Option<usize>, constant: bool) -> Typed {
    let Some(output) = place.and_then(|place| query.columns.get(place)) else { return Typed::null() };
    let literal = place.filter(|_| constant).and_then(|place| literal_of(&query.plan, place));
    Typed::new(literal.unwrap_or_else(|| Expr::Column(output.column.clone())), output.ty.clone())
}

/// The literal that a select list has at a place.
fn literal_of(plan: &LogicalPlan, place: usize) -> Option<Expr> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let Expr::Alias(alias) = projection.expr.get(place)? else { return None };
            matches!(alias.expr.as_ref(), Expr::Literal(..)).then(|| alias.expr.as_ref().clone())
        }
        LogicalPlan::Limit(limit) => literal_of(&limit.input, place),
        LogicalPlan::Sort(sort) => literal_of(&sort.input, place),
        _ => None,
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
            plans.try_fold(first, |left, right| LogicalPlanBuilder::intersect(left, right, false)).planned()
        }
        (SetOperator::Except, Q::Distinct | Q::None) => {
            plans.try_fold(first, |left, right| LogicalPlanBuilder::except(left, right, false)).planned()
        }
        _ => Err(unsupported(format!("{op} {quantifier}"), None, at)),
    }
}
