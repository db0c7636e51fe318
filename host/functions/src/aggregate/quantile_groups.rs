//! Quantiles of many groups at once: the values of each group as plain numbers, which are sorted when it is done.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, PrimitiveArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::quantile_pick::Pick;
use super::sum::first;

/// The values of all groups. `item` is their type.
#[derive(Debug)]
pub(super) struct QuantileGroups<T: ArrowPrimitiveType> {
    pick: Pick,
    item: DataType,
    groups: Vec<Vec<T::Native>>,
    /// Bytes that the values have room for.
    held: usize,
}

impl<T: ArrowPrimitiveType> QuantileGroups<T> {
    pub(super) fn new(pick: Pick, item: DataType) -> Self {
        Self { pick, item, groups: Vec::new(), held: 0 }
    }

    fn extend(&mut self, group: usize, values: &[T::Native]) {
        let Some(group) = self.groups.get_mut(group) else { return };
        let before = group.capacity();
        group.extend_from_slice(values);
        self.held += (group.capacity() - before) * size_of::<T::Native>();
    }

    fn take(&mut self, emit: EmitTo) -> Vec<Vec<T::Native>> {
        let groups = emit.take_needed(&mut self.groups);
        self.held -= groups.iter().map(Vec::capacity).sum::<usize>() * size_of::<T::Native>();
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

impl<T: ArrowPrimitiveType> GroupsAccumulator for QuantileGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize_with(total, Vec::new);
        let values = first(values)?.as_primitive::<T>();
        let kept = |i: usize| filter.is_none_or(|filter| filter.is_valid(i) && filter.value(i)) && values.is_valid(i);
        for (i, (value, group)) in values.values().iter().zip(groups).enumerate() {
            if kept(i) {
                self.extend(*group, &[*value]);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize_with(total, Vec::new);
        for (values, group) in first(states)?.as_list::<i32>().iter().zip(groups) {
            // A state has no NULLs.
            if let Some(values) = values {
                self.extend(*group, values.as_primitive::<T>().values());
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let groups = self.take(emit);
        let (mut lengths, mut picked, mut there) = (Vec::new(), Vec::new(), Vec::new());
        for mut group in groups {
            crate::context::check()?;
            group.sort_unstable_by(|one, other| one.compare(*other));
            let before = picked.len();
            for rank in self.pick.ranks(group.len()) {
                picked.extend(group.get(rank));
            }
            lengths.push(picked.len() - before);
            there.push(!group.is_empty());
            if !self.pick.is_list() && group.is_empty() {
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
        let lengths = groups.iter().map(Vec::len).collect();
        Ok(vec![self.lists(lengths, groups.concat(), None)?])
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
        Ok(vec![self.lists(lengths, held, None)?])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held + self.groups.capacity() * size_of::<Vec<T::Native>>()
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
