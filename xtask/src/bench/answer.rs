//! Answers in one form, so that those of different systems can be compared: a system that is fast and wrong is not fast.

use serde_json::{Map, Value};

/// The rows of the statements of a question, in the order in which they came.
pub(crate) type Answer = Vec<Vec<Vec<Value>>>;

/// How far sums of floats in another order may be apart, as a share.
const TOLERANCE: f64 = 1e-9;
/// Rows of an answer that are shown where it differs.
const SHOWN: usize = 3;

/// A value in the form that is compared:
/// - a time is a number of microseconds since 1970, whether it came as text with a T, with a blank, or as such a number;
/// - a record in an array of its own is that record, and JSON text is what it says;
/// - fields that are NULL or empty are left out, because a store of columns cannot tell them from absent ones.
pub(crate) fn normal(value: &Value) -> Value {
    match value {
        Value::String(text) => match text.as_bytes().first() {
            Some(b'{' | b'[') => {
                serde_json::from_str::<Value>(text).map_or_else(|_| value.clone(), |parsed| normal(&parsed))
            }
            Some(b'0'..=b'9') => moment(text).map_or_else(|| value.clone(), Value::from),
            _ => value.clone(),
        },
        Value::Array(list) => match list.as_slice() {
            [record @ Value::Object(_)] => normal(record),
            _ => list.iter().map(normal).collect(),
        },
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), normal(value)));
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Microseconds of a text such as `2026-01-31 12:00:00`, with a fraction or without.
fn moment(text: &str) -> Option<i64> {
    let form = match text.as_bytes().get(10)? {
        b'T' => "%Y-%m-%dT%H:%M:%S%.f",
        b' ' => "%Y-%m-%d %H:%M:%S%.f",
        _ => return None,
    };
    Some(chrono::NaiveDateTime::parse_from_str(text, form).ok()?.and_utc().timestamp_micros())
}

/// The rows that a service or a peer gave, in the form that is compared.
///
/// # Errors
/// Where they are neither arrays nor objects.
pub(crate) fn rows(rows: &Value) -> Result<Vec<Vec<Value>>, String> {
    let rows = rows.as_array().ok_or("the answer has no rows")?;
    let row = |row: &Value| match row {
        Value::Array(values) => Ok(values.iter().map(normal).collect()),
        Value::Object(fields) => Ok(fields.values().map(normal).collect()),
        other => Err(format!("{other} is no row")),
    };
    rows.iter().map(row).collect()
}

/// Whether two values are the same, floats within a tolerance.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64(), a.as_f64(), b.as_f64()) {
            (Some(a), Some(b), ..) => a == b,
            (_, _, Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => one == other,
    }
}

/// Compares two answers.
///
/// # Errors
/// The first rows in which they differ, of both.
pub(crate) fn compare(question: &str, one: (&str, &Answer), other: (&str, &Answer)) -> Result<(), String> {
    let parts = one.1.len().max(other.1.len());
    for part in 0..parts {
        let nothing = Vec::new();
        let (a, b) = (one.1.get(part).unwrap_or(&nothing), other.1.get(part).unwrap_or(&nothing));
        let same_row = |at: usize| match (a.get(at), b.get(at)) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            _ => false,
        };
        if let Some(at) = (0..a.len().max(b.len())).find(|at| !same_row(*at)) {
            let show = |name: &str, rows: &[Vec<Value>]| {
                let shown: String =
                    rows.iter().skip(at).take(SHOWN).map(|row| format!("    {}\n", Value::from(row.clone()))).collect();
                format!("  {name}, {} rows, from row {}:\n{shown}", rows.len(), at + 1)
            };
            return Err(format!(
                "{question}, statement {}: the answers of {} and {} differ\n{}{}",
                part + 1,
                one.0,
                other.0,
                show(one.0, a),
                show(other.0, b)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_and_records_have_one_form() {
        let moment = 1_769_860_800_000_000_i64;
        for value in [
            json!(moment),
            json!("2026-01-31T12:00:00"),
            json!("2026-01-31 12:00:00.000000"),
            json!("2026-01-31T12:00:00.0"),
        ] {
            assert_eq!(normal(&value), json!(moment));
        }
        assert_eq!(normal(&json!("2026-01-31")), json!("2026-01-31"));
        assert_eq!(normal(&json!("10.0.0.1 and more text")), json!("10.0.0.1 and more text"));
        let wrapped = json!([{"a": [{"b": 1, "c": null}], "d": [], "e": [1, 2]}]);
        assert_eq!(normal(&wrapped), json!({"a": {"b": 1}, "e": [1, 2]}));
        assert_eq!(normal(&json!(r#"{"a": {"b": 1}, "e": [1, 2]}"#)), normal(&wrapped));
    }

    #[test]
    fn rows_are_compared_by_place() {
        let service = vec![rows(&json!([{"n": 5, "mean": 0.30000000000000004}, {"n": 6, "mean": 2.0}])).unwrap()];
        let peer = vec![rows(&json!([[5, 0.3], [6, 2]])).unwrap()];
        compare("q", ("one", &service), ("other", &peer)).unwrap();
        for different in [json!([[5, 0.3]]), json!([[5, 0.3], [7, 2]]), json!([[6, 2], [5, 0.3]]), json!([])] {
            let different = vec![rows(&different).unwrap()];
            let told = compare("q", ("one", &service), ("other", &different)).unwrap_err();
            assert!(told.contains("one, 2 rows") && told.contains("other, "), "{told}");
        }
        assert!(compare("q", ("one", &service), ("other", &Vec::new())).is_err());
    }
}
