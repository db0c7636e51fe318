//! Positions of JSON values, ordered by pointer and slot.
//!
//! Senders decide what the overflow holds. As a tree, a JSON value takes many times the bytes of its text. So the table
//! stores only where each value begins and ends in the text of its row. An entry takes 16 bytes, and each distinct
//! pointer about 50 more.

use std::{collections::HashMap, fmt, ops::Range};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Where the JSON text of a value is, and the slot that the value belongs to: a row, or an element of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueSpan {
    slot: u32,
    row: u32,
    start: u32,
    length: u32,
}

impl ValueSpan {
    /// The whole text of a row's overflow.
    pub(crate) fn of_row(row: usize, text: &str) -> ValueSpan {
        ValueSpan { slot: row as u32, row: row as u32, start: 0, length: text.len() as u32 }
    }

    /// The slot that the value belongs to.
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }

    /// The same value in another slot.
    pub(crate) fn in_slot(self, slot: usize) -> ValueSpan {
        ValueSpan { slot: slot as u32, ..self }
    }

    /// The row whose overflow holds the text.
    pub(crate) fn row(self) -> usize {
        self.row as usize
    }

    /// The bytes of the text in the overflow of that row.
    pub(crate) fn range(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.length as usize
    }
}

/// Values by pointer. A slot has at most one value at a pointer.
#[derive(Debug)]
pub(crate) struct PointerTable {
    /// In ascending order; each with the position of its first span.
    pointers: Vec<(Box<str>, usize)>,
    /// Ordered by pointer, then by slot.
    spans: Vec<ValueSpan>,
}

impl PointerTable {
    /// The values at exactly this pointer, in the order of their slots.
    pub(crate) fn at(&self, pointer: &str) -> &[ValueSpan] {
        match self.pointers.binary_search_by(|(known, _)| known.as_ref().cmp(pointer)) {
            Ok(nth) => self.nth(nth),
            Err(_) => &[],
        }
    }

    /// The pointers below this one, each without the common prefix (`/key/...`), with their values.
    pub(crate) fn below(&self, pointer: &str) -> impl Iterator<Item = (&str, &[ValueSpan])> {
        let start = format!("{pointer}/");
        let first = self.pointers.partition_point(|(known, _)| known.as_ref() < start.as_str());
        let length = pointer.len();
        (first..self.pointers.len())
            .map_while(move |nth| {
                let (known, _) = self.pointers.get(nth)?;
                known.starts_with(&start).then_some((nth, known))
            })
            .filter_map(move |(nth, known)| Some((known.get(length..)?, self.nth(nth))))
    }

    /// All pointers with their values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &[ValueSpan])> {
        self.pointers.iter().enumerate().map(|(nth, (pointer, _))| (pointer.as_ref(), self.nth(nth)))
    }

    fn nth(&self, nth: usize) -> &[ValueSpan] {
        let begin = |nth: usize| self.pointers.get(nth).map_or(self.spans.len(), |(_, begin)| *begin);
        self.spans.get(begin(nth)..begin(nth + 1)).unwrap_or_default()
    }
}

/// Collects values in any order and makes a [`PointerTable`] of them.
#[derive(Debug, Default)]
pub(crate) struct PointerTableBuilder {
    numbers: HashMap<Box<str>, u32>,
    spans: Vec<(u32, ValueSpan)>,
}

impl PointerTableBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(crate) fn add(&mut self, pointer: &str, span: ValueSpan) {
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(pointer) {
            Some(number) => *number,
            None => {
                self.numbers.insert(pointer.into(), next);
                next
            }
        };
        self.spans.push((number, span));
    }

    /// Adds the fields of a JSON object, whose text and position these are. `pointer` makes the pointer of a field
    /// from its key.
    pub(crate) fn add_fields(
        &mut self,
        json: &str,
        object: ValueSpan,
        pointer: fn(String) -> String,
    ) -> serde_json::Result<()> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let fields = FieldsOf { builder: self, json, object, pointer };
        reader.deserialize_map(fields)?;
        reader.end()
    }

    pub(crate) fn finish(self) -> PointerTable {
        let mut order: Vec<(Box<str>, u32)> = self.numbers.into_iter().collect();
        order.sort_unstable();
        let mut ranks = vec![0_u32; order.len()];
        for (rank, (_, number)) in order.iter().enumerate() {
            if let Some(of) = ranks.get_mut(*number as usize) {
                *of = rank as u32;
            }
        }
        let mut spans = self.spans;
        for (number, _) in &mut spans {
            *number = ranks.get(*number as usize).copied().unwrap_or(0);
        }
        spans.sort_by_key(|(rank, span)| (*rank, span.slot));
        // A slot has one value at a pointer; where a text has two, the last counts.
        spans.dedup_by(|later, earlier| {
            let same = (later.0, later.1.slot) == (earlier.0, earlier.1.slot);
            if same {
                *earlier = *later;
            }
            same
        });
        let mut begin = 0;
        let pointers = order.into_iter().enumerate().map(|(rank, (pointer, _))| {
            let first = begin;
            while spans.get(begin).is_some_and(|(of, _)| *of as usize == rank) {
                begin += 1;
            }
            (pointer, first)
        });
        let pointers = pointers.collect();
        let spans = spans.into_iter().map(|(_, span)| span).collect();
        PointerTable { pointers, spans }
    }
}

/// Reads the fields of one object.
struct FieldsOf<'b, 'j> {
    builder: &'b mut PointerTableBuilder,
    json: &'j str,
    object: ValueSpan,
    pointer: fn(String) -> String,
}

impl<'j> Visitor<'j> for FieldsOf<'_, 'j> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            let range = range_in(value.get(), self.json);
            let start = self.object.start + range.start as u32;
            let span = ValueSpan { start, length: range.len() as u32, ..self.object };
            self.builder.add(&(self.pointer)(key), span);
        }
        Ok(())
    }
}

/// The position of `part` in `whole`, of which it is a slice.
fn range_in(part: &str, whole: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    start..start + part.len()
}
