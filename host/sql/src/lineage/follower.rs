//! Following values through a plan, from their uses to the tables that they come from.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Unnest};
use datafusion::scalar::ScalarValue;
use tidegate_functions::scalar::UNITED;
use tidegate_model::PRESENCE_FIELD;

use super::Reads;
use super::tables::EmptyTable;
use crate::fail::{Planning, Result};

/// Paths are cut at this depth: of a deeper field, the record around it is named.
const MOST_FIELDS: usize = 32;

/// Where the values of a column come from.
enum Origin {
    /// Another expression of the plan.
    Computed(Expr),
    /// A column of a table.
    Stored { table: String, column: String },
}

/// A column in a plan: unique by the name of its table, where it has one, and its own.
type ColumnKey = (Option<String>, String);

#[derive(Default)]
struct Follower {
    origins: HashMap<ColumnKey, Vec<Origin>>,
    /// Expressions that decide about rows.
    used: Vec<Expr>,
    found: BTreeMap<String, BTreeSet<Vec<String>>>,
    followed: HashSet<(ColumnKey, Vec<String>)>,
}

/// What a plan reads of the tables that it scans.
///
/// # Errors
/// If the plan cannot be walked, which is a bug.
pub(super) fn reads(plan: &LogicalPlan) -> Result<Reads> {
    let mut follower = Follower::default();
    plan.apply_with_subqueries(|node| {
        follower.note(node);
        Ok(TreeNodeRecursion::Continue)
    })
    .planned()?;
    for column in plan.schema().columns() {
        follower.follow_column(&column, &[]);
    }
    for used in std::mem::take(&mut follower.used) {
        follower.follow(&used, &[]);
    }
    Ok(follower.found.into_iter().map(|(table, paths)| (table, shortest(&paths))).collect())
}

/// The paths without those that others cover. Of a record of which only its presence matters, the
/// record itself, if nothing within it is read.
fn shortest(paths: &BTreeSet<Vec<String>>) -> BTreeSet<String> {
    let is_marker = |path: &[String]| path.last().is_some_and(|last| last == PRESENCE_FIELD);
    let mut kept = BTreeSet::new();
    for path in paths {
        let record = path.get(..path.len().saturating_sub(1)).unwrap_or_default();
        let (shown, covered) = if is_marker(path) {
            let within = |other: &Vec<String>| other != path && other.starts_with(record);
            (record, paths.iter().any(within))
        } else {
            let around = |other: &Vec<String>| other.len() < path.len() && path.starts_with(other);
            (path.as_slice(), paths.iter().any(around))
        };
        if !covered {
            kept.insert(shown.join("."));
        }
    }
    kept
}

impl Follower {
    /// Notes what a node defines and what it uses.
    fn note(&mut self, node: &LogicalPlan) {
        match node {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source).ok();
                if provider.as_ref().is_some_and(|provider| provider.is::<CteWorkTable>()) {
                    // The rows of a recursive table, whose columns have the same names.
                    for column in scan.projected_schema.columns() {
                        self.come_from(&column, Expr::Column(Column::new_unqualified(&column.name)));
                    }
                    return;
                }
                let table = provider.as_ref().and_then(|provider| provider.downcast_ref::<EmptyTable>());
                let name = table.map_or_else(|| scan.table_name.table().to_owned(), |table| table.name.clone());
                for column in scan.projected_schema.columns() {
                    let origin = Origin::Stored { table: name.clone(), column: column.name.clone() };
                    self.origins.entry(key(&column)).or_default().push(origin);
                }
            }
            LogicalPlan::Projection(projection) => self.define(&projection.schema, &projection.expr),
            LogicalPlan::Window(window) => {
                let handed_on = window.input.schema().fields().len();
                self.define_from(&window.schema, handed_on, &window.window_expr);
            }
            LogicalPlan::Aggregate(aggregate) => self.note_aggregate(aggregate),
            LogicalPlan::Unnest(unnest) => self.note_unnest(unnest),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                self.used.extend(input.schema().columns().into_iter().map(Expr::Column));
            }
            LogicalPlan::Filter(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Distinct(Distinct::On(_)) => self.use_expressions(node),
            // The columns are those of the inputs at the same positions, whatever their names.
            _ => {
                for input in node.inputs() {
                    self.hand_on(node.schema(), input.schema());
                }
            }
        }
    }

    fn use_expressions(&mut self, node: &LogicalPlan) {
        // The closure never fails, so neither does the walk.
        let _ = node.apply_expressions(|expr| {
            self.used.push(expr.clone());
            Ok(TreeNodeRecursion::Continue)
        });
    }

    fn note_aggregate(&mut self, aggregate: &Aggregate) {
        self.used.extend(aggregate.group_expr.iter().cloned());
        let fields = aggregate.schema.fields().len();
        let keys = fields.saturating_sub(aggregate.aggr_expr.len());
        match aggregate.group_expr.as_slice() {
            // The keys of all sets, in the order in which the sets name them.
            [Expr::GroupingSet(sets)] => {
                for (column, key) in aggregate.schema.columns().iter().zip(sets.distinct_expr()) {
                    self.come_from(column, key.clone());
                }
            }
            keys => self.define(&aggregate.schema, keys),
        }
        self.define_from(&aggregate.schema, keys, &aggregate.aggr_expr);
    }

    fn note_unnest(&mut self, unnest: &Unnest) {
        // How many elements there are decides about rows, not what they are.
        self.used.extend(unnest.exec_columns.iter().cloned().map(|column| Expr::Column(column).is_not_null()));
        let input = unnest.input.schema().columns();
        for (column, from) in unnest.schema.columns().iter().zip(&unnest.dependency_indices) {
            if let Some(from) = input.get(*from) {
                self.come_from(column, Expr::Column(from.clone()));
            }
        }
    }

    fn define(&mut self, schema: &DFSchema, exprs: &[Expr]) {
        self.define_from(schema, 0, exprs);
    }

    /// The columns from `first` on are computed by these expressions.
    fn define_from(&mut self, schema: &DFSchema, first: usize, exprs: &[Expr]) {
        for (column, expr) in schema.columns().iter().skip(first).zip(exprs) {
            self.come_from(column, expr.clone());
        }
    }

    fn hand_on(&mut self, schema: &DFSchema, input: &DFSchema) {
        for (column, from) in schema.columns().iter().zip(input.columns()) {
            self.come_from(column, Expr::Column(from));
        }
    }

    fn come_from(&mut self, column: &Column, expr: Expr) {
        if !matches!(&expr, Expr::Column(from) if from == column) {
            self.origins.entry(key(column)).or_default().push(Origin::Computed(expr));
        }
    }

    /// Follows the field at `path` of an expression's value; all of the value where the path is empty.
    fn follow(&mut self, expr: &Expr, path: &[String]) {
        match expr {
            Expr::Column(column) | Expr::OuterReferenceColumn(_, column) => self.follow_column(column, path),
            Expr::Alias(alias) => self.follow(&alias.expr, path),
            Expr::Cast(cast) => self.follow(&cast.expr, path),
            Expr::TryCast(cast) => self.follow(&cast.expr, path),
            Expr::Case(case) => {
                case.expr.iter().for_each(|expr| self.follow(expr, &[]));
                for (when, then) in &case.when_then_expr {
                    self.follow(when, &[]);
                    self.follow(then, path);
                }
                case.else_expr.iter().for_each(|expr| self.follow(expr, path));
            }
            Expr::ScalarFunction(call) => self.follow_call(call.func.name(), &call.args, path),
            Expr::ScalarSubquery(subquery) => self.follow_outputs(&subquery.subquery),
            Expr::InSubquery(of) => {
                self.follow(&of.expr, &[]);
                self.follow_outputs(&of.subquery.subquery);
            }
            // This reads whether the value is there, not the value.
            Expr::IsNull(of) | Expr::IsNotNull(of) => self.follow(of, &[PRESENCE_FIELD.to_owned()]),
            // The expressions that decide whether there is a row are noted as used.
            Expr::Exists(_) => {}
            _ => {
                let mut parts = Vec::new();
                // The closure never fails, so neither does the walk.
                let _ = expr.apply_children(|part| {
                    parts.push(part.clone());
                    Ok(TreeNodeRecursion::Continue)
                });
                parts.iter().for_each(|part| self.follow(part, &[]));
            }
        }
    }

    fn follow_call(&mut self, name: &str, args: &[Expr], path: &[String]) {
        match (name, args) {
            ("get_field", [of, names @ ..]) => {
                let mut longer: Vec<String> = names.iter().map_while(literal_text).collect();
                // A field by a computed name could be any.
                if longer.len() == names.len() {
                    longer.extend_from_slice(path);
                }
                self.follow(of, &longer);
            }
            ("array_element", [of, at @ ..]) => {
                self.follow(of, path);
                at.iter().for_each(|arg| self.follow(arg, &[]));
            }
            // These functions keep the names of fields.
            ("coalesce" | "nullable" | UNITED, args) => args.iter().for_each(|arg| self.follow(arg, path)),
            ("named_struct", args) if !path.is_empty() => {
                let (field, rest) = path.split_first().map_or((None, path), |(field, rest)| (Some(field), rest));
                for pair in args.chunks(2) {
                    if let [name, value] = pair
                        && literal_text(name).as_ref() == field
                    {
                        self.follow(value, rest);
                    }
                }
            }
            (_, args) => args.iter().for_each(|arg| self.follow(arg, &[])),
        }
    }

    fn follow_outputs(&mut self, plan: &LogicalPlan) {
        for column in plan.schema().columns() {
            self.follow_column(&column, &[]);
        }
    }

    fn follow_column(&mut self, column: &Column, path: &[String]) {
        let path = path.get(..MOST_FIELDS).unwrap_or(path);
        let key = key(column);
        if !self.followed.insert((key.clone(), path.to_vec())) {
            return;
        }
        let Some(origins) = self.origins.get(&key) else { return };
        let mut computed = Vec::new();
        for origin in origins {
            match origin {
                Origin::Computed(expr) => computed.push(expr.clone()),
                Origin::Stored { table, column } => {
                    let mut whole: Vec<_> = std::iter::once(column.clone()).chain(path.iter().cloned()).collect();
                    // The hidden field is asked for by name as well.
                    whole.dedup_by(|one, other| one == other && one == PRESENCE_FIELD);
                    self.found.entry(table.clone()).or_default().insert(whole);
                }
            }
        }
        computed.iter().for_each(|expr| self.follow(expr, path));
    }
}

fn key(column: &Column) -> ColumnKey {
    (column.relation.as_ref().map(|table| table.table().to_owned()), column.name.clone())
}

fn literal_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)),
            _,
        ) => Some(text.clone()),
        _ => None,
    }
}
