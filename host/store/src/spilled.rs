//! Putting the values that rows keep in their overflow where readers look for them.
//!
//! The overflow of a row is a JSON object: values by their JSON pointer (see [`crate::shred`]). It is indexed once
//! for a batch of rows ([`crate::overflow`]), so that a column finds its values without looking at those of others.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder, StructArray},
        datatypes::{DataType, Float64Type, Int64Type},
    },
    error::Result,
};
use serde_json::Value;

use crate::{
    adapt::{own_values, value_text},
    columns::{Leaf, ListColumn},
    overflow::{Overflow, Place},
    shape::{Fields, Kind, Scalar, push_pointer},
};

/// The overflow of a batch, as the columns see it.
#[derive(Debug)]
pub(crate) struct Spilled {
    overflow: Overflow,
}

impl Spilled {
    /// Reads an overflow column.
    pub(crate) fn of_column(column: &ArrayRef) -> Result<Spilled> {
        Ok(Spilled { overflow: Overflow::of_column(column)? })
    }

    /// The rows in which something stands at a pointer, with its JSON.
    fn values(&self, places: &[Place]) -> impl Iterator<Item = (usize, &str)> {
        places.iter().map(|place| (place.slot(), self.overflow.json(*place)))
    }

    /// Puts the values at and below `pointer` into the column that stands there, which has its logical
    /// type already.
    pub(crate) fn patch(&self, array: ArrayRef, kind: &Kind, pointer: &str) -> Result<ArrayRef> {
        let at = self.overflow.at(pointer);
        if at.is_empty() && self.overflow.below(pointer).next().is_none() {
            return Ok(array);
        }
        let values = self.values(&at);
        match kind {
            Kind::Scalar { mixed: true, .. } | Kind::List { mixed: true, .. } => {
                Ok(with_texts(&array, values.map(|(row, json)| (row, text_of(json)))))
            }
            Kind::Scalar { ty, .. } => Ok(with_scalars(&array, *ty, values)),
            Kind::List { ty, .. } => with_lists(&array, *ty, values),
            Kind::Record { many: false, fields, .. } => {
                let record = self.patch_record(&array, fields, pointer)?;
                with_unlike_there(record, &at)
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

    /// Elements of lists have the index in their pointers, unless a row has only one.
    fn patch_records(&self, array: &ArrayRef, fields: &Fields, pointer: &str) -> Result<ArrayRef> {
        let DataType::List(item) = array.data_type() else { return Ok(Arc::clone(array)) };
        let (offsets, values) = own_values(array.as_list());
        let mut inner: Vec<(&str, Place)> = Vec::new();
        for (rest, places) in self.overflow.below(pointer) {
            for place in places {
                let row = place.slot();
                let (Some(start), Some(end)) = (offsets.get(row), offsets.get(row + 1)) else { continue };
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
                inner.push((rest, place.in_slot(slot)));
            }
        }
        let inner = Spilled { overflow: self.overflow.of_places(inner.into_iter()) };
        let values = inner.patch_record(&values, fields, "")?;
        let list: ArrayRef = Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, array.nulls().cloned())?);
        self.with_unlike(list, pointer)
    }

    /// A value in the place of records is shown as one element that holds nothing but it.
    fn with_unlike(&self, array: ArrayRef, pointer: &str) -> Result<ArrayRef> {
        use datafusion::arrow::{array::new_null_array, buffer::OffsetBuffer, compute::concat};
        let unlike = self.overflow.at(pointer);
        let (DataType::List(item), false) = (array.data_type(), unlike.is_empty()) else { return Ok(array) };
        let Some(position) = unlike_position(item.data_type()) else { return Ok(array) };
        let (offsets, values) = own_values(array.as_list());
        // The elements of the rows, and after them one for each value.
        let blank = new_null_array(item.data_type(), unlike.len());
        let blank = blank.as_struct();
        let mut texts = StringViewBuilder::with_capacity(unlike.len());
        self.values(&unlike).for_each(|(_, json)| texts.append_value(json));
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
            while let Some((nth, _)) = next.next_if(|(_, place)| place.slot() <= row) {
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
        let whole = self.overflow.fields_of(pointer);
        let whole = whole.iter().flat_map(|fields| fields.all());
        let mut parts: Vec<(Place, &str)> = Vec::new();
        for (rest, places) in self.overflow.below(pointer).chain(whole) {
            let first = rest.split('/').nth(1).map(unescaped);
            if first.is_some_and(|first| fields.find(&first).is_none()) {
                parts.extend(places.iter().map(|place| (*place, rest)));
            }
        }
        parts.sort_by_key(|(place, _)| place.slot());
        let rows = parts.chunk_by(|(one, _), (other, _)| one.slot() == other.slot());
        let rows = rows.filter_map(|row| {
            let mut record = Node::Record(BTreeMap::new());
            row.iter().for_each(|(place, rest)| record.insert(rest, self.overflow.json(*place)));
            let mut json = String::new();
            record.write(&mut json);
            Some((row.first()?.0.slot(), Cow::Owned(json)))
        });
        with_texts(array, rows)
    }

    /// The hidden field with what stands in the place of a record, as JSON.
    pub(crate) fn unlike(&self, array: &ArrayRef, pointer: &str) -> ArrayRef {
        let at = self.overflow.at(pointer);
        let unlike = at.iter().filter(|place| !self.overflow.is_record(**place));
        with_texts(array, unlike.map(|place| (place.slot(), Cow::Borrowed(self.overflow.json(*place)))))
    }

    /// The hidden field that tells whether a record is there: one that was kept as JSON is.
    pub(crate) fn presence(&self, array: &ArrayRef, pointer: &str) -> ArrayRef {
        let at = self.overflow.at(pointer);
        let kept = at.iter().filter(|place| self.overflow.is_record(**place));
        with_scalars(array, Scalar::Bool, kept.map(|place| (place.slot(), "true")))
    }
}

/// The struct is not NULL where a value stands in the place of the record, either, or that value would be
/// masked; its presence tells whether the record is there.
fn with_unlike_there(array: ArrayRef, unlike: &[Place]) -> Result<ArrayRef> {
    let (Some(nulls), false) = (array.nulls(), unlike.is_empty()) else { return Ok(array) };
    let mut there: Vec<bool> = nulls.iter().collect();
    for place in unlike {
        if let Some(there) = there.get_mut(place.slot()) {
            *there = true;
        }
    }
    let record = array.as_struct();
    Ok(Arc::new(StructArray::try_new(record.fields().clone(), record.columns().to_vec(), Some(there.into()))?))
}

/// A record that is put together of values at pointers below it.
enum Node<'j> {
    Value(&'j str),
    Record(BTreeMap<String, Node<'j>>),
}

impl<'j> Node<'j> {
    /// Puts a value at `/key/key...`. What would stand below a value is left out: rows have no such pointers.
    fn insert(&mut self, pointer: &str, json: &'j str) {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let Node::Record(fields) = node else { return };
            node = fields.entry(unescaped(step)).or_insert_with(|| Node::Record(BTreeMap::new()));
        }
        *node = Node::Value(json);
    }

    fn write(&self, out: &mut String) {
        match self {
            Node::Value(json) => out.push_str(json),
            Node::Record(fields) => {
                out.push('{');
                for (nth, (key, node)) in fields.iter().enumerate() {
                    if nth > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
        }
    }
}

fn unlike_position(record: &DataType) -> Option<usize> {
    let DataType::Struct(fields) = record else { return None };
    fields.iter().position(|field| field.name() == tidegate_model::UNLIKE_FIELD)
}

/// One step of a JSON pointer, as the key that it was made of.
fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// JSON as the text that is read where a path holds different kinds: a text as it is, anything else as JSON.
fn text_of(json: &str) -> Cow<'_, str> {
    if json.starts_with(['{', '[']) {
        return Cow::Borrowed(json);
    }
    serde_json::from_str::<Value>(json).map_or(Cow::Borrowed(json), |value| Cow::Owned(value_text(&value)))
}

/// The text column with these texts in their rows.
fn with_texts<'t>(array: &ArrayRef, values: impl Iterator<Item = (usize, Cow<'t, str>)>) -> ArrayRef {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Arc::clone(array);
    }
    let texts = array.as_string_view();
    let mut out = StringViewBuilder::with_capacity(texts.len());
    for (row, own) in texts.iter().enumerate() {
        match values.next_if(|(of, _)| *of == row) {
            Some((_, value)) => out.append_value(value),
            None => out.append_option(own),
        }
    }
    Arc::new(out.finish())
}

/// The leaf with these values in its rows.
fn with_scalars<'v>(array: &ArrayRef, ty: Scalar, values: impl Iterator<Item = (usize, &'v str)>) -> ArrayRef {
    use datafusion::arrow::array::{BooleanArray, Float64Array, Int64Array};
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Arc::clone(array);
    }
    let mut spilled = |row: usize| values.next_if(|(of, _)| *of == row).and_then(|(_, json)| scalar(json));
    match ty {
        Scalar::Bool => {
            let own = array.as_boolean().iter().enumerate();
            let own = own.map(|(row, own)| spilled(row).and_then(|value| value.as_bool()).or(own));
            Arc::new(own.collect::<BooleanArray>())
        }
        Scalar::Int => {
            let own = array.as_primitive::<Int64Type>().iter().enumerate();
            let own = own.map(|(row, own)| spilled(row).and_then(|value| value.as_i64()).or(own));
            Arc::new(own.collect::<Int64Array>())
        }
        Scalar::Float => {
            let own = array.as_primitive::<Float64Type>().iter().enumerate();
            let own = own.map(|(row, own)| spilled(row).and_then(|value| value.as_f64()).or(own));
            Arc::new(own.collect::<Float64Array>())
        }
        Scalar::Text => {
            let mut out = StringViewBuilder::with_capacity(array.len());
            for (row, own) in array.as_string_view().iter().enumerate() {
                match spilled(row) {
                    Some(Value::String(text)) => out.append_value(text),
                    _ => out.append_option(own),
                }
            }
            Arc::new(out.finish())
        }
        // Never in the overflow.
        Scalar::Time => Arc::clone(array),
    }
}

/// A value that is no record and no list.
fn scalar(json: &str) -> Option<Value> {
    if json.starts_with(['{', '[']) { None } else { serde_json::from_str(json).ok() }
}

/// The list column with these arrays in its rows.
fn with_lists<'v>(array: &ArrayRef, ty: Scalar, values: impl Iterator<Item = (usize, &'v str)>) -> Result<ArrayRef> {
    let Some(own) = array.as_list_opt::<i32>() else { return Ok(Arc::clone(array)) };
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(Arc::clone(array));
    }
    let mut out = ListColumn::new(ty);
    for row in 0..own.len() {
        let spilled = values.next_if(|(of, _)| *of == row);
        let items = match spilled.map(|(_, json)| serde_json::from_str(json)) {
            Some(Ok(Value::Array(items))) => items,
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
