//! What rows keep in their overflow, and putting it where readers look for it.
//!
//! The overflow of a row is a JSON object: values by their JSON pointer (see [`crate::shred`]). It is read
//! once for a batch of rows and kept by pointer, so that a column finds its values without looking at
//! those of others.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder, StructArray},
        datatypes::{DataType, Float64Type, Int64Type},
    },
    common::exec_err,
    error::Result,
};
use serde_json::{Map, Value};

use crate::{
    adapt::{own_values, value_text},
    columns::{Leaf, ListColumn},
    shape::{Fields, Kind, Scalar, push_pointer},
};

/// Values of rows, in the order of the rows.
type ByRow = Vec<(usize, Value)>;

/// The overflow of a batch: for each pointer the rows that have it, with their values.
#[derive(Debug, Default)]
pub(crate) struct Spilled {
    by_pointer: BTreeMap<String, ByRow>,
}

impl Spilled {
    /// Reads an overflow column.
    pub(crate) fn of_column(column: &ArrayRef) -> Result<Spilled> {
        let mut by_pointer: BTreeMap<String, ByRow> = BTreeMap::new();
        for (row, text) in column.as_string_view().iter().enumerate() {
            let Some(text) = text else { continue };
            let Ok(values) = serde_json::from_str::<Map<String, Value>>(text) else {
                return exec_err!("the overflow of a row is not a JSON object");
            };
            for (pointer, value) in values {
                add(&mut by_pointer, row, pointer, value);
            }
        }
        Ok(Spilled { by_pointer })
    }

    /// The rows in which a record, or not, stands at a pointer.
    fn records(&self, pointer: &str, wanted: bool) -> impl Iterator<Item = &(usize, Value)> {
        self.at(pointer).iter().filter(move |(_, value)| value.is_object() == wanted)
    }

    fn at(&self, pointer: &str) -> &[(usize, Value)] {
        self.by_pointer.get(pointer).map_or(&[], Vec::as_slice)
    }

    /// What lies below a pointer, each with the rest of its pointer (`/key/...`).
    fn below<'s>(&'s self, pointer: &'s str) -> impl Iterator<Item = (&'s str, &'s ByRow)> {
        let start = format!("{pointer}/");
        self.by_pointer
            .range::<str, _>((Bound::Included(start.as_str()), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&start))
            .filter_map(|(key, rows)| Some((key.get(pointer.len()..)?, rows)))
    }

    fn has_below(&self, pointer: &str) -> bool {
        self.below(pointer).next().is_some()
    }

    /// Puts the values at and below `pointer` into the column that stands there, which has its logical
    /// type already.
    pub(crate) fn patch(&self, array: ArrayRef, kind: &Kind, pointer: &str) -> Result<ArrayRef> {
        if self.at(pointer).is_empty() && !self.has_below(pointer) {
            return Ok(array);
        }
        match kind {
            Kind::Scalar { mixed: true, .. } | Kind::List { mixed: true, .. } => {
                Ok(with_texts(&array, self.at(pointer), value_text))
            }
            Kind::Scalar { ty, .. } => Ok(with_scalars(&array, *ty, self.at(pointer))),
            Kind::List { ty, .. } => with_lists(&array, *ty, self.at(pointer)),
            Kind::Record { many: false, fields, .. } => {
                let record = self.patch_record(&array, fields, pointer)?;
                self.with_unlike_there(record, pointer)
            }
            Kind::Record { many: true, fields, .. } => self.patch_records(&array, fields, pointer),
        }
    }

    fn patch_record(&self, array: &ArrayRef, fields: &Fields, pointer: &str) -> Result<ArrayRef> {
        let DataType::Struct(types) = array.data_type() else { return Ok(Arc::clone(array)) };
        let record = array.as_struct();
        let mut children = Vec::with_capacity(record.num_columns());
        for (child, column) in types.iter().zip(record.columns()) {
            let column = Arc::clone(column);
            children.push(match child.name().as_str() {
                tidegate_model::PRESENCE_FIELD => self.presence(&column, pointer),
                tidegate_model::REST_FIELD if fields.rest => self.rest(&column, fields, pointer),
                tidegate_model::UNLIKE_FIELD if fields.get(child.name()).is_none() => self.unlike(&column, pointer),
                name => match fields.get(name) {
                    Some(kind) => {
                        let mut inner = pointer.to_owned();
                        push_pointer(&mut inner, name);
                        self.patch(column, kind, &inner)?
                    }
                    None => column,
                },
            });
        }
        Ok(Arc::new(StructArray::try_new(types.clone(), children, record.nulls().cloned())?))
    }

    /// The struct is not NULL where a value stands in the place of the record, either, or that value would be
    /// masked; its presence tells whether the record is there.
    fn with_unlike_there(&self, array: ArrayRef, pointer: &str) -> Result<ArrayRef> {
        let (Some(nulls), false) = (array.nulls(), self.at(pointer).is_empty()) else { return Ok(array) };
        let mut there: Vec<bool> = nulls.iter().collect();
        for (row, _) in self.at(pointer) {
            if let Some(there) = there.get_mut(*row) {
                *there = true;
            }
        }
        let record = array.as_struct();
        Ok(Arc::new(StructArray::try_new(record.fields().clone(), record.columns().to_vec(), Some(there.into()))?))
    }

    /// Elements of lists have the index in their pointers, unless a row has only one.
    fn patch_records(&self, array: &ArrayRef, fields: &Fields, pointer: &str) -> Result<ArrayRef> {
        let DataType::List(item) = array.data_type() else { return Ok(Arc::clone(array)) };
        let (offsets, values) = own_values(array.as_list());
        let mut inner: BTreeMap<String, ByRow> = BTreeMap::new();
        for (rest, rows) in self.below(pointer) {
            for (row, value) in rows {
                let (Some(start), Some(end)) = (offsets.get(*row), offsets.get(row + 1)) else { continue };
                let (slot, rest) = match end - start {
                    0 => continue,
                    1 => (*start as usize, rest),
                    count => {
                        let Some(rest) = rest.get(1..) else { continue };
                        let (index, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                        let Ok(index @ 0..) = index.parse::<i32>() else { continue };
                        if index >= count {
                            continue;
                        }
                        ((start + index) as usize, rest)
                    }
                };
                inner.entry(rest.to_owned()).or_default().push((slot, value.clone()));
            }
        }
        inner.values_mut().for_each(|rows| rows.sort_by_key(|(slot, _)| *slot));
        let values = Spilled { by_pointer: inner }.patch_record(&values, fields, "")?;
        let list: ArrayRef = Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, array.nulls().cloned())?);
        self.with_unlike(list, pointer)
    }

    /// A value in the place of records is shown as one element that holds nothing but it.
    fn with_unlike(&self, array: ArrayRef, pointer: &str) -> Result<ArrayRef> {
        use datafusion::arrow::{array::new_null_array, buffer::OffsetBuffer, compute::concat};
        let unlike = self.at(pointer);
        let (DataType::List(item), false) = (array.data_type(), unlike.is_empty()) else { return Ok(array) };
        let Some(position) = unlike_position(item.data_type()) else { return Ok(array) };
        let (offsets, values) = own_values(array.as_list());
        // The elements of the rows, and after them one for each value.
        let blank = new_null_array(item.data_type(), unlike.len());
        let blank = blank.as_struct();
        let mut texts = StringViewBuilder::with_capacity(unlike.len());
        unlike.iter().for_each(|(_, value)| texts.append_value(value.to_string()));
        let texts: ArrayRef = Arc::new(texts.finish());
        let columns = blank.columns().iter().enumerate();
        let columns = columns.map(|(at, column)| Arc::clone(if at == position { &texts } else { column })).collect();
        let added: ArrayRef = Arc::new(StructArray::try_new(blank.fields().clone(), columns, None)?);
        let all = concat(&[values.as_ref(), added.as_ref()])?;
        let mut order = Vec::with_capacity(all.len());
        let mut lengths = Vec::with_capacity(array.len());
        let mut present = Vec::with_capacity(array.len());
        let mut next = unlike.iter().enumerate().peekable();
        for (row, bounds) in offsets.windows(2).enumerate() {
            let &[start, end] = bounds else { continue };
            let before = order.len();
            order.extend((start as u32)..(end as u32));
            let mut there = array.is_valid(row);
            while let Some((nth, _)) = next.next_if(|(_, (of, _))| *of <= row) {
                order.push((values.len() + nth) as u32);
                there = true;
            }
            lengths.push(order.len() - before);
            present.push(there);
        }
        let order = datafusion::arrow::array::UInt32Array::from(order);
        let elements = datafusion::arrow::compute::take(&all, &order, None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, elements, Some(present.into()))?))
    }

    /// The hidden field with what a record holds beside its columns: a JSON object in each row that has any.
    pub(crate) fn rest(&self, array: &ArrayRef, fields: &Fields, pointer: &str) -> ArrayRef {
        let mut rows: BTreeMap<usize, Map<String, Value>> = BTreeMap::new();
        for (rest, values) in self.below(pointer) {
            let mut steps = rest.split('/').skip(1).map(unescaped);
            let Some(first) = steps.next().filter(|first| fields.find(first).is_none()) else { continue };
            let steps: Vec<String> = steps.collect();
            for (row, value) in values {
                insert(rows.entry(*row).or_default(), &first, &steps, value);
            }
        }
        let texts: ByRow = rows.into_iter().map(|(row, map)| (row, Value::Object(map))).collect();
        with_texts(array, &texts, Value::to_string)
    }

    /// The hidden field with what stands in the place of a record, as JSON.
    pub(crate) fn unlike(&self, array: &ArrayRef, pointer: &str) -> ArrayRef {
        let unlike: ByRow = self.records(pointer, false).cloned().collect();
        with_texts(array, &unlike, Value::to_string)
    }

    /// The hidden field that tells whether a record is there: one that was kept as JSON is.
    pub(crate) fn presence(&self, array: &ArrayRef, pointer: &str) -> ArrayRef {
        let kept: ByRow = self.records(pointer, true).map(|(row, _)| (*row, Value::Bool(true))).collect();
        if kept.is_empty() { Arc::clone(array) } else { with_scalars(array, Scalar::Bool, &kept) }
    }
}

/// Keeps a value under its pointer, and those within a record under theirs: a field may have a column now that
/// its record had not.
fn add(by_pointer: &mut BTreeMap<String, ByRow>, row: usize, pointer: String, value: Value) {
    if let Value::Object(fields) = &value {
        for (key, value) in fields {
            let mut inner = pointer.clone();
            push_pointer(&mut inner, key);
            add(by_pointer, row, inner, value.clone());
        }
    }
    match by_pointer.get_mut(&pointer) {
        Some(rows) => rows.push((row, value)),
        None => {
            by_pointer.insert(pointer, vec![(row, value)]);
        }
    }
}

fn unlike_position(record: &DataType) -> Option<usize> {
    let DataType::Struct(fields) = record else { return None };
    fields.iter().position(|field| field.name() == tidegate_model::UNLIKE_FIELD)
}

/// A value at a path of keys below an object.
fn insert(object: &mut Map<String, Value>, first: &str, rest: &[String], value: &Value) {
    match rest.split_first() {
        None => {
            object.insert(first.to_owned(), value.clone());
        }
        Some((next, rest)) => {
            let inner = object.entry(first.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, next, rest, value);
            }
        }
    }
}

/// One step of a JSON pointer, as the key that it was made of.
fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The text column with these values in their rows.
fn with_texts(array: &ArrayRef, values: &[(usize, Value)], text: impl Fn(&Value) -> String) -> ArrayRef {
    if values.is_empty() {
        return Arc::clone(array);
    }
    let texts = array.as_string_view();
    let mut out = StringViewBuilder::with_capacity(texts.len());
    let mut values = values.iter().peekable();
    for (row, own) in texts.iter().enumerate() {
        match values.next_if(|(of, _)| *of == row) {
            Some((_, value)) => out.append_value(text(value)),
            None => out.append_option(own),
        }
    }
    Arc::new(out.finish())
}

/// The leaf with these values in its rows.
fn with_scalars(array: &ArrayRef, ty: Scalar, values: &[(usize, Value)]) -> ArrayRef {
    use datafusion::arrow::array::{BooleanArray, Float64Array, Int64Array, StringViewArray};
    let mut values = values.iter().peekable();
    let mut spilled = |row: usize| values.next_if(|(of, _)| *of == row).map(|(_, value)| value);
    match ty {
        Scalar::Bool => {
            let own = array.as_boolean().iter().enumerate();
            Arc::new(own.map(|(row, own)| spilled(row).and_then(Value::as_bool).or(own)).collect::<BooleanArray>())
        }
        Scalar::Int => {
            let own = array.as_primitive::<Int64Type>().iter().enumerate();
            Arc::new(own.map(|(row, own)| spilled(row).and_then(Value::as_i64).or(own)).collect::<Int64Array>())
        }
        Scalar::Float => {
            let own = array.as_primitive::<Float64Type>().iter().enumerate();
            Arc::new(own.map(|(row, own)| spilled(row).and_then(Value::as_f64).or(own)).collect::<Float64Array>())
        }
        Scalar::Text => {
            let own = array.as_string_view().iter().enumerate();
            Arc::new(own.map(|(row, own)| spilled(row).and_then(Value::as_str).or(own)).collect::<StringViewArray>())
        }
        // Never in the overflow.
        Scalar::Time => Arc::clone(array),
    }
}

/// The list column with these arrays in its rows.
fn with_lists(array: &ArrayRef, ty: Scalar, values: &[(usize, Value)]) -> Result<ArrayRef> {
    let Some(own) = array.as_list_opt::<i32>() else { return Ok(Arc::clone(array)) };
    if values.is_empty() {
        return Ok(Arc::clone(array));
    }
    let mut out = ListColumn::new(ty);
    let mut values = values.iter().peekable();
    for row in 0..own.len() {
        let spilled = values.next_if(|(of, _)| *of == row).map(|(_, value)| value);
        let items = match spilled {
            Some(Value::Array(items)) => items.clone(),
            _ if own.is_valid(row) => crate::adapt::scalars(&own.value(row))?,
            _ => continue,
        };
        out.pad(row);
        for item in &items {
            match (&mut out.values, item) {
                (Leaf::Bool(b), Value::Bool(item)) => b.append_value(*item),
                (Leaf::Text(b), Value::String(item)) => b.append_value(item),
                (Leaf::Int(b), item) => b.append_option(item.as_i64()),
                (Leaf::Float(b), item) => b.append_option(item.as_f64()),
                // A list holds one type; see `shred`.
                _ => {}
            }
        }
        out.end_row();
    }
    out.finish(own.len())
}

/// The overflow of the batch that was read last: the columns of a projection share it.
#[derive(Debug, Default)]
pub(crate) struct SpilledCache {
    last: Mutex<Option<(ArrayRef, Arc<Spilled>)>>,
}

impl SpilledCache {
    pub(crate) fn of_column(&self, column: &ArrayRef) -> Result<Arc<Spilled>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, spilled)) = last.as_ref()
            && Arc::ptr_eq(of, column)
        {
            return Ok(Arc::clone(spilled));
        }
        let spilled = Arc::new(Spilled::of_column(column)?);
        *last = Some((Arc::clone(column), Arc::clone(&spilled)));
        Ok(spilled)
    }
}
