//! What the readers of a shared part need of it: the columns that any of them reads, of the rows that all of them ask for.
//!
//! See [`super::shared_part`] for when a part is shared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::shared_part::{SharedPart, leaf_of, on_enough_stack, part_of};
use crate::barrier::{expr_may_fail, without_grants};
use crate::exprs::subquery_of;

/// The optimized plan with what its leaves stand for, optimized too and reduced to what the readers need; `None` if a
/// part is better left to each reader.
///
/// # Errors
/// Those of the optimizer.
pub(crate) fn with_inputs(
    plan: &LogicalPlan,
    optimize: impl Fn(&LogicalPlan) -> Result<LogicalPlan>,
) -> Result<Option<LogicalPlan>> {
    let mut readers: HashMap<usize, Vec<Reader>> = HashMap::new();
    let open = find_readers(plan, &mut readers)?;
    if open.is_some() {
        return Ok(None);
    }
    let mut parts = HashMap::new();
    for (id, readers) in readers {
        let Some(part) = reduced(&readers, &optimize)? else { return Ok(None) };
        parts.insert(id, part);
    }
    with_reduced(plan.clone(), &parts).map(Some)
}

/// The optimized plan with the parts of its leaves, which are computed once: optimized too, with the columns that a reader
/// needs.
///
/// # Errors
/// Those of the optimizer.
pub(crate) fn completed(
    plan: LogicalPlan,
    optimize: impl Fn(&LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let mut readers = HashMap::new();
    all_readers(&plan, &mut readers)?;
    // A part has leaves with lower numbers only, so all readers of the highest one are known.
    let mut inputs = BTreeMap::new();
    while let Some(id) = readers.keys().max().copied() {
        let Some(readers_of) = readers.remove(&id) else { break };
        let columns: BTreeSet<usize> = readers_of.iter().flat_map(|reader| reader.columns.iter().copied()).collect();
        // Some take the part with columns more, which come last.
        let widest = readers_of.into_iter().max_by_key(|reader| reader.part.schema.fields().len());
        let Some(Reader { part, .. }) = widest else { break };
        let input = optimize(&of_columns(LogicalPlanBuilder::new_from_arc(part.input), &part.schema, columns)?)?;
        all_readers(&input, &mut readers)?;
        inputs.insert(id, input);
    }
    let mut parts = HashMap::new();
    for (id, input) in inputs {
        let input = with_reduced(input, &parts)?;
        let schema = Arc::clone(input.schema());
        parts.insert(id, SharedPart { id, schema, input: Arc::new(input), once: true });
    }
    with_reduced(plan, &parts)
}

/// Some columns of a plan, or one if they are none.
fn of_columns(plan: LogicalPlanBuilder, schema: &DFSchema, mut columns: BTreeSet<usize>) -> Result<LogicalPlan> {
    if columns.is_empty() {
        columns.insert(0);
    }
    let names = schema.columns();
    let columns = columns.iter().filter_map(|column| names.get(*column)).cloned().map(Expr::Column);
    plan.project(columns)?.build()
}

/// The plan with these parts in its leaves, which have fewer columns now; the schema of the whole plan stays the same.
fn with_reduced(plan: LogicalPlan, parts: &HashMap<usize, SharedPart>) -> Result<LogicalPlan> {
    if parts.is_empty() {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| {
        let part = part_of(&node).and_then(|part| parts.get(&part.id));
        Ok(Transformed::yes(match part {
            Some(part) => leaf_of(part.clone()),
            None => node.recompute_schema()?,
        }))
    });
    plan.map(|plan| plan.data)
}

/// Collects all readers of a plan.
fn all_readers(plan: &LogicalPlan, found: &mut HashMap<usize, Vec<Reader>>) -> Result<()> {
    if let Some(reader) = find_readers(plan, found)? {
        found.entry(reader.part.id).or_default().push(reader.of_all());
    }
    Ok(())
}

/// What one reader needs of a part.
#[derive(Debug)]
struct Reader {
    part: SharedPart,
    conditions: Vec<Expr>,
    /// The columns, by their places.
    columns: BTreeSet<usize>,
}

impl Reader {
    /// The same reader, of all columns.
    fn of_all(self) -> Self {
        Self { columns: (0..self.part.schema.fields().len()).collect(), ..self }
    }

    /// Notes the columns that an expression reads.
    fn note(&mut self, expr: &Expr) {
        let columns = expr.column_refs();
        self.columns.extend(columns.into_iter().filter_map(|column| self.part.schema.maybe_index_of_column(column)));
    }
}

/// Collects the readers below a node. Returns one whose columns are not known yet: only conditions and selections of
/// columns lie between it and the node.
fn find_readers(node: &LogicalPlan, found: &mut HashMap<usize, Vec<Reader>>) -> Result<Option<Reader>> {
    if let Some(part) = part_of(node) {
        return Ok(Some(Reader { part: part.clone(), conditions: Vec::new(), columns: BTreeSet::new() }));
    }
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Some(subquery) = subquery_of(part) {
                on_enough_stack(|| all_readers(subquery, found))?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let mut open = Vec::new();
    for input in node.inputs() {
        open.extend(on_enough_stack(|| find_readers(input, found))?);
    }
    if let LogicalPlan::Filter(filter) = node
        && let Some(mut reader) = open.pop()
    {
        reader.conditions.extend(split_conjunction(&filter.predicate).into_iter().cloned());
        reader.note(&filter.predicate);
        return Ok(Some(reader));
    }
    // The optimizer puts a selection of columns above the leaf.
    if let LogicalPlan::Projection(projection) = node
        && projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
        && let Some(mut reader) = open.pop()
    {
        projection.expr.iter().for_each(|column| reader.note(column));
        return Ok(Some(reader));
    }
    let knows_columns = matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_));
    for mut reader in open {
        if knows_columns {
            node.apply_expressions(|expr| {
                reader.note(expr);
                Ok(TreeNodeRecursion::Continue)
            })?;
        } else {
            reader = reader.of_all();
        }
        found.entry(reader.part.id).or_default().push(reader);
    }
    Ok(None)
}

/// The part with the columns that its readers need and the conditions that all of them have, optimized.
fn reduced(readers: &[Reader], optimize: &impl Fn(&LogicalPlan) -> Result<LogicalPlan>) -> Result<Option<SharedPart>> {
    let Some((first, others)) = readers.split_first() else { return Ok(None) };
    let part = &first.part;
    let mut common = Vec::new();
    for condition in &first.conditions {
        if others.iter().all(|other| other.conditions.contains(condition))
            && !condition.is_volatile()
            && !expr_may_fail(condition, &part.schema)?
        {
            common.push(condition.clone());
        }
    }
    // Then the rows of the part are those that this reader would read by itself.
    let reads_all = |reader: &Reader| reader.conditions.iter().all(|condition| common.contains(condition));
    if others.is_empty() || !readers.iter().any(reads_all) {
        return Ok(None);
    }
    let columns: BTreeSet<usize> = readers.iter().flat_map(|reader| reader.columns.iter().copied()).collect();
    let fields = part.schema.fields();
    if columns.iter().any(|column| fields.get(*column).is_none_or(|field| field.data_type().is_nested())) {
        return Ok(None);
    }
    let mut input = LogicalPlanBuilder::from(without_grants(part.input.as_ref().clone())?);
    if let Some(condition) = conjunction(common) {
        input = input.filter(condition)?;
    }
    let input = of_columns(input, &part.schema, columns)?;
    let schema = Arc::clone(input.schema());
    Ok(Some(SharedPart { schema, input: Arc::new(optimize(&input)?), ..part.clone() }))
}
