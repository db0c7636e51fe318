//! The overflow of a batch of rows, with its values found by JSON pointer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use datafusion::{
    arrow::array::{Array, ArrayRef, AsArray, StringViewArray},
    common::exec_err,
    error::Result,
};

use crate::{
    overflow::pointer_table::{PointerTable, PointerTableBuilder, ValueSpan},
    schema::json_pointer::push_pointer,
};

/// The overflow of a batch of rows. It is indexed once; a column then finds its values without reading those of other
/// columns.
#[derive(Debug)]
pub(crate) struct Overflow {
    /// For each row a JSON object, or NULL.
    texts: StringViewArray,
    table: PointerTable,
    /// The fields of objects that are stored whole at a pointer; `None` where there is none. Filled on demand.
    objects: Mutex<HashMap<String, Option<Arc<Overflow>>>>,
}

impl Overflow {
    fn new(texts: StringViewArray, builder: PointerTableBuilder) -> Overflow {
        Overflow { texts, table: builder.finish(), objects: Mutex::default() }
    }

    /// Indexes an overflow column.
    ///
    /// # Errors
    /// The overflow of a row is not a JSON object.
    pub(crate) fn of_column(column: &ArrayRef) -> Result<Overflow> {
        let texts = column.as_string_view();
        let mut builder = PointerTableBuilder::default();
        for (row, text) in texts.iter().enumerate() {
            let Some(text) = text else { continue };
            if builder.add_fields(text, ValueSpan::of_row(row, text), |key| key).is_err() {
                return exec_err!("the overflow of a row is not a JSON object");
            }
        }
        Ok(Overflow::new(texts.clone(), builder))
    }

    /// An index of these values of this overflow, in the slots that they have now.
    pub(crate) fn of_spans<'p>(&self, spans: impl Iterator<Item = (&'p str, ValueSpan)>) -> Overflow {
        let mut builder = PointerTableBuilder::default();
        spans.for_each(|(pointer, span)| builder.add(pointer, span));
        Overflow::new(self.texts.clone(), builder)
    }

    /// The JSON text of a value.
    pub(crate) fn json(&self, span: ValueSpan) -> &str {
        let text = if span.row() < self.texts.len() { self.texts.value(span.row()) } else { "" };
        text.get(span.range()).unwrap_or_default()
    }

    pub(crate) fn is_object(&self, span: ValueSpan) -> bool {
        self.json(span).starts_with('{')
    }

    /// The values at a pointer, in the order of their slots: those that are stored there, and those inside of objects
    /// that are stored whole above it. Both occur: a field may have got a column after its record was stored whole.
    pub(crate) fn at(&self, pointer: &str) -> Vec<ValueSpan> {
        let mut found = self.table.at(pointer).to_vec();
        if let Some((above, last)) = pointer.rfind('/').and_then(|at| pointer.split_at_checked(at))
            && let Some(fields) = self.fields_of(above)
        {
            found.extend(fields.table.at(last));
            found.sort_by_key(|span| span.slot());
            found.dedup_by_key(|span| span.slot());
        }
        found
    }

    /// The values with a pointer below this one, each with the rest of its pointer (`/key/...`). Values inside of
    /// objects that are stored whole are not among them; see [`Self::fields_of`].
    pub(crate) fn below(&self, pointer: &str) -> impl Iterator<Item = (&str, &[ValueSpan])> {
        self.table.below(pointer)
    }

    /// The fields of the objects that are stored whole at a pointer.
    pub(crate) fn fields_of(&self, pointer: &str) -> Option<Arc<Overflow>> {
        // The lock is not held during the call of `at`, which may call this function for the pointer above.
        let objects = || self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fields) = objects().get(pointer) {
            return fields.clone();
        }
        let mut builder = PointerTableBuilder::default();
        for span in self.at(pointer) {
            if self.is_object(span) {
                // It is valid JSON, because it was parsed as a part of its row.
                let _ = builder.add_fields(self.json(span), span, |key| {
                    let mut pointer = String::new();
                    push_pointer(&mut pointer, &key);
                    pointer
                });
            }
        }
        let fields = (!builder.is_empty()).then(|| Arc::new(Overflow::new(self.texts.clone(), builder)));
        objects().insert(pointer.to_owned(), fields.clone());
        fields
    }

    /// All pointers with their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &[ValueSpan])> {
        self.table.iter()
    }
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
        overflow.at(pointer).into_iter().map(|span| (span.slot(), overflow.json(span).to_owned())).collect()
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
