//! Values of one tape on another, as normalising leaves them.
//!
//! Reading the JSON text of the new tape gives the same values, so that columns made of the one are those made of the other.
//! Only floats need care ([`Tape::reread_floats`]).

use crate::ingest::tape::{Extent, Form, Item, Node, Tape, View};

impl<'t> Tape<'t> {
    /// Adds a value without the empty values in it (`null`, `{}`, `[]`), and with arrays of one object replaced by the
    /// object. Arrays that have neither only objects nor only scalars stay unchanged; they are stored as JSON.
    pub(super) fn push_pruned(&mut self, value: Item<'t>) {
        match (value.view(), value.form()) {
            (View::Array(mut items), Some(Form::Single)) => {
                if let Some(item) = items.find(|item| !item.is_blank()) {
                    self.push_pruned(item);
                }
            }
            (View::Array(items), Some(Form::Pruned)) => {
                let (at, mut count) = (self.open(), 0);
                for item in items.filter(|item| !item.is_blank()) {
                    self.push_pruned(item);
                    count += 1;
                }
                self.close(at, Node::Array(self.extent(count, Form::Pruned)));
            }
            (View::Object(entries), _) => {
                let (at, mut count) = (self.open(), 0);
                for (key, value) in entries.pairs().filter(|(_, value)| !value.is_blank()) {
                    self.push_whole(key);
                    self.push_pruned(value);
                    count += 1;
                }
                self.close_distinct(at, count);
            }
            _ => self.push_whole(value),
        }
    }

    /// Adds a value unchanged.
    pub(super) fn push_whole(&mut self, value: Item<'t>) {
        match *value.node() {
            Node::Unescaped { .. } => self.nodes.push(Node::Text(value.text().unwrap_or_default())),
            Node::Array(Extent { form, .. }) => {
                let (at, mut count) = (self.open(), 0);
                if let View::Array(items) = value.view() {
                    count = items.len();
                    items.for_each(|item| self.push_whole(item));
                }
                self.close(at, Node::Array(self.extent(count, form)));
            }
            Node::Object(Extent { form, .. }) => {
                let (at, mut count) = (self.open(), 0);
                if let View::Object(entries) = value.view() {
                    for (key, value) in entries.pairs() {
                        self.push_whole(key);
                        self.push_whole(value);
                        count += 1;
                    }
                }
                self.close(at, Node::Object(self.extent(count, form)));
            }
            scalar => self.nodes.push(scalar),
        }
    }

    /// Makes each float what is read from its text. The parser is quick and may miss the nearest float by a bit, so that a
    /// number that was read and written may be read as its neighbour.
    pub(crate) fn reread_floats(&mut self) {
        for node in &mut self.nodes {
            if let Node::Float(float) = node {
                *float = reread(*float);
            }
        }
    }

    /// Ends the object that began at `at` and has so many keys, all of them different and none with an empty value.
    pub(super) fn close_distinct(&mut self, at: usize, count: usize) {
        self.close(at, Node::Object(self.extent(count, Form::Pruned)));
    }
}

/// The float that is read from the text of a float.
fn reread(float: f64) -> f64 {
    let mut text = [0_u8; 32];
    let mut rest = text.as_mut_slice();
    let written = serde_json::to_writer(&mut rest, &float);
    let left = rest.len();
    let read = text.get(..text.len() - left).filter(|_| written.is_ok()).map(serde_json::from_slice);
    read.and_then(Result::ok).unwrap_or(float)
}
