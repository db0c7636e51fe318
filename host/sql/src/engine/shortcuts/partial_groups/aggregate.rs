//! An aggregate of the first half of a grouping, with its state for each group.
//!
//! States are the engine's, but for one: where the rows have numbers, rows are counted by number, without values to count.

use std::mem::take as taken;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::Count;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};

/// An aggregate with its state for each group.
pub(super) struct Aggregate {
    states: States,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<Arc<dyn PhysicalExpr>>,
}

enum States {
    /// The number of the rows.
    Rows(RowCounts),
    /// What the engine computes.
    Engine(Box<dyn GroupsAccumulator>),
}

/// The groups of the rows of a batch.
#[derive(Clone, Copy)]
pub(super) struct BatchGroups<'a> {
    /// The group of each row. Empty if all aggregates count rows and the rows have numbers.
    pub(super) groups: &'a [usize],
    /// The number of each row, and the group of each number, if the rows have numbers.
    pub(super) numbers: Option<(&'a [u32], &'a [usize])>,
    /// How many groups there are.
    pub(super) total: usize,
}

impl Aggregate {
    /// No groups yet.
    pub(super) fn new(
        aggregate: &Arc<AggregateFunctionExpr>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let states = if is_count_of_rows(aggregate, &arguments, filter.as_ref()) {
            States::Rows(RowCounts::default())
        } else {
            States::Engine(states(aggregate)?)
        };
        Ok(Self { states, arguments, filter })
    }

    /// Whether it counts rows, for which it needs no group of each row if the rows have numbers.
    pub(super) fn counts_rows(&self) -> bool {
        matches!(self.states, States::Rows(_))
    }

    /// Adds the rows of a batch.
    pub(super) fn update(&mut self, batch: &RecordBatch, rows: BatchGroups<'_>) -> Result<()> {
        let states = match &mut self.states {
            States::Rows(counts) => {
                counts.add(rows);
                return Ok(());
            }
            States::Engine(states) => states,
        };
        let (arguments, filter) = evaluated(&self.arguments, self.filter.as_ref(), batch)?;
        states.update_batch(&arguments, rows.groups, filter.as_ref().map(|filter| filter.as_boolean()), rows.total)
    }

    /// Adds rows that were counted, to the groups. Only of aggregates that count rows.
    pub(super) fn add_counts(&mut self, groups: &[usize], counts: &[i64], total: usize) {
        if let States::Rows(rows) = &mut self.states {
            rows.add_counts(groups, counts, total);
        }
    }

    /// The states of all groups; there are none then.
    pub(super) fn state(&mut self) -> Result<Vec<ArrayRef>> {
        match &mut self.states {
            States::Rows(counts) => Ok(vec![counts.emit()]),
            States::Engine(states) => states.state(EmitTo::All),
        }
    }

    /// The states of the rows of a batch, each as a group of its own.
    pub(super) fn converted(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let States::Engine(states) = &self.states else {
            return Ok(vec![Arc::new(Int64Array::from_value(1, batch.num_rows()))]);
        };
        let (arguments, filter) = evaluated(&self.arguments, self.filter.as_ref(), batch)?;
        states.convert_to_state(&arguments, filter.as_ref().map(|filter| filter.as_boolean()))
    }

    /// Bytes that it holds.
    pub(super) fn size(&self) -> usize {
        match &self.states {
            States::Rows(counts) => counts.size(),
            States::Engine(states) => states.size(),
        }
    }
}

/// Whether an aggregate is the number of the rows.
pub(super) fn is_count_of_rows(
    aggregate: &AggregateFunctionExpr,
    arguments: &[Arc<dyn PhysicalExpr>],
    filter: Option<&Arc<dyn PhysicalExpr>>,
) -> bool {
    let is_constant = |argument: &Arc<dyn PhysicalExpr>| {
        argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null())
    };
    let is_count = aggregate.fun().inner().downcast_ref::<Count>().is_some();
    is_count && !aggregate.is_distinct() && filter.is_none() && arguments.iter().all(is_constant)
}

fn states(aggregate: &Arc<AggregateFunctionExpr>) -> Result<Box<dyn GroupsAccumulator>> {
    if aggregate.groups_accumulator_supported() {
        return aggregate.create_groups_accumulator();
    }
    let aggregate = Arc::clone(aggregate);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator())))
}

/// The arguments and the filter for the rows of a batch.
fn evaluated(
    arguments: &[Arc<dyn PhysicalExpr>],
    filter: Option<&Arc<dyn PhysicalExpr>>,
    batch: &RecordBatch,
) -> Result<(Vec<ArrayRef>, Option<ArrayRef>)> {
    let of = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array_of_size(batch.num_rows());
    Ok((arguments.iter().map(of).collect::<Result<_>>()?, filter.map(of).transpose()?))
}

/// How many rows each group has.
#[derive(Debug, Default)]
struct RowCounts {
    counts: Vec<i64>,
    /// Of a batch, how many rows each number has, in each of the lanes.
    lanes: Vec<[u32; LANES]>,
}

/// Neighbours, which mostly have the same number, are counted apart: a count that was just written is slow to read.
const LANES: usize = 4;

impl RowCounts {
    fn add(&mut self, BatchGroups { groups, numbers, total }: BatchGroups<'_>) {
        let Self { counts, lanes } = self;
        counts.resize(total, 0);
        let mut add = |group: usize, rows: i64| {
            if let Some(count) = counts.get_mut(group) {
                *count += rows;
            }
        };
        let Some((numbers, groups_of_numbers)) = numbers else {
            groups.iter().for_each(|group| add(*group, 1));
            return;
        };
        lanes.clear();
        lanes.resize(groups_of_numbers.len(), [0; LANES]);
        let mut count = |lane: usize, number: u32| {
            if let Some(count) = lanes.get_mut(number as usize).and_then(|lanes| lanes.get_mut(lane)) {
                *count += 1;
            }
        };
        let (parts, rest) = numbers.as_chunks::<LANES>();
        parts.iter().for_each(|part| part.iter().enumerate().for_each(|(lane, number)| count(lane, *number)));
        rest.iter().for_each(|number| count(0, *number));
        for (group, lanes) in groups_of_numbers.iter().zip(lanes) {
            add(*group, lanes.iter().map(|rows| i64::from(*rows)).sum());
        }
    }

    fn add_counts(&mut self, groups: &[usize], counts: &[i64], total: usize) {
        self.counts.resize(total, 0);
        for (group, rows) in groups.iter().zip(counts) {
            if let Some(count) = self.counts.get_mut(*group) {
                *count += rows;
            }
        }
    }

    fn emit(&mut self) -> ArrayRef {
        Arc::new(Int64Array::from(taken(&mut self.counts)))
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<i64>() + self.lanes.capacity() * size_of::<[u32; LANES]>()
    }
}
