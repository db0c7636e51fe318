//! A case of an endpoint's test: `tests/NAME.json`, with logs, parameters and what is expected.
//!
//! Unknown keys are refused: a misspelt expectation must not be one that always holds. Whatever is
//! wrong is told with its line and column.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use tidegate_compiler::in_plain_words;
use tidegate_model::parse_timestamp;
use tidegate_server::workbench::{Ask, Cost, Logs};

/// The time of a case that does not say when it is: the start of 2026, UTC.
pub(super) const DEFAULT_NOW: i64 = 1_767_225_600_000_000;

/// A case, read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// What it shows.
    #[serde(default)]
    pub(super) description: String,
    /// The time at which the request is made.
    #[serde(default)]
    now: Option<Moment>,
    /// All logs that there are, by source.
    #[serde(default)]
    logs: BTreeMap<String, Vec<Map<String, Value>>>,
    /// The parameters of the request.
    #[serde(default)]
    parameters: BTreeMap<String, Scalar>,
    /// An ad-hoc query.
    #[serde(default)]
    sql: Option<String>,
    #[serde(default)]
    lql: Option<String>,
    /// Whether personal data is masked, where it is not left to the endpoint.
    #[serde(default)]
    redact: Option<bool>,
    /// The body of the answer; of an error, what counts of it.
    #[serde(default)]
    pub(super) expect: Option<Expectation>,
    /// What the request costs; only the numbers that are given count.
    #[serde(default)]
    pub(super) cost: Option<ExpectedCost>,
}

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

#[derive(Debug, Clone, Copy)]
struct Moment(i64);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let time = parse_timestamp(&text);
        time.map(Self)
            .ok_or_else(|| D::Error::custom(format!("now is '{text}', which is no time such as 2026-01-31T12:00:00Z")))
    }
}

#[derive(Debug)]
struct Scalar(Value);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::Array(_) | Value::Object(_) => Err(D::Error::custom("a parameter is a text, a number or a boolean")),
            scalar => Ok(Self(scalar)),
        }
    }
}

/// A case file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaseError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}:{column}: {message}", path.display())]
    Json { path: PathBuf, line: usize, column: usize, message: String },
    #[error("{}: {message}", path.display())]
    Rule { path: PathBuf, message: &'static str },
}

impl Case {
    /// Reads a case, and its text.
    ///
    /// # Errors
    /// What is wrong, with the file and where possible the place.
    pub(super) fn read(path: &Path) -> Result<(Self, String), CaseError> {
        let text = std::fs::read_to_string(path).map_err(|source| CaseError::Read { path: path.to_owned(), source })?;
        Ok((Self::parse(path, &text)?, text))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, CaseError> {
        let path = path.to_owned();
        let case: Self = match serde_json::from_str(text) {
            Ok(case) => case,
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                let told = error.to_string();
                // The place stands before the message here, as compilers write it.
                let message = in_plain_words(told.split(" at line ").next().unwrap_or(&told));
                return Err(CaseError::Json { path, line, column, message });
            }
        };
        if case.sql.is_some() && case.lql.is_some() {
            return Err(CaseError::Rule { path, message: "a request has sql or lql, not both" });
        }
        if case.expect.as_ref().is_some_and(|expect| expect.result.is_some() == expect.error.is_some()) {
            return Err(CaseError::Rule { path, message: "expect has either result or error" });
        }
        Ok(case)
    }

    /// When the request is made, in microseconds.
    pub(super) fn now(&self) -> i64 {
        self.now.map_or(DEFAULT_NOW, |Moment(now)| now)
    }

    /// The logs, for a trial.
    pub(super) fn logs(&self) -> Logs {
        let of_source = |events: &Vec<Map<String, Value>>| events.iter().cloned().map(Value::Object).collect();
        self.logs.iter().map(|(source, events)| (source.clone(), of_source(events))).collect()
    }

    /// The request.
    pub(super) fn ask(&self) -> Ask {
        let mut parameters: Map<String, Value> =
            self.parameters.iter().map(|(name, Scalar(value))| (name.clone(), value.clone())).collect();
        for (name, text) in [("sql", &self.sql), ("lql", &self.lql)] {
            if let Some(text) = text {
                parameters.insert(name.to_owned(), text.as_str().into());
            }
        }
        Ask { parameters, redact: self.redact }
    }
}

impl Expectation {
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

    fn parse(text: &str) -> Result<Case, CaseError> {
        Case::parse(Path::new("tests/x.json"), text)
    }

    #[test]
    fn a_case_is_read_whole() {
        let case = parse(
            r#"{"description": "d", "now": "2026-01-31T12:00:00Z", "logs": {"s": [{"id": "1"}]},
                "parameters": {"a": "x", "b": 2, "c": true}, "sql": "select 1", "redact": true,
                "expect": {"result": []}, "cost": {"statements": 1}}"#,
        )
        .unwrap();
        assert_eq!(case.now(), parse_timestamp("2026-01-31T12:00:00Z").unwrap());
        assert_eq!(case.logs().get("s").unwrap(), &[json!({"id": "1"})]);
        let ask = case.ask();
        assert_eq!(Value::Object(ask.parameters), json!({"a": "x", "b": 2, "c": true, "sql": "select 1"}));
        assert_eq!(ask.redact, Some(true));
        let bare = parse("{}").unwrap();
        assert_eq!((bare.now(), bare.ask()), (DEFAULT_NOW, Ask::default()));
        assert_eq!(DEFAULT_NOW, parse_timestamp("2026-01-01").unwrap());
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, told) in [
            ("{\n  \"expects\": {}\n}", "tests/x.json:2:11: unknown field `expects`"),
            ("{\"now\": \"soon\"}", "x.json:1:15: now is 'soon'"),
            ("{\"parameters\": {\"a\": [1]}}", "x.json:1:25: a parameter is a text"),
            ("{\"logs\": {\"s\": [1]}}", "x.json:1:17: this is the number `1`, and must be a table of keys and values"),
            ("{\"expect\": {\"result\": []}", "x.json:1:25: EOF"),
            ("{\"expect\": {\"error\": {\"text\": 1}}}", "unknown field `text`"),
            ("{\"sql\": \"\", \"lql\": \"\"}", "not both"),
            ("{\"expect\": {}}", "either result or error"),
            ("{\"cost\": {\"fuel\": 1}}", "unknown field `fuel`"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            assert!(!error.contains(" at line "), "{error}");
        }
    }

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
        let case = |expect: Value| parse(&json!({"expect": expect}).to_string()).unwrap().expect.unwrap();
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
