//! What a case expects: the body of the answer, an error, what the request costs; and how an answer is
//! compared with it. Of what is given everything counts, and nothing of what is not.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_service::workbench::Cost;

/// What is expected of the body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    #[serde(default)]
    result: Option<Value>,
    #[serde(default)]
    error: Option<ExpectedError>,
}

/// What is expected of an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedError {
    #[serde(default)]
    status: Option<u16>,
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

/// What a request is expected to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ExpectedCost {
    instructions: Option<u64>,
    guest_memory: Option<u64>,
    host_calls: Option<u64>,
    statements: Option<u64>,
    guest_rows: Option<u64>,
    guest_bytes: Option<u64>,
    answer_rows: Option<u64>,
}

impl Expectation {
    /// Whether it is either an answer or an error.
    pub(super) fn is_one(&self) -> bool {
        self.result.is_some() != self.error.is_some()
    }

    /// The expected body and what of the actual one it is compared with: of an error, only the keys
    /// that the expectation has.
    pub(super) fn against(&self, actual: &Value) -> (Value, Value) {
        let Some(expected) = &self.error else {
            let expected = json!({"result": self.result});
            return (aligned(&expected, actual), actual.clone());
        };
        let expected = expected.fields();
        let shown = match actual.get("error") {
            Some(Value::Object(fields)) => {
                let kept = expected.keys().map(|key| (key.clone(), fields.get(key).cloned().unwrap_or(Value::Null)));
                json!({"error": kept.collect::<Map<_, _>>()})
            }
            _ => actual.clone(),
        };
        (json!({"error": expected}), shown)
    }

    /// The expectation of this body, in place of this one.
    pub(super) fn renewed(before: Option<&Self>, actual: &Value) -> Value {
        let Some(Value::Object(fields)) = actual.get("error") else { return actual.clone() };
        let keys = match before.and_then(|before| before.error.as_ref()) {
            Some(error) => error.fields().keys().cloned().collect(),
            None => ["status", "code", "message"].map(str::to_owned).to_vec(),
        };
        let kept = keys.into_iter().map(|key| (key.clone(), fields.get(&key).cloned().unwrap_or(Value::Null)));
        json!({"error": kept.collect::<Map<_, _>>()})
    }
}

impl ExpectedError {
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let Self { status, code, message } = self;
        let given = [
            ("status", status.map(Value::from)),
            ("code", code.clone().map(Value::from)),
            ("message", message.clone().map(Value::from)),
        ];
        fields.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        fields
    }
}

/// The numbers of a cost under their names in case files, in the order in which they are reported.
pub(super) fn numbers(cost: &Cost) -> [(&'static str, u64); 7] {
    let Cost { instructions, guest_memory, host_calls, statements, guest_rows, guest_bytes, answer_rows } = *cost;
    [
        ("instructions", instructions),
        ("guest_memory", guest_memory),
        ("host_calls", host_calls),
        ("statements", statements),
        ("guest_rows", guest_rows),
        ("guest_bytes", guest_bytes),
        ("answer_rows", answer_rows),
    ]
}

impl ExpectedCost {
    /// The expected numbers, in the order of [`numbers`].
    fn given(&self) -> [Option<u64>; 7] {
        let Self { instructions, guest_memory, host_calls, statements, guest_rows, guest_bytes, answer_rows } = *self;
        [instructions, guest_memory, host_calls, statements, guest_rows, guest_bytes, answer_rows]
    }

    /// The expected numbers, and the actual ones of the same names.
    pub(super) fn against(&self, actual: &Cost) -> (Value, Value) {
        let (mut expected, mut shown) = (Map::new(), Map::new());
        for ((name, number), given) in numbers(actual).into_iter().zip(self.given()) {
            if let Some(given) = given {
                expected.insert(name.to_owned(), given.into());
                shown.insert(name.to_owned(), number.into());
            }
        }
        (json!({"cost": expected}), json!({"cost": shown}))
    }

    /// The cost that is to stand in place of this one: the same numbers, or all where it has none.
    pub(super) fn renewed(&self, actual: &Cost) -> Value {
        let all = self.given().iter().all(Option::is_none);
        let kept = numbers(actual).into_iter().zip(self.given()).filter(|(_, given)| all || given.is_some());
        Value::Object(kept.map(|((name, number), _)| (name.to_owned(), number.into())).collect())
    }
}

/// The expected value with what makes no difference taken from the actual one: the order of keys,
/// and how a number is written.
pub(super) fn aligned(expected: &Value, actual: &Value) -> Value {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let mut fields = Map::new();
            for (key, value) in actual {
                if let Some(wanted) = expected.get(key) {
                    fields.insert(key.clone(), aligned(wanted, value));
                }
            }
            for (key, wanted) in expected {
                if !actual.contains_key(key) {
                    fields.insert(key.clone(), wanted.clone());
                }
            }
            Value::Object(fields)
        }
        (Value::Array(expected), Value::Array(actual)) => {
            let paired = expected.iter().enumerate();
            paired
                .map(|(i, wanted)| actual.get(i).map_or_else(|| wanted.clone(), |value| aligned(wanted, value)))
                .collect()
        }
        // 2 and 2.0 are one number in JSON.
        (Value::Number(wanted), Value::Number(number))
            if wanted.is_f64() != number.is_f64() && wanted.as_f64() == number.as_f64() =>
        {
            actual.clone()
        }
        _ => expected.clone(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn order_of_keys_and_spelling_of_numbers_make_no_difference() {
        let actual = json!({"result": [{"a": 1, "b": 2.0}, {"a": 2, "b": 0.5}]});
        let same = |expected: Value| aligned(&expected, &actual) == actual;
        assert!(same(json!({"result": [{"b": 2, "a": 1}, {"b": 0.5, "a": 2}]})));
        assert!(!same(json!({"result": [{"b": 2, "a": 1}]})));
        assert!(!same(json!({"result": [{"b": 2, "a": 1}, {"b": 0.5, "a": 2, "c": null}]})));
        assert!(!same(json!({"result": [{"b": 2, "a": "1"}, {"b": 0.5, "a": 2}]})));
        assert!(!same(json!({"result": [{"b": 0.5, "a": 2}, {"b": 2, "a": 1}]})), "rows have an order");
    }

    #[test]
    fn of_an_error_only_what_is_given_counts() {
        let actual = json!({"error": {"code": "invalid_parameter", "message": "m", "status": 400, "errors": []}});
        let case = |expect: Value| serde_json::from_value::<Expectation>(expect).unwrap();
        let holds = |expect: Value| {
            let (expected, shown) = case(expect).against(&actual);
            expected == shown
        };
        assert!(holds(json!({"error": {"status": 400}})));
        assert!(holds(json!({"error": {"message": "m", "code": "invalid_parameter"}})));
        assert!(!holds(json!({"error": {"status": 404}})));
        assert!(!holds(json!({"result": []})));
        let rows = json!({"result": []});
        let (expected, shown) = case(json!({"error": {"status": 400}})).against(&rows);
        assert!(expected != shown && shown == rows);
        let before = case(json!({"error": {"status": 404}}));
        assert_eq!(Expectation::renewed(Some(&before), &actual), json!({"error": {"status": 400}}));
        let all = json!({"error": {"status": 400, "code": "invalid_parameter", "message": "m"}});
        assert_eq!(Expectation::renewed(None, &actual), all);
    }
}
