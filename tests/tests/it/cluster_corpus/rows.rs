//! The rows of answers, made comparable.

use serde_json::{Value, json};

/// The rows of an answer in an order of their own, floats with nine digits.
pub(crate) fn rows(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let mut rows: Vec<String> = body["result"].as_array().unwrap().iter().map(|row| rounded(row).to_string()).collect();
    rows.sort();
    rows
}

fn rounded(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!(format!("{:.9e}", number.as_f64().unwrap())),
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), rounded(value))).collect(),
        other => other.clone(),
    }
}

/// The column by which a statement orders its rows, if that is one of the answer: after its last ORDER BY outside of
/// parentheses.
pub(crate) fn sort_column(text: &str) -> Option<String> {
    let text = text.to_lowercase();
    let (_, rest) = text.rsplit_once("order by")?;
    if rest.matches(')').count() > rest.matches('(').count() {
        return None;
    }
    let key: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.')).collect();
    key.rsplit('.').next().map(str::to_owned)
}

/// The values of a column, in the order of the rows; nothing if there is no such column.
pub(crate) fn column(body: &[u8], name: &str) -> Vec<Value> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let rows = body["result"].as_array().unwrap();
    rows.iter().filter_map(|row| row.get(name).map(rounded)).collect()
}
