//! PIVOT: the values of a column become columns, each with aggregates over the rows that have the value.
//!
//! Each aggregate is resolved once over the rows, and computed for each value with the condition that a row has it. The
//! columns that neither the aggregates nor the pivoted expression read are the keys.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, Operator, col};
use datafusion::scalar::ScalarValue;
use sqlparser::ast::{Expr as Ast, ExprWithAlias, PivotValueSource};
use tidegate_model::Position;

use super::group::Grouped;
use super::group_keys::Keys;
use super::join::Input;
use super::pipe_scope::visible;
use crate::fail::{Planning, Result, invalid, place, unsupported};
use crate::resolve::calls::Calls;
use crate::resolve::context::{Clause, Context};
use crate::resolve::environment::Environment;
use crate::resolve::expr::Item;
use crate::resolve::resolver::Resolver;
use crate::resolve::scope::{Relation, Scope};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, compare};

/// The most columns that a PIVOT may make.
const MAX_COLUMNS: usize = 1_000;

/// What a PIVOT says.
pub(super) struct Pivot<'a> {
    pub(super) aggregates: &'a [ExprWithAlias],
    pub(super) columns: &'a [Ast],
    pub(super) values: &'a PivotValueSource,
    pub(super) alias: Option<String>,
    pub(super) at: Option<Position>,
}

/// A value that becomes columns: the condition of its rows, and its name.
struct PivotValue {
    condition: Expr,
    name: String,
    /// Whether the name is made of a number or date, and begins with an underscore for that.
    of_digits: bool,
}

impl Resolver<'_> {
    pub(super) fn pivoted<'p>(
        &mut self,
        input: Input<'p>,
        pivot: &Pivot<'_>,
        environment: &Environment<'_>,
    ) -> Result<Input<'p>> {
        let Input { plan, scope } = input;
        let at = pivot.at;
        if scope.relations.iter().any(|relation| matches!(relation, Relation::Element { .. })) {
            let instead = Some("write PIVOT behind (SELECT ... FROM UNNEST(...))");
            return Err(unsupported("PIVOT of the elements of an array", instead, at));
        }
        let [column] = pivot.columns else {
            return Err(unsupported("PIVOT for several columns", Some("join them: CONCAT(a, '_', b)"), at));
        };
        let pivoted = self.expr(column, &mut Context::new(&scope, environment, Clause::GroupBy))?;
        if !pivoted.ty.is_groupable() {
            return Err(invalid(format!("PIVOT cannot compare values of type {}", pivoted.ty), at));
        }
        let values = self.pivot_values(pivot, &pivoted, environment)?;
        if values.len().saturating_mul(pivot.aggregates.len()) > MAX_COLUMNS {
            return Err(invalid(format!("the PIVOT makes more than {MAX_COLUMNS} columns"), at));
        }

        // The aggregates over all rows: they are computed for none, but tell which columns are read.
        let mut read: HashSet<Column> = pivoted.expr.column_refs().into_iter().cloned().collect();
        let mut aggregates = Vec::with_capacity(pivot.aggregates.len());
        for ExprWithAlias { expr, alias } in pivot.aggregates {
            let mut calls = Calls::default();
            let context = Context::new(&scope, environment, Clause::Select);
            let value = self.expr(expr, &mut Context { calls: Some(&mut calls), ..context })?;
            if calls.aggregates.is_empty() {
                return Err(invalid("PIVOT takes aggregate functions", place(expr)));
            }
            if alias.is_none() && pivot.aggregates.len() > 1 {
                return Err(invalid("several aggregates of a PIVOT need aliases", place(expr)));
            }
            for (_, call) in &calls.aggregates {
                read.extend(call.column_refs().into_iter().cloned());
            }
            aggregates.push((value, alias.as_ref().map(|alias| alias.value.clone()), calls));
        }
        let is_key = |item: &Item| !item.value.expr.column_refs().into_iter().any(|column| read.contains(column));
        let kept: Vec<Item> = visible(&scope).into_iter().filter(is_key).collect();
        let mut keys = Keys::default();
        let mut places = Vec::with_capacity(kept.len());
        for item in &kept {
            places.push(self.key(&mut keys, item.value.clone(), at)?);
        }

        let mut filtered = Calls::default();
        let mut outputs = Vec::new();
        for (i, PivotValue { condition, name, of_digits }) in values.iter().enumerate() {
            // An equal value has the same columns.
            let before = values.iter().take(i).position(|before| before.condition == *condition);
            for (nth, (value, prefix, calls)) in aggregates.iter().enumerate() {
                let same = before.and_then(|before| outputs.get(before * aggregates.len() + nth));
                let expr = match same {
                    Some((_, same)) => Typed::clone(same).expr,
                    None => self.under(&value.expr, condition, calls, &mut filtered, at)?,
                };
                let name = match prefix {
                    None => name.clone(),
                    Some(prefix) if *of_digits => format!("{prefix}{name}"),
                    Some(prefix) => format!("{prefix}_{name}"),
                };
                outputs.push((name, Typed::new(expr, value.ty.clone())));
            }
        }
        let prefix = self.fresh();
        let rows = Arc::clone(plan.schema());
        let grouped = Grouped { keys, calls: &filtered, labels: &self.labels, rows };
        let builder = grouped.plan(LogicalPlanBuilder::from(plan), &prefix)?;
        let mut values = Vec::with_capacity(outputs.len());
        for (name, value) in outputs {
            values.push((name, Typed::new(grouped.over(value.expr, at)?, value.ty)));
        }
        let of_key = |(item, place): (&Item, &usize)| {
            let key = grouped.keys.keys.get(*place)?;
            let value = Typed::new(col(Column::new_unqualified(&key.column)), item.value.ty.clone());
            Some((item.name.clone().unwrap_or_default(), value, self.is_path(&item.value)))
        };
        let kept: Vec<_> = kept.iter().zip(&places).filter_map(of_key).collect();
        for (_, value, _) in kept.iter().filter(|(.., is_path)| *is_path) {
            self.note_path(value);
        }
        let kept = kept.into_iter().map(|(name, value, _)| (name, value));
        let (builder, columns) = self.with_columns(builder, Vec::new(), kept.chain(values))?;
        let plan = builder.build().planned()?;
        let relations = vec![Relation::Table { alias: pivot.alias.clone(), columns, open: false }];
        Ok(Input { plan, scope: Scope { relations, ..scope } })
    }

    fn pivot_values(
        &mut self,
        pivot: &Pivot<'_>,
        pivoted: &Typed,
        environment: &Environment<'_>,
    ) -> Result<Vec<PivotValue>> {
        let PivotValueSource::List(values) = pivot.values else {
            let instead = Some("list the values: IN ('a', 'b')");
            return Err(unsupported("PIVOT for ANY value or for those of a subquery", instead, pivot.at));
        };
        let mut all = Vec::with_capacity(values.len());
        for ExprWithAlias { expr, alias } in values {
            let at = place(expr).or(pivot.at);
            let value = self.expr(expr, &mut Context::new(&Scope::default(), environment, Clause::Select))?;
            let value = value.convert(&pivoted.ty, Conversion::implicit(at))?;
            if value.literal().is_none() && value.expr.any_column_refs() {
                return Err(invalid("a value of PIVOT is a constant", at));
            }
            let name = match alias {
                Some(alias) => alias.value.clone(),
                None => value
                    .literal()
                    .and_then(|literal| name_of(literal, &value.ty))
                    .ok_or_else(|| invalid("a value of PIVOT of this type needs an alias; write value AS name", at))?,
            };
            let value_type = value.ty.clone();
            let condition = compare(pivoted.clone(), Operator::IsNotDistinctFrom, value, at)?.expr;
            let of_digits = alias.is_none() && value_type != Type::String && name.starts_with('_');
            all.push(PivotValue { condition, name, of_digits });
        }
        Ok(all)
    }

    /// A value over aggregates, with these over the rows that fulfil a condition.
    fn under(
        &mut self,
        value: &Expr,
        condition: &Expr,
        calls: &Calls,
        filtered: &mut Calls,
        at: Option<Position>,
    ) -> Result<Expr> {
        let mut other = false;
        let rewritten = value.clone().transform(|part| {
            let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
            let Some((_, call)) = calls.aggregates.iter().find(|(name, _)| *name == column.name) else {
                return Ok(Transformed::no(part));
            };
            let Expr::AggregateFunction(call) = call else {
                other = true;
                return Ok(Transformed::no(part));
            };
            let mut call = call.clone();
            let filter = call.params.filter.take();
            call.params.filter = Some(Box::new(match filter {
                Some(filter) => filter.as_ref().clone().and(condition.clone()),
                None => condition.clone(),
            }));
            let name = self.fresh();
            filtered.aggregates.push((name.clone(), Expr::AggregateFunction(call)));
            Ok(Transformed::yes(col(Column::new_unqualified(name))))
        });
        if other {
            return Err(unsupported("this aggregate in PIVOT", None, at));
        }
        Ok(rewritten.planned()?.data)
    }
}

/// The name of the column of a value.
fn name_of(value: &ScalarValue, ty: &Type) -> Option<String> {
    if value.is_null() {
        return Some("NULL".to_owned());
    }
    let number = |text: String| match text.strip_prefix('-') {
        Some(text) => format!("minus_{}", text.replace('.', "_point_")),
        None => format!("_{}", text.replace('.', "_point_")),
    };
    match (ty, value) {
        (Type::String, ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text))) => Some(text.clone()),
        (Type::Bool, ScalarValue::Boolean(Some(value))) => Some(if *value { "TRUE" } else { "FALSE" }.to_owned()),
        (Type::Int64, ScalarValue::Int64(Some(value))) => Some(number(value.to_string())),
        (Type::Date, value) => Some(format!("_{}", value.to_string().replace('-', "_"))),
        _ => None,
    }
}
