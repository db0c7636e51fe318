//! Making a tape: values are added in the order of the text, and a container is closed when its last child is there.
//!
//! What normalising makes of a container is known then ([`Form`]), and its repeated keys are dropped.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::ingest::tape::{Entries, Extent, Form, Item, Items, Node, Tape};

/// The most keys of an object that are compared pair by pair, to find repeated ones.
const FEW_KEYS: usize = 32;

impl<'t> Tape<'t> {
    /// An empty tape for about so many nodes.
    pub(crate) fn with_capacity(nodes: usize) -> Tape<'t> {
        Tape { nodes: Vec::with_capacity(nodes), ..Tape::default() }
    }

    /// The tape of a tree.
    pub(crate) fn of_value(value: &'t Value) -> Tape<'t> {
        let mut tape = Tape::default();
        tape.push_value(value);
        tape
    }

    fn push_value(&mut self, value: &'t Value) {
        match value {
            Value::Null => self.push_null(),
            Value::Bool(flag) => self.push_bool(*flag),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(int), ..) => self.push_int(int),
                (None, Some(huge), _) => self.push_unsigned(huge),
                (None, None, float) => self.push_float(float.unwrap_or_default()),
            },
            Value::String(text) => self.nodes.push(Node::Text(text)),
            Value::Array(items) => {
                let at = self.open();
                items.iter().for_each(|item| self.push_value(item));
                self.close_array(at, items.len());
            }
            Value::Object(map) => {
                let at = self.open();
                for (key, value) in map {
                    self.dollar |= key.starts_with('$');
                    self.nodes.push(Node::Text(key));
                    self.push_value(value);
                }
                self.close_object(at, map.len());
            }
        }
    }

    pub(crate) fn push_null(&mut self) {
        self.nodes.push(Node::Null);
    }

    pub(crate) fn push_bool(&mut self, flag: bool) {
        self.nodes.push(Node::Bool(flag));
    }

    pub(crate) fn push_int(&mut self, int: i64) {
        self.nodes.push(Node::Int(int));
    }

    pub(crate) fn push_unsigned(&mut self, int: u64) {
        self.nodes.push(i64::try_from(int).map_or(Node::Huge(int), Node::Int));
    }

    /// Adds a finite number.
    pub(crate) fn push_float(&mut self, float: f64) {
        self.nodes.push(Node::Float(float));
    }

    /// Adds a key that stands in JSON between its quotes as it is.
    pub(crate) fn push_plain_key(&mut self, key: &'t str) {
        self.dollar |= key.starts_with('$');
        self.push_plain(key);
    }

    /// Adds a key that does not.
    pub(crate) fn push_unescaped_key(&mut self, key: &str) {
        self.dollar |= key.starts_with('$');
        self.push_unescaped(key);
    }

    /// Adds a text that stands in JSON between its quotes as it is.
    pub(crate) fn push_plain(&mut self, text: &'t str) {
        self.nodes.push(Node::Plain(text));
    }

    /// Adds a text that does not.
    pub(crate) fn push_unescaped(&mut self, text: &str) {
        let start = self.unescaped.len();
        self.unescaped.push_str(text);
        self.nodes.push(Node::Unescaped { start, end: self.unescaped.len() });
    }

    /// Begins a container. Returns its position.
    pub(crate) fn open(&mut self) -> usize {
        self.open += 1;
        self.deepest = self.deepest.max(self.open);
        self.nodes.push(Node::Null);
        self.nodes.len() - 1
    }

    /// Ends the array that began at `at` and has so many elements.
    pub(crate) fn close_array(&mut self, at: usize, count: usize) {
        let extent = self.extent(count, Form::Whole);
        let items = || Items { tape: self, next: at + 1, left: count };
        let records = items().all(|item| matches!(item.node(), Node::Null | Node::Object(_)));
        let scalars = items().all(|item| !matches!(item.node(), Node::Array(_) | Node::Object(_)));
        let form = if records || scalars {
            match items().filter(|item| !item.is_blank()).take(2).count() {
                0 => Form::Blank,
                1 if records => Form::Single,
                _ => Form::Pruned,
            }
        } else {
            Form::Whole
        };
        self.close(at, Node::Array(Extent { form, ..extent }));
    }

    /// Ends the object that began at `at` and has so many keys.
    pub(crate) fn close_object(&mut self, at: usize, count: usize) {
        let mut count = count;
        if self.repeats(at, count) {
            count = self.drop_repeated(at, count);
        }
        let blank = Entries(Items { tape: self, next: at + 1, left: count * 2 }).all(|(_, value)| value.is_blank());
        let form = if blank { Form::Blank } else { Form::Pruned };
        self.close(at, Node::Object(self.extent(count, form)));
    }

    pub(super) fn extent(&self, count: usize, form: Form) -> Extent {
        Extent { end: self.nodes.len() as u32, count: count as u32, form }
    }

    /// Ends the container at `at`.
    pub(super) fn close(&mut self, at: usize, node: Node<'t>) {
        self.open = self.open.saturating_sub(1);
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
    }

    /// Whether an object has a key twice.
    fn repeats(&self, at: usize, count: usize) -> bool {
        let entries = || Entries(Items { tape: self, next: at + 1, left: count * 2 });
        // Most objects have few keys that differ in length or in one of three letters.
        let mut seen = [0_u64; 4];
        let differ = count <= FEW_KEYS
            && entries().all(|(key, _)| {
                let key = key.as_bytes();
                let letter = |at: usize| usize::from(key.get(at).copied().unwrap_or_default());
                let mixed = key.len() * 67
                    + letter(0) * 31
                    + letter(key.len() / 2) * 7
                    + letter(key.len().wrapping_sub(1)) * 13;
                let bit = 1 << (mixed & 63);
                seen.get_mut(mixed >> 6 & 3).is_some_and(|word| {
                    let new = *word & bit == 0;
                    *word |= bit;
                    new
                })
            });
        if differ {
            return false;
        }
        if count <= FEW_KEYS {
            let pairs = |(nth, (key, _)): (usize, (&str, Item<'_>))| entries().take(nth).any(|(other, _)| other == key);
            return entries().enumerate().any(pairs);
        }
        let mut keys = HashSet::with_capacity(count);
        !entries().all(|(key, _)| keys.insert(key))
    }

    /// Leaves of each key the first place and the last value. Returns the number of keys.
    fn drop_repeated(&mut self, at: usize, count: usize) -> usize {
        let mut places: HashMap<String, usize> = HashMap::new();
        // The position of the key, and where the value begins and ends.
        let mut kept: Vec<(usize, usize, usize)> = Vec::new();
        let mut next = at + 1;
        for _ in 0..count {
            let (key, value) = (Item { tape: self, at: next }, Item { tape: self, at: next + 1 });
            let (key, end) = (key.text().unwrap_or_default(), value.end());
            match places.get(key).and_then(|place| kept.get_mut(*place)) {
                Some((_, from, to)) => (*from, *to) = (next + 1, end),
                None => {
                    places.insert(key.to_owned(), kept.len());
                    kept.push((next, next + 1, end));
                }
            }
            next = end;
        }
        let old = self.nodes.split_off(at + 1);
        let old = |position: usize| old.get(position - at - 1).copied().unwrap_or(Node::Null);
        for (key, from, to) in &kept {
            self.nodes.push(old(*key));
            let shift = |end: u32| (end as usize + self.nodes.len() - from) as u32;
            let moved: Vec<Node<'t>> = (*from..*to)
                .map(|position| match old(position) {
                    Node::Array(extent) => Node::Array(Extent { end: shift(extent.end), ..extent }),
                    Node::Object(extent) => Node::Object(Extent { end: shift(extent.end), ..extent }),
                    other => other,
                })
                .collect();
            self.nodes.extend(moved);
        }
        kept.len()
    }
}
