//! Narrowing tables to the fields that a statement reads, so that the cost of planning does not grow with the fields
//! that logs have.
//!
//! A source may have a thousand fields below one column, and most statements read a few of them. The engine looks at
//! the type of that column many times while it makes operators (it makes a NULL of the whole record to state the bounds
//! of one field), so planning costs as much as the column is wide. After the optimizer every field that is read stands
//! in the plan by its path. Where a record is read in no other way, its table is replaced by one with these fields only.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan, TableScanBuilder};
use tidegate_model::TextCondition;

use super::text_condition::text_condition;
use crate::barrier::is_barrier;
use crate::exprs::path_of;

/// The table with records of fewer fields, those of the schema; its columns stay the same. Rows for which the condition
/// on texts does not hold may be left out. `None` for a table that knows no such thing.
pub type Narrow = fn(&dyn TableProvider, SchemaRef, Option<TextCondition>) -> Option<Arc<dyn TableProvider>>;

/// Narrows no table.
pub(crate) fn never(_: &dyn TableProvider, _: SchemaRef, _: Option<TextCondition>) -> Option<Arc<dyn TableProvider>> {
    None
}

/// The parts of a value that are read.
#[derive(Debug, Default)]
struct Used {
    /// All of it.
    whole: bool,
    fields: BTreeMap<String, Used>,
}

impl Used {
    fn note(&mut self, path: &[String]) {
        match path.split_first() {
            None => self.whole = true,
            Some((field, rest)) => self.fields.entry(field.clone()).or_default().note(rest),
        }
    }

    /// Adds the parts that are read by another name; returns whether there were new ones.
    fn merge(&mut self, other: &Used) -> bool {
        let mut more = other.whole && !self.whole;
        self.whole |= other.whole;
        for (field, used) in &other.fields {
            more |= !self.fields.contains_key(field);
            more |= self.fields.entry(field.clone()).or_default().merge(used);
        }
        more
    }

    /// The type with what is used of it.
    fn of(&self, data_type: &DataType) -> DataType {
        let DataType::Struct(fields) = data_type else { return data_type.clone() };
        if self.whole {
            return data_type.clone();
        }
        let used = |field: &FieldRef| {
            let used = self.fields.get(field.name())?;
            Some(Arc::new(field.as_ref().clone().with_data_type(used.of(field.data_type()))))
        };
        let kept: Vec<FieldRef> = fields.iter().filter_map(used).collect();
        // A path that does not exist is an error, which the engine reports.
        if kept.is_empty() { data_type.clone() } else { DataType::Struct(kept.into()) }
    }
}

/// The parts of columns that a plan reads. A name stands for one column, or for that of a table that is read several
/// times.
#[derive(Default)]
struct Uses {
    columns: HashMap<Column, Used>,
    /// Columns under other names: the new name, and the column.
    renamed: Vec<(Column, Column)>,
    /// The tables by their names in the plan; `None` for a name of two tables.
    tables: HashMap<TableReference, Option<Arc<dyn TableProvider>>>,
    /// Whether the conditions of a scan demand a text.
    has_texts: bool,
}

impl Uses {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut uses = Self::default();
        plan.schema().columns().iter().for_each(|column| uses.note(column, &[]));
        plan.apply_with_subqueries(|node| {
            uses.node(node)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        uses.follow_names();
        Ok(uses)
    }

    fn node(&mut self, node: &LogicalPlan) -> Result<()> {
        match node {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                let known = self.tables.entry(scan.table_name.clone()).or_insert_with(|| Some(Arc::clone(&provider)));
                if known.as_ref().is_some_and(|known| !Arc::ptr_eq(known, &provider)) {
                    *known = None;
                }
                self.has_texts |= text_condition(&scan.filters).is_some();
            }
            LogicalPlan::Projection(projection) => {
                for (column, expr) in projection.schema.columns().into_iter().zip(&projection.expr) {
                    match expr.clone().unalias() {
                        Expr::Column(of) if of == column => {}
                        Expr::Column(of) => self.renamed.push((column, of)),
                        _ => self.note_all(expr),
                    }
                }
                return Ok(());
            }
            // What these hand on keeps its name.
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::On(_)) => {}
            node if is_barrier(node) => {}
            // Others may do anything with what comes in.
            _ => {
                for input in node.inputs() {
                    input.schema().columns().iter().for_each(|column| self.note(column, &[]));
                }
            }
        }
        node.apply_expressions(|expr| {
            self.note_all(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// Notes what an expression reads.
    fn note_all(&mut self, expr: &Expr) {
        // The closure never fails, so neither does the walk.
        let _ = expr.apply(|part| {
            if let Some((column, path)) = path_of(part) {
                self.note(column, &path);
                return Ok(TreeNodeRecursion::Jump);
            }
            if let Expr::OuterReferenceColumn(_, column) = part {
                self.note(column, &[]);
            }
            Ok(TreeNodeRecursion::Continue)
        });
    }

    fn note(&mut self, column: &Column, path: &[String]) {
        self.columns.entry(column.clone()).or_default().note(path);
    }

    /// Adds what is read under another name to the column itself. The plan was walked from its top, so most names come
    /// before the columns that they stand for.
    fn follow_names(&mut self) {
        let mut more = true;
        while std::mem::take(&mut more) {
            for (new, column) in &self.renamed {
                if let Some(used) = self.columns.remove(new) {
                    more |= self.columns.entry(column.clone()).or_default().merge(&used);
                    self.columns.insert(new.clone(), used);
                }
            }
        }
    }

    /// The schema of a table with the parts that are read; `None` if all of it is read.
    fn narrowed(&self, table: &TableReference, schema: &Schema) -> Option<SchemaRef> {
        let narrow = |field: &FieldRef| {
            let column = Column::new(Some(table.clone()), field.name());
            match self.columns.get(&column) {
                // A name without its table could be that of any table.
                Some(used) if !self.columns.contains_key(&Column::new_unqualified(field.name())) => {
                    Arc::new(field.as_ref().clone().with_data_type(used.of(field.data_type())))
                }
                _ => Arc::clone(field),
            }
        };
        let fields: Vec<FieldRef> = schema.fields().iter().map(narrow).collect();
        let width = |fields: &[FieldRef]| fields.iter().map(|field| leaves(field.data_type())).sum::<usize>();
        let (before, after) = (width(schema.fields()), width(&fields));
        (before > after).then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }
}

/// The optimized plan over tables that are no wider than it reads them.
pub(crate) fn narrowed(plan: &LogicalPlan, narrow: Narrow) -> Result<Cow<'_, LogicalPlan>> {
    let uses = Uses::of(plan)?;
    let schemas = uses.tables.iter().filter_map(|(name, provider)| {
        let schema = uses.narrowed(name, &provider.as_ref()?.schema())?;
        Some((name, schema))
    });
    let schemas: HashMap<&TableReference, SchemaRef> = schemas.collect();
    if schemas.is_empty() && !uses.has_texts {
        return Ok(Cow::Borrowed(plan));
    }
    let narrowed = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            // The types of inputs may have changed; the schema of the whole plan stays the same.
            return Ok(Transformed::yes(node.recompute_schema()?));
        };
        let texts = text_condition(&scan.filters);
        let schema = schemas.get(&scan.table_name).cloned();
        let table = if schema.is_some() || texts.is_some() {
            let provider = source_as_provider(&scan.source)?;
            let schema = schema.unwrap_or_else(|| provider.schema());
            narrow(provider.as_ref(), schema, texts)
        } else {
            None
        };
        let Some(table) = table else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let TableScan { table_name, projection, filters, fetch, .. } = scan;
        let scan = TableScanBuilder::new(table_name, provider_as_source(table))
            .with_projection(projection)
            .with_filters(filters)
            .with_fetch(fetch)
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(Cow::Owned(narrowed.data))
}

/// The columns without fields of their own in a value.
pub(crate) fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(item) => leaves(item.data_type()),
        _ => 1,
    }
}
