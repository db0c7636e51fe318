//! Functions beyond their examples: bounds, NULL, oracles.

use proptest::prelude::*;
use serde_json::json;
use tidegate_model::Code;

use super::super::support::{World, value};
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/functions.txt");

#[test]
fn a_statement_that_makes_too_much_is_stopped_before_it_does() {
    let rows: Vec<_> = (0..2_000).map(|i| json!({"s": "abcdefgh".repeat(50), "n": i})).collect();
    let world = World::new().source("t", &rows);
    let twice = |inner: &str, times: usize| {
        (0..times).fold(format!("select {inner} as x from t"), |from, _| format!("select x || x as x from ({from})"))
    };
    let started = std::time::Instant::now();
    for sql in [
        "select length(repeat(repeat('x', 8192), 8192)) from t".to_owned(),
        "select length(repeat(repeat(s, 8192), 8192)) from t".to_owned(),
        "select repeat(s, n * 1000) from t".to_owned(),
        "select length(upper(y)) + n from t cross join (select max(repeat('y', 1000000 + n)) as y from t where n = 1)"
            .to_owned(),
        format!("select length(x) from ({})", twice("s", 20)),
        "select concat(s, repeat('a', 100000 + n)) from t".to_owned(),
        "select replace(s, 'a', repeat('b', 100000 + n)) from t".to_owned(),
        "select lpad(s, 1000000000) from t".to_owned(),
        "select rpad(s, n * 100000, 'xy') from t".to_owned(),
        "select regexp_replace(s, '', repeat('b', 1000)) from t".to_owned(),
        r"select regexp_replace(s, '.*', repeat(r'\0', 200)) from t".to_owned(),
        "select array_to_string(split(s, ''), repeat('b', 1000)) from t".to_owned(),
        "select format('%1000000000d', n) from t".to_owned(),
        "select format('%*d', 10000000, n) from t".to_owned(),
        "select format('%t %t', repeat(s, 70), repeat(s, 70)) from t".to_owned(),
        "select to_hex(repeat('a', 9000000)) from t".to_owned(),
        "select split(repeat('a,', 4000000)) from t".to_owned(),
        "select split(repeat(s, 70), '') from t".to_owned(),
        "select generate_array(n - n, 90000) from t".to_owned(),
        "select regexp_extract_all(repeat('a', 1100000), '.') from t".to_owned(),
        "select to_json_string(struct(x as a, x as b)) from (select repeat('a', 9000000 + n) as x from t where n = 1)"
            .to_owned(),
        "select array_concat(generate_array(n - n, 90000), generate_array(n - n, 90000)) from t".to_owned(),
        "select to_code_points(repeat(s, 70)) from t".to_owned(),
        "select safe.repeat(s, 1000000000) from t".to_owned(),
        "select edit_distance(repeat(s, 70), repeat(s, 70)) from t".to_owned(),
        "select generate_timestamp_array('1970-01-01', '2026-01-01', interval 1 microsecond) from t".to_owned(),
    ] {
        let failure = world.failure(&sql);
        assert_eq!(failure.code, Code::LimitExceeded, "{sql}\n{failure}");
    }
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}

#[test]
fn what_is_within_the_bounds_runs() {
    let world = World::new().source("t", &[json!({"s": "ab", "n": 3}), json!({"s": "c", "n": 2})]);
    for (sql, expected) in json_cases(CASES, "what_is_within_the_bounds_runs") {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
}

#[test]
fn null_in_any_argument_is_null() {
    for call in [
        "regexp_extract(null, 'a')",
        "substr('a', null)",
        "repeat('a', null)",
        "lpad('a', 3, null)",
        "split(null, ',')",
        "to_hex(null)",
        "format_timestamp('%Y', null)",
        "timestamp_trunc(null, day, 'Asia/Tokyo')",
        "instr('a', null)",
        "round(null, 2)",
        "date(2025, null, 1)",
        "array_slice(null, 0, 1)",
        "generate_array(1, null)",
        "json_value(null, '$.a')",
        "range_bucket(null, [1])",
        "last_day(null)",
        "greatest(1, null)",
        "array_to_string(null, ',')",
        "timestamp_bucket(null, interval 1 hour)",
        "format(null, 1)",
    ] {
        assert_eq!(value(call), json!(null), "{call}");
    }
}

#[test]
fn days_of_a_zone_begin_at_its_midnight_also_when_the_clocks_change() {
    let zone = "'America/Sao_Paulo'";
    for (at, part, expected) in [
        // Midnight was skipped on 2018-11-04: the day began at 01:00.
        ("2018-11-04 12:00:00Z", "day", "2018-11-04 03:00:00Z"),
        ("2018-11-05 01:30:00Z", "day", "2018-11-04 03:00:00Z"),
        ("2018-11-05 02:30:00Z", "day", "2018-11-05 02:00:00Z"),
        // 23:00 was shown twice on 2019-02-16.
        ("2019-02-17 01:30:00Z", "hour", "2019-02-17 01:00:00Z"),
        ("2019-02-17 02:30:00Z", "hour", "2019-02-17 02:00:00Z"),
        ("2019-02-17 02:30:00Z", "day", "2019-02-16 02:00:00Z"),
        ("2019-02-17 02:30:00Z", "month", "2019-02-01 02:00:00Z"),
    ] {
        let equal = value(&format!("timestamp_trunc(timestamp '{at}', {part}, {zone}) = timestamp '{expected}'"));
        assert_eq!(equal, json!(true), "{at} {part}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn substr_is_that_of_a_list_of_characters(text in "[aé😀]{0,6}", position in -8_i64..8, length in 0_i64..8) {
        let chars: Vec<char> = text.chars().collect();
        let size = chars.len() as i64;
        let from = if position > 0 { position - 1 } else if position == 0 || -position > size { 0 } else { size + position };
        let expected: String = chars.iter().skip(from as usize).take(length as usize).collect();
        prop_assert_eq!(value(&format!("substr('{text}', {position}, {length})")), json!(expected));
    }

    #[test]
    fn like_of_a_computed_pattern_is_that_of_a_literal(text in "[aAbB%éΣς]{0,6}", pattern in "[aB%_éσ]{0,6}", escape in any::<bool>()) {
        let escaped = if escape { pattern.replacen('_', "\\\\_", 1) } else { pattern };
        let world = World::new().source("t", &[json!({"s": text, "p": escaped.replace("\\\\", "\\")})]);
        let sql = format!("select s like p as a, s like '{escaped}' as b, s ilike p as c, s ilike '{escaped}' as d from t");
        let row = &world.rows(&sql)[0];
        prop_assert_eq!(&row["a"], &row["b"], "{} like {}", text, escaped);
        prop_assert_eq!(&row["c"], &row["d"], "{} ilike {}", text, escaped);
    }

    #[test]
    fn a_formatted_time_is_read_back(micros in -1_500_000_000_000_000_i64..250_000_000_000_000_000, zone in prop::sample::select(vec!["UTC", "Asia/Kathmandu", "-03:30"])) {
        let format = "%Y-%m-%d %H:%M:%E6S %Ez";
        let back = value(&format!("unix_micros(parse_timestamp('{format}', format_timestamp('{format}', timestamp_micros({micros}), '{zone}')))"));
        prop_assert_eq!(back, json!(micros));
    }

    #[test]
    fn truncation_in_a_zone_is_that_of_its_clocks(seconds in 1_000_000_000_i64..2_000_000_000, zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])) {
        let sql = format!("format_timestamp('%F', timestamp_trunc(timestamp_seconds({seconds}), day, '{zone}'), '{zone}') = string(date(timestamp_seconds({seconds}), '{zone}'))");
        prop_assert_eq!(value(&sql), json!(true));
    }
}

#[test]
fn json_is_changed_where_a_path_fits() {
    let json = r#"parse_json('{"a": 1, "l": [1, {"b": null}], "n": null}')"#;
    for (call, expected) in json_cases(CASES, "json_is_changed_where_a_path_fits") {
        assert_eq!(value(&call.replace('J', json)), expected, "{call}");
    }
    for (call, needle) in text_cases(CASES, "json_is_changed_where_a_path_fits 2") {
        let failure = World::new().failure(&format!("select {call}"));
        assert!(failure.message.contains(needle), "{call}: {failure}");
    }
}

#[test]
fn json_is_made_as_deep_as_it_can_be_read_and_no_deeper() {
    let failure = |call: &str| World::new().failure(&format!("select {call} as v"));
    for call in [
        "to_json_string(json_set(json '{}', concat('$', repeat('.a', 200000)), 1))",
        "to_json_string(json_set(json 'null', concat('$', repeat('[0]', 200000)), 1))",
        "json_remove(json '{}', concat('$', repeat('.a', 101)))",
        "json_value('{}', concat('$', repeat('.a', 101)))",
    ] {
        assert!(failure(call).message.contains("more steps than the 100"), "{call}: {}", failure(call));
    }
    let literal = format!("json_set(json '{{}}', '${}', 1)", ".a".repeat(101));
    assert_eq!(failure(&literal).code, Code::InvalidQuery);
    assert_eq!(value("length(to_json_string(json_set(json 'null', concat('$', repeat('.a', 100)), 1)))"), json!(601));
    let nested = |depth: usize| format!("parse_json(concat(repeat('[', {depth}), repeat(']', {depth})))");
    let path = "concat('$', repeat('[0]', 99))";
    for (call, fits) in [
        (format!("json_set(json 'null', {path}, {})", nested(28)), true),
        (format!("json_set(json 'null', {path}, {})", nested(29)), false),
        (format!("json_set(json '{{}}', '$.a', json_set(json 'null', {path}, {}))", nested(27)), true),
        (format!("json_set(json '{{}}', '$.a', json_set(json 'null', {path}, {}))", nested(28)), false),
        (format!("json_set(json 'null', {path}, json '[]', concat({path}, '[0]'), {})", nested(28)), false),
        (format!("json_array_append({}, {path}, {})", nested(100), nested(27)), true),
        (format!("json_array_append({}, {path}, {})", nested(100), nested(28)), false),
        (format!("json_array_insert({}, concat({path}, '[0]'), {})", nested(100), nested(27)), true),
        (format!("json_array_insert({}, concat({path}, '[0]'), {})", nested(100), nested(28)), false),
        // What changes nothing makes nothing.
        (format!("json_set(json '1', {path}, {})", nested(127)), true),
    ] {
        if fits {
            assert!(value(&format!("json_type({call})")).is_string(), "{call}");
        } else {
            let failure = failure(&call);
            assert_eq!(failure.code, Code::LimitExceeded, "{call}");
            assert!(failure.message.contains("127 levels"), "{call}: {failure}");
        }
    }
}

#[test]
fn the_elements_that_one_call_fills_up_are_counted_together() {
    for (call, fits) in [
        ("json_set(json 'null', '$[99999]', 1)", true),
        ("json_set(json 'null', '$[100000]', 1)", false),
        ("json_set(json 'null', '$[18446744073709551615]', 1)", false),
        ("json_set(json 'null', '$[49999][49999]', 1)", true),
        ("json_set(json 'null', '$[49999][50000]', 1)", false),
        ("json_set(json 'null', concat('$', repeat('[99999]', 90)), 1)", false),
        ("json_set(json '{}', '$.a[49999]', 1, '$.b[49999]', 1)", true),
        ("json_set(json '{}', '$.a[49999]', 1, '$.b[50000]', 1)", false),
        ("json_set(json '[]', '$[99999]', 1, '$[50000]', 1)", true),
        ("json_array_insert(json '[[], []]', '$[0][50000]', 1, '$[1][50000]', 1)", true),
        ("json_array_insert(json '[[], []]', '$[0][50000]', 1, '$[1][50001]', 1)", false),
    ] {
        let sql = format!("select json_type({call}) as v from unnest([1, 2])");
        if fits {
            assert_eq!(World::new().rows(&sql).as_array().map(Vec::len), Some(2), "{call}");
        } else {
            let failure = World::new().failure(&sql);
            assert_eq!(failure.code, Code::LimitExceeded, "{call}");
            assert!(failure.message.contains("would be filled up"), "{call}: {failure}");
        }
    }
}

#[test]
fn a_hyphen_behind_a_set_of_a_class_is_itself() {
    for (call, expected) in [
        (r"regexp_replace('AB-12_c d', r'[\s-_]', '')", json!("AB12cd")),
        (r"regexp_contains('{', r'[\w-~]')", json!(false)),
        (r"regexp_extract('to a-b.c+d', r'to ([\w-.]+)')", json!("a-b.c")),
        ("regexp_contains('.', '[--/]')", json!(true)),
    ] {
        assert_eq!(value(call), expected, "{call}");
    }
}

#[test]
fn a_number_keeps_its_digits_in_a_text_and_not_in_a_json() {
    for (call, expected) in [
        (r#"json_value('{"a": 1.10}', '$.a')"#, "1.10"),
        (r#"json_value(json '{"a": 1.10}', '$.a')"#, "1.1"),
        (r#"json_value(parse_json('{"a": 1.10}'), '$.a')"#, "1.1"),
        (r#"json_extract_scalar(json '{"a": [2.50]}', '$.a[0]')"#, "2.5"),
        ("json_value(json '1.50')", "1.5"),
        (r#"json_value(json '{"a": "1.10"}', '$.a')"#, "1.10"),
        (r#"json_value(json '{"a": 9007199254740993}', '$.a')"#, "9007199254740993"),
    ] {
        assert_eq!(value(call), json!(expected), "{call}");
    }
}

#[test]
fn bytes_are_taken_apart_as_bytes_and_are_not_read_as_text() {
    let world = World::new().source("t", &[json!({"s": "a", "n": 4}), json!({"s": "b", "n": 99})]);
    let sql = "select to_hex(left(h, n)) as l, to_hex(right(h, 2)) as r, to_hex(left(reverse(h), 1)) as v, \
               starts_with(h, from_hex('ca')) as b, ends_with(h, right(h, n)) as e, \
               length(replace(h, left(h, 1), b'')) < 32 as p, left(cast(null as bytes), 1) as z \
               from (select sha256(s) as h, n from t) order by n";
    assert_eq!(
        world.rows(sql),
        json!([
            {"l": "ca978112", "r": "48bb", "v": "bb", "b": true, "e": true, "p": true, "z": null},
            {
                "l": "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d",
                "r": "009d", "v": "9d", "b": false, "e": true, "p": true, "z": null
            },
        ])
    );
    for call in [
        "trim(h, 'a')",
        "split(h, ',')",
        "strpos(h, 'a')",
        "regexp_contains(h, 'a')",
        "regexp_contains(s, h)",
        "regexp_replace(h, 'a', 'b')",
        "contains_substr(h, 'a')",
        "concat(s, h)",
        "replace(s, h, 'x')",
        "json_value(h, '$.a')",
    ] {
        let failure = world.failure(&format!("select {call} as v from (select sha256(s) as h, s from t)"));
        assert_eq!(failure.code, Code::InvalidQuery, "{call}: {failure}");
        let is_told = ["takes text there, not BYTES", "takes texts or BYTES, not both"];
        assert!(is_told.iter().any(|told| failure.message.contains(told)), "{call}: {failure}");
    }
}

#[test]
fn bytes_are_compared_with_bytes() {
    for (condition, expected) in json_cases(CASES, "bytes_are_compared_with_bytes") {
        assert_eq!(value(condition), expected, "{condition}");
    }
    let world = World::new().source("t", &[json!({"s": "a_"}), json!({"s": "b"})]);
    let rows = world.rows("select s from t where cast(s as bytes) like concat(b'%', cast('_' as bytes))");
    assert_eq!(rows, json!([{"s": "a_"}, {"s": "b"}]));
    for condition in [
        "h = s",
        "s != h",
        "h < 'a'",
        "h in ('a', 'b')",
        "s in (b'a')",
        "s in unnest([h])",
        "h in unnest(['a'])",
        "h between 'a' and 'b'",
        "h in (select s from t)",
        "(h, 1) = ('a', 1)",
        "nullif(h, 'a') is null",
        "case h when 'a' then true end",
        "h is distinct from 'a'",
    ] {
        let failure = world.failure(&format!("select {condition} as v from (select sha256(s) as h, s from t)"));
        assert_eq!(failure.code, Code::InvalidQuery, "{condition}: {failure}");
        assert!(failure.message.contains("cannot be compared; b'a' is a literal of BYTES"), "{condition}: {failure}");
    }
    for condition in ["h like 'a%'", "s like h", "h ilike b'a'", "4 like h"] {
        let failure = world.failure(&format!("select {condition} as v from (select sha256(s) as h, s from t)"));
        assert!(failure.message.contains("LIKE cannot compare"), "{condition}: {failure}");
    }
}
