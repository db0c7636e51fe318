//! Parts of a plan that stand at several places of it, such as a CTE that is read by several aggregations: each is
//! computed once.
//!
//! The resolver copies the plan of a CTE to each place that reads it, and the copies share their nodes. Left alone, each
//! copy is optimized and scanned by itself, with only the columns that its reader needs; that is better where readers take
//! few of the rows, and worse where all of them read the same rows. So a part is shared only
//!
//! - if each of its readers reads all rows: nothing but conditions, columns and unions lies between the part and an
//!   aggregation;
//! - if one of the readers has no condition that the others do not have: the conditions of all go into the part, and
//!   the rows that are left are those which that reader needs anyway;
//! - if no reader needs a record or an array of it, of which a copy would read fields only;
//! - if nothing in it can fail or is volatile: what one reader leaves out could otherwise fail for it, and each reader
//!   has random numbers of its own.
//!
//! Other parts must be computed once, because their rows would not be the same again ([`SharedPart::once`]): those of which the
//! keys of correlated subqueries are made.
//!
//! The part becomes a leaf ([`SharedPart`]) of the statement's plan, which is optimized without it. Then it is known what
//! the readers need of it (`shared_input`), and the part is optimized for that.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Distinct, Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::barrier::{expr_may_fail, is_barrier};
use crate::exprs::{any, reads_beyond};

/// Aggregates that fail for no value.
const INFALLIBLE_AGGREGATES: [&str; 4] = ["count", "count_distinct", "min", "max"];

/// A part of a plan that is computed once for all of its readers, as a leaf.
#[derive(Debug, Clone)]
pub(crate) struct SharedPart {
    /// Tells the parts of a statement apart.
    pub(crate) id: usize,
    pub(crate) schema: DFSchemaRef,
    /// The part itself, which the optimizer does not see.
    pub(crate) input: Arc<LogicalPlan>,
    /// Whether its rows must be the same for all readers, so that none of them may compute it by itself.
    pub(crate) once: bool,
}

/// The plan with leaves in the place of the parts that may be shared; `None` if there are none. It must be completed
/// with `shared_input::with_inputs` after it was optimized.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn with_leaves(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    // Those that are there already are completed without more of them.
    if has_parts(plan)? {
        return Ok(None);
    }
    let mut places = HashMap::new();
    count(plan, false, &mut places);
    places.retain(|_, place| place.readers > 1 && place.all_whole);
    // A part would be computed once for all rounds of a recursive table.
    if places.is_empty() || plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))? {
        return Ok(None);
    }
    let mut chosen = HashMap::new();
    choose(plan, &places, &mut chosen)?;
    chosen.retain(|_, readers| *readers > 1);
    if chosen.is_empty() {
        return Ok(None);
    }
    let mut leaves = HashMap::new();
    replaced(plan, &chosen, &mut leaves)
}

/// A node is known by where it lies in memory.
type Address = usize;

fn address(node: &LogicalPlan) -> Address {
    std::ptr::from_ref(node) as Address
}

/// How a node is read.
#[derive(Debug, Default)]
struct Place {
    readers: usize,
    /// Whether all readers read all of its rows.
    all_whole: bool,
}

/// Counts the places at which each node stands below `node`, subqueries of expressions left out. `whole` tells whether
/// all rows of it are read.
fn count(node: &LogicalPlan, whole: bool, places: &mut HashMap<Address, Place>) {
    on_enough_stack(|| count_inner(node, whole, places));
}

/// Plans are as deep as their texts have CTEs that read each other.
pub(crate) fn on_enough_stack<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(128 << 10, 2 << 20, walk)
}

fn count_inner(node: &LogicalPlan, whole: bool, places: &mut HashMap<Address, Place>) {
    let inherits = match node {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) => {
            true
        }
        LogicalPlan::Sort(sort) => sort.fetch.is_none(),
        node => is_barrier(node),
    };
    let below = match node {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(Distinct::All(_)) => true,
        _ => inherits && whole,
    };
    for input in node.inputs() {
        let place = places.entry(address(input)).or_insert(Place { readers: 0, all_whole: true });
        place.readers += 1;
        place.all_whole &= below;
        count(input, below, places);
    }
}

/// Chooses the outermost nodes that may be shared, and counts their readers.
fn choose(node: &LogicalPlan, places: &HashMap<Address, Place>, chosen: &mut HashMap<Address, usize>) -> Result<()> {
    for input in node.inputs() {
        if let Some(readers) = chosen.get_mut(&address(input)) {
            *readers += 1;
        } else if places.contains_key(&address(input)) && is_shareable(input)? {
            chosen.insert(address(input), 1);
        } else {
            on_enough_stack(|| choose(input, places, chosen))?;
        }
    }
    Ok(())
}

/// Whether a part scans a table, and nothing in it is volatile, can fail, or depends on the place where it is read.
fn is_shareable(part: &LogicalPlan) -> Result<bool> {
    let (mut scans, mut shareable) = (false, true);
    part.apply(|node| {
        scans |= matches!(node, LogicalPlan::TableScan(_));
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            let stands_alone = !reads_beyond(expr)
                && !any(expr, |part| match part {
                    Expr::WindowFunction(_) => true,
                    Expr::AggregateFunction(call) => !INFALLIBLE_AGGREGATES.contains(&call.func.name()),
                    _ => false,
                });
            shareable &= stands_alone && !expr.is_volatile() && !expr_may_fail(expr, &schema)?;
            Ok(if shareable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        Ok(if shareable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(scans && shareable)
}

/// The plan with leaves in the place of the chosen nodes; `None` if none of them is below `node`.
fn replaced(
    node: &LogicalPlan,
    chosen: &HashMap<Address, usize>,
    leaves: &mut HashMap<Address, SharedPart>,
) -> Result<Option<LogicalPlan>> {
    let mut inputs = Vec::new();
    let mut is_changed = false;
    for input in node.inputs() {
        let address = address(input);
        let changed = if chosen.contains_key(&address) {
            let id = leaves.len();
            let (schema, part) = (Arc::clone(input.schema()), || Arc::new(input.clone()));
            let leaf = leaves.entry(address).or_insert_with(|| SharedPart { id, schema, input: part(), once: false });
            Some(leaf_of(leaf.clone()))
        } else {
            on_enough_stack(|| replaced(input, chosen, leaves))?
        };
        is_changed |= changed.is_some();
        inputs.push(changed.unwrap_or_else(|| input.clone()));
    }
    if is_changed { node.with_new_exprs(node.expressions(), inputs).map(Some) } else { Ok(None) }
}

/// A leaf for a plan that is computed once, with a number that is higher than those of all leaves in it.
pub(crate) fn once(plan: LogicalPlan, id: usize) -> LogicalPlan {
    leaf_of(SharedPart { id, schema: Arc::clone(plan.schema()), input: Arc::new(plan), once: true })
}

pub(crate) fn leaf_of(part: SharedPart) -> LogicalPlan {
    LogicalPlan::Extension(Extension { node: Arc::new(part) })
}

/// The part of a leaf.
pub(crate) fn part_of(node: &LogicalPlan) -> Option<&SharedPart> {
    match node {
        LogicalPlan::Extension(extension) => extension.node.as_any().downcast_ref(),
        _ => None,
    }
}

/// Whether a plan has leaves.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn has_parts(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= part_of(node).is_some();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The parts of a plan and those within these, by number. The plan of a part has only leaves with lower numbers.
///
/// # Errors
/// None that is known: walking a plan does not fail.
pub(crate) fn all_parts(plan: &LogicalPlan) -> Result<BTreeMap<usize, SharedPart>> {
    let (mut parts, mut plans) = (BTreeMap::<usize, SharedPart>::new(), vec![plan.clone()]);
    while let Some(plan) = plans.pop() {
        plan.apply_with_subqueries(|node| {
            // Of a part that some readers take with more columns, that form is the part: the others come first in it.
            if let Some(part) = part_of(node)
                && parts.get(&part.id).is_none_or(|known| known.schema.fields().len() < part.schema.fields().len())
            {
                parts.insert(part.id, part.clone());
                plans.push(part.input.as_ref().clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(parts)
}

/// The plan with other parts in its leaves.
///
/// # Errors
/// If a node cannot be made again, which is a bug.
pub(crate) fn with_parts(plan: LogicalPlan, parts: &HashMap<usize, SharedPart>) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        Ok(match part_of(&node).and_then(|part| parts.get(&part.id)) {
            Some(part) => Transformed::yes(leaf_of(part.clone())),
            None => Transformed::no(node),
        })
    })?;
    Ok(plan.data)
}

/// The plan and the plans of its parts, each changed.
///
/// # Errors
/// Those of `change`.
pub(crate) fn each_changed(
    plan: LogicalPlan,
    change: impl Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let mut changed = HashMap::new();
    for (id, part) in all_parts(&plan)? {
        let input = change(with_parts(part.input.as_ref().clone(), &changed)?)?;
        changed.insert(id, SharedPart { input: Arc::new(input), ..part });
    }
    change(if changed.is_empty() { plan } else { with_parts(plan, &changed)? })
}

// The parts of one statement are equal if they have one number.
impl PartialEq for SharedPart {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.schema == other.schema
    }
}

impl Eq for SharedPart {}

impl Hash for SharedPart {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl PartialOrd for SharedPart {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.id.partial_cmp(&other.id)
    }
}

impl UserDefinedLogicalNodeCore for SharedPart {
    fn name(&self) -> &'static str {
        "SharedPart"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedPart: {}", self.id)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}
