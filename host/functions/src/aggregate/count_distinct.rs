//! COUNT(DISTINCT text). The engine's own keeps a copy of each text and compares it at each look-up; these sets keep most texts
//! as 16 bytes ([`TextSet`]).
//!
//! A state is three columns: short texts and UUIDs as bytes, 16 of each, and a list of the other texts.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, LargeBinaryBuilder, ListArray, StringViewBuilder,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use super::seen_texts::SeenTexts;
use super::sum::first;
use super::text_set::{Kept, TextSet};
use crate::arrays::{arity, list_of};

/// The number of different texts, without NULL. It is called without DISTINCT.
pub fn count_distinct() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::exact(vec![DataType::Utf8View], Volatility::Immutable);
        Arc::new(AggregateUDF::from(CountDistinct { signature }))
    });
    Arc::clone(&FUNCTION)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountDistinct {
    signature: Signature,
}

impl AggregateUDFImpl for CountDistinct {
    fn name(&self) -> &'static str {
        "count_distinct"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(0)))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup::default()))
    }

    /// The engine's: frames that move on need to know how often each text is in them.
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        count_udaf().inner().create_sliding_accumulator(AccumulatorArgs { is_distinct: true, ..arguments })
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(TextCounts::default()))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of: DataType| Arc::new(Field::new(format!("{}[{part}]", arguments.name), of, false));
        Ok(vec![
            field("short", DataType::LargeBinary),
            field("uuids", DataType::LargeBinary),
            field("texts", list_of(DataType::Utf8View)),
        ])
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The texts of all groups.
#[derive(Debug, Default)]
struct TextCounts {
    groups: Vec<TextSet>,
    /// Bytes that the sets hold.
    held: usize,
    seen: SeenTexts,
}

impl TextCounts {
    fn change(&mut self, group: usize, change: impl FnOnce(&mut TextSet, &mut SeenTexts) -> Result<()>) -> Result<()> {
        let Some(set) = self.groups.get_mut(group) else { return Ok(()) };
        let before = set.held();
        change(set, &mut self.seen)?;
        self.held = (self.held + set.held()).saturating_sub(before);
        Ok(())
    }

    fn take(&mut self, emit: EmitTo) -> Vec<TextSet> {
        // Groups are gone, or have other numbers; and who takes them may want the memory back.
        self.seen = SeenTexts::default();
        let groups = emit.take_needed(&mut self.groups);
        self.held = self.held.saturating_sub(groups.iter().map(TextSet::held).sum());
        groups
    }
}

impl GroupsAccumulator for TextCounts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.groups.resize_with(total, TextSet::default);
        let texts = first(values)?.as_string_view();
        self.seen.begin(texts);
        let kept =
            |row: usize| texts.is_valid(row) && filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let mut start = 0;
        for run in groups.chunk_by(|one, next| one == next) {
            let rows = start..(start + run.len()).min(texts.len());
            start += run.len();
            let Some(group) = run.first().copied() else { continue };
            self.change(group, |set, seen| {
                let mut seen = seen.of_group(group);
                let views = texts.views().get(rows.clone()).unwrap_or_default();
                for (row, view) in rows.zip(views).filter(|(row, _)| kept(*row)) {
                    if seen.as_mut().is_none_or(|seen| seen.is_new(*view)) {
                        set.insert(texts.value(row));
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups.resize_with(total, TextSet::default);
        let [short, uuids, texts] = states else { return Err(arity()) };
        let (short, uuids) = (short.as_binary::<i64>(), uuids.as_binary::<i64>());
        let texts = texts.as_list::<i32>();
        for (((short, uuids), texts), group) in short.iter().zip(uuids).zip(texts.iter()).zip(groups) {
            self.change(*group, |set, _| {
                set.merge_packed(short.unwrap_or_default(), uuids.unwrap_or_default())
                    .ok_or_else(|| exec_datafusion_err!("a state of COUNT(DISTINCT) has parts of values"))?;
                if let Some(texts) = texts {
                    texts.as_string_view().iter().flatten().for_each(|text| set.insert(text));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let counts = self.take(emit).into_iter().map(|set| count(&set));
        Ok(Arc::new(counts.collect::<Int64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit);
        let mut states = States::default();
        groups.iter().try_for_each(|set| states.add(set.iter()))?;
        states.finish()
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = first(values)?.as_string_view();
        let kept = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let mut states = States::default();
        for (row, text) in values.iter().enumerate() {
            states.add(text.filter(|_| kept(row)).map(Kept::of).into_iter())?;
        }
        states.finish()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.held + self.groups.capacity() * size_of::<TextSet>() + self.seen.held()
    }
}

fn count(set: &TextSet) -> i64 {
    i64::try_from(set.len()).unwrap_or(i64::MAX)
}

/// The columns of states that are being made.
#[derive(Default)]
struct States {
    short: LargeBinaryBuilder,
    uuids: LargeBinaryBuilder,
    texts: StringViewBuilder,
    /// Of each state, how many of the texts it has.
    lengths: Vec<usize>,
}

impl States {
    /// Adds the state of a group that has these different texts.
    fn add<'t>(&mut self, texts: impl Iterator<Item = Kept<'t>>) -> Result<()> {
        let mut long = 0;
        for text in texts {
            match text {
                Kept::Short(packed) => self.short.write_all(&packed.to_le_bytes())?,
                Kept::Uuid(packed) => self.uuids.write_all(&packed.to_le_bytes())?,
                Kept::Long(text) => {
                    self.texts.append_value(text);
                    long += 1;
                }
            }
        }
        // What was written becomes a value.
        self.short.append_value([]);
        self.uuids.append_value([]);
        self.lengths.push(long);
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<ArrayRef>> {
        let field = Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let lengths = OffsetBuffer::from_lengths(self.lengths);
        let texts = ListArray::try_new(field, lengths, Arc::new(self.texts.finish()), None)?;
        Ok(vec![Arc::new(self.short.finish()), Arc::new(self.uuids.finish()), Arc::new(texts)])
    }
}

/// The texts of all rows, where there are no groups.
#[derive(Debug, Default)]
struct OneGroup(TextCounts);

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; first(values)?.len()];
        self.0.update_batch(values, &groups, None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let groups = vec![0; first(states)?.len()];
        self.0.merge_batch(states, &groups, 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.groups.resize_with(1, TextSet::default);
        self.0.state(EmitTo::All)?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0.groups.first().map_or(0, count))))
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests;
