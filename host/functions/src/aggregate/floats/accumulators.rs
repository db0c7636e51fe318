//! The totals of one group, of many groups, and of the different values of a group.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Float64Builder, ListArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::scalar::ScalarValue;

use super::FloatAggregate;
use super::totals::{MOST_PARTS, Total};
use crate::aggregate::sum::first;
use crate::arrays::arity;

/// Calls `row` for each row without NULL, with its number and its values.
pub(super) fn each(values: &[ArrayRef], mut row: impl FnMut(usize, f64, f64)) -> Result<()> {
    let x = first(values)?.as_primitive::<Float64Type>();
    let Some(y) = values.get(1) else {
        if x.null_count() == 0 {
            x.values().iter().enumerate().for_each(|(i, x)| row(i, *x, 0.0));
        } else {
            x.iter().enumerate().for_each(|(i, x)| x.into_iter().for_each(|x| row(i, x, 0.0)));
        }
        return Ok(());
    };
    for (i, pair) in x.iter().zip(y.as_primitive::<Float64Type>()).enumerate() {
        if let (Some(x), Some(y)) = pair {
            row(i, x, y);
        }
    }
    Ok(())
}

/// Calls `state` for each total in the columns of states.
fn each_state<T: Total>(states: &[ArrayRef], mut state: impl FnMut(usize, T)) -> Result<()> {
    let columns: Vec<&Float64Array> = states.iter().map(|column| column.as_primitive::<Float64Type>()).collect();
    let rows = first(states)?.len();
    if columns.len() != T::PARTS {
        return Err(arity());
    }
    for row in 0..rows {
        let mut parts = [0.0; MOST_PARTS];
        for (part, column) in parts.iter_mut().zip(&columns) {
            *part = if column.is_valid(row) { column.value(row) } else { 0.0 };
        }
        state(row, T::of_parts(parts));
    }
    Ok(())
}

/// The columns of the states of totals.
fn states<T: Total>(totals: impl Iterator<Item = T>) -> Vec<ArrayRef> {
    let mut columns: Vec<Float64Builder> = (0..T::PARTS).map(|_| Float64Builder::new()).collect();
    for total in totals {
        columns.iter_mut().zip(total.parts()).for_each(|(column, part)| column.append_value(part));
    }
    columns.into_iter().map(|mut column| Arc::new(column.finish()) as ArrayRef).collect()
}

/// The total of all rows.
#[derive(Debug)]
pub(super) struct One<T> {
    which: FloatAggregate,
    total: T,
}

impl<T: Total> One<T> {
    pub(super) fn new(which: FloatAggregate) -> Self {
        Self { which, total: T::default() }
    }
}

impl<T: Total> Accumulator for One<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |_, x, y| self.total.add(x, y))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        each_state(states, |_, total: T| self.total.join(&total))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(self.total.parts().iter().take(T::PARTS).map(|part| ScalarValue::Float64(Some(*part))).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.total.value(self.which).map(ScalarValue::Float64)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The totals of many groups.
#[derive(Debug)]
pub(super) struct Groups<T> {
    which: FloatAggregate,
    totals: Vec<T>,
}

impl<T: Total> Groups<T> {
    pub(super) fn new(which: FloatAggregate) -> Self {
        Self { which, totals: Vec::new() }
    }
}

/// Whether a filter keeps a row.
fn keeps(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl<T: Total> GroupsAccumulator for Groups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.totals.resize(total, T::default());
        each(values, |row, x, y| {
            if keeps(filter, row)
                && let Some(total) = groups.get(row).and_then(|group| self.totals.get_mut(*group))
            {
                total.add(x, y);
            }
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.totals.resize(total, T::default());
        each_state(states, |row, state: T| {
            if let Some(total) = groups.get(row).and_then(|group| self.totals.get_mut(*group)) {
                total.join(&state);
            }
        })
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let mut values = Float64Builder::new();
        for total in emit.take_needed(&mut self.totals) {
            values.append_option(total.value(self.which)?);
        }
        Ok(Arc::new(values.finish()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(states(emit.take_needed(&mut self.totals).into_iter()))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut totals = vec![T::default(); first(values)?.len()];
        each(values, |row, x, y| {
            if keeps(filter, row)
                && let Some(total) = totals.get_mut(row)
            {
                total.add(x, y);
            }
        })?;
        Ok(states(totals.into_iter()))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * size_of::<T>()
    }
}

/// The different values of a group, by their bits, of which the total is made at the end.
#[derive(Debug)]
pub(super) struct Different<T> {
    which: FloatAggregate,
    values: BTreeSet<[u64; 2]>,
    total: PhantomData<T>,
}

impl<T: Total> Different<T> {
    pub(super) fn new(which: FloatAggregate) -> Self {
        Self { which, values: BTreeSet::new(), total: PhantomData }
    }
}

impl<T: Total> Accumulator for Different<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |_, x, y| {
            self.values.insert([x.to_bits(), y.to_bits()]);
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for values in first(states)?.as_list::<i32>().iter().flatten() {
            let values = values.as_primitive::<Float64Type>().values();
            self.values.extend(values.as_chunks::<2>().0.iter().map(|pair| pair.map(f64::to_bits)));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values.iter().flatten().map(|bits| f64::from_bits(*bits));
        let values = Float64Array::from_iter_values(values);
        let item = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, Arc::new(values), None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = T::default();
        self.values.iter().for_each(|[x, y]| total.add(f64::from_bits(*x), f64::from_bits(*y)));
        total.value(self.which).map(ScalarValue::Float64)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.len() * 3 * size_of::<[u64; 2]>()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::super::totals::{Moments, Sum};
    use super::*;

    fn floats(values: &[Option<f64>]) -> ArrayRef {
        Arc::new(Float64Array::from(values.to_vec()))
    }

    #[test]
    fn groups_are_merged_and_filtered() {
        let values = [floats(&[Some(1.0), Some(2.0), None, Some(8.0)])];
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        let mut one = Groups::<Sum>::new(FloatAggregate::Sum);
        one.update_batch(&values, &[0, 0, 1, 2], Some(&filter), 3).unwrap();
        let state = one.state(EmitTo::All).unwrap();
        let mut other = Groups::<Sum>::new(FloatAggregate::Sum);
        other.update_batch(&[floats(&[Some(7.0)])], &[0], None, 1).unwrap();
        other.merge_batch(&state, &[0, 1, 2], 3).unwrap();
        let converted = other.convert_to_state(&values, Some(&filter)).unwrap();
        other.merge_batch(&converted, &[1, 1, 1, 1], 3).unwrap();
        let found = other.evaluate(EmitTo::All).unwrap();
        assert_eq!(found.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(10.0), Some(3.0), None]);
    }

    #[test]
    fn pairs_with_null_do_not_count_and_different_ones_count_once() {
        let pairs = [
            floats(&[Some(1.0), Some(2.0), None, Some(1.0), Some(5.0)]),
            floats(&[Some(4.0), Some(6.0), Some(9.0), Some(4.0), None]),
        ];
        let which = FloatAggregate::CovariancePop;
        let mut one = One::<Moments>::new(which);
        one.update_batch(&pairs).unwrap();
        let value = |value: f64| ScalarValue::Float64(Some(value));
        let found = one.evaluate().unwrap();
        let near = matches!(found, ScalarValue::Float64(Some(found)) if (found - 4.0 / 9.0).abs() < 1e-15);
        assert!(near, "{found}");
        let (mut half, mut different) = (Different::<Moments>::new(which), Different::<Moments>::new(which));
        half.update_batch(&pairs).unwrap();
        let state: Vec<ArrayRef> = half.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
        different.update_batch(&pairs).unwrap();
        different.merge_batch(&state).unwrap();
        assert_eq!(different.evaluate().unwrap(), value(0.5));
    }
}
