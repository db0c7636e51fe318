//! UNNEST in FROM.
//!
//! It sees the tables to its left. UNNEST of a stored record is no work: the element *is* the
//! struct, so the alias becomes a name for the struct's expression, and a cross join only drops
//! the rows that have no record. UNNEST of a real list is the engine's.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, JoinType, NullHandling, UnnestOptions};
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col, lit, when};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{Expr as Ast, Ident, JoinConstraint, TableFactor, Value};

use super::join::Input;
use crate::exprs::any;
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::boolean;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope};
use crate::typed::Typed;
use crate::types::{Type, is_there};
use crate::typing::filtered;

/// Which rows of the left side a join with an UNNEST keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Matching,
    Left,
}

/// An UNNEST as written.
pub(super) struct Unnest {
    array: Ast,
    alias: Option<String>,
    offset: Option<String>,
}

/// Recognises `UNNEST(...)` and its short form `FROM t, t.array`.
pub(super) fn unnest_of(factor: &TableFactor, left: &Scope<'_>) -> Result<Option<Unnest>> {
    match factor {
        TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality: false } => {
            let [array] = array_exprs.as_slice() else {
                return Err(unsupported(
                    "UNNEST of several arrays",
                    Some("write UNNEST(a) AS x WITH OFFSET AS i JOIN UNNEST(b) AS y WITH OFFSET AS j ON i = j"),
                    place(factor),
                ));
            };
            Ok(Some(Unnest {
                array: array.clone(),
                alias: alias.as_ref().map(|alias| alias.name.value.clone()),
                offset: with_offset
                    .then(|| with_offset_alias.as_ref().map_or_else(|| "offset".to_owned(), |a| a.value.clone())),
            }))
        }
        TableFactor::Table { name, alias, args: None, version: None, .. } if name.0.len() > 1 => {
            let parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
            let correlated =
                parts.len() == name.0.len() && parts.first().is_some_and(|first| left.has_alias(&first.value));
            Ok(correlated.then(|| Unnest {
                alias: alias.as_ref().map(|a| a.name.value.clone()).or_else(|| parts.last().map(|p| p.value.clone())),
                array: Ast::CompoundIdentifier(parts),
                offset: None,
            }))
        }
        _ => Ok(None),
    }
}

impl Resolver<'_> {
    pub(super) fn unnest<'p>(
        &mut self,
        left: Input<'p>,
        unnest: &Unnest,
        keep: Keep,
        constraint: &JoinConstraint,
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let at = place(&unnest.array);
        self.count_relation(at)?;
        let array = self.expr(&unnest.array, &mut Context::new(&left.scope, environment, Clause::Unnest))?;
        self.unnest_array(left, unnest, array, keep, constraint, environment)
    }

    /// The input joined with `array`, which is what the text of the UNNEST was resolved to.
    fn unnest_array<'p>(
        &mut self,
        left: Input<'p>,
        unnest: &Unnest,
        array: Typed,
        keep: Keep,
        constraint: &JoinConstraint,
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let at = place(&unnest.array);
        let whole = array.clone();
        let (mut array, of_path) = self.as_array(array);
        let Some(item) = array.ty.element() else {
            return Err(invalid(format!("UNNEST takes an array, not a value of type {}", array.ty), at));
        };
        let array_type = array.ty.clone();
        let is_list = matches!(array_type, Type::Array(_));
        let mut left = left;
        // A LEFT JOIN keeps the row whatever the condition says, so the list is filtered before it is unnested.
        if let (true, Keep::Left, JoinConstraint::On(condition)) = (is_list, keep, constraint)
            && !always(condition)
        {
            if unnest.offset.is_some() {
                return Err(unsupported("LEFT JOIN UNNEST WITH OFFSET with a condition other than TRUE", None, at));
            }
            let name = self.fresh();
            let value = Typed::new(col(Column::new_unqualified(&name)), item.clone());
            left.scope.relations.push(Relation::Element { alias: unnest.alias.clone(), value });
            let condition = self.condition(condition, &mut Context::new(&left.scope, environment, Clause::On))?;
            left.scope.relations.pop();
            array.expr = filtered(array.expr, name, condition)?;
        }
        // An array that reads nothing of the row is unnested once and joined, not once for each row. Its text may name
        // paths of the row all the same that are NULL because no record ever had them, so the text is not resolved again.
        if is_list && !left.scope.relations.is_empty() && !any(&array.expr, reads) {
            let start = Input::one_row(left.scope.parent)?;
            let none = &JoinConstraint::None;
            let right = self.unnest_array(start, unnest, whole, Keep::Matching, none, environment)?;
            let kind = if keep == Keep::Left { JoinType::Left } else { JoinType::Inner };
            return self.joined_to(left, right, kind, constraint, environment, at);
        }
        let Input { plan, mut scope } = left;
        let plan = if keep == Keep::Matching { without_implied(plan, &array.expr) } else { plan };
        let builder = LogicalPlanBuilder::from(plan);
        let (builder, element, offset) = match &array.ty {
            Type::Null => {
                let builder = if keep == Keep::Left { Ok(builder) } else { builder.filter(lit(false)) };
                (builder.planned()?, Typed::null(), Typed::null())
            }
            Type::Record(_) => {
                let there = is_there(&array.expr, &array.ty);
                let builder = if keep == Keep::Left { Ok(builder) } else { builder.filter(there.clone()) };
                let first = when(there, lit(0_i64)).end().planned()?;
                (builder.planned()?, Typed::new(array.expr, item), Typed::new(first, Type::Int64))
            }
            _ => self.unnest_list(builder, array, item, keep, unnest.offset.is_some())?,
        };
        if of_path {
            self.note_path(&element);
        }
        // The element of a record is an expression over the same row; each element of a list is a row of its own.
        let of_the_row = matches!(array_type, Type::Record(_) | Type::Null);
        let before = scope.relations.len();
        if let (Some(alias), Expr::Column(column)) = (&unnest.alias, &element.expr) {
            self.labels.insert(column.name.clone(), alias.clone());
        }
        scope.relations.push(Relation::Element { alias: unnest.alias.clone(), value: element });
        if let Some(name) = &unnest.offset {
            scope.relations.push(Relation::Element { alias: Some(name.clone()), value: offset });
        }
        let condition = match constraint {
            JoinConstraint::None => None,
            JoinConstraint::On(condition) => {
                let condition = self.condition(condition, &mut Context::new(&scope, environment, Clause::On))?;
                (boolean(condition.clone()).literal() != Some(&ScalarValue::Boolean(Some(true)))).then_some(condition)
            }
            JoinConstraint::Using(names) if keep == Keep::Matching => {
                Some(self.using(&mut scope, before, names, JoinType::Inner)?)
            }
            _ => {
                return Err(unsupported("LEFT JOIN UNNEST with USING, over an array of the row", Some("write ON"), at));
            }
        };
        let builder = match (condition, keep) {
            (None, _) => builder,
            (Some(condition), Keep::Matching) => builder.filter(condition).planned()?,
            (Some(condition), Keep::Left) if of_the_row => {
                // The row is kept, and its element is NULL where the condition does not hold.
                for relation in scope.relations.iter_mut().skip(before) {
                    if let Relation::Element { value, .. } = relation {
                        value.expr = when(condition.clone(), value.expr.clone()).end().planned()?;
                    }
                }
                builder
            }
            // The list was filtered above.
            (Some(_), Keep::Left) => builder,
        };
        Ok(Input { plan: builder.build().planned()?, scope })
    }

    pub(super) fn unnest_list(
        &mut self,
        builder: LogicalPlanBuilder,
        array: Typed,
        item: Type,
        keep: Keep,
        with_offset: bool,
    ) -> Result<(LogicalPlanBuilder, Typed, Typed)> {
        let mut exprs: Vec<Expr> = builder.schema().columns().into_iter().map(Expr::Column).collect();
        let element = self.fresh();
        exprs.push(array.expr.clone().alias(&element));
        let mut unnested = vec![Column::new_unqualified(&element)];
        let mut offset = Typed::null();
        if with_offset {
            let index = self.fresh();
            let length = core::coalesce(vec![nested::array_length(array.expr), lit(0_u64)]);
            exprs.push(
                nested::gen_series(lit(0_i64), cast(length, DataType::Int64) - lit(1_i64), lit(1_i64)).alias(&index),
            );
            unnested.push(Column::new_unqualified(&index));
            offset = Typed::new(col(Column::new_unqualified(index)), Type::Int64);
        }
        let nulls = if keep == Keep::Left { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop };
        let builder = builder
            .project(exprs)
            .and_then(|builder| {
                builder.unnest_columns_with_options(unnested, UnnestOptions::new().with_null_handling(nulls))
            })
            .planned()?;
        Ok((builder, Typed::new(col(Column::new_unqualified(element)), item), offset))
    }
}

/// The plan without the filter of an UNNEST just before that tests for the enclosing record: where a record is, its
/// enclosing record is too.
fn without_implied(plan: LogicalPlan, record: &Expr) -> LogicalPlan {
    let tests_outer = |predicate: &Expr| {
        let Expr::ScalarFunction(reads) = record else { return false };
        reads
            .args
            .first()
            .is_some_and(|outer| *predicate == is_there(outer, &Type::Null) || presence_of(predicate) == Some(outer))
    };
    match plan {
        LogicalPlan::Filter(filter) if reads_field(record) && tests_outer(&filter.predicate) => {
            Arc::unwrap_or_clone(filter.input)
        }
        plan => plan,
    }
}

fn reads_field(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == "get_field")
}

/// Of `record._present IS NOT NULL`, the record.
fn presence_of(predicate: &Expr) -> Option<&Expr> {
    let Expr::IsNotNull(field) = predicate else { return None };
    let Expr::ScalarFunction(call) = field.as_ref() else { return None };
    match call.args.as_slice() {
        [record, Expr::Literal(name, _)]
            if reads_field(field) && name.try_as_str().flatten() == Some(tidegate_model::PRESENCE_FIELD) =>
        {
            Some(record)
        }
        _ => None,
    }
}

/// Whether an expression reads the row that it stands in, or one around it.
fn reads(part: &Expr) -> bool {
    match part {
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => true,
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        _ => false,
    }
}

/// Whether a condition is the word TRUE.
fn always(condition: &Ast) -> bool {
    matches!(condition, Ast::Value(value) if matches!(value.value, Value::Boolean(true)))
}
