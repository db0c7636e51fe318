//! Values of one tape on another, as normalising leaves them.
//!
//! Reading the JSON text of the new tape gives the same values, so that columns made of the one are those made of the other.
//! Only floats need care ([`Tape::reread_floats`]).

use crate::ingest::tape::{Entries, Extent, Form, Item, Node, Tape};

impl<'t> Tape<'t> {
    /// Adds a value without the empty values in it (`null`, `{}`, `[]`), and with arrays of one object replaced by the
    /// object. Arrays that have neither only objects nor only scalars stay unchanged; they are stored as JSON.
    pub(super) fn push_pruned(&mut self, value: Item<'t>) {
        match *value.node() {
            Node::Array(Extent { count, form: Form::Single, .. }) => {
                if let Some(item) = value.children(count).find(|item| !item.is_blank()) {
                    self.push_pruned(item);
                }
            }
            Node::Array(Extent { count, form: Form::Pruned, .. }) => {
                let (at, mut left) = (self.open(), 0);
                for item in value.children(count).filter(|item| !item.is_blank()) {
                    self.push_pruned(item);
                    left += 1;
                }
                self.close(at, Node::Array(self.extent(left, Form::Pruned)));
            }
            Node::Object(Extent { count, .. }) => {
                let (at, mut left) = (self.open(), 0);
                for (key, value) in Entries(value.children(count * 2)).pairs().filter(|(_, value)| !value.is_blank()) {
                    self.push_whole(key);
                    self.push_pruned(value);
                    left += 1;
                }
                self.close_distinct(at, left);
            }
            _ => self.push_whole(value),
        }
    }

    /// Adds a value unchanged.
    pub(super) fn push_whole(&mut self, value: Item<'t>) {
        match *value.node() {
            Node::Unescaped { .. } => self.nodes.push(Node::Text(value.text().unwrap_or_default())),
            Node::Array(Extent { count, form, .. }) => {
                let at = self.open();
                value.children(count).for_each(|item| self.push_whole(item));
                self.close(at, Node::Array(self.extent(count as usize, form)));
            }
            Node::Object(Extent { count, form, .. }) => {
                let at = self.open();
                value.children(count * 2).for_each(|item| self.push_whole(item));
                self.close(at, Node::Object(self.extent(count as usize, form)));
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
