//! What each clause means, and which error each mistake gets. Answers are compared in the form that
//! `tidegate lql parse --jsonl` prints.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where its premise does not hold"
)]

use serde_json::{Value, json};
use tidegate_lql::{ErrorKind, Mode, Schema, parse, parse_line};

fn answer(request: Value) -> Value {
    serde_json::from_str(&parse_line(&request.to_string())).expect("an answer is JSON")
}

fn loose(lql: &str) -> Value {
    answer(json!({"lql": lql, "mode": "schemaless"}))
}

fn fields() -> Value {
    json!({
        "timestamp": "datetime", "event_message": "string", "metadata": "map",
        "metadata.level": "string", "metadata.bytes": "integer", "metadata.ratio": "float",
        "metadata.cached": "boolean", "metadata.seen_at": "datetime",
        "metadata.tags": "list:string", "metadata.codes": "list:integer",
    })
}

fn strict(lql: &str) -> Value {
    answer(json!({"lql": lql, "mode": "schema", "schema": fields()}))
}

fn filter(path: &str, operator: &str, value: Value, modifiers: Value) -> Value {
    json!({"path": path, "operator": operator, "value": value, "modifiers": modifiers})
}

fn range(path: &str, values: Value, modifiers: Value) -> Value {
    json!({"path": path, "operator": "range", "values": values, "modifiers": modifiers})
}

/// The filters without the type notes, which have a test of their own.
fn filters(answer: &Value) -> Vec<Value> {
    let mut filters = answer["filters"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    for filter in &mut filters {
        filter.as_object_mut().expect("an object").remove("value_type");
    }
    filters
}

fn contains(word: &str) -> Value {
    filter("event_message", "string_contains", json!(word), json!({}))
}

#[test]
fn filters_without_a_schema() {
    let quoted = || json!({"quoted_string": true});
    let plain = |operator: &str, value: Value| filter("job", operator, value, json!({}));
    for (lql, wanted) in [
        ("job:nightly", vec![plain("=", json!("nightly"))]),
        ("job:>3", vec![plain(">", json!(3))]),
        ("job:>=3.5", vec![plain(">=", json!(3.5))]),
        ("job:<3", vec![plain("<", json!(3))]),
        ("job:<=3", vec![plain("<=", json!(3))]),
        ("job:~sync", vec![plain("~", json!("sync"))]),
        ("job:@>blue", vec![plain("list_includes", json!("blue"))]),
        ("job:@>~blue", vec![plain("list_includes_regexp", json!("blue"))]),
        ("job:true", vec![plain("=", json!(true))]),
        ("job:NULL", vec![plain("=", json!(null))]),
        ("job:NULLS", vec![plain("=", json!(null)), contains("S")]),
        ("job:\"NULL\"", vec![filter("job", "=", json!("NULL"), quoted())]),
        ("job:\"12\"", vec![filter("job", "=", json!(12), quoted())]),
        (r#"job:"say \"hi\" \\ \n""#, vec![filter("job", "=", json!(r#"say "hi" \ \n"#), quoted())]),
        ("job:(a b: c)", vec![filter("job", "=", json!("a b: c"), quoted())]),
        ("job:1..9", vec![range("job", json!([1, 9]), json!({}))]),
        ("job:9..1", vec![range("job", json!([9, 1]), json!({}))]),
        ("job:>1..9", vec![range("job", json!([1, 9]), json!({}))]),
        ("job:0.5..2", vec![range("job", json!([0.5, 2]), json!({}))]),
        ("job:1..x", vec![plain("=", json!(1)), contains("..x")]),
        ("job:192.168.7.1", vec![plain("=", json!("192.168.7.1"))]),
        ("job:2031-02-03", vec![plain("=", json!("2031-02-03"))]),
        ("job:2031-02-03..2031-02-04", vec![range("job", json!(["2031-02-03", "2031-02-04"]), json!({}))]),
        ("job:7z", vec![plain("=", json!("7z"))]),
        ("-job:x", vec![filter("job", "=", json!("x"), json!({"negate": true}))]),
        ("m.job:x", vec![filter("metadata.job", "=", json!("x"), json!({}))]),
        ("m.j:x", vec![filter("m.j", "=", json!("x"), json!({}))]),
        ("metadata.j:x", vec![filter("metadata.j", "=", json!("x"), json!({}))]),
        ("7up.x:y", vec![filter("7up.x", "=", json!("y"), json!({}))]),
        ("from_x:y", vec![filter("from_x", "=", json!("y"), json!({}))]),
        ("times:y", vec![filter("times", "=", json!("y"), json!({}))]),
    ] {
        assert_eq!(filters(&loose(lql)), wanted, "{lql}");
    }
}

#[test]
fn words_and_quoted_texts() {
    let message = |operator: &str, value: Value, modifiers: Value| filter("event_message", operator, value, modifiers);
    for (lql, wanted) in [
        ("out of  memory", vec![contains("out"), contains("of"), contains("memory")]),
        ("one\ntwo", vec![contains("one"), contains("two")]),
        ("  padded\t\r\n", vec![contains("padded")]),
        ("a-b", vec![contains("a-b")]),
        ("-a-b", vec![message("string_contains", json!("a-b"), json!({"negate": true}))]),
        ("--x", vec![message("string_contains", json!("-x"), json!({"negate": true}))]),
        (r#"a\"b"#, vec![contains(r#"a"b"#)]),
        ("12", vec![message("string_contains", json!(12), json!({}))]),
        ("~^a+$", vec![message("~", json!("^a+$"), json!({}))]),
        ("~\"a b\"", vec![message("~", json!("a b"), json!({"quoted_string": true}))]),
        ("x\"y z\"", vec![contains("x"), message("string_contains", json!("y z"), json!({"quoted_string": true}))]),
        ("\"\"", vec![message("string_contains", json!(""), json!({"quoted_string": true}))]),
    ] {
        assert_eq!(filters(&loose(lql)), wanted, "{lql}");
    }
}

#[test]
fn values_take_the_type_of_their_field() {
    let plain = |path: &str, value: Value| filter(path, "=", value, json!({}));
    for (lql, wanted) in [
        ("m.bytes:12", plain("metadata.bytes", json!(12))),
        ("m.ratio:12", plain("metadata.ratio", json!(12.0))),
        ("m.cached:false", plain("metadata.cached", json!(false))),
        ("event_message:12", plain("event_message", json!("12"))),
        ("m.bytes:NULL", plain("metadata.bytes", json!(null))),
        ("m.seen_at:1000000000", plain("metadata.seen_at", json!("2001-09-09T01:46:40"))),
        ("m.seen_at:2031-02-03T04:05:06+01:00", plain("metadata.seen_at", json!("2031-02-03T03:05:06"))),
        ("m.codes:@>5", filter("metadata.codes", "list_includes", json!(5), json!({}))),
        ("m.codes:@>~5", filter("metadata.codes", "list_includes_regexp", json!("5"), json!({}))),
        ("m.bytes:\"8\"", filter("metadata.bytes", "=", json!(8), json!({"quoted_string": true}))),
    ] {
        assert_eq!(filters(&strict(lql)), vec![wanted], "{lql}");
    }
}

#[test]
fn levels() {
    let level = |name: &str, modifiers: Value| filter("metadata.level", "=", json!(name), modifiers);
    let negated = || json!({"negate": true});
    for (lql, wanted) in [
        (
            "metadata.level:info..warning",
            vec![level("info", json!({})), level("notice", json!({})), level("warning", json!({}))],
        ),
        ("-metadata.level:alert..emergency", vec![level("alert", negated()), level("emergency", negated())]),
        ("metadata.level:info..debug", vec![level("info", json!({})), level("debug", json!({}))]),
        ("m.level:info..debug", vec![level("info", json!({})), level("debug", json!({}))]),
    ] {
        assert_eq!(filters(&strict(lql)), wanted, "{lql}");
    }
}

#[test]
fn times() {
    let local = || json!({"timestamp_origin": "local"});
    let absolute = || json!({"timestamp_origin": "absolute"});
    let time = |operator: &str, value: &str, origin: Value| filter("timestamp", operator, json!(value), origin);
    let between = |low: &str, high: &str, origin: Value| range("timestamp", json!([low, high]), origin);
    for (lql, wanted) in [
        ("t:2031-02-03", time("=", "2031-02-03", local())),
        ("timestamp:>=2031-02-03T04:05:06", time(">=", "2031-02-03T04:05:06", local())),
        ("t:<2031-02-03T04:05:06Z", time("<", "2031-02-03T04:05:06", absolute())),
        ("t:1000000000123", time("=", "2001-09-09T01:46:40.123", absolute())),
        ("t:2031-02-03..2031-02-04", between("2031-02-03", "2031-02-04", json!({}))),
        ("t:2031-02-03..2031-02-04T00:00:01", between("2031-02-03", "2031-02-04T00:00:01", local())),
        ("t:1000000000..1000000060", between("2001-09-09T01:46:40", "2001-09-09T01:47:40", absolute())),
        ("t:2031-{02..03}-{01..09}", between("2031-02-01", "2031-03-09", local())),
        (
            "t:2031-02-03T{04..05}:00:00.{25..5}Z",
            between("2031-02-03T04:00:00.250000", "2031-02-03T05:00:00.500000", absolute()),
        ),
        ("t:2031-{02..02}-03", time("=", "2031-02-03", local())),
        ("-t:2031-{02..02}-03", time("=", "2031-02-03", json!({"timestamp_origin": "local", "negate": true}))),
    ] {
        assert_eq!(filters(&strict(lql)), vec![wanted], "{lql}");
    }
    let relative = &strict("t:last@3hours")["filters"][0];
    assert_eq!((&relative["shorthand"], &relative["value_type"]), (&json!("last@3hour"), &json!("relative")));
    assert_eq!(filters(&strict("t:last@5min"))[1], contains("in"));
    assert_eq!(strict("t:2031-02-03")["filters"][0]["value_type"], "date");
    assert_eq!(strict("m.bytes:NULL")["filters"][0]["value_type"], "null");
}

#[test]
fn charts_selects_and_tables() {
    let chart = |path: &str, aggregate: &str, period: &str, value_type: Value| json!({"path": path, "aggregate": aggregate, "period": period, "value_type": value_type});
    for (lql, wanted) in [
        ("c:group_by(t::d)", chart("timestamp", "count", "day", json!("datetime"))),
        ("chart:p95(m.ratio)", chart("metadata.ratio", "p95", "minute", json!("float"))),
        (
            "c:countd(m.bytes) c:group_by(timestamp::second)",
            chart("metadata.bytes", "countd", "second", json!("integer")),
        ),
        ("c:avg(m.bytes) c:max(*)", chart("timestamp", "max", "minute", json!("datetime"))),
    ] {
        assert_eq!(strict(lql)["chart"], wanted, "{lql}");
    }
    let select = |path: &str, alias: Value| json!({"path": path, "alias": alias, "wildcard": path == "*"});
    for (lql, wanted) in [
        (
            "s:anything select:m.bytes@size",
            json!([select("anything", json!(null)), select("metadata.bytes", json!("size"))]),
        ),
        ("s:a@first s:b s:a@second", json!([select("a", json!("first")), select("b", json!(null))])),
        ("s:a s:* s:b", json!([select("*", json!(null))])),
    ] {
        assert_eq!(strict(lql)["select"], wanted, "{lql}");
    }
    assert_eq!(loose("from:_x1 word")["from"], "_x1");
    assert_eq!(loose("")["filters"], json!([]));
    assert_eq!(filters(&loose("c:median(x)")), vec![filter("c", "=", json!("median"), json!({})), contains("(x)")]);
}

#[test]
fn the_sandbox_chooses_a_table() {
    let ask = |lql: &str, ctes: Value| answer(json!({"lql": lql, "mode": "sandbox", "ctes": ctes}));
    assert_eq!(ask("word", json!(["hits"]))["from"], "hits");
    assert_eq!(ask("f:b word", json!(["a", "b"]))["from"], "b");
    let several = ask("word", json!(["north", "south"]));
    assert_eq!(several["error_kind"], "from_required");
    let message = several["message"].as_str().unwrap_or_default();
    assert!(message.contains("`north`, `south`") && message.contains("f:name"), "{message}");
    let other = ask("word f:North", json!(["north", "south"]));
    assert_eq!((&other["error_kind"], &other["column"]), (&json!("unknown_cte"), &json!(6)));
    assert!(other["message"].as_str().unwrap_or_default().contains("did you mean `north`"));
    assert_eq!(ask("f:x", json!([]))["error_kind"], "no_cte");
    assert_eq!(ask("(\"", json!([]))["error_kind"], "syntax");
}

#[test]
fn mistakes_have_a_kind_and_a_place() {
    for (lql, kind, column) in [
        ("ok \"open", "syntax", 4),
        ("ok -", "syntax", 5),
        ("ok - x", "syntax", 5),
        ("a\tb", "syntax", 2),
        ("a ~ b", "syntax", 3),
        ("it's", "syntax", 3),
        ("naïve", "syntax", 3),
        ("bad-path:1", "syntax", 9),
        ("x\nevent_message: y", "invalid_value", 15),
        ("m.bytes:-4", "invalid_value", 9),
        ("m.bytes:(4", "invalid_value", 9),
        ("s:", "invalid_value", 3),
        (r"C:\dir", "invalid_value", 3),
        ("t:soon", "invalid_timestamp", 3),
        ("t:12345678901", "invalid_timestamp", 3),
        ("t:this@s", "invalid_timestamp", 3),
        ("t:NULL", "invalid_timestamp", 3),
        ("t:2031-02-30", "invalid_date", 3),
        ("t:2031-{02..13}-01", "invalid_date", 3),
        ("m.seen_at:2031-02-30", "invalid_date", 11),
        ("t:2031-02-03T25:00:00", "invalid_datetime", 3),
        ("t:2031-02-03..2031-02-03T00:00:00Z", "mixed_timestamp_origin", 3),
        ("m.byte:1", "field_not_found", 1),
        ("ok metadata:1", "field_not_found", 4),
        ("ok c:sum(m.none)", "field_not_found", 4),
        ("m.bytes:1.0", "type_integer", 1),
        ("m.bytes:99999999999999999999", "type_integer", 1),
        ("m.ratio:much", "type_float", 1),
        ("m.cached:1", "type_boolean", 1),
        ("m.seen_at:now", "type_datetime", 1),
        ("m.seen_at:123456789012", "type_datetime", 1),
        ("m.codes:@>x", "type_integer", 1),
        ("s:a@", "blank_alias", 5),
        ("s:a@-x", "blank_alias", 5),
        ("f:1st", "invalid_from", 1),
        ("f:a x f:a", "multiple_from", 7),
    ] {
        let answer = strict(lql);
        assert_eq!((&answer["error_kind"], &answer["column"]), (&json!(kind), &json!(column)), "{lql}: {answer}");
        assert!(answer["message"].as_str().is_some_and(|m| m.len() > 20), "{answer}");
    }
    assert_eq!(strict(&format!("f:{}", "a".repeat(256)))["error_kind"], "invalid_from");
    let near = strict("m.byte:1");
    assert!(near["message"].as_str().unwrap_or_default().contains("`metadata.bytes`"), "{near}");
}

#[test]
fn limits() {
    let words = |n: usize| vec!["w"; n].join(" ");
    assert_eq!(filters(&loose(&words(100))).len(), 100);
    assert_eq!(loose(&words(101))["error_kind"], "syntax");
    let long = "x".repeat(tidegate_lql::MAX_LENGTH + 1);
    let error = parse(&long, Mode::Schemaless, None, &[]).expect_err("too long");
    assert_eq!(error.kind, ErrorKind::TooLong);
    let schema = Schema::new();
    assert_eq!(parse("x", Mode::Schema, Some(&schema), &[]).expect_err("no field").kind, ErrorKind::FieldNotFound);
}

#[test]
fn a_line_that_is_no_request_is_answered() {
    for line in [
        "",
        "{",
        "[]",
        "{}",
        r#"{"lql": 5}"#,
        r#"{"lql": "", "mode": "x"}"#,
        r#"{"lql": "", "schema": []}"#,
        r#"{"lql": "", "schema": {"a": "money"}}"#,
        r#"{"lql": "", "ctes": [1]}"#,
    ] {
        let answer: Value = serde_json::from_str(&parse_line(line)).expect("JSON");
        assert_eq!((&answer["ok"], &answer["error_kind"]), (&json!(false), &json!("invalid_request")), "{line}");
    }
}

#[test]
fn a_value_is_the_whole_word() {
    for (lql, value) in [
        ("job:prod-a", json!("prod-a")),
        ("job:10.0.0.1", json!("10.0.0.1")),
        ("job:550e8400-e29b-41d4-a716-446655440000", json!("550e8400-e29b-41d4-a716-446655440000")),
        ("job:a@b.example", json!("a@b.example")),
        ("job:v1.2.3-rc+4", json!("v1.2.3-rc+4")),
        ("job:a/b?c=d&e", json!("a/b?c=d&e")),
        ("job:2024-01-01x", json!("2024-01-01x")),
        ("job:12ab", json!("12ab")),
        ("job:5%", json!("5%")),
    ] {
        assert_eq!(filters(&loose(lql)), [filter("job", "=", value.clone(), json!({}))], "{lql}");
        let negated = filters(&loose(&format!("-{lql} next")));
        assert_eq!(negated, [filter("job", "=", value, json!({"negate": true})), contains("next")], "-{lql}");
    }
    for lql in ["job:12:30", "job:a:b", "job:10.0.0.1..10.0.0.9", "job:a\"b\"", "job:a~b", "job:m\u{fc}nchen"] {
        assert_eq!(loose(lql)["error_kind"], "invalid_value", "{lql}");
        assert!(loose(lql)["message"].to_string().contains("in quotes"), "{lql}: {}", loose(lql));
    }
    for lql in ["s:a-b", "s:a@b-c", "f:a-b x:1", "s:`a`b"] {
        assert_eq!(loose(lql)["error_kind"], "syntax", "{lql}");
    }
    let levels = filters(&loose("m.level:error..critical"));
    assert_eq!(levels, filters(&loose("metadata.level:error..critical")));
    assert_eq!(levels.len(), 2);
}

#[test]
fn names_in_backticks_have_any_sign() {
    let plain = |path: &str| filter(path, "=", json!("x"), json!({}));
    for (lql, path) in [
        ("m.resource.`service.name`:x", "metadata.resource.`service.name`"),
        ("`k8s.io/app name`:x", "`k8s.io/app name`"),
        ("a.`b-c`.d:x", "a.`b-c`.d"),
        ("a.`b`:x", "a.b"),
    ] {
        assert_eq!(filters(&loose(lql)), [plain(path)], "{lql}");
        let name = lql.trim_end_matches(":x");
        assert_eq!(loose(&format!("s:{name}@n"))["select"][0]["path"], path, "{lql}");
        assert_eq!(loose(&format!("c:max({name})"))["chart"]["path"], path, "{lql}");
    }
    for lql in ["`a:x", "``:x", "a`b`:x"] {
        assert!(loose(lql)["message"].to_string().contains("backticks"), "{lql}: {}", loose(lql));
    }
}
