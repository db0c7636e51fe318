//! Literals, types, conversions and functions.

use serde_json::json;

use crate::support::World;

/// One expression, one value.
fn value(expression: &str) -> serde_json::Value {
    World::new().rows(&format!("select {expression} as v"))[0]["v"].clone()
}

#[test]
fn literals_are_read_as_bigquery_reads_them() {
    for (expression, expected) in [
        ("1", json!(1)),
        ("1.5", json!(1.5)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("0x1F", json!(31)),
        ("'it''s'", json!("it's")),
        (r"'it\'s'", json!("it's")),
        ("\"double\"", json!("double")),
        (r"r'\d+'", json!(r"\d+")),
        (r"'\d+'", json!(r"\d+")),
        ("true", json!(true)),
        ("null", json!(null)),
        ("timestamp '2025-11-20T10:15:02Z'", json!(1_763_633_702_000_000_i64)),
        ("date '2025-11-20'", json!("2025-11-20")),
        ("datetime '2025-11-20 10:15:02.5'", json!("2025-11-20T10:15:02.500000")),
        ("[1, 2]", json!([1, 2])),
        ("struct(1 as a, 'x' as b)", json!({"a": 1, "b": "x"})),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn operators_and_conversions_mean_what_bigquery_means() {
    for (expression, expected) in [
        ("3 / 2", json!(1.5)),
        ("div(7, 2)", json!(3)),
        ("mod(7, 3)", json!(1)),
        ("7 % 3", json!(1)),
        ("cast('12' as int64)", json!(12)),
        ("cast(2.5 as int64)", json!(3)),
        ("cast(-2.5 as int64)", json!(-3)),
        ("safe_cast('x' as int64)", json!(null)),
        ("safe_cast(['1', 'x'] as array<int64>)", json!([1, null])),
        ("unix_seconds(timestamp(datetime '1970-01-01 00:00:01'))", json!(1)),
        ("unix_seconds(timestamp(date '1970-01-02'))", json!(86_400)),
        ("cast([1.5, 2.4] as array<int64>)", json!([2, 2])),
        ("cast([1, 2] as array<float64>)", json!([1.0, 2.0])),
        ("cast(['a'] as array<string>)", json!(["a"])),
        ("cast([true] as array<string>)", json!(["true"])),
        ("cast(cast(null as array<string>) as array<int64>)", json!(null)),
        ("cast(12 as string)", json!("12")),
        ("cast(1.0 as string)", json!("1")),
        ("cast(true as string)", json!("true")),
        ("cast(timestamp '2025-11-20T10:15:02Z' as datetime)", json!("2025-11-20T10:15:02")),
        ("cast(timestamp '2025-11-20T10:15:02Z' as date)", json!("2025-11-20")),
        ("cast(timestamp '2025-11-20T10:15:02Z' as string)", json!("2025-11-20 10:15:02+00")),
        ("'5'::int64 + 1", json!(6)),
        ("1 = '1'", json!(true)),
        ("1 = 'x'", json!(false)),
        ("200 in ('200', '404')", json!(true)),
        ("'404' not in (200, 500)", json!(true)),
        ("5 between '1' and '9'", json!(true)),
        ("timestamp '2025-11-20T10:15:02Z' > '2025-11-20'", json!(true)),
        ("timestamp '2025-11-20T10:15:02Z' = 1763633702000000", json!(true)),
        ("not (null or true)", json!(false)),
        ("null is null", json!(true)),
        ("'abc' like 'a%'", json!(true)),
        ("'ABC' ilike 'a_c'", json!(true)),
        (r"'50%' like '50\\%'", json!(true)),
        ("'a' || 'b'", json!("ab")),
        ("if(1 > 2, 'a', 'b')", json!("b")),
        ("coalesce(null, null, 3)", json!(3)),
        ("ifnull(null, 'x')", json!("x")),
        ("nullif(1, 1)", json!(null)),
        ("case 2 when 1 then 'a' when 2 then 'b' end", json!("b")),
        ("safe_divide(1, 0)", json!(null)),
        ("greatest(1, 3, 2)", json!(3)),
        ("round(2.345, 2)", json!(2.35)),
        ("2 in unnest([1, 2])", json!(true)),
        ("[10, 20][offset(1)]", json!(20)),
        ("[10, 20][ordinal(1)]", json!(10)),
        ("[10, 20][5]", json!(null)),
        ("array_length([1, 2, 3])", json!(3)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn an_arm_that_is_not_taken_is_not_evaluated() {
    assert_eq!(value("case when true then 1 else cast('' as int64) end"), json!(1));
    assert_eq!(
        value("case when '' = '' then true else timestamp '2025-01-01' > cast('' as timestamp) end"),
        json!(true)
    );
    assert_eq!(value("if(false, 1 / 0, 2)"), json!(2.0));
    let world = World::new().source("t", &[json!({"s": "12"}), json!({"s": "abc"})]);
    let rows = world.rows("select case when regexp_contains(s, '^[0-9]+$') then cast(s as int64) > 5 else false end as v from t order by s");
    assert_eq!(rows, json!([{"v": true}, {"v": false}]));
}

#[test]
fn time_functions_work_in_utc() {
    let at = "timestamp '2025-11-20T10:15:02.123456Z'";
    for (expression, expected) in [
        (format!("timestamp_trunc({at}, minute)"), json!(1_763_633_700_000_000_i64)),
        (format!("timestamp_trunc({at}, DAY)"), json!(1_763_596_800_000_000_i64)),
        (format!("cast(timestamp_trunc({at}, week) as date)"), json!("2025-11-16")),
        (format!("cast(timestamp_trunc({at}, isoweek) as date)"), json!("2025-11-17")),
        (format!("cast(timestamp_trunc({at}, week(thursday)) as date)"), json!("2025-11-20")),
        (format!("timestamp_sub({at}, interval 15 minute) = timestamp '2025-11-20T10:00:02.123456Z'"), json!(true)),
        (format!("timestamp_diff({at}, timestamp '2025-11-20T08:15:03Z', hour)"), json!(1)),
        (format!("unix_millis({at})"), json!(1_763_633_702_123_i64)),
        (format!("extract(hour from {at})"), json!(10)),
        (format!("extract(dayofweek from {at})"), json!(5)),
        (format!("datetime({at}, 'UTC')"), json!("2025-11-20T10:15:02.123456")),
        (format!("format_timestamp('%F %H:%M', {at})"), json!("2025-11-20 10:15")),
        (format!("date({at})"), json!("2025-11-20")),
        ("date_sub(date '2025-03-31', interval 1 month)".into(), json!("2025-02-28")),
        ("date_diff(date '2025-03-01', date '2025-02-27', day)".into(), json!(2)),
        ("parse_timestamp('%Y-%m-%d', '2025-11-20')".into(), json!(1_763_596_800_000_000_i64)),
        ("timestamp_millis(1000)".into(), json!(1_000_000)),
        ("current_timestamp() - interval 2 second = timestamp '2025-11-20T10:15:00Z'".into(), json!(true)),
    ] {
        assert_eq!(value(&expression), expected, "{expression}");
    }
}

#[test]
fn text_and_json_functions() {
    for (expression, expected) in [
        ("lower('ABC')", json!("abc")),
        ("concat('a', 1, null)", json!(null)),
        ("concat('a', 1)", json!("a1")),
        ("length('héé')", json!(3)),
        ("substr('hello', 2, 3)", json!("ell")),
        ("substr('hello', -3)", json!("llo")),
        ("substr('hello', 0, 2)", json!("he")),
        ("starts_with('hello', 'he')", json!(true)),
        ("strpos('hello', 'l')", json!(3)),
        ("replace('aXb', 'X', '-')", json!("a-b")),
        ("trim('  x ')", json!("x")),
        ("split('a,b')", json!(["a", "b"])),
        ("split('a b', ' ')[offset(1)]", json!("b")),
        ("regexp_contains('/auth/v1', '^/auth|/rest')", json!(true)),
        ("regexp_contains('warning', 'x||y')", json!(true)),
        ("regexp_contains(null, 'x')", json!(null)),
        ("regexp_contains(404, '^4')", json!(true)),
        ("regexp_extract('id=42;', 'id=([0-9]+)')", json!("42")),
        (r"regexp_replace('a1b2', r'([0-9])', r'<\1>')", json!("a<1>b<2>")),
        (r#"json_value('{"a": {"b": 5}}', "$.a.b")"#, json!("5")),
        (r#"json_value('not json', "$.a")"#, json!(null)),
        (r#"json_query('{"a": [1]}', '$.a')"#, json!("[1]")),
        ("to_json_string(struct(1 as a))", json!(r#"{"a":1}"#)),
        ("to_hex(md5('a'))", json!("0cc175b9c0f1b6a831c399e269772661")),
        ("net.host('https://a.example.test:8/x')", json!("a.example.test")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn aggregates() {
    let world = World::new().source(
        "t",
        &[json!({"k": "a", "n": 1}), json!({"k": "a", "n": 3}), json!({"k": "b", "n": 5}), json!({"k": "b"})],
    );
    let rows = world.rows(
        "select k, count(*) as c, count(n) as cn, countif(n > 1) as ci, sum(n) as s, avg(n) as a, min(n) as lo, max(n) as hi,
                logical_or(n = 5) as lo5, count(distinct k) as d, array_agg(n ignore nulls order by n desc limit 1) as top,
                approx_quantiles(n, 2)[offset(1)] as median, string_agg(cast(n as string), '-' order by n) as joined,
         from t group by k order by k",
    );
    assert_eq!(
        rows,
        json!([
            {"k": "a", "c": 2, "cn": 2, "ci": 1, "s": 4, "a": 2.0, "lo": 1, "hi": 3, "lo5": false, "d": 1, "top": [3], "median": 1, "joined": "1-3"},
            {"k": "b", "c": 2, "cn": 1, "ci": 1, "s": 5, "a": 5.0, "lo": 5, "hi": 5, "lo5": true, "d": 1, "top": [5], "median": 5, "joined": "5"},
        ])
    );
    assert_eq!(world.rows("select count(*) as c, sum(n) as s from t where k = 'none'"), json!([{"c": 0, "s": null}]));
    assert_eq!(world.rows("select k from t group by k having count(*) > 5"), json!([]));
    assert_eq!(world.rows("select count(*) filter (where n > 1) as c from t"), json!([{"c": 2}]));
}

#[test]
fn the_largest_sums_are_exact_in_whatever_order_their_weights_come() {
    let event = |value: &str, weight: i64| json!({"v": value, "n": weight});
    let rows = [event("a", i64::MAX - 1), event("a", 2), event("a", -1), event("b", i64::MAX - 1), event("c", 7)];
    let expected = json!([{"top": [{"value": "a", "sum": i64::MAX}, {"value": "b", "sum": i64::MAX - 1}]}]);
    for turn in 0..rows.len() {
        let mut turned = rows.clone();
        turned.rotate_left(turn);
        let world = World::new().source("t", &turned);
        assert_eq!(world.rows("select approx_top_sum(v, n, 2) as top from t"), expected);
    }
    let world = World::new().source("t", &[event("a", i64::MAX), event("a", 1)]);
    let failure = world.failure("select approx_top_sum(v, n, 1) as top from t");
    assert!(failure.to_string().contains("overflows INT64"), "{failure}");
}

#[test]
fn stored_times_of_any_year_are_cut_to_every_part() {
    let rows = ["0001-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"];
    let world = World::new().source("t", &rows.map(|time| json!({"id": time, "timestamp": time})));
    for (part, expected) in [
        ("second", ["0001-12-31T23:59:59", "1969-12-31T23:59:59", "9999-12-31T23:59:59"]),
        ("hour", ["0001-12-31T23:00:00", "1969-12-31T23:00:00", "9999-12-31T23:00:00"]),
        ("day", ["0001-12-31T00:00:00", "1969-12-31T00:00:00", "9999-12-31T00:00:00"]),
        ("week", ["0001-12-30T00:00:00", "1969-12-28T00:00:00", "9999-12-26T00:00:00"]),
        ("isoweek", ["0001-12-31T00:00:00", "1969-12-29T00:00:00", "9999-12-27T00:00:00"]),
        ("month", ["0001-12-01T00:00:00", "1969-12-01T00:00:00", "9999-12-01T00:00:00"]),
        ("quarter", ["0001-10-01T00:00:00", "1969-10-01T00:00:00", "9999-10-01T00:00:00"]),
        ("year", ["0001-01-01T00:00:00", "1969-01-01T00:00:00", "9999-01-01T00:00:00"]),
        ("isoyear", ["0001-12-31T00:00:00", "1969-12-29T00:00:00", "9999-01-04T00:00:00"]),
    ] {
        // As a column, as one that the optimizer replaces by a constant, and as a computed value.
        let stored = format!("select datetime(timestamp_trunc(timestamp, {part})) as v from t order by timestamp");
        let constants = rows.map(|time| {
            format!("select datetime(timestamp_trunc(c, {part})) as v from (select timestamp '{time}' as c)")
        });
        let computed = format!(
            "select datetime(timestamp_trunc(timestamp_add(timestamp, interval 0 day), {part})) as v from t order by timestamp"
        );
        let expected = expected.map(|time| json!({"v": time}));
        assert_eq!(world.rows(&stored), json!(expected), "{part}");
        assert_eq!(world.rows(&computed), json!(expected), "{part}");
        for (sql, expected) in constants.iter().zip(&expected) {
            assert_eq!(world.rows(sql), json!([expected]), "{sql}");
        }
    }
}

#[test]
fn values_that_do_not_convert_are_told_clearly() {
    let world = World::new().source("t", &[json!({"s": "abc", "far": i64::MAX})]);
    for (sql, needle) in [
        ("select cast(s as int64) as v from t", "'abc' cannot be read as INT64"),
        ("select 1 / length('') as v", "division by zero"),
        ("select * from t where timestamp > 'soon'", "'soon' cannot be read as TIMESTAMP"),
        ("select regexp_contains(s, '(') from t", "unclosed group"),
        ("select repeat('a', 1000000000) as v", "at most"),
        ("select generate_array(1, 1000000000) as v", "at most"),
        ("select timestamp_trunc(9223372036854775807, hour) as v", "too far away"),
        ("select timestamp_trunc(timestamp_micros(-9223372036854775807), week) as v from t", "too far away"),
        ("select timestamp_trunc(timestamp_micros(far), month) as v from t", "too far away"),
        ("select s from t where date_trunc('year', timestamp_micros(far)) > timestamp '2020-01-01'", "too far away"),
    ] {
        let failure = world.failure(sql);
        assert!(failure.to_string().contains(needle), "{sql}\n{failure}");
        assert_eq!(failure.code.status() / 100, 4, "{failure:?}");
    }
}

/// The words stand behind the argument, and the parser gives them to an argument that is a call.
#[test]
fn ignore_nulls_behind_a_call_is_the_aggregates() {
    let world = World::new();
    for (expression, expected) in [
        ("ARRAY_AGG(IF(x > 1, x, NULL) IGNORE NULLS ORDER BY x)", json!([2, 3])),
        ("ARRAY_AGG(NULLIF(x, 2) IGNORE NULLS ORDER BY x DESC)", json!([3, 1])),
        ("ARRAY_AGG(DISTINCT NULLIF(x, 2) IGNORE NULLS ORDER BY NULLIF(x, 2))", json!([1, 3])),
        ("ARRAY_AGG(NULLIF(x, 1) IGNORE NULLS ORDER BY x LIMIT 1)", json!([2])),
        ("ARRAY_AGG(NULLIF(x, 1) RESPECT NULLS ORDER BY x LIMIT 1)", json!([null])),
        ("ARRAY_AGG(SAFE_DIVIDE(x, x - 1) IGNORE NULLS ORDER BY x)", json!([2.0, 1.5])),
        ("ARRAY_AGG(IF(x > 9, x, NULL) IGNORE NULLS)", json!(null)),
        ("ARRAY_LENGTH(ARRAY_AGG(x))", json!(3)),
    ] {
        let rows = world.rows(&format!("SELECT {expression} AS v FROM UNNEST([1, 2, 3]) AS x"));
        assert_eq!(rows, json!([{"v": expected}]), "{expression}");
    }
    let rows = world.rows(
        "SELECT x, LAST_VALUE(NULLIF(x, 3) IGNORE NULLS) OVER (ORDER BY x) AS v FROM UNNEST([1, 2, 3]) AS x ORDER BY x",
    );
    assert_eq!(rows, json!([{"x": 1, "v": 1}, {"x": 2, "v": 2}, {"x": 3, "v": 2}]));
}

#[test]
fn array_agg_with_a_limit_holds_the_first_in_the_order() {
    let world = World::new();
    let from = "FROM UNNEST([STRUCT(1 AS k, 'a' AS t), STRUCT(3, 'c'), STRUCT(2, NULL), STRUCT(3, 'd'), STRUCT(NULL, 'e')]) AS x";
    for (expression, expected) in [
        ("ARRAY_AGG(t ORDER BY k DESC, t LIMIT 2)", json!(["c", "d"])),
        ("ARRAY_AGG(t ORDER BY k LIMIT 2)", json!(["e", "a"])),
        ("ARRAY_AGG(t ORDER BY k NULLS LAST LIMIT 3)", json!(["a", null, "c"])),
        ("ARRAY_AGG(t IGNORE NULLS ORDER BY k DESC, t DESC LIMIT 3)", json!(["d", "c", "a"])),
        ("ARRAY_AGG(STRUCT(k, t) ORDER BY k DESC, t LIMIT 1)[OFFSET(0)].t", json!("c")),
        ("ARRAY_LENGTH(ARRAY_AGG(t LIMIT 2))", json!(2)),
        ("ARRAY_LENGTH(ARRAY_AGG(t LIMIT 9))", json!(5)),
        ("ARRAY_AGG(DISTINCT k ORDER BY k DESC LIMIT 2)", json!([3, 2])),
        ("STRING_AGG(t, '-' ORDER BY t DESC LIMIT 2)", json!("e-d")),
        ("ARRAY_AGG([STRUCT(t AS y)][OFFSET(0)] ORDER BY t DESC LIMIT 1)[OFFSET(0)].y", json!("e")),
    ] {
        assert_eq!(world.rows(&format!("SELECT {expression} AS v {from}")), json!([{"v": expected}]), "{expression}");
    }
    // In groups, of which the parts of the input each hold some.
    let rows = world.rows(
        "SELECT MOD(x, 3) AS g, ARRAY_AGG(x ORDER BY x DESC LIMIT 2) AS v FROM UNNEST(GENERATE_ARRAY(1, 30000)) AS x GROUP BY g ORDER BY g",
    );
    assert_eq!(
        rows,
        json!([{"g": 0, "v": [30000, 29997]}, {"g": 1, "v": [29998, 29995]}, {"g": 2, "v": [29999, 29996]}])
    );
    for (sql, words) in [
        ("SELECT ARRAY_AGG(x LIMIT -1) AS v FROM UNNEST([1]) AS x", "0 or more"),
        (
            "SELECT ARRAY_AGG(DISTINCT x ORDER BY o) AS v FROM UNNEST([1, 2]) AS x WITH OFFSET AS o",
            "ordered by its arguments",
        ),
        ("SELECT STRING_AGG(DISTINCT x ORDER BY LENGTH(x)) AS v FROM UNNEST(['a']) AS x", "ordered by its arguments"),
    ] {
        let failure = world.failure(sql);
        assert!(failure.message.contains(words) && failure.code.status() < 500, "{sql}: {failure}");
    }
}

/// Texts, which are counted by a function of ours, beside numbers, which are counted by the engine.
#[test]
fn distinct_values_are_counted() {
    let world = World::new();
    let uuid = |number: i64| format!("{number:08x}-0000-4000-8000-000000000000");
    let from = format!(
        "FROM UNNEST([STRUCT(1 AS k, '{}' AS t, 1 AS n), STRUCT(1, '{}', 2), STRUCT(1, 'a short text', 2), STRUCT(2, NULL, NULL),
        STRUCT(3, REPEAT('long', 9), 7), STRUCT(3, CONCAT('long', REPEAT('long', 8)), 7), STRUCT(3, '', 8), STRUCT(3, 'é', 8)]) AS x",
        uuid(1),
        uuid(1)
    );
    for (expression, expected) in [
        ("COUNT(DISTINCT t)", json!(5)),
        ("COUNT(DISTINCT n)", json!(4)),
        ("COUNT(DISTINCT CAST(n AS STRING))", json!(4)),
        ("COUNT(DISTINCT UPPER(t))", json!(5)),
        ("COUNT(DISTINCT NULLIF(t, ''))", json!(4)),
        ("COUNT(DISTINCT t) + COUNT(DISTINCT n) + COUNT(t) + COUNT(*)", json!(24)),
        ("COUNT(DISTINCT IF(k = 2, t, NULL))", json!(0)),
        ("MAX((SELECT COUNT(DISTINCT y) FROM UNNEST(['a', 'b', 'a', NULL, t]) AS y))", json!(3)),
        ("MAX((SELECT COUNT(DISTINCT y) FROM UNNEST(IF(k > 9, [t], [])) AS y))", json!(0)),
    ] {
        assert_eq!(world.rows(&format!("SELECT {expression} AS v {from}")), json!([{"v": expected}]), "{expression}");
    }
    assert_eq!(world.rows(&format!("SELECT COUNT(DISTINCT t) AS v {from} WHERE k > 9")), json!([{"v": 0}]));
    let counts =
        |counts: [i64; 3]| json!([{"k": 1, "v": counts[0]}, {"k": 2, "v": counts[1]}, {"k": 3, "v": counts[2]}]);
    let grouped = format!("SELECT k, COUNT(DISTINCT t) AS v {from} GROUP BY k ORDER BY k");
    assert_eq!(world.rows(&grouped), counts([2, 0, 3]));
    let windowed = format!("SELECT DISTINCT k, COUNT(DISTINCT t) OVER (PARTITION BY k) AS v {from} ORDER BY k");
    assert_eq!(world.rows(&windowed), counts([2, 0, 3]));
    let correlated = "SELECT k, (SELECT COUNT(DISTINCT o) FROM (SELECT 1 AS i, 'x' AS o UNION ALL SELECT 1, 'y' UNION ALL SELECT 3, 'x') AS b
        WHERE b.i = a.k) AS v FROM UNNEST([1, 2, 3]) AS k_of JOIN (SELECT 1 AS k UNION ALL SELECT 2 UNION ALL SELECT 3) AS a ON a.k = k_of ORDER BY k";
    assert_eq!(world.rows(correlated), counts([2, 0, 1]));
    // Many groups and texts, of which the parts of the input each hold some.
    let many =
        "SELECT MOD(x, 3) + 1 AS k, COUNT(DISTINCT CONCAT('a text of some length ', CAST(MOD(x, 3000) AS STRING))) AS v
        FROM UNNEST(GENERATE_ARRAY(1, 30000)) AS x GROUP BY k ORDER BY k";
    assert_eq!(world.rows(many), counts([1_000, 1_000, 1_000]));
}

#[test]
fn intervals_are_compared_by_their_length() {
    for (expression, expected) in [
        ("interval 25 hour > interval 1 day", json!(true)),
        ("interval 1 day = interval 24 hour", json!(true)),
        ("interval 1 month = interval 30 day", json!(true)),
        ("interval 1 day != interval 24 hour", json!(false)),
        ("interval 1 month < interval 29 day", json!(false)),
        ("interval 1 day in (interval 1 hour, interval 24 hour)", json!(true)),
        ("interval 36 hour between interval 1 day and interval 2 day", json!(true)),
        ("case interval 24 hour when interval 1 day then 'same' end", json!("same")),
        ("nullif(interval 24 hour, interval 1 day)", json!(null)),
        ("interval 1 day < null", json!(null)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let world = World::new();
    let from = "from unnest([interval 25 hour, interval 1 day, interval 30 hour, interval 1 month]) as i";
    let rows = world.rows(&format!("select min(i) as a, max(i) as b {from}"));
    assert_eq!(rows, json!([{"a": "0-0 1 0:0:0", "b": "0-1 0 0:0:0"}]));
    let rows = world.rows(&format!("select string_agg(cast(i as string), ', ' order by i) as v {from}"));
    assert_eq!(rows, json!([{"v": "0-0 1 0:0:0, 0-0 0 25:0:0, 0-0 0 30:0:0, 0-1 0 0:0:0"}]));
    let rows = world.rows(&format!("select i {from} order by i desc limit 2"));
    assert_eq!(rows, json!([{"i": "0-1 0 0:0:0"}, {"i": "0-0 0 30:0:0"}]));
    for sql in ["select distinct i", "select max(i) over ()", "select greatest(i, i)", "select count(distinct i)"] {
        let failure = world.failure(&format!("{sql} {from}"));
        assert!(failure.message.contains("INTERVAL"), "{failure}");
    }
    assert!(world.failure(&format!("select i, count(*) {from} group by i")).message.contains("INTERVAL"));
}

#[test]
fn a_date_and_an_interval_are_a_datetime() {
    for (expression, expected) in [
        ("date '2025-01-01' + interval 1 hour", json!("2025-01-01T01:00:00")),
        ("date '2025-01-01' + interval 1 day", json!("2025-01-02T00:00:00")),
        ("interval 1 day + date '2025-01-01'", json!("2025-01-02T00:00:00")),
        ("date '2025-03-31' - interval 1 month", json!("2025-02-28T00:00:00")),
        ("date_add(date '2025-01-01', interval 1 day)", json!("2025-01-02")),
        ("datetime_add(date '2025-01-01', interval 1 hour)", json!("2025-01-01T01:00:00")),
        ("1 + date '2025-01-01'", json!("2025-01-02")),
        ("date '2025-01-02' > date '2025-01-01' + interval 23 hour", json!(true)),
        ("date '2025-01-02' = date '2025-01-01' + interval 24 hour", json!(true)),
        ("date '2025-01-02' = date '2025-01-01' + interval 25 hour", json!(false)),
        ("date_diff(date '2025-01-10', date '2025-01-10' - interval 9 day, day)", json!(9)),
        ("date_trunc('hour', date '2025-01-10')", json!("2025-01-10T00:00:00")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let world = World::new().source("t", &[json!({"timestamp": 1_763_596_800_000_000_i64})]);
    let rows = world.rows(
        "select count(*) as c from t where date(timestamp) >= current_date() - interval 1 day
           and date(timestamp) < current_date() + interval 1 hour",
    );
    assert_eq!(rows, json!([{"c": 1}]));
    for (expression, needle) in [
        ("date_add(date '2025-01-01', interval 1 hour)", "a DATE moves by DAY"),
        ("date_sub(date '2025-01-01', interval 1 minute)", "a DATE moves by DAY"),
        ("date_trunc(date '2025-01-01', hour)", "a DATE has no HOUR"),
    ] {
        let failure = World::new().failure(&format!("select {expression} as v"));
        assert!(failure.message.contains(needle), "{failure}");
    }
}

#[test]
fn times_out_of_range_are_told_in_the_words_of_the_language() {
    let world = World::new().source("t", &[json!({"n": 3_000_000_000_i64})]);
    for (expression, needle) in [
        ("date_from_unix_date(3000000000)", "years are 1 to 9999"),
        ("date_from_unix_date(n)", "years are 1 to 9999"),
        ("date '2025-01-01' + 3000000000", "years are 1 to 9999"),
        ("date '2025-01-01' - n", "years are 1 to 9999"),
        ("date_add(date '2025-01-01', interval 3000000000 day)", "the INTERVAL is too large"),
        ("date_add(date '2025-01-01', interval n day)", "the INTERVAL is too large"),
        ("date_add(date '2025-01-01', interval 3000000 day)", "years are 1 to 9999"),
        ("timestamp_add(timestamp '9999-12-31 23:00:00', interval 1 day)", "years are 1 to 9999"),
        ("timestamp_sub(timestamp '0001-01-01', interval 1 month)", "years are 1 to 9999"),
        ("timestamp_micros(9223372036854775807)", "years are 1 to 9999"),
        ("timestamp_seconds(9223372036854775807)", "years are 1 to 9999"),
    ] {
        let failure = world.failure(&format!("select {expression} as v from t"));
        assert!(failure.message.contains(needle), "{expression}: {failure}");
        assert_eq!(failure.code.status() / 100, 4, "{failure:?}");
    }
    for expression in [
        "safe.date_from_unix_date(n)",
        "safe.timestamp_micros(9223372036854775807)",
        "safe.date_add(date '2025-01-01', interval n day)",
        "safe.date_add(date '2025-01-01', interval 3000000000 day)",
        "safe.timestamp_add(timestamp '9999-12-31 23:00:00', interval 1 day)",
    ] {
        assert_eq!(world.rows(&format!("select {expression} as v from t")), json!([{"v": null}]), "{expression}");
    }
    for (expression, expected) in [
        ("cast(timestamp_trunc(timestamp '0001-01-01 05:00:00', day) as string)", json!("0001-01-01 00:00:00+00")),
        ("cast(timestamp_trunc(timestamp '9999-12-31 05:00:00', month) as string)", json!("9999-12-01 00:00:00+00")),
        ("date_add(date '0001-01-01', interval 9998 year)", json!("9999-01-01")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn a_sum_that_int64_does_not_hold_is_an_error() {
    let max = i64::MAX;
    let rows = [json!({"k": "a", "n": max}), json!({"k": "a", "n": 1}), json!({"k": "b", "n": 5}), json!({"k": "c"})];
    let world = World::new().source("t", &rows);
    for sql in [
        "select sum(n) from t".to_owned(),
        "select k, sum(n) from t group by k".to_owned(),
        "select sum(n) over () from t".to_owned(),
        "select sum(n) over (order by n) from t".to_owned(),
        "select sum(distinct n) from t".to_owned(),
        "select approx_top_sum('all', n, 1) from t".to_owned(),
        "select sum(distinct n), count(distinct k) from t".to_owned(),
        format!("select sum(x) from unnest([{max}, 1]) as x"),
    ] {
        let failure = world.failure(&sql);
        assert!(failure.message.contains("the sum overflows INT64"), "{sql}: {failure}");
    }
    let rows =
        world.rows("select k, sum(n) as s, sum(distinct n) as d from t where n > 1 or n is null group by k order by k");
    assert_eq!(
        rows,
        json!([{"k": "a", "s": max, "d": max}, {"k": "b", "s": 5, "d": 5}, {"k": "c", "s": null, "d": null}])
    );
    // Only the result has to fit.
    assert_eq!(world.rows(&format!("select sum(x) as s from unnest([{max}, 1, -5]) as x")), json!([{"s": max - 4}]));
    assert_eq!(world.rows("select avg(n) > 1e18 as v from t"), json!([{"v": true}]));
    let rows = world.rows(
        "select sum(n) over (order by k rows between 1 preceding and current row) as s from t where n < 9 order by s",
    );
    assert_eq!(rows, json!([{"s": 1}, {"s": 6}]));
    assert_eq!(world.rows("select sum(n) filter (where k = 'b') as s from t"), json!([{"s": 5}]));
}

#[test]
fn intervals_are_summed_and_divided() {
    let world = World::new();
    let from = "from unnest([interval 1 month, interval 10 day, interval 90 minute, null]) as i";
    let rows = world.rows(&format!("select sum(i) as s, avg(i) as a {from}"));
    assert_eq!(rows, json!([{"s": "0-1 10 1:30:0", "a": "0-0 13 8:30:0"}]));
    assert_eq!(world.rows("select sum(i) as s from unnest([interval 1 day]) as i where false"), json!([{"s": null}]));
    assert_eq!(value("interval 1 month / 4"), json!("0-0 7 12:0:0"));
    assert_eq!(value("interval 3 hour / -2"), json!("0-0 0 -1:30:0"));
    assert!(world.failure("select interval 1 day / 0").message.contains("division by zero"));
}

#[test]
fn bits_are_shifted_as_numbers_without_a_sign() {
    for (expression, expected) in [
        ("1 << 63", json!(i64::MIN)),
        ("1 << 64", json!(0)),
        ("1 << 9223372036854775807", json!(0)),
        ("-1 >> 1", json!(i64::MAX)),
        ("-1 >> 64", json!(0)),
        ("256 >> 4", json!(16)),
        ("1 << null", json!(null)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    assert!(World::new().failure("select 1 << -1").message.contains("shifted by -1"));
}

#[test]
fn an_array_beside_null_is_null() {
    for (expression, expected) in [
        ("array_concat([1], null)", json!(null)),
        ("[1] || null", json!(null)),
        ("array_concat([1], [2])", json!([1, 2])),
        ("array_concat(null, null)", json!(null)),
        ("array_length(array_concat([1], cast(null as array<int64>)))", json!(null)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let world = World::new().source("t", &[json!({"k": 1, "a": [1]}), json!({"k": 2})]);
    let rows = world.rows("select a || [k] as v, a || null as w from t order by k");
    assert_eq!(rows, json!([{"v": [1, 1], "w": null}, {"v": null, "w": null}]));
}

#[test]
fn an_error_takes_any_type() {
    let world = World::new().source("t", &[json!({"n": 1}), json!({"n": 2})]);
    for (sql, expected) in [
        ("select sum(if(n > 0, n, error('neg'))) as v from t", json!([{"v": 3}])),
        ("select coalesce(1, error('x')) as v", json!([{"v": 1}])),
        ("select max(case when n > 9 then error('x') else timestamp_micros(n) end) as v from t", json!([{"v": 2}])),
        ("select if(n > 1, [n], error('x')) as v from t where n > 1", json!([{"v": [2]}])),
        ("select sum(ifnull(n, error('missing')) + 1) as v from t", json!([{"v": 5}])),
    ] {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
    for sql in [
        "select error('mine')",
        "select if(n > 1, n, error('mine')) from t",
        "select if(n > 1, null, error('mine')) from t",
        "select 1 + error('mine')",
        "select n from t where error('mine')",
        "select safe.error('mine')",
        "select count(*) from t where n > 0 and error('mine') = 1",
    ] {
        assert_eq!(world.failure(sql).message, "mine", "{sql}");
    }
}

#[test]
fn an_interval_is_of_any_expression() {
    let world = World::new();
    for (expression, expected) in [
        ("TIMESTAMP '2025-01-01' + INTERVAL n * 5 MINUTE", "2025-01-01 00:10:00"),
        ("TIMESTAMP '2025-01-01' + INTERVAL 1 + 1 DAY", "2025-01-03 00:00:00"),
        ("TIMESTAMP '2025-01-01' + INTERVAL t.n MINUTE", "2025-01-01 00:02:00"),
        ("TIMESTAMP_ADD(TIMESTAMP '2025-01-01', INTERVAL t.n + 1 HOUR)", "2025-01-01 03:00:00"),
        ("TIMESTAMP '2025-01-01' + INTERVAL -n DAY", "2024-12-30 00:00:00"),
        ("TIMESTAMP '2025-01-01' - INTERVAL '1 hour'", "2024-12-31 23:00:00"),
        ("TIMESTAMP '2025-01-01' - INTERVAL '1 hour' - INTERVAL '1' DAY", "2024-12-30 23:00:00"),
        ("TIMESTAMP '2025-01-01' + INTERVAL (n + 1) HOUR + INTERVAL 1 MINUTE", "2025-01-01 03:01:00"),
    ] {
        let rows = world.rows(&format!("SELECT STRING(DATETIME({expression})) AS v FROM (SELECT 2 AS n) AS t"));
        assert_eq!(rows, json!([{"v": expected}]), "{expression}");
    }
    assert_eq!(world.rows("SELECT INTERVAL '2 hours' > INTERVAL '1 hour' AS v"), json!([{"v": true}]));
}

#[test]
fn a_float_that_overflows_is_an_error() {
    for expression in ["1e300 * 1e300", "1e308 + 1e308", "-1e308 - 1e308", "1e300 / 1e-300", "n * 1e308"] {
        let world = World::new().source("t", &[json!({"n": 1e300})]);
        let failure = world.failure(&format!("select {expression} from t"));
        assert!(failure.message.contains("a FLOAT64 overflowed"), "{expression}: {failure}");
    }
    for (expression, expected) in [
        ("safe_multiply(1e300, 1e300)", json!(null)),
        ("safe_add(1e308, 1e308)", json!(null)),
        ("safe_subtract(-1e308, 1e308)", json!(null)),
        ("safe_divide(1e300, 1e-300)", json!(null)),
        ("cast('inf' as float64) + 1", json!("Infinity")),
        ("is_nan(cast('inf' as float64) - cast('inf' as float64))", json!(true)),
        ("2.5 * 2", json!(5.0)),
        ("1.5 + null", json!(null)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn nan_compares_with_nothing() {
    let nan = "cast('nan' as float64)";
    let from = format!("from (select {nan} as x, 1.5 as y, cast('inf' as float64) as z, ieee_divide(0, 0) as w)");
    for (condition, expected) in [
        ("x = x", false),
        ("x = w", false),
        ("x != x", true),
        ("x > 1", false),
        ("x >= 1", false),
        ("x < 1", false),
        ("x <= 1", false),
        ("1 < x", false),
        ("1 <= x", false),
        ("x = 1", false),
        ("x != 1", true),
        ("x > y", false),
        ("y < x", false),
        ("y <= x", false),
        ("x > z", false),
        ("not x > 1", true),
        ("x * 2 > 1", false),
        ("x between 0 and 9", false),
        ("z > y", true),
        ("z >= z", true),
        ("z = z", true),
        ("y != z", true),
        ("y * 2 >= 3", true),
    ] {
        assert_eq!(
            World::new().rows(&format!("select {condition} as v {from}"))[0]["v"],
            json!(expected),
            "{condition}"
        );
    }
    assert_eq!(value(&format!("{nan} = {nan}")), json!(false));
    assert_eq!(value(&format!("{nan} > 1")), json!(false));
    // Stored columns are still compared in a way that the storage understands.
    let world = World::new().source("t", &[json!({"f": 1.5}), json!({"f": 2.5}), json!({"f": null})]);
    assert_eq!(world.rows("select f from t where f > 2 and not f > 3"), json!([{"f": 2.5}]));
    let plan = world.physical("with g as (select f, timestamp from t) select f from g", "select f from g where f > 2");
    assert!(plan.contains("> 2") && !plan.contains("float_above"), "{plan}");
}

#[test]
fn literals_have_all_forms_of_bigquery() {
    for (expression, expected) in [
        (r"'\101\060'", json!("A0")),
        (r"b'\377'", json!("/w==")),
        (r"rb'\d'", json!("XGQ=")),
        (r#"br"\x01""#, json!("XHgwMQ==")),
        (r"length(rb'''a'b''')", json!(3)),
        ("timestamp '2014-09-27-08:00'", json!(1_411_804_800_000_000_i64)),
        ("timestamp '2014-09-27 00:00:00-8:00'", json!(1_411_804_800_000_000_i64)),
        ("timestamp '2014-09-27 00:00:00.5+5:30' = timestamp '2014-09-26 18:30:00.5Z'", json!(true)),
        ("timestamp('2014-09-27-08:00', 'Asia/Tokyo')", json!(1_411_804_800_000_000_i64)),
        ("interval '1:30' hour to minute", json!("0-0 0 1:30:0")),
        ("interval '1-2' year to month", json!("1-2 0 0:0:0")),
        ("interval '1 2:3:4.5' day to second", json!("0-0 1 2:3:4.500")),
        ("interval '-1 2' day to hour", json!("0-0 -1 2:0:0")),
        ("interval '1-2 3' year to day", json!("1-2 3 0:0:0")),
        ("cast('1-2 3 4:5:6' as interval)", json!("1-2 3 4:5:6")),
        ("cast('-1-2 3 -4:5:6' as interval)", json!("-1-2 3 -4:5:6")),
        ("safe_cast('1-2 3' as interval)", json!(null)),
        ("regexp_extract(b'id=42', b'id=([0-9]+)')", json!("NDI=")),
        (r"regexp_extract(b'a\xff1', b'\xff.')", json!("/zE=")),
        (r"regexp_extract(b'a', b'b')", json!(null)),
        (r#"json_value('{"v": 1.10, "l": [1, 2.50]}', '$.v')"#, json!("1.10")),
        (r#"json_value('{"v": 1.10, "l": [1, 2.50]}', '$.l[1]')"#, json!("2.50")),
        (r#"json_value('{"v": 123456789012345678901234567890}', '$.v')"#, json!("123456789012345678901234567890")),
        ("date_trunc('2025-11-20', month)", json!("2025-11-01")),
        ("date_trunc('week', timestamp '2025-11-20 10:00:00Z') = timestamp '2025-11-17'", json!(true)),
        ("timestamp_trunc(timestamp '2025-11-20 10:00:00Z', week) = timestamp '2025-11-16'", json!(true)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    for (sql, needle) in [
        ("select interval 1.5 hour", "whole number"),
        ("select interval '1' hour to minute", "is no interval from HOUR to MINUTE"),
        ("select interval '1:2:3' hour to minute", "is no interval from HOUR to MINUTE"),
        ("select cast('soon' as interval)", "'soon' cannot be read as INTERVAL"),
        ("select if(1 > 0, 2)", "IF takes 3 arguments, not 2"),
        ("select ifnull(1)", "IFNULL takes 2 arguments, not 1"),
        ("select coalesce()", "COALESCE takes at least one argument, not 0"),
        ("select percentile_cont(x, 0.5 respect nulls) over () from unnest([1]) as x", "RESPECT NULLS"),
        ("select percentile_disc(x, 0.5) respect nulls over () from unnest([1]) as x", "RESPECT NULLS"),
        ("select date_trunc('fortnight', timestamp '2025-11-20')", "no part FORTNIGHT"),
    ] {
        let failure = World::new().failure(sql);
        assert!(failure.message.contains(needle), "{sql}: {failure}");
    }
}

#[test]
fn floats_are_still_what_joins_and_subqueries_are_by() {
    let world = World::new()
        .source("a", &[json!({"f": 1.5, "k": 1}), json!({"f": 2.5, "k": 2})])
        .source("b", &[json!({"f": 2.5, "v": "x"}), json!({"f": 3.5, "v": "y"})]);
    for (sql, expected) in [
        ("select k, v from a join b on a.f = b.f", json!([{"k": 2, "v": "x"}])),
        ("select k, v from a join b using (f)", json!([{"k": 2, "v": "x"}])),
        (
            "select k, v from a left join b on a.f = b.f and b.f > 2 order by k",
            json!([{"k": 1, "v": null}, {"k": 2, "v": "x"}]),
        ),
        ("select k from a where f in (select f from b)", json!([{"k": 2}])),
        (
            "select k, (select max(v) from b where b.f = a.f) as v from a order by k",
            json!([{"k": 1, "v": null}, {"k": 2, "v": "x"}]),
        ),
        ("select k from a where exists (select 1 from b where b.f = a.f)", json!([{"k": 2}])),
        ("select k from a where exists (select 1 from b where a.f = b.f)", json!([{"k": 2}])),
        ("select count(*) as c from a, b where a.f < b.f", json!([{"c": 3}])),
    ] {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
}
