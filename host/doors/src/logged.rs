//! What answers tell of events: the answer of the doors that have no protocol of their own, and parts of others.

use serde_json::{Map, Value, json};
use tidegate_store::Ingested;

/// How many refused events the answer describes. All of them are counted.
const NAMED: usize = 100;
/// How many a text describes.
const NAMED_IN_TEXT: usize = 10;

/// The body of the answer. Fields that say nothing are left out, so that clients that know only the first three fields
/// see no others.
pub(crate) fn logged(outcome: &Ingested) -> Value {
    let errors = outcome.refused.iter().take(NAMED);
    let errors: Vec<Value> = errors.map(|refused| json!({"index": refused.index, "message": refused.reason})).collect();
    let fields = [
        ("message", Some(Value::from("Logged!"))),
        ("accepted", Some(outcome.stored.into())),
        ("rejected", Some(outcome.refused.len().into())),
        ("unread_times", (outcome.unread_times > 0).then(|| outcome.unread_times.into())),
        ("future_times", (outcome.future_times > 0).then(|| outcome.future_times.into())),
        ("early_times", (outcome.early_times > 0).then(|| outcome.early_times.into())),
        ("errors", (!errors.is_empty()).then(|| errors.into())),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The same fields without the message, if there is anything to tell beside that all events are stored.
pub(crate) fn told(outcome: &Ingested) -> Option<Map<String, Value>> {
    let Value::Object(mut fields) = logged(outcome) else { return None };
    fields.shift_remove("message");
    (fields.len() > 2 || !outcome.refused.is_empty()).then_some(fields)
}

/// What there is to tell beside that all events are stored, as lines of text. `what` is an event in the words of the protocol, one
/// and several.
pub(crate) fn remarks(outcome: &Ingested, (one, several): (&str, &str)) -> Vec<String> {
    let refused = outcome.refused.iter().take(NAMED_IN_TEXT);
    let refused = refused.map(|refused| format!("{one} {}: {}", refused.index, refused.reason));
    let times = [
        (outcome.unread_times, "have a time that cannot be read"),
        (outcome.future_times, "have a time more than a day ahead"),
        (outcome.early_times, "have a time in 1970, as if it were sent in another unit"),
    ];
    let times = times.into_iter().filter(|(count, _)| *count > 0);
    refused.chain(times.map(|(count, what)| format!("{count} {several} {what}"))).collect()
}
