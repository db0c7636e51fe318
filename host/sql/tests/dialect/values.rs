//! Literals, types, conversions and functions.

use serde_json::json;

use super::super::support::{World, value};

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
    assert!(plan.contains("> 2") && !plan.contains("float_"), "{plan}");
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
fn an_integer_beyond_int64_is_no_float() {
    let world = World::new();
    for text in ["9223372036854775808", "-9223372036854775809", "[1, 99999999999999999999]"] {
        let failure = world.failure(&format!("select {text} as v"));
        assert!(failure.message.contains("is beyond INT64"), "{text}: {failure:?}");
    }
    assert_eq!(value("9223372036854775808.0"), json!(9_223_372_036_854_775_808.0));
    assert_eq!(value("9223372036854775807"), json!(i64::MAX));
}
