//! What must hold for the events of a sender that sends logs of one tenant, whatever it sends.

use serde_json::Value;
use tidegate_model::{SenderPolicy, TenantValue};

const NAMES: [&str; 2] = ["metadata", "project"];
const VALUE: &str = "p1";

/// Events have `p1` at `metadata.project`.
pub(crate) fn policy() -> SenderPolicy {
    let path = NAMES.join(".").parse();
    let value = |path| TenantValue { key: "project".to_owned(), path, value: VALUE.to_owned() };
    SenderPolicy { values: path.into_iter().map(value).collect() }
}

/// Of the events that `all` may send, those that are the tenant's or nobody's are stored, as the tenant's; so many others
/// are refused.
pub(crate) fn held_to(all: &[Value], own: &[Value], refused: usize) {
    assert_eq!(all.len(), own.len() + refused, "an event is neither stored nor refused");
    for event in own {
        assert!(is_own(event, &NAMES), "an event is not the tenant's: {event}");
    }
}

fn is_own(value: &Value, names: &[&str]) -> bool {
    match (value, names.split_first()) {
        (Value::Object(fields), Some((name, rest))) => fields.get(*name).is_some_and(|field| is_own(field, rest)),
        (Value::Array(items), Some(_)) => !items.is_empty() && items.iter().all(|item| is_own(item, names)),
        (text, None) => text == VALUE,
        _ => false,
    }
}
