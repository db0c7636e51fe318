//! The JSON of an event as one flat list of nodes.
//!
//! Events are read twice, when they arrive and when they become columns, and both readers visit every value once, in
//! order. A tree of `serde_json` values costs an allocation for each text and a hash table for each record: five times
//! what parsing itself takes. A tape has its nodes in one vector, in the order of the text; a text without escapes is a
//! slice of the JSON.
//!
//! An array or object is followed by its children, an object by keys and values in turn, and names the position after
//! its last child, so that it can be skipped. Of repeated keys the last value counts, at the place of the first.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Number, Value};

/// The most keys of an object that are compared pair by pair, to find repeated ones.
const FEW_KEYS: usize = 32;

/// The values of one event.
#[derive(Debug, Default)]
pub(crate) struct Tape<'t> {
    nodes: Vec<Node<'t>>,
    /// The texts that stand with escapes in the JSON, one after the other.
    unescaped: String,
    /// Containers that are open, and the most that were.
    open: usize,
    deepest: usize,
    /// Whether a key began with `$`.
    dollar: bool,
}

/// One value or key.
#[derive(Debug, Clone, Copy)]
enum Node<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above the range of signed 64 bits.
    Huge(u64),
    /// Finite.
    Float(f64),
    /// A text that stands in JSON as it is.
    Plain(&'t str),
    /// A text that JSON may have to escape.
    Text(&'t str),
    /// The same, in [`Tape::unescaped`].
    Unescaped {
        start: usize,
        end: usize,
    },
    Array(Extent),
    Object(Extent),
}

/// How far a container goes.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// The position after its last node.
    end: u32,
    /// Elements, or keys.
    count: u32,
    form: Form,
}

/// What normalising makes of a container; see [`crate::ingest::normalise`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing: it has no value but empty ones.
    Blank,
    /// Itself without its empty values.
    Pruned,
    /// An array of records of which exactly one is not empty: that record.
    Single,
    /// Itself, unchanged: an array that has neither only records nor only scalars.
    Whole,
}

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

    fn extent(&self, count: usize, form: Form) -> Extent {
        Extent { end: self.nodes.len() as u32, count: count as u32, form }
    }

    /// Ends the container at `at`.
    fn close(&mut self, at: usize, node: Node<'t>) {
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

    /// At least as many values and levels as the event has, and whether one of its keys may begin with `$`: what is
    /// within bounds here needs no second look.
    pub(crate) fn bounds(&self) -> (usize, usize, bool) {
        (self.nodes.len(), self.deepest, self.dollar)
    }

    /// The whole event.
    pub(crate) fn root(&self) -> Item<'_> {
        Item { tape: self, at: 0 }
    }
}

/// A value on a tape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item<'t> {
    tape: &'t Tape<'t>,
    at: usize,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum View<'t> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above the range of signed 64 bits.
    Huge(u64),
    Float(f64),
    Text(&'t str),
    Array(Items<'t>),
    Object(Entries<'t>),
}

impl<'t> Item<'t> {
    fn node(self) -> &'t Node<'t> {
        self.tape.nodes.get(self.at).unwrap_or(&Node::Null)
    }

    fn end(self) -> usize {
        match self.node() {
            Node::Array(extent) | Node::Object(extent) => extent.end as usize,
            _ => self.at + 1,
        }
    }

    pub(crate) fn view(self) -> View<'t> {
        let children = |left: u32| Items { tape: self.tape, next: self.at + 1, left: left as usize };
        match self.node() {
            Node::Null => View::Null,
            Node::Bool(flag) => View::Bool(*flag),
            Node::Int(int) => View::Int(*int),
            Node::Huge(int) => View::Huge(*int),
            Node::Float(float) => View::Float(*float),
            Node::Plain(text) | Node::Text(text) => View::Text(text),
            Node::Unescaped { .. } => View::Text(self.text().unwrap_or_default()),
            Node::Array(extent) => View::Array(children(extent.count)),
            Node::Object(extent) => View::Object(Entries(children(extent.count * 2))),
        }
    }

    /// The text, if it is one.
    pub(crate) fn text(self) -> Option<&'t str> {
        match self.node() {
            Node::Plain(text) | Node::Text(text) => Some(text),
            Node::Unescaped { start, end } => self.tape.unescaped.get(*start..*end),
            _ => None,
        }
    }

    /// Whether it is a text that stands in JSON between its quotes as it is.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self.node(), Node::Plain(_))
    }

    pub(crate) fn is_object(self) -> bool {
        matches!(self.node(), Node::Object(_))
    }

    /// Whether normalising removes it: NULL, or a container of nothing but that.
    pub(crate) fn is_blank(self) -> bool {
        matches!(self.node(), Node::Null) || self.form() == Some(Form::Blank)
    }

    /// What normalising makes of it, if it is a container.
    pub(crate) fn form(self) -> Option<Form> {
        match self.node() {
            Node::Array(extent) | Node::Object(extent) => Some(extent.form),
            _ => None,
        }
    }

    /// The value of a key, if it is an object that has it.
    pub(crate) fn field(self, name: &str) -> Option<Item<'t>> {
        match self.view() {
            View::Object(mut entries) => entries.find(|(key, _)| *key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// It as a tree.
    pub(crate) fn to_value(self) -> Value {
        match self.view() {
            View::Null => Value::Null,
            View::Bool(flag) => Value::Bool(flag),
            View::Int(int) => Value::from(int),
            View::Huge(int) => Value::from(int),
            View::Float(float) => Number::from_f64(float).map_or(Value::Null, Value::Number),
            View::Text(text) => Value::from(text),
            View::Array(items) => items.map(Item::to_value).collect(),
            View::Object(entries) => {
                Value::Object(entries.map(|(key, value)| (key.to_owned(), value.to_value())).collect::<Map<_, _>>())
            }
        }
    }
}

/// The elements of an array, in order.
#[derive(Debug, Clone)]
pub(crate) struct Items<'t> {
    tape: &'t Tape<'t>,
    next: usize,
    left: usize,
}

impl<'t> Iterator for Items<'t> {
    type Item = Item<'t>;

    fn next(&mut self) -> Option<Item<'t>> {
        self.left = self.left.checked_sub(1)?;
        let item = Item { tape: self.tape, at: self.next };
        self.next = item.end();
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The keys and values of an object, in order.
#[derive(Debug, Clone)]
pub(crate) struct Entries<'t>(Items<'t>);

impl<'t> Entries<'t> {
    /// The keys as items, and the values.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (Item<'t>, Item<'t>)> {
        let Items { tape, mut next, mut left } = self.0;
        std::iter::from_fn(move || {
            left = left.checked_sub(2)?;
            let (key, value) = (Item { tape, at: next }, Item { tape, at: next + 1 });
            next = value.end();
            Some((key, value))
        })
    }
}

impl<'t> Iterator for Entries<'t> {
    type Item = (&'t str, Item<'t>);

    fn next(&mut self) -> Option<(&'t str, Item<'t>)> {
        let Items { tape, next, left } = &mut self.0;
        *left = left.checked_sub(2)?;
        let (key, value) = (Item { tape, at: *next }, Item { tape, at: *next + 1 });
        *next = value.end();
        Some((key.text().unwrap_or_default(), value))
    }
}
