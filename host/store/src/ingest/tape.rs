//! The JSON of an event as one flat list of nodes.
//!
//! Events are read twice, when they arrive and when they become columns, and both readers visit every value once, in
//! order. A tree of `serde_json` values costs an allocation for each text and a hash table for each record: five times
//! what parsing itself takes. A tape has its nodes in one vector, in the order of the text; a text without escapes is a
//! slice of the JSON.
//!
//! An array or object is followed by its children, an object by keys and values in turn, and names the position after
//! its last child, so that it can be skipped. Of repeated keys the last value counts, at the place of the first.

use serde_json::{Map, Number, Value};

/// The values of one event.
#[derive(Debug, Default)]
pub(crate) struct Tape<'t> {
    pub(super) nodes: Vec<Node<'t>>,
    /// The texts that stand with escapes in the JSON, one after the other.
    pub(super) unescaped: String,
    /// Containers that are open, and the most that were.
    pub(super) open: usize,
    pub(super) deepest: usize,
    /// Whether a key began with `$`.
    pub(super) dollar: bool,
}

/// One value or key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node<'t> {
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
pub(super) struct Extent {
    /// The position after its last node.
    pub(super) end: u32,
    /// Elements, or keys.
    pub(super) count: u32,
    pub(super) form: Form,
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

impl Tape<'_> {
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
    pub(super) tape: &'t Tape<'t>,
    pub(super) at: usize,
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

/// A scalar.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Atom<'t> {
    Bool(bool),
    Int(i64),
    Float(f64),
    /// An integer above the range of signed 64 bits.
    Huge(u64),
    Text(&'t str),
}

impl<'t> Item<'t> {
    pub(super) fn node(self) -> &'t Node<'t> {
        self.tape.nodes.get(self.at).unwrap_or(&Node::Null)
    }

    pub(super) fn end(self) -> usize {
        match self.node() {
            Node::Array(extent) | Node::Object(extent) => extent.end as usize,
            _ => self.at + 1,
        }
    }

    /// How many nodes it has, itself included.
    pub(crate) fn nodes(self) -> usize {
        self.end().saturating_sub(self.at)
    }

    /// The scalar, if it is one. NULL is none.
    #[inline]
    pub(crate) fn atom(self) -> Option<Atom<'t>> {
        match self.node() {
            Node::Bool(flag) => Some(Atom::Bool(*flag)),
            Node::Int(int) => Some(Atom::Int(*int)),
            Node::Huge(int) => Some(Atom::Huge(*int)),
            Node::Float(float) => Some(Atom::Float(*float)),
            Node::Plain(text) | Node::Text(text) => Some(Atom::Text(text)),
            Node::Unescaped { .. } => self.text().map(Atom::Text),
            Node::Null | Node::Array(_) | Node::Object(_) => None,
        }
    }

    pub(crate) fn view(self) -> View<'t> {
        match self.node() {
            Node::Null => View::Null,
            Node::Bool(flag) => View::Bool(*flag),
            Node::Int(int) => View::Int(*int),
            Node::Huge(int) => View::Huge(*int),
            Node::Float(float) => View::Float(*float),
            Node::Plain(text) | Node::Text(text) => View::Text(text),
            Node::Unescaped { .. } => View::Text(self.text().unwrap_or_default()),
            Node::Array(extent) => View::Array(self.children(extent.count)),
            Node::Object(extent) => View::Object(Entries(self.children(extent.count * 2))),
        }
    }

    /// So many nodes at the level below it.
    pub(super) fn children(self, count: u32) -> Items<'t> {
        Items { tape: self.tape, next: self.at + 1, left: count as usize }
    }

    /// The text, if it is one.
    pub(crate) fn text(self) -> Option<&'t str> {
        match self.node() {
            Node::Plain(text) | Node::Text(text) => Some(text),
            Node::Unescaped { start, end } => self.tape.unescaped.get(*start..*end),
            _ => None,
        }
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
    pub(super) tape: &'t Tape<'t>,
    pub(super) next: usize,
    /// Nodes that follow each other at this level: elements, or keys and values.
    pub(super) left: usize,
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
pub(crate) struct Entries<'t>(pub(super) Items<'t>);

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
