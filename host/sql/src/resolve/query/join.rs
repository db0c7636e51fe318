//! Joins: two sources side by side, with ON or USING.

use datafusion::common::JoinType;
use datafusion::functions::core::expr_fn as core;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use sqlparser::ast::{JoinConstraint, ObjectName};
use tidegate_model::{Code, Position};

use crate::exprs::{any, is_subquery};
use crate::fail::{Planning, Result, fail, invalid, place, unsupported};
use crate::resolve::context::{Clause, Context};
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
                Some(self.condition(condition, &mut cx)?)
            }
            JoinConstraint::Using(names) => {
                let mut all: Option<Expr> = None;
                for name in names {
                    let equal = using(&mut scope, left_count, name, kind)?;
                    all = Some(match all {
                        Some(all) => all.and(equal),
                        None => equal,
                    });
                }
                all
            }
            JoinConstraint::Natural => {
                return Err(unsupported("NATURAL JOIN", Some("name the columns with USING (...)"), at));
            }
        };
        let on = on.map(|on| with_stored_floats(on, &[&left.plan, &right.plan])).transpose()?;
        let builder = LogicalPlanBuilder::from(left.plan);
        let plan = match (kind, on) {
            (JoinType::Inner, None) => builder.cross_join(right.plan),
            // The engine cannot plan subqueries in the condition of a join; it can in a filter.
            (JoinType::Inner, Some(on)) if any(&on, is_subquery) => {
                builder.cross_join(right.plan).and_then(|joined| joined.filter(on))
            }
            (kind, Some(on)) => builder.join_on(right.plan, kind, [on]),
            // The UNNEST of an array that reads nothing of the row.
            (JoinType::Left, None) if right_is_element => builder.join_on(right.plan, kind, [lit(true)]),
            (_, None) => return Err(invalid("an outer join needs ON or USING", at)),
        };
        Ok(Input { plan: plan.and_then(LogicalPlanBuilder::build).planned()?, scope })
    }
}

/// `USING (name)`: the condition; afterwards the unqualified name means one column.
fn using(scope: &mut Scope<'_>, left_count: usize, name: &ObjectName, kind: JoinType) -> Result<Expr> {
    let at: Option<Position> = place(name);
    let wanted = name.to_string().replace('`', "");
    let (left, right) = scope.relations.split_at_mut(left_count);
    let find = |relations: &mut [Relation]| -> Option<Typed> {
        relations.iter_mut().find_map(|relation| match relation {
            Relation::Table { columns, .. } => {
                let column = columns.iter_mut().find(|c| c.name.eq_ignore_ascii_case(&wanted) && !c.qualified_only)?;
                Some(column.value.clone())
            }
            Relation::Element { .. } => None,
        })
    };
    let missing = || fail(Code::UnknownColumn, format!("USING needs a column {wanted} on both sides"), at);
    let (one, other) = (find(left).ok_or_else(missing)?, find(right).ok_or_else(missing)?);
    let hide = |relations: &mut [Relation]| {
        for relation in relations {
            if let Relation::Table { columns, .. } = relation {
                for column in columns.iter_mut().filter(|c| c.name.eq_ignore_ascii_case(&wanted)) {
                    column.qualified_only = true;
                }
            }
        }
    };
    let equal = compare(one.clone(), Operator::Eq, other.clone(), at)?.expr;
    match kind {
        JoinType::Right => hide(left),
        JoinType::Full => {
            hide(left);
            hide(right);
            let (values, ty) = unify(vec![one, other], at)?;
            let merged = core::coalesce(values.into_iter().map(|value| value.expr).collect());
            let column =
                ScopeColumn { name: wanted, value: Typed::new(merged, ty), hidden: false, qualified_only: false };
            scope.relations.insert(0, Relation::Table { alias: None, columns: vec![column], open: false });
        }
        _ => hide(right),
    }
    Ok(equal)
}
