//! Joins: two sources side by side, with ON or USING.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use sqlparser::ast::{JoinConstraint, ObjectName, ObjectNamePart};
use tidegate_model::{Code, Position};

use crate::exprs::{any, coalesced, is_subquery};
use crate::fail::{Planning, Result, fail, invalid, place, unsupported};
use crate::resolve::context::{Clause, Context, Decides};
use crate::resolve::environment::Environment;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope, ScopeColumn};
use crate::resolve::stored::with_stored_floats;
use crate::typed::Typed;
use crate::typing::{compare, unify};

/// What a FROM, or a part of it, reads: a plan and the names of its columns.
pub(super) struct Input<'p> {
    pub(super) plan: LogicalPlan,
    pub(super) scope: Scope<'p>,
}

impl<'p> Input<'p> {
    /// One row without columns, for a FROM to begin with.
    pub(super) fn one_row(parent: Option<&'p Scope<'p>>) -> Result<Self> {
        let plan = LogicalPlanBuilder::empty(true).build().planned()?;
        Ok(Self { plan, scope: Scope { parent, ..Scope::default() } })
    }
}

impl Resolver<'_> {
    /// The join of two inputs.
    pub(super) fn joined_to<'p>(
        &mut self,
        left: Input<'p>,
        right: Input<'p>,
        kind: JoinType,
        constraint: &JoinConstraint,
        environment: &Environment<'_>,
        at: Option<Position>,
    ) -> Result<Input<'p>> {
        let parent = left.scope.parent;
        let right_is_element = matches!(right.scope.relations.as_slice(), [Relation::Element { .. }, ..]);
        let mut relations = left.scope.relations;
        let left_count = relations.len();
        relations.extend(right.scope.relations);
        let mut scope = Scope { relations, parent, inline: false };
        let on = match constraint {
            JoinConstraint::None => None,
            JoinConstraint::On(condition) => {
                let mut cx = Context::new(&scope, environment, Clause::On);
                if kind != JoinType::Inner {
                    // Its subqueries become values of rows.
                    cx.decides = Decides::Nothing;
                }
                Some(self.condition(condition, &mut cx)?)
            }
            JoinConstraint::Using(names) => Some(self.using(&mut scope, left_count, names, kind)?),
            JoinConstraint::Natural => {
                return Err(unsupported("NATURAL JOIN", Some("name the columns with USING (...)"), at));
            }
        };
        let on = on.map(|on| with_stored_floats(on, &[&left.plan, &right.plan])).transpose()?;
        let (mut left, mut right) = (left.plan, right.plan);
        let on = match on {
            Some(on) if kind != JoinType::Inner && any(&on, is_subquery) => {
                Some(self.subqueries_below(on, [&mut left, &mut right])?)
            }
            on => on,
        };
        let builder = LogicalPlanBuilder::from(left);
        let plan = match (kind, on) {
            (JoinType::Inner, None) => builder.cross_join(right),
            // The engine cannot plan subqueries in the condition of a join; it can in a filter.
            (JoinType::Inner, Some(on)) if any(&on, is_subquery) => {
                builder.cross_join(right).and_then(|joined| joined.filter(on))
            }
            (kind, Some(on)) => builder.join_on(right, kind, [on]),
            // The UNNEST of an array that reads nothing of the row.
            (JoinType::Left, None) if right_is_element => builder.join_on(right, kind, [lit(true)]),
            (_, None) => return Err(invalid("an outer join needs ON or USING", at)),
        };
        Ok(Input { plan: plan.and_then(LogicalPlanBuilder::build).planned()?, scope })
    }

    /// The condition of an outer join with a column in place of each subquery that reads columns of one side only, which
    /// that side gets: the engine cannot plan subqueries in such a condition. Those that read both sides stay.
    fn subqueries_below(&mut self, on: Expr, sides: [&mut LogicalPlan; 2]) -> Result<Expr> {
        let mut below = [Vec::new(), Vec::new()];
        let on = on.transform_down(|part| {
            if !is_subquery(&part) {
                return Ok(Transformed::no(part));
            }
            let read = columns_of_row(&part);
            let reads = |plan: &LogicalPlan| read.iter().any(|column| plan.schema().has_column(column));
            let Some(values) = (match sides.each_ref().map(|plan| reads(plan)) {
                [true, true] => None,
                [_, right] => below.get_mut(usize::from(right)),
            }) else {
                return Ok(Transformed::no(part));
            };
            let name = self.fresh();
            values.push(part.alias(&name));
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        });
        let on = on.planned()?.data;
        for (plan, values) in sides.into_iter().zip(below) {
            if !values.is_empty() {
                let columns = plan.schema().columns().into_iter().map(Expr::Column).chain(values).collect::<Vec<_>>();
                let builder = LogicalPlanBuilder::from(std::mem::take(plan)).project(columns);
                *plan = builder.and_then(LogicalPlanBuilder::build).planned()?;
            }
        }
        Ok(on)
    }

    /// `USING (a, b)`: the condition. Afterwards each name means one column, and these come first.
    pub(super) fn using(
        &mut self,
        scope: &mut Scope<'_>,
        left_count: usize,
        names: &[ObjectName],
        kind: JoinType,
    ) -> Result<Expr> {
        let (left, right) = scope.relations.split_at_mut(left_count);
        let mut merged: Vec<ScopeColumn> = Vec::with_capacity(names.len());
        let mut all: Option<Expr> = None;
        for name in names {
            let at = place(name);
            let wanted = match name.0.as_slice() {
                [ObjectNamePart::Identifier(ident)] => ident.value.clone(),
                _ => return Err(invalid("USING takes names of columns alone", at)),
            };
            let (one, other) = (taken(left, &wanted, at)?, taken(right, &wanted, at)?);
            let equal = compare(one.clone(), Operator::Eq, other.clone(), at)?.expr;
            let value = match kind {
                JoinType::Right => other,
                JoinType::Full => {
                    let (values, ty) = unify(vec![one, other], at)?;
                    Typed::new(coalesced(values.into_iter().map(|value| value.expr).collect()), ty)
                }
                _ => one,
            };
            merged.push(ScopeColumn { name: wanted, value, hidden: false, qualified_only: false });
            all = Some(match all {
                Some(all) => all.and(equal),
                None => equal,
            });
        }
        scope.relations.insert(0, Relation::Table { alias: None, columns: merged, open: false });
        all.ok_or_else(|| invalid("USING needs names of columns", None))
    }
}

/// The one column of a side of a join that USING names. Afterwards it is found only behind the alias of its table.
fn taken(relations: &mut [Relation], name: &str, at: Option<Position>) -> Result<Typed> {
    for relation in relations.iter_mut() {
        relation.open_element(name);
    }
    let mut found: Option<Typed> = None;
    for relation in relations {
        let Relation::Table { columns, .. } = relation else { continue };
        for column in columns.iter_mut().filter(|c| !c.qualified_only && c.name.eq_ignore_ascii_case(name)) {
            if found.as_ref().is_some_and(|known| known.expr != column.value.expr) {
                let message =
                    format!("USING ({name}) is ambiguous: several tables on one side have this column; write ON");
                return Err(fail(Code::UnknownColumn, message, at).about(name));
            }
            column.qualified_only = true;
            found = Some(column.value.clone());
        }
    }
    found.ok_or_else(|| fail(Code::UnknownColumn, format!("USING needs a column {name} on both sides"), at).about(name))
}

/// The columns of the row for which a subquery is computed that it reads.
fn columns_of_row(part: &Expr) -> Vec<Column> {
    let subquery = match part {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        _ => None,
    };
    let outer =
        subquery.into_iter().flat_map(|subquery| &subquery.outer_ref_columns).filter_map(|column| match column {
            Expr::OuterReferenceColumn(_, column) => Some(column),
            _ => None,
        });
    outer.chain(part.column_refs()).cloned().collect()
}
