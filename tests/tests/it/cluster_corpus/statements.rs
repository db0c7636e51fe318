//! The corpus: what other tests of the project ask, as requests over HTTP.
//!
//! - random statements over nested records, of the property tests;
//! - the examples of `docs/dialect.md` that read a small table, which lies in a source here;
//! - the questions of the benchmark;
//! - the cases of the endpoints of the pack `log-viewer`;
//! - `TIDEGATE_CLIENT_QUERIES` names a file of further queries: a JSON object a line, with `endpoint`, `params` and `sql`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tidegate_tests::{Chance, query_string};

use crate::grammar::{self, Statement};
use crate::tape::Tape;

/// The endpoint of the source with nested records and of those with the rows of the dialect's examples.
pub(crate) const ENDPOINT: &str = "corpus";
/// Its saved query.
pub(crate) const QUERY: &str = "WITH t AS (SELECT * FROM `corpus.records`), pairs AS (SELECT * FROM `corpus.pairs`), \
                                lists AS (SELECT * FROM `corpus.lists`) SELECT 1 AS one";

/// How many random statements there are.
const RANDOM: usize = 200;

/// A request of the corpus.
pub(crate) struct Case {
    /// What it asks, for messages.
    pub(crate) text: String,
    /// Its path and query string.
    pub(crate) path: String,
    /// Whether the order of its rows is total by construction.
    pub(crate) is_ordered: bool,
}

fn case(endpoint: &str, parameters: &Map<String, Value>, is_ordered: bool) -> Case {
    let texts: Vec<(&str, String)> = parameters
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        .collect();
    let pairs: Vec<(&str, &str)> = texts.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let text = match parameters.get("sql") {
        Some(Value::String(sql)) => sql.clone(),
        _ => format!("{endpoint} {}", json!(parameters)),
    };
    Case { text, path: format!("/api/endpoints/query/{endpoint}?{}", query_string(&pairs)), is_ordered }
}

fn sql(endpoint: &str, sql: &str, is_ordered: bool) -> Case {
    let mut parameters = range();
    parameters.insert("sql".to_owned(), sql.into());
    case(endpoint, &parameters, is_ordered)
}

/// The project and the time of the records.
fn range() -> Map<String, Value> {
    [
        ("project", "default"),
        ("iso_timestamp_start", "2025-12-20T10:00:00.000Z"),
        ("iso_timestamp_end", "2025-12-20T13:00:00.000Z"),
        ("day", "2025-12-20"),
        ("id", "cloudflare.logs.prod-0007"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.into()))
    .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn below(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn bytes(chance: &mut Chance, length: usize) -> Vec<u8> {
    (0..length).map(|_| chance.number() as u8).collect()
}

/// Nested records of many shapes, in parts; each has an id of its own.
pub(crate) fn records(parts: usize) -> Vec<Vec<Value>> {
    let part = |part: usize| {
        let tapes = (0..6).flat_map(|tape| {
            let tape_bytes = bytes(&mut Chance::new((part * 6 + tape) as u64), 400);
            let rows = grammar::records(&mut Tape::new(&tape_bytes));
            rows.into_iter().enumerate().map(move |(row, record)| (tape, row, record))
        });
        let named = tapes.map(|(tape, row, mut record)| {
            record["id"] = json!(format!("r{part}-{tape}-{row}"));
            record["timestamp"] = json!(1_766_232_000_000_000_i64 + ((part * 10 + tape) * 10 + row) as i64);
            record
        });
        named.collect()
    };
    (0..parts).map(part).collect()
}

/// The table that most examples of the dialect's document read, as they write it, and its name here.
const TABLES: [(&str, &str); 2] = [
    ("UNNEST([STRUCT('a' AS k, 1 AS n), STRUCT('a', 2), STRUCT('b', 5)]) AS t", "pairs AS t"),
    ("UNNEST([STRUCT(1 AS id, ['x', 'y'] AS tags), STRUCT(2, ['z'])]) AS u", "lists AS u"),
];

/// The rows of these tables, by source.
pub(crate) fn table_rows() -> [(&'static str, Value); 2] {
    [
        ("corpus.pairs", json!([{"k": "a", "n": 1}, {"k": "a", "n": 2}, {"k": "b", "n": 5}])),
        ("corpus.lists", json!([{"id": "1", "tags": ["x", "y"]}, {"id": "2", "tags": ["z"]}])),
    ]
}

/// All of them.
pub(crate) fn corpus() -> Vec<Case> {
    let mut all = random();
    all.extend(dialect());
    for question in below("xtask/bench/questions") {
        let text = read(&question.join("tidegate.sql"));
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("--")).collect();
        let statements = lines.join("\n");
        all.extend(
            statements.split(';').filter(|part| !part.trim().is_empty()).map(|part| sql("logs.all", part, false)),
        );
    }
    all.extend(pack());
    if let Some(path) = std::env::var_os("TIDEGATE_CLIENT_QUERIES") {
        for line in read(Path::new(&path)).lines() {
            let query: Value = serde_json::from_str(line).unwrap();
            let mut parameters = range();
            parameters.extend(query["params"].as_object().cloned().unwrap_or_default());
            for language in ["sql", "lql"] {
                parameters.extend(query.get(language).map(|text| (language.to_owned(), text.clone())));
            }
            all.push(case(query["endpoint"].as_str().unwrap_or("logs.all"), &parameters, false));
        }
    }
    all
}

fn random() -> Vec<Case> {
    let statement = |seed: usize| {
        let tape_bytes = bytes(&mut Chance::new(1_000 + seed as u64), 600);
        let statement: Statement = grammar::statement(&mut Tape::new(&tape_bytes));
        sql(ENDPOINT, &statement.to_string(), statement.is_ordered())
    };
    (0..RANDOM).map(statement).collect()
}

/// The examples of the document with a table in place of the one that they write.
fn dialect() -> Vec<Case> {
    let document = read(&root().join("docs/dialect.md"));
    let examples = document.lines().filter(|line| line.starts_with("| ") && line.contains("| `SELECT"));
    let mut all = Vec::new();
    for line in examples {
        let Some(example) = line.split("| `").nth(1).and_then(|rest| rest.split("` |").next()) else { continue };
        let mut text = example.replace("\\|", "|");
        for (written, name) in TABLES {
            text = text.replace(written, name);
        }
        if TABLES.iter().any(|(_, name)| text.contains(name)) {
            all.push(sql(ENDPOINT, &text, false));
        }
    }
    all
}

/// The cases of the endpoints of the pack, over the records of this test.
fn pack() -> Vec<Case> {
    let mut all = Vec::new();
    for endpoint in below("guest-endpoints/packs/log-viewer").into_iter().filter(|path| path.join("tests").is_dir()) {
        let name = endpoint.file_name().unwrap().to_str().unwrap().to_owned();
        let mut cases: Vec<_> =
            std::fs::read_dir(endpoint.join("tests")).unwrap().map(|entry| entry.unwrap().path()).collect();
        cases.sort();
        for path in cases {
            let given: Value = serde_json::from_str(&read(&path)).unwrap();
            let mut parameters = given["parameters"].as_object().cloned().unwrap_or_default();
            parameters.retain(|name, _| {
                !matches!(name.as_str(), "iso_timestamp_start" | "iso_timestamp_end" | "function_id")
            });
            if parameters.contains_key("project") {
                parameters.insert("project".to_owned(), "default".into());
            }
            for language in ["sql", "lql"] {
                parameters.extend(given.get(language).map(|text| (language.to_owned(), text.clone())));
            }
            all.push(case(&name, &parameters, false));
        }
    }
    all
}
