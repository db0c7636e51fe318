//! What stands in the overflow of a batch of rows, found by pointer.
//!
//! The overflow of a row is a JSON object: values by their JSON pointer (see [`crate::shred`]). Senders decide what
//! is in there, and as a tree of values it would take many times its text. So an index tells only where each value
//! begins and ends in the text, and a value is made of its text when it is read. An entry costs 16 bytes, and each
//! different pointer about 50 more.

use std::{
    collections::HashMap,
    fmt,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use datafusion::{
    arrow::array::{Array, ArrayRef, AsArray, StringViewArray},
    common::exec_err,
    error::Result,
};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::shape::push_pointer;

/// A value: the slot that it belongs to (a row, or an element of a list), and where its JSON is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    slot: u32,
    row: u32,
    start: u32,
    length: u32,
}

impl Place {
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }

    /// The same value, of another slot.
    pub(crate) fn in_slot(self, slot: usize) -> Place {
        Place { slot: slot as u32, ..self }
    }
}

/// The values of some slots by their pointers.
#[derive(Debug)]
pub(crate) struct Overflow {
    texts: StringViewArray,
    /// In order, each with where its places begin.
    pointers: Vec<(Box<str>, usize)>,
    /// By pointer, and then by slot.
    places: Vec<Place>,
    /// The fields of records that stand whole at a pointer; nothing where none does.
    records: Mutex<HashMap<String, Option<Arc<Overflow>>>>,
}

impl Overflow {
    /// Reads an overflow column.
    pub(crate) fn of_column(column: &ArrayRef) -> Result<Overflow> {
        let texts = column.as_string_view();
        let mut building = Building::default();
        for (row, text) in texts.iter().enumerate() {
            let Some(text) = text else { continue };
            let whole = Place { slot: row as u32, row: row as u32, start: 0, length: text.len() as u32 };
            if building.add_fields(text, whole, |key| key).is_err() {
                return exec_err!("the overflow of a row is not a JSON object");
            }
        }
        Ok(building.finish(texts.clone()))
    }

    /// The index of these values, in their slots.
    pub(crate) fn of_places<'p>(&self, places: impl Iterator<Item = (&'p str, Place)>) -> Overflow {
        let mut building = Building::default();
        places.for_each(|(pointer, place)| building.add(pointer, place));
        building.finish(self.texts.clone())
    }

    /// The JSON of a value.
    pub(crate) fn json(&self, place: Place) -> &str {
        let row = place.row as usize;
        let end = place.start as usize + place.length as usize;
        let text = if row < self.texts.len() { self.texts.value(row) } else { "" };
        text.get(place.start as usize..end).unwrap_or_default()
    }

    pub(crate) fn is_record(&self, place: Place) -> bool {
        self.json(place).starts_with('{')
    }

    /// The values at a pointer, in the order of their slots: its own, and those within records that stand whole
    /// above it. A field may have a column now that its record had not.
    pub(crate) fn at(&self, pointer: &str) -> Vec<Place> {
        let mut found = self.own(pointer).to_vec();
        if let Some((above, last)) = pointer.rfind('/').and_then(|at| pointer.split_at_checked(at))
            && let Some(fields) = self.fields_of(above)
        {
            found.extend(fields.own(last));
            found.sort_by_key(|place| place.slot);
            found.dedup_by_key(|place| place.slot);
        }
        found
    }

    /// What has a pointer of its own below this one, each with the rest of its pointer (`/key/...`).
    pub(crate) fn below(&self, pointer: &str) -> impl Iterator<Item = (&str, &[Place])> {
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

    /// The fields of the records that stand whole at a pointer.
    pub(crate) fn fields_of(&self, pointer: &str) -> Option<Arc<Overflow>> {
        // Never held while it is asked for what is above.
        let known = || self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fields) = known().get(pointer) {
            return fields.clone();
        }
        let mut building = Building::default();
        for place in self.at(pointer) {
            if self.is_record(place) {
                // It is JSON: it has been read as a part of its row.
                let _ = building.add_fields(self.json(place), place, |key| {
                    let mut pointer = String::new();
                    push_pointer(&mut pointer, &key);
                    pointer
                });
            }
        }
        let fields = (!building.is_empty()).then(|| Arc::new(building.finish(self.texts.clone())));
        known().insert(pointer.to_owned(), fields.clone());
        fields
    }

    /// All pointers with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &[Place])> {
        self.pointers.iter().enumerate().map(|(nth, (pointer, _))| (pointer.as_ref(), self.nth(nth)))
    }

    fn own(&self, pointer: &str) -> &[Place] {
        match self.pointers.binary_search_by(|(known, _)| known.as_ref().cmp(pointer)) {
            Ok(nth) => self.nth(nth),
            Err(_) => &[],
        }
    }

    fn nth(&self, nth: usize) -> &[Place] {
        let begin = |nth: usize| self.pointers.get(nth).map_or(self.places.len(), |(_, begin)| *begin);
        self.places.get(begin(nth)..begin(nth + 1)).unwrap_or_default()
    }
}

/// An index that is made.
#[derive(Debug, Default)]
struct Building {
    numbers: HashMap<Box<str>, u32>,
    places: Vec<(u32, Place)>,
}

impl Building {
    fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn add(&mut self, pointer: &str, place: Place) {
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(pointer) {
            Some(number) => *number,
            None => {
                self.numbers.insert(pointer.into(), next);
                next
            }
        };
        self.places.push((number, place));
    }

    /// Adds the fields of a record, of which this is the JSON and the place.
    fn add_fields(&mut self, json: &str, record: Place, pointer: fn(String) -> String) -> serde_json::Result<()> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let fields = FieldsOf { building: self, json, record, pointer };
        reader.deserialize_map(fields)?;
        reader.end()
    }

    fn finish(self, texts: StringViewArray) -> Overflow {
        let mut order: Vec<(Box<str>, u32)> = self.numbers.into_iter().collect();
        order.sort_unstable();
        let mut ranks = vec![0_u32; order.len()];
        for (rank, (_, number)) in order.iter().enumerate() {
            if let Some(of) = ranks.get_mut(*number as usize) {
                *of = rank as u32;
            }
        }
        let mut places = self.places;
        for (number, _) in &mut places {
            *number = ranks.get(*number as usize).copied().unwrap_or(0);
        }
        places.sort_by_key(|(rank, place)| (*rank, place.slot));
        // A slot has one value at a pointer; where a text has two, the last counts.
        places.dedup_by(|later, earlier| {
            let same = (later.0, later.1.slot) == (earlier.0, earlier.1.slot);
            if same {
                *earlier = *later;
            }
            same
        });
        let mut begin = 0;
        let pointers = order.into_iter().enumerate().map(|(rank, (pointer, _))| {
            let first = begin;
            while places.get(begin).is_some_and(|(of, _)| *of as usize == rank) {
                begin += 1;
            }
            (pointer, first)
        });
        let pointers = pointers.collect();
        let places = places.into_iter().map(|(_, place)| place).collect();
        Overflow { texts, pointers, places, records: Mutex::default() }
    }
}

/// Reads the fields of one record.
struct FieldsOf<'b, 'j> {
    building: &'b mut Building,
    json: &'j str,
    record: Place,
    pointer: fn(String) -> String,
}

impl<'j> Visitor<'j> for FieldsOf<'_, 'j> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            let range = range_in(value.get(), self.json);
            let place =
                Place { start: self.record.start + range.start as u32, length: range.len() as u32, ..self.record };
            self.building.add(&(self.pointer)(key), place);
        }
        Ok(())
    }
}

/// Where a part of a text is in it.
fn range_in(part: &str, whole: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    start..start + part.len()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn overflow(rows: &[Option<&str>]) -> Overflow {
        let column: ArrayRef = Arc::new(StringViewArray::from(rows.to_vec()));
        Overflow::of_column(&column).unwrap()
    }

    fn found(overflow: &Overflow, pointer: &str) -> Vec<(usize, String)> {
        overflow.at(pointer).into_iter().map(|place| (place.slot(), overflow.json(place).to_owned())).collect()
    }

    fn of(values: &[(usize, &str)]) -> Vec<(usize, String)> {
        values.iter().map(|(slot, json)| (*slot, (*json).to_owned())).collect()
    }

    #[test]
    fn values_are_found_by_pointer_in_the_order_of_rows() {
        let overflow = overflow(&[
            Some(r#"{"/b":"\"","/a":1}"#),
            None,
            Some(r#"{"/a/x/0":[1,2], "/a-b":{"k":[]}}"#),
            Some(r#"{"/a": null ,"/ü\n":"ä"}"#),
        ]);
        assert_eq!(found(&overflow, "/a"), of(&[(0, "1"), (3, "null")]));
        assert_eq!(found(&overflow, "/b"), of(&[(0, r#""\"""#)]));
        assert_eq!(found(&overflow, "/ü\n"), of(&[(3, "\"ä\"")]));
        assert_eq!(found(&overflow, "/c"), []);
        let below: Vec<&str> = overflow.below("/a").map(|(rest, _)| rest).collect();
        assert_eq!(below, ["/x/0"], "/a-b is not below /a");
        assert_eq!(overflow.all().count(), 5);
    }

    #[test]
    fn fields_of_whole_records_are_found_at_every_level() {
        let overflow = overflow(&[
            Some(r#"{"/m":{"a":{"b":1,"c/d~":2},"x":3}}"#),
            Some(r#"{"/m/a":{"b":"t"}}"#),
            Some(r#"{"/m/a/b":[5]}"#),
            Some(r#"{"/m":[{"a":1}]}"#),
        ]);
        assert_eq!(found(&overflow, "/m/a/b"), of(&[(0, "1"), (1, "\"t\""), (2, "[5]")]));
        assert_eq!(found(&overflow, "/m/a/c~1d~0"), of(&[(0, "2")]));
        assert_eq!(found(&overflow, "/m/x"), of(&[(0, "3")]));
        assert_eq!(found(&overflow, "/m/x/y"), []);
        assert!(overflow.fields_of("/m/a/b").is_none());
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for text in ["[]", "1", "{\"/a\":}", "{\"/a\":1", "{} x"] {
            let column: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
            assert!(Overflow::of_column(&column).is_err(), "{text}");
        }
    }
}
