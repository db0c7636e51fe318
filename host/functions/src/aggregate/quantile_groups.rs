//! Quantiles of many groups at once: the values of each group as plain numbers, counted where they repeat.
//!
//! A state is two lists: values, and how often the first of them came. The others came once.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int64Array, ListArray, PrimitiveArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::quantile_pick::Pick;
use super::quantile_values::{Ordered, QuantileValues};
use super::sum::first;
use crate::arrays::arity;

/// The values of all groups. `item` is their type.
#[derive(Debug)]
pub(super) struct QuantileGroups<T: ArrowPrimitiveType> {
    pick: Pick,
    item: DataType,
    groups: Vec<QuantileValues<T::Native>>,
    /// Bytes that the values have room for.
    held: usize,
}

impl<T: ArrowPrimitiveType<Native: Ordered>> QuantileGroups<T> {
    pub(super) fn new(pick: Pick, item: DataType) -> Self {
        Self { pick, item, groups: Vec::new(), held: 0 }
    }

    fn add(&mut self, group: usize, add: impl FnOnce(&mut QuantileValues<T::Native>)) {
        let Some(group) = self.groups.get_mut(group) else { return };
        let before = group.held();
        add(group);
        self.held = (self.held + group.held()).saturating_sub(before);
    }

    fn take(&mut self, emit: EmitTo) -> Vec<QuantileValues<T::Native>> {
        let groups = emit.take_needed(&mut self.groups);
        self.held -= groups.iter().map(QuantileValues::held).sum::<usize>();
        groups
    }

    fn array(&self, values: Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<PrimitiveArray<T>> {
        Ok(PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)?.with_data_type(self.item.clone()))
    }

    fn lists(&self, lengths: Vec<usize>, values: Vec<T::Native>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let field = Arc::new(Field::new_list_field(self.item.clone(), true));
        let values = Arc::new(self.array(values, None)?);
        Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), values, nulls)?))
    }
}

/// The lists of counts.
fn counts(lengths: Vec<usize>, counts: Vec<i64>) -> Result<ArrayRef> {
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let counts = Arc::new(Int64Array::from(counts));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), counts, None)?))
}

impl<T: ArrowPrimitiveType<Native: Ordered>> GroupsAccumulator for QuantileGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize_with(total, QuantileValues::default);
        let values = first(values)?.as_primitive::<T>();
        let kept = |i: usize| filter.is_none_or(|filter| filter.is_valid(i) && filter.value(i)) && values.is_valid(i);
        for (i, (value, group)) in values.values().iter().zip(groups).enumerate() {
            if kept(i) {
                self.add(*group, |group| group.push(*value));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize_with(total, QuantileValues::default);
        let [values, counts] = states else { return Err(arity()) };
        for ((values, counts), group) in values.as_list::<i32>().iter().zip(counts.as_list::<i32>().iter()).zip(groups)
        {
            // A state has no NULLs.
            let (Some(values), Some(counts)) = (values, counts) else { continue };
            let values: &[T::Native] = values.as_primitive::<T>().values();
            let counts: &[i64] = counts.as_primitive::<Int64Type>().values();
            let counts = counts.iter().map(|count| u64::try_from(*count).ok().filter(|count| *count > 0));
            let counts: Option<Vec<u64>> = counts.collect();
            let counts = counts.filter(|counts| counts.len() <= values.len());
            let counts =
                counts.ok_or_else(|| exec_datafusion_err!("a state of quantiles has other counts than values"))?;
            let (counted, plain) = values.split_at_checked(counts.len()).unwrap_or_default();
            self.add(*group, |group| {
                if !counted.is_empty() {
                    group.extend_counted(counted.iter().copied().zip(counts));
                }
                group.extend(plain);
            });
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let groups = self.take(emit);
        let (mut lengths, mut picked, mut there) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups {
            crate::context::check()?;
            let (before, is_empty) = (picked.len(), group.is_empty());
            group.pick(|values| self.pick.ranks(values), &mut picked);
            lengths.push(picked.len() - before);
            there.push(!is_empty);
            if !self.pick.is_list() && is_empty {
                picked.push(T::Native::default());
            }
        }
        let nulls = Some(NullBuffer::from(there));
        if self.pick.is_list() {
            return self.lists(lengths, picked, nulls);
        }
        Ok(Arc::new(self.array(picked, nulls)?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit);
        let (mut values, mut times) = (Vec::new(), Vec::new());
        let (mut lengths, mut counted_lengths) = (Vec::new(), Vec::new());
        for group in groups {
            let (counted, plain) = group.parts();
            lengths.push(counted.len() + plain.len());
            counted_lengths.push(counted.len());
            values.extend(counted.iter().map(|(value, _)| *value));
            values.extend_from_slice(plain);
            times.extend(counted.iter().map(|(_, count)| i64::try_from(*count).unwrap_or(i64::MAX)));
        }
        Ok(vec![self.lists(lengths, values, None)?, counts(counted_lengths, times)?])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = first(values)?.as_primitive::<T>();
        let kept = |i: usize| filter.is_none_or(|filter| filter.is_valid(i) && filter.value(i));
        let (mut lengths, mut held) = (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
        for (i, value) in values.iter().enumerate() {
            let value = value.filter(|_| kept(i));
            lengths.push(usize::from(value.is_some()));
            held.extend(value);
        }
        Ok(vec![self.lists(lengths, held, None)?, counts(vec![0; values.len()], Vec::new())?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held + self.groups.capacity() * size_of::<QuantileValues<T::Native>>()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use datafusion::arrow::array::{Float64Array, Int64Array};
    use datafusion::arrow::datatypes::{Float64Type, Int64Type};

    use super::*;

    #[test]
    fn quantiles_of_groups_are_merged_and_filtered() {
        let new = || QuantileGroups::<Int64Type>::new(Pick::Borders(2), DataType::Int64);
        let (mut one, mut other) = (new(), new());
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), Some(1), None, Some(9), Some(7)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None, Some(true)]);
        one.update_batch(&[Arc::clone(&values)], &[0, 0, 1, 2, 3], Some(&filter), 4).unwrap();
        let more: ArrayRef = Arc::new(Int64Array::from(vec![3, 4]));
        other.update_batch(&[more], &[0, 1], None, 2).unwrap();
        let state = one.state(EmitTo::All).unwrap();
        assert_eq!(one.held, 0);
        other.merge_batch(&state, &[0, 2, 3, 1], 4).unwrap();
        let lists = |list: &ArrayRef| -> Vec<Option<Vec<i64>>> {
            let lists = list.as_list::<i32>().iter();
            lists.map(|list| list.map(|list| list.as_primitive::<Int64Type>().values().to_vec())).collect()
        };
        assert_eq!(lists(&other.evaluate(EmitTo::First(1)).unwrap()), [Some(vec![1, 3, 5])]);
        assert_eq!(lists(&other.evaluate(EmitTo::All).unwrap()), [Some(vec![4, 4, 7]), None, None]);
        assert_eq!(other.held, 0);
        let converted = other.convert_to_state(&[values], Some(&filter)).unwrap();
        assert_eq!(
            lists(converted.first().unwrap()),
            [Some(vec![5]), Some(vec![1]), Some(vec![]), Some(vec![]), Some(vec![7])]
        );
    }

    #[test]
    fn one_value_of_each_group() {
        let mut groups = QuantileGroups::<Float64Type>::new(Pick::At(0.5_f64.to_bits()), DataType::Float64);
        let values: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 2.0, -1.0]));
        groups.update_batch(&[values], &[0, 0, 0], None, 2).unwrap();
        let picked = groups.evaluate(EmitTo::All).unwrap();
        assert_eq!(picked.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(2.0), None]);
    }
}
