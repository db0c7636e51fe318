//! Events of a sender that sends logs of one tenant: its value is set where the event has none, and an event that has
//! another one is refused.
//!
//! It is done to the form in which events are stored, so that what is looked at is what a reader of the tenant looks at:
//! empty values are gone, of repeated keys the last one counts, and an array of one record is that record. A path
//! leads through records. Where records repeat on the way, each of them has the value afterwards. Anything else on the way,
//! such as a text, or an array of records and texts, is refused, because no value can be set below it.
//!
//! An event is looked at first, which also tells how long it becomes, and only then copied with the value: a short event
//! with many records must not become a long one in memory before it is refused. Both visit each value once.

use tidegate_model::{SenderPolicy, TenantValue};

use crate::{
    field_names::OVERFLOW,
    ingest::{
        json_text::too_long,
        tape::{Entries, Extent, Form, Item, Node, Tape, View},
    },
};

/// Bytes that a field takes in JSON beside its name and its value: quotes, colon, comma, braces.
const PUNCTUATION: usize = 8;

/// Why the value of a tenant cannot be set in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misfit {
    /// There is another value.
    Other,
    /// Something on the way is no record; so many names are left there.
    NoRecord { left: usize },
}

/// The event, in the form in which it is stored, with the values of a policy. No value makes it more than about `max_bytes`
/// longer.
///
/// # Errors
/// Why it is refused, in words for its sender. They tell of the sender's own values and of no others.
pub(crate) fn hold<'t>(event: Tape<'t>, policy: Option<&SenderPolicy>, max_bytes: usize) -> Result<Tape<'t>, String> {
    let mut event = event;
    for own in policy.into_iter().flat_map(|policy| &policy.values) {
        let names = own.path.names();
        // There the store keeps what has no place in an event.
        if names.first().is_some_and(|name| name == OVERFLOW) {
            return Err(refusal(own, Misfit::Other));
        }
        let added = missing(event.root(), names, &own.value).map_err(|misfit| refusal(own, misfit))?;
        if added > max_bytes {
            return Err(too_long(added, max_bytes));
        }
        if added > 0 {
            event.set(names, &own.value);
        }
    }
    Ok(event)
}

fn refusal(own: &TenantValue, misfit: Misfit) -> String {
    let TenantValue { key, path, value } = own;
    let only = format!("the token sends logs of {key} '{value}' only");
    match misfit {
        Misfit::Other => format!("{only}; the event has another value at {path}"),
        Misfit::NoRecord { left } => {
            let way = path.names().len().saturating_sub(left);
            let place: Vec<&str> = path.names().iter().take(way).map(String::as_str).collect();
            format!("{only}; it cannot be set at {path}, because the event has no record at {}", place.join("."))
        }
    }
}

/// About how many bytes it takes to set the value at these names below a value of the event: 0 if it is there already.
fn missing(at: Item<'_>, names: &[String], value: &str) -> Result<usize, Misfit> {
    let Some((name, rest)) = names.split_first() else {
        return if is_value(at, value) { Ok(0) } else { Err(Misfit::Other) };
    };
    let no_record = Misfit::NoRecord { left: names.len() };
    match at.view() {
        View::Object(_) => match at.field(name) {
            Some(field) => missing(field, rest, value),
            None => Ok(names.iter().fold(value.len(), |sum, name| sum + name.len() + PUNCTUATION)),
        },
        // An array of values that are not all records or all scalars is stored as it is, and nothing in it is a record.
        View::Array(mut items) if at.form() == Some(Form::Pruned) => items.try_fold(0, |sum: usize, item| {
            if item.is_object() { Ok(sum.saturating_add(missing(item, names, value)?)) } else { Err(no_record) }
        }),
        _ => Err(no_record),
    }
}

/// Whether a value is that of the tenant: a text byte for byte, a whole number or a boolean by its JSON text.
fn is_value(at: Item<'_>, value: &str) -> bool {
    match at.view() {
        View::Text(text) => text == value,
        View::Bool(flag) => value == if flag { "true" } else { "false" },
        View::Int(int) => value == int.to_string(),
        // An integer beyond 64 bits is stored as a float, which stands for several.
        View::Null | View::Huge(_) | View::Float(_) | View::Array(_) | View::Object(_) => false,
    }
}

impl Tape<'_> {
    /// Sets a text at a path in each record on the way that has nothing there.
    fn set(&mut self, names: &[String], value: &str) {
        // The texts stand once on the tape, however many records they are set in.
        let mut texts: Vec<Node<'_>> = names.iter().map(|name| self.text_node(name)).collect();
        texts.push(self.text_node(value));
        let nodes = Vec::with_capacity(self.nodes.len() + 2 * texts.len());
        let mut copy = CopyWith { old: self, names, texts: &texts, nodes };
        copy.value(0, 0);
        self.nodes = copy.nodes;
    }

    fn text_node<'n>(&mut self, text: &str) -> Node<'n> {
        let start = self.unescaped.len();
        self.unescaped.push_str(text);
        Node::Unescaped { start, end: self.unescaped.len() }
    }
}

/// A copy of the nodes of a tape, in which a value is set.
struct CopyWith<'a, 't> {
    old: &'a Tape<'t>,
    names: &'a [String],
    /// The names, then the value.
    texts: &'a [Node<'t>],
    nodes: Vec<Node<'t>>,
}

impl CopyWith<'_, '_> {
    /// Copies the value at a position, which stands below so many of the names.
    fn value(&mut self, at: usize, depth: usize) {
        let item = Item { tape: self.old, at };
        match (item.node(), self.names.get(depth)) {
            (Node::Object(extent), Some(name)) => {
                let start = self.open();
                let mut is_there = false;
                for (key, value) in Entries(item.children(extent.count * 2)).pairs() {
                    self.whole(key);
                    if key.text() == Some(name) {
                        is_there = true;
                        self.value(value.at, depth + 1);
                    } else {
                        self.whole(value);
                    }
                }
                if !is_there {
                    self.made(depth);
                }
                self.close_record(start, extent.count + u32::from(!is_there));
            }
            (Node::Array(extent), Some(_)) => {
                let start = self.open();
                for item in item.children(extent.count) {
                    self.value(item.at, depth);
                }
                let end = self.nodes.len() as u32;
                self.put(start, Node::Array(Extent { end, ..*extent }));
            }
            _ => self.whole(item),
        }
    }

    /// Adds the name at this depth and what stands below it: a record for each further name, and then the value.
    fn made(&mut self, depth: usize) {
        self.nodes.extend(self.texts.get(depth));
        if depth + 1 < self.names.len() {
            let start = self.open();
            self.made(depth + 1);
            self.close_record(start, 1);
        } else {
            self.nodes.extend(self.texts.last());
        }
    }

    /// Copies a value or key unchanged.
    fn whole(&mut self, item: Item<'_>) {
        let (from, to) = (item.at, item.end());
        let first = self.nodes.len();
        let moved = |extent: &Extent| Extent { end: (extent.end as usize + first - from) as u32, ..*extent };
        self.nodes.extend(self.old.nodes.get(from..to).unwrap_or_default().iter().map(|node| match node {
            Node::Array(extent) => Node::Array(moved(extent)),
            Node::Object(extent) => Node::Object(moved(extent)),
            other => *other,
        }));
    }

    fn open(&mut self) -> usize {
        self.nodes.push(Node::Null);
        self.nodes.len() - 1
    }

    fn close_record(&mut self, start: usize, count: u32) {
        let end = self.nodes.len() as u32;
        self.put(start, Node::Object(Extent { end, count, form: Form::Pruned }));
    }
}

impl<'t> CopyWith<'_, 't> {
    fn put(&mut self, at: usize, node: Node<'t>) {
        if let Some(place) = self.nodes.get_mut(at) {
            *place = node;
        }
    }
}

#[cfg(test)]
mod tests;
