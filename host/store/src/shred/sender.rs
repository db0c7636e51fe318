//! Whose an event is: the value at the path of the source's tenant key, as readers of the tenant look at it.

use tidegate_model::tenant_number;

use crate::{
    ingest::tape::{Item, View},
    schema::senders::Sender,
};

/// The sender of an event, by the names of the path of a key.
pub(crate) fn sender_of(event: Item<'_>, names: &[String]) -> Sender {
    match found(event, names) {
        Found::One(tenant) => Sender::Tenant(tenant),
        Found::Nothing | Found::Nobody => Sender::Nobody,
    }
}

#[derive(PartialEq)]
enum Found {
    Nothing,
    One(String),
    Nobody,
}

fn found(at: Item<'_>, names: &[String]) -> Found {
    match (at.view(), names.split_first()) {
        (View::Null, _) => Found::Nothing,
        (View::Object(_), Some((name, rest))) => at.field(name).map_or(Found::Nothing, |field| found(field, rest)),
        (View::Array(items), Some(_)) => {
            items.map(|item| found(item, names)).fold(Found::Nothing, |own, other| match (own, other) {
                (Found::Nothing, found) | (found, Found::Nothing) => found,
                (own, other) if own == other => own,
                _ => Found::Nobody,
            })
        }
        (_, Some(_)) => Found::Nothing,
        (View::Text(text), None) => Found::One(text.to_owned()),
        (View::Bool(flag), None) => Found::One(flag.to_string()),
        (View::Int(int), None) => Found::One(int.to_string()),
        // Integers beyond 64 bits are stored as floats.
        (View::Huge(_) | View::Float(_), None) => {
            at.to_value().as_f64().and_then(tenant_number).map_or(Found::Nobody, Found::One)
        }
        (View::Array(_) | View::Object(_), None) => Found::Nobody,
    }
}
