//! Rewriting a case file: new values for some of its keys, and everything else as its author wrote it.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::json_diff::rows_laid_out;

/// The text of a JSON object with other values for top-level keys. A key that it does not have is
/// added at its end.
///
/// # Errors
/// If the text is no JSON object.
pub(super) fn with_values(text: &str, values: &[(&str, Value)]) -> serde_json::Result<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    // Where each value stands: it is a slice of the text.
    let mut places = Vec::new();
    let mut added = String::new();
    for (key, value) in values {
        match fields.get(*key) {
            Some(raw) => {
                let start = raw.get().as_ptr().addr() - text.as_ptr().addr();
                places.push((start..start + raw.get().len(), value));
            }
            None => {
                let comma = if fields.is_empty() && added.is_empty() { "" } else { "," };
                let label = format!("  {}: ", Value::from(*key));
                added.push_str(&format!("{comma}\n{label}{}", rows_laid_out(value, 2, label.len())));
            }
        }
    }
    places.sort_by_key(|(place, _)| place.start);
    let mut out = String::new();
    let mut done = 0;
    for (place, value) in places {
        let before = text.get(done..place.start).unwrap_or_default();
        out.push_str(before);
        let line = text.get(..place.start).and_then(|head| head.rsplit('\n').next()).unwrap_or_default();
        let indent = line.chars().count() - line.trim_start().chars().count();
        out.push_str(&rows_laid_out(value, indent, line.chars().count()));
        done = place.end;
    }
    let rest = text.get(done..).unwrap_or_default();
    if added.is_empty() {
        out.push_str(rest);
        return Ok(out);
    }
    let end = rest.rfind('}').unwrap_or(rest.len());
    let (inside, after) = rest.split_at(end);
    out.push_str(inside.trim_end());
    out.push_str(&added);
    out.push('\n');
    out.push_str(after);
    Ok(out)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_rewritten_stays_as_it_was_written() {
        let text = "{\n  \"logs\": { \"s\":[ {\"id\":\"1\"} ] },\n\t\"expect\":   {\"result\": [1,\n 2]},\n  \"cost\": {}  \n}\n";
        let told = with_values(text, &[("cost", json!({"statements": 1})), ("expect", json!({"result": []}))]).unwrap();
        assert_eq!(
            told,
            "{\n  \"logs\": { \"s\":[ {\"id\":\"1\"} ] },\n\t\"expect\":   {\"result\": []},\n  \"cost\": {\"statements\": 1}  \n}\n"
        );
    }

    #[test]
    fn rows_begin_lines() {
        let rows = json!({"result": [{"n": 1}, {"n": 2}]});
        let told = with_values("{\n  \"expect\": 0\n}\n", &[("expect", rows)]).unwrap();
        assert_eq!(told, "{\n  \"expect\": {\n    \"result\": [\n      {\"n\": 1},\n      {\"n\": 2}\n    ]\n  }\n}\n");
    }

    #[test]
    fn what_is_missing_is_added() {
        let rows: Vec<Value> = (0..5).map(|i| json!({"event_message": "a message of some length", "i": i})).collect();
        for text in ["{}", "{\n}\n", "{\"now\": \"2026-01-01\"}", "{\n  \"now\": \"}\"\n}\n"] {
            let told = with_values(text, &[("expect", json!({"result": rows}))]).unwrap();
            let mut wanted: Value = serde_json::from_str(text).unwrap();
            wanted.as_object_mut().unwrap().insert("expect".to_owned(), json!({"result": rows}));
            assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), wanted, "{told}");
            assert!(told.contains("\n  \"expect\": {\n    \"result\": [\n      {"), "{told}");
        }
        assert!(with_values("[]", &[]).is_err());
    }
}
