//! Tables no wider than their statement: planning must not cost more where logs have more fields.
//!
//! A source may have a thousand fields below one column, and a statement mostly reads a few of them. The
//! engine looks at the type of that column again and again while it makes operators (it makes a NULL of the whole
//! record to tell the bounds of one field), so what is planned over it costs as much as it is wide. After the optimizer
//! every field that is read stands in the plan by its path. Where a record is read in no other way, its table is
//! taken with these fields only.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan, TableScanBuilder};

/// A table with records that have fewer fields, those of the schema; nothing if it is none that can. Its columns stay
/// what they are.
pub type Narrow = fn(&dyn TableProvider, SchemaRef) -> Option<Arc<dyn TableProvider>>;

/// The tables of a store that cannot.
pub(super) fn never(_: &dyn TableProvider, _: SchemaRef) -> Option<Arc<dyn TableProvider>> {
    None
}

/// What is read of a value.
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
        // A path that is not there is an error, which the engine tells.
        if kept.is_empty() { data_type.clone() } else { DataType::Struct(kept.into()) }
    }
}

/// What is read of the columns of tables: by the table's name in the plan, and the column's.
#[derive(Default)]
struct Uses {
    columns: HashMap<Column, Used>,
    /// Names that stand without a table.
    bare: Vec<String>,
    /// How many scans there are of a name: two would be told apart by nothing.
    scans: HashMap<String, usize>,
}

impl Uses {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut uses = Self::default();
        plan.schema().columns().iter().for_each(|column| uses.note(column, &[]));
        plan.apply_with_subqueries(|node| {
            uses.node(node);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(uses)
    }

    fn node(&mut self, node: &LogicalPlan) {
        match node {
            LogicalPlan::TableScan(scan) => *self.scans.entry(scan.table_name.to_string()).or_default() += 1,
            // What these hand on keeps its name.
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Distinct(Distinct::On(_)) => {}
            // Others may do anything with what comes in.
            _ => {
                for input in node.inputs() {
                    input.schema().columns().iter().for_each(|column| self.note(column, &[]));
                }
            }
        }
        // The closures never fail, so neither do the walks.
        let _ = node.apply_expressions(|expr| {
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
            Ok(TreeNodeRecursion::Continue)
        });
    }

    fn note(&mut self, column: &Column, path: &[String]) {
        if column.relation.is_none() {
            self.bare.push(column.name.clone());
        }
        self.columns.entry(column.clone()).or_default().note(path);
    }

    /// The schema of a scan's table with what is used of it; nothing if that is all.
    fn narrowed(&self, scan: &TableScan, schema: &Schema) -> Option<SchemaRef> {
        if self.scans.get(&scan.table_name.to_string()).is_none_or(|scans| *scans != 1) {
            return None;
        }
        let narrow = |field: &FieldRef| {
            let column = Column::new(Some(scan.table_name.clone()), field.name());
            match self.columns.get(&column) {
                Some(used) if !self.bare.contains(field.name()) => {
                    Arc::new(field.as_ref().clone().with_data_type(used.of(field.data_type())))
                }
                _ => Arc::clone(field),
            }
        };
        let fields: Vec<FieldRef> = schema.fields().iter().map(narrow).collect();
        let width = |fields: &[FieldRef]| fields.iter().map(|field| leaves(field)).sum::<usize>();
        let (before, after) = (width(schema.fields()), width(&fields));
        (before > after).then(|| Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
    }
}

fn leaves(field: &Field) -> usize {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field)).sum(),
        _ => 1,
    }
}

/// A column, or a path of fields below one.
fn path_of(expr: &Expr) -> Option<(&Column, Vec<String>)> {
    match expr {
        Expr::Column(column) => Some((column, Vec::new())),
        Expr::ScalarFunction(call) if call.func.name() == "get_field" => {
            let (base, names) = call.args.split_first()?;
            let (column, mut path) = path_of(base)?;
            for name in names {
                let Expr::Literal(name, _) = name else { return None };
                path.push(name.try_as_str().flatten()?.to_owned());
            }
            Some((column, path))
        }
        _ => None,
    }
}

/// The optimized plan over tables that are no wider than it reads them.
pub(super) fn narrowed(plan: &LogicalPlan, narrow: Narrow) -> Result<Cow<'_, LogicalPlan>> {
    let uses = Uses::of(plan)?;
    let mut tables: HashMap<String, Arc<dyn TableProvider>> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            let table = uses.narrowed(scan, &provider.schema()).and_then(|schema| narrow(provider.as_ref(), schema));
            tables.extend(table.map(|table| (scan.table_name.to_string(), table)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if tables.is_empty() {
        return Ok(Cow::Borrowed(plan));
    }
    let narrowed = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(scan) = node else {
            // The types of what comes in may be others; what goes out at the top is the same.
            return Ok(Transformed::yes(node.recompute_schema()?));
        };
        let Some(table) = tables.get(&scan.table_name.to_string()) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let TableScan { table_name, projection, filters, fetch, .. } = scan;
        let source = provider_as_source(Arc::clone(table));
        let scan = TableScanBuilder::new(table_name, source)
            .with_projection(projection)
            .with_filters(filters)
            .with_fetch(fetch)
            .build()?;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    })?;
    Ok(Cow::Owned(narrowed.data))
}
