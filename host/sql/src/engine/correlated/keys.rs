//! What a subquery reads of a row of the enclosing query, as keys: for rows with equal values a subquery has one answer.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, internal_err};
use datafusion::functions::core::expr_fn as core;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::scalar::ScalarValue;

use super::Names;
use crate::engine::shortcuts::shared_part::once;
use crate::exprs::is_subquery;
use crate::typing::kernel;

/// A column of the enclosing query, or a field below one, that a subquery reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Path {
    column: String,
    fields: Vec<String>,
}

impl Path {
    /// The path that an expression of a subquery is. The longest one counts: of a record mostly one field is read.
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::OuterReferenceColumn(_, column) => Some(Self { column: column.name.clone(), fields: Vec::new() }),
            Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
                let (base, names) = call.args.split_first()?;
                let mut path = Self::of(base)?;
                for name in names {
                    let Expr::Literal(name, _) = name else { return None };
                    path.fields.push(name.try_as_str().flatten()?.to_owned());
                }
                Some(path)
            }
            _ => None,
        }
    }
}

/// Walks all expressions of a plan and of the subqueries in it.
///
/// # Errors
/// Those of `see`.
pub(super) fn walk(plan: &LogicalPlan, mut see: impl FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| expr.apply(&mut see))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The names of the columns of enclosing queries that a plan reads, also in subqueries within it.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Result<HashSet<String>> {
    let mut outer = HashSet::new();
    walk(plan, |part| {
        if let Expr::OuterReferenceColumn(_, column) = part {
            outer.insert(column.name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !outer.is_empty() {
        plan.apply_with_subqueries(|node| {
            for field in node.schema().fields() {
                outer.remove(field.name());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(outer)
}

/// The values that a subquery reads of the rows of the enclosing query, and these values without repetition.
#[derive(Debug)]
pub(super) struct Keys {
    paths: Vec<Path>,
    /// What each path is over the rows of the enclosing query.
    values: Vec<Expr>,
    /// The first column is the key, the others are the values of the paths.
    distinct: Option<LogicalPlan>,
}

/// A plan that has the key and the values of a [`Keys`] among its columns.
#[derive(Debug, Clone)]
pub(super) struct Keyed {
    pub(super) plan: LogicalPlan,
    pub(super) key: Column,
    pub(super) values: Vec<Column>,
}

impl Keys {
    /// What `subquery` reads of the rows of the enclosing query.
    ///
    /// # Errors
    /// None that is known: walking a plan does not fail.
    pub(super) fn of(subquery: &LogicalPlan) -> Result<Self> {
        let outer = outer_columns(subquery)?;
        let (mut paths, mut values) = (Vec::new(), Vec::new());
        walk(subquery, |part| {
            let Some(path) = Path::of(part).filter(|path| outer.contains(&path.column)) else {
                return Ok(TreeNodeRecursion::Continue);
            };
            if !paths.contains(&path) {
                values.push(of_row(part.clone())?);
                paths.push(path);
            }
            Ok(TreeNodeRecursion::Jump)
        })?;
        Ok(Self { paths, values, distinct: None })
    }

    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether these rows have all of the columns.
    pub(super) fn are_of(&self, rows: &DFSchema) -> bool {
        let known = |column: &&Column| rows.has_column(column);
        self.values.iter().flat_map(|value| value.column_refs()).all(|column| known(&column))
    }

    /// The rows of the enclosing query with a column for the key, which is given too. Afterwards the keys are those of
    /// `source`, which has the same rows or more columns of them, in a part with this number.
    ///
    /// # Errors
    /// If the rows do not have the columns, which is a bug.
    pub(super) fn keyed(
        &mut self,
        rows: LogicalPlan,
        source: LogicalPlan,
        part: usize,
        names: &mut Names,
    ) -> Result<(LogicalPlan, Column)> {
        let parts = self.values.iter().enumerate();
        let parts = parts.flat_map(|(at, value)| [lit(at.to_string()), value.clone()]).collect();
        // The bytes of the values: of any types, NULL and NaN among them, and equal only where the values are the same.
        let key = kernel("row_key", false, vec![core::named_struct(parts)]);
        let (name, own) = (names.next(), names.next());
        let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(key.clone().alias(&name));
        let rows = LogicalPlanBuilder::from(rows).project(columns)?.build()?;
        let first = |value: &Expr| first_value(value.clone(), Vec::new()).alias(names.next());
        let values: Vec<Expr> = self.values.iter().map(first).collect();
        let distinct = LogicalPlanBuilder::from(source).aggregate([key.alias(own)], values)?.build()?;
        self.distinct = Some(once(distinct, part));
        Ok((rows, Column::new_unqualified(name)))
    }

    /// The distinct keys with their values, under names of their own.
    ///
    /// # Errors
    /// If they are not known yet, which is a bug.
    pub(super) fn copy(&self, names: &mut Names) -> Result<Keyed> {
        let Some(distinct) = &self.distinct else { return internal_err!("no keys") };
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        for column in distinct.schema().columns() {
            let name = names.next();
            exprs.push(Expr::Column(column).alias(&name));
            columns.push(Column::new_unqualified(name));
        }
        let plan = LogicalPlanBuilder::from(distinct.clone()).project(exprs)?.build()?;
        let mut columns = columns.into_iter();
        let Some(key) = columns.next() else { return internal_err!("no key") };
        Ok(Keyed { plan, key, values: columns.collect() })
    }

    /// The type of a value.
    fn type_of(&self, at: usize) -> DataType {
        let field = self.distinct.as_ref().and_then(|keys| keys.schema().fields().get(at + 1).cloned());
        field.map_or(DataType::Null, |field| field.data_type().clone())
    }

    /// Which of the values an expression is.
    fn position(&self, expr: &Expr) -> Option<usize> {
        let path = Path::of(expr)?;
        self.paths.iter().position(|known| *known == path)
    }

    /// Whether a plan reads one of the values.
    ///
    /// # Errors
    /// None that is known: walking a plan does not fail.
    pub(super) fn are_read_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut read = false;
        walk(plan, |part| {
            read |= self.position(part).is_some();
            Ok(if read { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(read)
    }

    /// An expression with columns in the place of the values. Subqueries in it see these as columns of their enclosing query.
    ///
    /// # Errors
    /// If a plan is not valid, which is a bug.
    pub(super) fn replaced(&self, expr: Expr, columns: &[Column]) -> Result<Expr> {
        let column = |part: &Expr| self.position(part).and_then(|at| Some((at, columns.get(at)?.clone())));
        let replaced = expr.transform_down(|part| {
            if let Some((_, column)) = column(&part) {
                return Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump));
            }
            with_subquery(part, |plan| {
                let plan = plan.transform_down_with_subqueries(|node| {
                    node.map_expressions(|expr| {
                        expr.transform_down(|part| match column(&part) {
                            Some((at, column)) => {
                                let field = Field::new(&column.name, self.type_of(at), true);
                                let part = Expr::OuterReferenceColumn(Arc::new(field), column);
                                Ok(Transformed::new(part, true, TreeNodeRecursion::Jump))
                            }
                            None => Ok(Transformed::no(part)),
                        })
                    })
                })?;
                Ok(plan.data)
            })
            .map(Transformed::yes)
        })?;
        Ok(replaced.data)
    }

    /// An expression with NULL in the place of the values.
    ///
    /// # Errors
    /// None that is known.
    pub(super) fn without_values(&self, expr: Expr) -> Result<Expr> {
        let replaced = expr.transform_down(|part| match self.position(&part) {
            Some(at) => {
                let null = Expr::Literal(ScalarValue::try_from(&self.type_of(at))?, None);
                Ok(Transformed::new(null, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(part)),
        })?;
        Ok(replaced.data)
    }
}

/// An expression of a subquery over columns of enclosing rows as one over these rows.
fn of_row(expr: Expr) -> Result<Expr> {
    let row = expr.transform(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
            part => Transformed::no(part),
        })
    })?;
    Ok(row.data)
}

/// The expression with another plan, if it is a subquery.
///
/// # Errors
/// Those of `change`.
pub(super) fn with_subquery(expr: Expr, change: impl FnOnce(LogicalPlan) -> Result<LogicalPlan>) -> Result<Expr> {
    if !is_subquery(&expr) {
        return Ok(expr);
    }
    let mut expr = expr;
    let subquery = match &mut expr {
        Expr::ScalarSubquery(subquery) => subquery,
        Expr::Exists(exists) => &mut exists.subquery,
        Expr::InSubquery(within) => &mut within.subquery,
        _ => return Ok(expr),
    };
    let plan = change(subquery.subquery.as_ref().clone())?;
    subquery.outer_ref_columns = plan.all_out_ref_exprs();
    subquery.subquery = Arc::new(plan);
    Ok(expr)
}
