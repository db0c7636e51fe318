//! A record as JSON text, put together of values at pointers below it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::json_pointer::unescaped;

/// The JSON text of a record with these values, each with its pointer below the record (`/key/...`) and its JSON.
pub(crate) fn record_text<'j>(values: impl Iterator<Item = (&'j str, &'j str)>) -> String {
    let mut record = Node::Record(BTreeMap::new());
    values.for_each(|(pointer, json)| record.insert(pointer, json));
    let mut text = String::new();
    record.write(&mut text);
    text
}

enum Node<'j> {
    Value(&'j str),
    Record(BTreeMap<String, Node<'j>>),
}

impl<'j> Node<'j> {
    /// Puts a value at `/key/key...`. A pointer below another value is ignored; rows have no such pointers.
    fn insert(&mut self, pointer: &str, json: &'j str) {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let Node::Record(fields) = node else { return };
            node = fields.entry(unescaped(step)).or_insert_with(|| Node::Record(BTreeMap::new()));
        }
        *node = Node::Value(json);
    }

    fn write(&self, out: &mut String) {
        match self {
            Node::Value(json) => out.push_str(json),
            Node::Record(fields) => {
                out.push('{');
                for (nth, (key, node)) in fields.iter().enumerate() {
                    if nth > 0 {
                        out.push(',');
                    }
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push(':');
                    node.write(out);
                }
                out.push('}');
            }
        }
    }
}
