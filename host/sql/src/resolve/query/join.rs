//! Joins: two sources side by side, with ON or USING.

use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit};
use sqlparser::ast::{JoinConstraint, ObjectName, ObjectNamePart};
use tidegate_model::{Code, Position};

use crate::exprs::{any, coalesced, is_subquery};
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
            JoinConstraint::Using(names) => Some(self.using(&mut scope, left_count, names, kind)?),
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
