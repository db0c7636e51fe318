//! A case of an endpoint's test: `tests/NAME.json`, with logs, parameters and what is expected.
//!
//! Unknown keys are refused: a misspelt expectation must not be one that always holds. Whatever is
//! wrong is told with its line and column.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tidegate_compiler::in_plain_words;
use tidegate_model::parse_timestamp;
use tidegate_service::workbench::{Ask, Logs};

use super::expect::{Expectation, ExpectedCost};

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
    logs: BTreeMap<String, Events>,
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

/// The logs of a source: in the case itself, or in a file beside it, one event on each line.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "the logs of a source are a list of events, or the name of a file beside the case with one event on each line"
)]
enum Events {
    Own(Vec<Map<String, Value>>),
    File(String),
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
        let text = read(path)?;
        let mut case = Self::parse(path, &text)?;
        for events in case.logs.values_mut() {
            if let Events::File(name) = events {
                *events = Events::Own(lines(path, name)?);
            }
        }
        Ok((case, text))
    }

    fn parse(path: &Path, text: &str) -> Result<Self, CaseError> {
        let case: Self = serde_json::from_str(text).map_err(|error| mistake(path, 1, &error))?;
        let path = path.to_owned();
        if case.sql.is_some() && case.lql.is_some() {
            return Err(CaseError::Rule { path, message: "a request has sql or lql, not both" });
        }
        if case.expect.as_ref().is_some_and(|expect| !expect.is_one()) {
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
        let of_source = |events: &Events| match events {
            Events::Own(events) => events.iter().cloned().map(Value::Object).collect(),
            Events::File(_) => Vec::new(),
        };
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

fn read(path: &Path) -> Result<String, CaseError> {
    std::fs::read_to_string(path).map_err(|source| CaseError::Read { path: path.to_owned(), source })
}

/// The events of a file that a case names.
fn lines(case: &Path, name: &str) -> Result<Vec<Map<String, Value>>, CaseError> {
    let path = Path::new(name);
    if path.components().count() != 1 || path.file_name().is_none() {
        let message = "logs are in a file beside the case: its name has no folder";
        return Err(CaseError::Rule { path: case.to_owned(), message });
    }
    let path = case.with_file_name(path);
    let text = read(&path)?;
    let events = text
        .lines()
        .zip(1..)
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| serde_json::from_str(line).map_err(|error| mistake(&path, number, &error)));
    events.collect()
}

/// A mistake in JSON that begins on this line of a file.
fn mistake(path: &Path, first: usize, error: &serde_json::Error) -> CaseError {
    let (line, column) = (error.line() + first - 1, error.column());
    let told = error.to_string();
    // The place stands before the message here, as compilers write it.
    let message = in_plain_words(told.split(" at line ").next().unwrap_or(&told));
    CaseError::Json { path: path.to_owned(), line, column, message }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use serde_json::json;

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
    fn logs_are_read_from_a_file_beside_the_case() {
        let folder = tempfile::tempdir().unwrap();
        let case = folder.path().join("many.json");
        std::fs::write(&case, r#"{"logs": {"s": "many.ndjson", "t": [{"id": "3"}]}}"#).unwrap();
        let events = folder.path().join("many.ndjson");
        std::fs::write(&events, "{\"id\": \"1\"}\n\n{\"id\": \"2\"}\n").unwrap();
        let logs = Case::read(&case).unwrap().0.logs();
        assert_eq!(logs.get("s").unwrap(), &[json!({"id": "1"}), json!({"id": "2"})]);
        assert_eq!(logs.get("t").unwrap(), &[json!({"id": "3"})]);
        for (name, text, told) in [
            ("many.ndjson", "{}\n{\"id\": }", "many.ndjson:2:8: expected value"),
            ("many.ndjson", "[]", "many.ndjson:1:0"),
            ("none.ndjson", "", "none.ndjson: No such file"),
            ("../many.ndjson", "", "its name has no folder"),
            ("", "", "its name has no folder"),
        ] {
            std::fs::write(&events, text).unwrap();
            std::fs::write(&case, json!({"logs": {"s": name}}).to_string()).unwrap();
            let error = Case::read(&case).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, told) in [
            ("{\n  \"expects\": {}\n}", "tests/x.json:2:11: unknown field `expects`"),
            ("{\"now\": \"soon\"}", "x.json:1:15: now is 'soon'"),
            ("{\"parameters\": {\"a\": [1]}}", "x.json:1:25: a parameter is a text"),
            (
                "{\"logs\": {\"s\": [1]}}",
                "x.json:1:19: the logs of a source are a list of events, or the name of a file",
            ),
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
}
