//! Whatever the text, there is an answer, soon, and its place lies in the text.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test stops where its premise does not hold")]

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate_lql::{MAX_LENGTH, Mode, Schema, parse, parse_line, to_sql};

/// Pieces of the language, so that random texts get far into the grammar.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "m.",
            "metadata.level:",
            "t:",
            "timestamp:",
            "c:",
            "s:",
            "f:",
            "count(",
            "group_by(t::",
            "minute)",
            "*",
            ")",
            "(",
            "\"",
            "\\",
            "\\\"",
            "~",
            "-",
            ":",
            ":>=",
            ":@>~",
            "..",
            "{",
            "}",
            "T",
            "Z",
            "+02:00",
            "2031-02-03",
            "04:05:06",
            ".5",
            "1000000000",
            "NULL",
            "NULLx",
            "last@",
            "this@",
            "today",
            "5m",
            "9999y",
            "debug",
            "error",
            "a",
            "a.b",
            "@",
            " ",
            "\n",
            "\t",
            "é",
            "🚀",
            "'",
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,6}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn schema() -> Schema {
    let mut schema = Schema::new();
    for (path, kind) in [
        ("timestamp", "datetime"),
        ("event_message", "string"),
        ("a", "integer"),
        ("a.b", "list:float"),
        ("metadata", "map"),
        ("metadata.level", "string"),
    ] {
        assert!(schema.insert_named(path, kind));
    }
    schema
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]

    #[test]
    fn every_text_has_an_answer(text in pieces()) {
        let schema = schema();
        for mode in [Mode::Schema, Mode::Schemaless, Mode::Sandbox] {
            match parse(&text, mode, Some(&schema), &["a".to_owned()]) {
                Ok(query) => {
                    for columns in [None, Some(&schema)] {
                        if let Err(error) = to_sql(&query, "a", columns) {
                            prop_assert!(error.position.offset <= text.len());
                        }
                    }
                }
                Err(error) => {
                    prop_assert!(error.position.offset <= text.len());
                    prop_assert!(text.is_char_boundary(error.position.offset));
                    prop_assert!(error.to_string().len() < 1000, "{error}");
                }
            }
        }
    }

    #[test]
    fn every_line_has_an_answer(text in pieces(), junk in "\\PC{0,40}") {
        let request = serde_json::json!({"lql": text, "mode": "schemaless"}).to_string();
        for line in [request.as_str(), text.as_str(), junk.as_str()] {
            let answer: serde_json::Value = serde_json::from_str(&parse_line(line)).expect("JSON");
            prop_assert!(answer["ok"].is_boolean());
        }
    }
}

#[test]
fn long_texts_are_answered_soon() {
    let started = Instant::now();
    for unit in ["a", "(", "\"", "\\", "-", "a.", "m.", "~", "{", "a:", "1", "\\\"", "a:(", "t:", " ", "\n", "é", "x\n"]
    {
        let text = unit.repeat(MAX_LENGTH / unit.len());
        for prefix in ["", "\"", "a:\"", "a:(", "s:", "f:", "t:"] {
            let text = format!("{prefix}{}", &text[..text.len() - 8 * unit.len()]);
            if let Ok(query) = parse(&text, Mode::Schemaless, None, &[]) {
                let _ = to_sql(&query, "a", None);
            }
        }
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
