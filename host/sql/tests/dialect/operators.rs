//! Operators of other dialects: the ones that run, and for each that does not what is said of it.

use serde_json::json;
use tidegate_model::Code;

use super::super::support::World;
use super::tables::text_cases;

const CASES: &str = include_str!("cases/operators.txt");

fn world() -> World {
    let log = json!({"id": "a", "timestamp": 1, "event_message": "{\"x\": {\"y\": [5]}}",
        "metadata": {"x": 1, "request": {"method": "GET"}, "items": [{"k": 1}, {"k": 2}]}});
    World::new().source("t", &[log])
}

#[test]
fn arrows_read_records_and_json() {
    let world = world();
    for (value, expected) in [
        ("metadata->>'x'", json!("1")),
        ("metadata -> 'request' ->> 'method'", json!("GET")),
        ("m->>'x'", json!("1")),
        ("event_message::json->'x'->'y'->>0", json!("5")),
        ("metadata->>'nowhere'", json!(null)),
    ] {
        let sql = format!("SELECT {value} AS v FROM t CROSS JOIN UNNEST(metadata) AS m");
        assert_eq!(world.rows(&sql), json!([{"v": expected}]), "{sql}");
    }
}

#[test]
fn each_operator_that_is_none_here_is_named_with_what_to_write() {
    let world = world();
    let mut wrong = Vec::new();
    for (value, operator, write) in [
        ("timestamp->>'x'", "->> reads a field of a record or of JSON", "JSON_VALUE(text, '$.x')"),
        (
            "m.items->>'k'",
            "->> reads a field of a record, and this is a list of records",
            "x.k after CROSS JOIN UNNEST",
        ),
        ("metadata->0", "-> 0 reads an element", "list[SAFE_OFFSET(0)]"),
        ("event_message->id", "-> with a computed key", "JSON_QUERY(text, '$.key')"),
        ("metadata #> '{a,b}'", "#>", "JSON_VALUE(text, '$.a.b')"),
        ("metadata#>>'{a,b}'", "#>>", "JSON_VALUE(text, '$.a.b')"),
        ("event_message #- '{a}'", "#-", "JSON_REMOVE"),
        ("metadata @> '{\"a\": 1}'::jsonb", "@>", "IN UNNEST(list)"),
        ("'{}' <@ metadata", "<@", "IN UNNEST(list)"),
        ("metadata ? 'x'", "?", "m.key IS NOT NULL"),
        ("metadata ?| ['a', 'b']", "?", "m.key IS NOT NULL"),
        ("metadata @? '$.a'", "@?", "JSON_VALUE"),
        ("metadata @@ '$.a = 1'", "@@", "JSON_VALUE"),
        ("[1] && [2]", "&&", "AND"),
        ("id ~~ 'a%'", "~~", "LIKE"),
        ("id ~~* 'a%'", "~~*", "ILIKE"),
        ("id !~~ 'a%'", "!~~", "NOT LIKE"),
        ("id !~~* 'a%'", "!~~*", "NOT ILIKE"),
        ("id ^@ 'a'", "^@", "STARTS_WITH"),
        ("id <=> 'a'", "<=>", "IS NOT DISTINCT FROM"),
        ("5 // 2", "//", "DIV(a, b)"),
        ("5 DIV 2", "DIV", "DIV(a, b)"),
        ("5 MOD 2", "MOD", "MOD(a, b)"),
        ("2 ** 3", "**", "POW(a, b)"),
        ("TRUE XOR FALSE", "XOR", "a != b"),
        ("id GLOB 'a*'", "GLOB", "REGEXP_CONTAINS"),
        ("id MATCH 'a'", "MATCH", "REGEXP_CONTAINS"),
        ("id RLIKE 'a'", "RLIKE", "REGEXP_CONTAINS"),
        ("id SIMILAR TO 'a'", "SIMILAR TO", "REGEXP_CONTAINS"),
        ("!TRUE", "!", "NOT"),
        ("|/ 4", "|/", "SQRT"),
        ("||/ 8", "||/", "CBRT"),
        ("id ISNULL", "ISNULL", "IS NULL"),
        ("id NOTNULL", "NOTNULL", "IS NOT NULL"),
        ("id := 'a'", ":=", "write ="),
        ("5 BETWEEN SYMMETRIC 3 AND 1", "SYMMETRIC", "LEAST(a, b)"),
        ("id OPERATOR(pg_catalog.=) 'a'", "OPERATOR", "alone"),
        ("id COLLATE \"C\"", "COLLATE", "LOWER(text)"),
        ("id = ANY ('{a}')", "ANY", "IN UNNEST(list)"),
        ("id LIKE 'a' ESCAPE '!'", "ESCAPE", "a backslash escapes"),
        ("metadata:x", "a path behind a colon", "JSON_VALUE"),
    ] {
        for sql in [
            format!("SELECT {value} AS v\nFROM t CROSS JOIN UNNEST(metadata) AS m"),
            format!("SELECT id\nFROM t CROSS JOIN UNNEST(metadata) AS m\nWHERE {value}\nLIMIT 1"),
        ] {
            match world.attempt(&sql) {
                Err(failure)
                    if failure.message.contains(operator)
                        && failure.message.contains(write)
                        && matches!(failure.code, Code::Unsupported | Code::InvalidQuery)
                        && (failure.position.is_some() || operator == "RLIKE") => {}
                other => wrong.push(format!("{sql}\n    {other:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What only looks like such an operator.
#[test]
fn comments_and_names_are_what_they_were() {
    let world = world();
    for sql in [
        "SELECT id #> the name\nFROM t",
        "SELECT id # >> a remark\nFROM t",
        "SELECT id #- see 'quoted'\nFROM t",
        "SELECT id AS glob FROM t",
        "SELECT glob.id FROM t AS glob",
    ] {
        let rows = world.attempt(sql).unwrap();
        assert_eq!(rows.as_array().map(Vec::len), Some(1), "{sql}");
    }
    for sql in ["SELECT id AS mod id FROM t", "SELECT id FROM t AS match id", "WITH glob (SELECT 1) SELECT 1"] {
        let failure = world.failure(sql);
        assert_eq!(failure.code, Code::Syntax, "{sql}: {failure}");
    }
    // A mistake of another kind is told as before.
    let failure = world.failure("SELECT id FROM t WHERE id = 'a' id = 'b'");
    assert_eq!(failure.code, Code::Syntax, "{failure}");
}

/// The language's table of operators, from the strongest: `~`, `* / ||`, `+ -`, `<< >>`, `&`, `^`, `|`, comparisons, NOT, AND, OR.
#[test]
fn operators_bind_as_the_language_says() {
    let world = world();
    for (text, meant) in text_cases(CASES, "operators_bind_as_the_language_says") {
        let rows = world.rows(&format!("SELECT {text} AS v, ({meant}) AS w"));
        assert_eq!(rows[0]["v"], rows[0]["w"], "{text}");
    }
    for text in [
        "1 = 2 = FALSE",
        "1 = 2 IS NULL",
        "1 IS NULL IS NULL",
        "1 < 2 < 3",
        "'a' LIKE 'b' = TRUE",
        "1 = 2 LIKE 'x'",
        "1 BETWEEN 0 AND 2 = TRUE",
        "1 IN (1) = TRUE",
        "1 = 2 IN (TRUE)",
        "1 IS DISTINCT FROM 2 = TRUE",
        "1 = 2 IS DISTINCT FROM TRUE",
    ] {
        let failure = world.failure(&format!("SELECT {text} AS v"));
        assert!(failure.message.contains("needs parentheses"), "{text}: {failure}");
    }
    assert_eq!(world.rows("SELECT (1 = 2) IS NULL AS v, (1 < 2) = TRUE AS w"), json!([{"v": false, "w": true}]));
}
