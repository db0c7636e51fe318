//! Inserting overflow values into columns: a column of a file or batch, already converted to the type that the table
//! shows, gets the values that its rows keep in the overflow.
//!
//! What is inserted depends on the path: a leaf or list gets values, a record gets them in its fields, and the hidden
//! fields of a record (presence, rest, unlike) are made of what has no column.

use std::{borrow::Cow, sync::Arc};

use datafusion::{
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, StringViewBuilder, StructArray},
        datatypes::DataType,
    },
    error::Result,
};

use crate::{
    arrays::list_values::own_values,
    overflow::{
        index::Overflow,
        pointer_table::ValueSpan,
        record_text::record_text,
        replace_values::{text_of, with_lists, with_scalars, with_texts},
    },
    schema::{
        json_pointer::{push_pointer, unescaped},
        kind::{Fields, Kind, Scalar},
    },
};

impl Overflow {
    /// The slot and the JSON of each value.
    fn values(&self, spans: &[ValueSpan]) -> impl Iterator<Item = (usize, &str)> {
        spans.iter().map(|span| (span.slot(), self.json(*span)))
    }

    /// Inserts the values at and below `pointer` into the column of that path. `array` already has the type that the
    /// table shows.
    pub(crate) fn patch(&self, array: ArrayRef, kind: &Kind, pointer: &str) -> Result<ArrayRef> {
        let at = self.at(pointer);
        if at.is_empty() && self.below(pointer).next().is_none() {
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

    /// The pointer of a value in a list of records contains the index of its element, unless the row has only one.
    fn patch_records(&self, array: &ArrayRef, fields: &Fields, pointer: &str) -> Result<ArrayRef> {
        let DataType::List(item) = array.data_type() else { return Ok(Arc::clone(array)) };
        let (offsets, values) = own_values(array.as_list());
        let mut inner: Vec<(&str, ValueSpan)> = Vec::new();
        for (rest, spans) in self.below(pointer) {
            for span in spans {
                let row = span.slot();
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
                inner.push((rest, span.in_slot(slot)));
            }
        }
        let inner = self.of_spans(inner.into_iter());
        let values = inner.patch_record(&values, fields, "")?;
        let list: ArrayRef = Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, array.nulls().cloned())?);
        self.with_unlike(list, pointer)
    }

    /// A value in the place of a list of records is shown as a list of one element, which has only that value.
    fn with_unlike(&self, array: ArrayRef, pointer: &str) -> Result<ArrayRef> {
        use datafusion::arrow::{array::new_null_array, buffer::OffsetBuffer, compute::concat};
        let unlike = self.at(pointer);
        let (DataType::List(item), false) = (array.data_type(), unlike.is_empty()) else { return Ok(array) };
        let Some(position) = unlike_position(item.data_type()) else { return Ok(array) };
        let (offsets, values) = own_values(array.as_list());
        // The elements of the rows, followed by one new element for each value.
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
            while let Some((nth, _)) = next.next_if(|(_, span)| span.slot() <= row) {
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

    /// The hidden field `rest`: for each row a JSON object of the fields that have no column, or NULL.
    pub(crate) fn rest(&self, array: &ArrayRef, fields: &Fields, pointer: &str) -> ArrayRef {
        let whole = self.fields_of(pointer);
        let whole = whole.iter().flat_map(|fields| fields.all());
        let mut parts: Vec<(ValueSpan, &str)> = Vec::new();
        for (rest, spans) in self.below(pointer).chain(whole) {
            let first = rest.split('/').nth(1).map(unescaped);
            if first.is_some_and(|first| fields.find(&first).is_none()) {
                parts.extend(spans.iter().map(|span| (*span, rest)));
            }
        }
        parts.sort_by_key(|(span, _)| span.slot());
        let rows = parts.chunk_by(|(one, _), (other, _)| one.slot() == other.slot());
        let rows = rows.filter_map(|row| {
            let json = record_text(row.iter().map(|(span, rest)| (*rest, self.json(*span))));
            Some((row.first()?.0.slot(), Cow::Owned(json)))
        });
        with_texts(array, rows)
    }

    /// The hidden field `unlike`: the JSON of a value in the place of a record.
    pub(crate) fn unlike(&self, array: &ArrayRef, pointer: &str) -> ArrayRef {
        let at = self.at(pointer);
        let unlike = at.iter().filter(|span| !self.is_object(**span));
        with_texts(array, unlike.map(|span| (span.slot(), Cow::Borrowed(self.json(*span)))))
    }

    /// The hidden field `presence`: whether there is a record. A record that is stored whole in the overflow counts.
    pub(crate) fn presence(&self, array: &ArrayRef, pointer: &str) -> ArrayRef {
        let at = self.at(pointer);
        let kept = at.iter().filter(|span| self.is_object(**span));
        with_scalars(array, Scalar::Bool, kept.map(|span| (span.slot(), "true")))
    }
}

/// Makes the struct valid where a value stands in the place of the record; otherwise that value would be masked. The
/// hidden field `presence` says whether there is a record.
fn with_unlike_there(array: ArrayRef, unlike: &[ValueSpan]) -> Result<ArrayRef> {
    let (Some(nulls), false) = (array.nulls(), unlike.is_empty()) else { return Ok(array) };
    let mut there: Vec<bool> = nulls.iter().collect();
    for span in unlike {
        if let Some(there) = there.get_mut(span.slot()) {
            *there = true;
        }
    }
    let record = array.as_struct();
    Ok(Arc::new(StructArray::try_new(record.fields().clone(), record.columns().to_vec(), Some(there.into()))?))
}

fn unlike_position(record: &DataType) -> Option<usize> {
    let DataType::Struct(fields) = record else { return None };
    fields.iter().position(|field| field.name() == tidegate_model::UNLIKE_FIELD)
}
