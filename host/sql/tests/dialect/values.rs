//! Literals, types, conversions and functions.

use serde_json::json;

use super::super::support::{World, value};
use super::tables::{json_cases, text_cases};

const CASES: &str = include_str!("cases/values.txt");

#[test]
fn literals_are_read_as_bigquery_reads_them() {
    for (expression, expected) in json_cases(CASES, "literals_are_read_as_bigquery_reads_them") {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn operators_and_conversions_mean_what_bigquery_means() {
    for (expression, expected) in json_cases(CASES, "operators_and_conversions_mean_what_bigquery_means") {
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
    for (expression, expected) in json_cases(CASES, "text_and_json_functions") {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn values_that_do_not_convert_are_told_clearly() {
    let world = World::new().source("t", &[json!({"s": "abc", "far": i64::MAX})]);
    for (sql, needle) in text_cases(CASES, "values_that_do_not_convert_are_told_clearly") {
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
    for (expression, expected) in json_cases(CASES, "a_float_that_overflows_is_an_error") {
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
    for (expression, expected) in json_cases(CASES, "literals_have_all_forms_of_bigquery") {
        assert_eq!(value(expression), expected, "{expression}");
    }
    for (sql, needle) in text_cases(CASES, "literals_have_all_forms_of_bigquery 2") {
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

#[test]
fn parts_of_json_are_taken_by_names_and_places_that_are_computed() {
    let rows = [
        json!({"n": 0, "k": "a"}),
        json!({"n": 1, "k": "b\"c"}),
        json!({"n": -1, "k": "none"}),
        json!({"n": null, "k": null}),
    ];
    let world = World::new().source("t", &rows);
    let rows = world.rows(
        r#"SELECT JSON '{"a": [1, 2], "b\\"c": {"x": "y"}}'[k] AS member, JSON '[10, null]'[n] AS element,
                  JSON '{"a": [[7], 8]}'.a[n][n] AS inner_element, JSON '"scalar"'[k] AS none
           FROM t ORDER BY n NULLS LAST, k"#,
    );
    assert_eq!(
        rows,
        json!([
            {"member": null, "element": null, "inner_element": null, "none": null},
            {"member": [1, 2], "element": 10, "inner_element": 7, "none": null},
            {"member": {"x": "y"}, "element": null, "inner_element": null, "none": null},
            {"member": null, "element": null, "inner_element": null, "none": null},
        ])
    );
    for (expression, expected) in [
        (r#"JSON '{"b\\"c": 5}'['b"c']"#, json!(5)),
        (r#"JSON '[1, 2]'[1 + 0]"#, json!(2)),
        (r#"JSON '[1, 2]'[-1]"#, json!(null)),
        (r#"JSON '[1, 2]'[NULL]"#, json!(null)),
        (r#"JSON_TYPE(JSON '[1, null]'[IF(RAND() < 2, 1, 0)])"#, json!("null")),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let failure = World::new().failure("SELECT JSON '[1]'[1.5] AS v");
    assert!(failure.message.contains("an INT64 or a STRING"), "{failure}");
}

#[test]
fn a_text_beside_a_decimal_keeps_its_digits() {
    for (expression, expected) in [
        ("NUMERIC '0.1' + '0.2' = NUMERIC '0.3'", json!(true)),
        (
            "CAST('0.00000000000000000000000000000000000001' + BIGNUMERIC '1' AS STRING)",
            json!("1.00000000000000000000000000000000000001"),
        ),
        ("CAST(CAST(DATE '2024-02-01' AS STRING FORMAT CONCAT('YY', 'YY')) AS INT64)", json!(2024)),
    ] {
        assert_eq!(value(expression), expected, "{expression}");
    }
    let piped = "FROM UNNEST([1]) AS x |> SELECT NUMERIC '1' AS n |> SET n = 0.1 |> UNION ALL (SELECT NUMERIC '0.2') |> AGGREGATE SUM(n) = NUMERIC '0.3' AS v";
    assert_eq!(World::new().rows(piped), json!([{"v": true}]));
}

#[test]
fn a_name_in_an_expression_is_one_value() {
    for expression in
        ["WITH(a AS (SELECT RAND()), a - a)", "WITH(a AS (SELECT MAX(r) FROM (SELECT RAND() AS r)), a - a)"]
    {
        let failure = World::new().failure(&format!("SELECT {expression} AS v"));
        assert!(failure.message.contains("random in WITH(...)"), "{expression}: {failure}");
    }
    assert_eq!(value("WITH(a AS (SELECT MAX(x) FROM UNNEST([1, 2]) AS x), a - a)"), json!(0));
}

/// The elements and their answers as the dialect's description has them.
#[test]
fn numbers_are_written_in_the_elements_of_a_format() {
    for (number, format, expected) in [
        ("12", "999", "  12"),
        ("-12", "999", " -12"),
        ("12", "000", " 012"),
        ("-12", "000.000", "-012.000"),
        ("12", "999.999", "  12.000"),
        ("0", "999", "   0"),
        ("NUMERIC '123.58'", "999D999", " 123.580"),
        ("NUMERIC '2.345'", "9.99", " 2.35"),
        ("NUMERIC '-2.345'", "9.99", "-2.35"),
        ("NUMERIC '9.996'", "99.99", " 10.00"),
        ("-12", "S9999", "  -12"),
        ("-12", "9999S", "  12-"),
        ("12", "S9999", "  +12"),
        ("12", "9999MI", "  12 "),
        ("-12", "9999MI", "  12-"),
        ("12", "9999PR", "   12 "),
        ("-12", "9999PR", "  <12>"),
        ("-12", "$999", " -$12"),
        ("-12", "C999", " -USD12"),
        ("-12", "c999", " -usd12"),
        ("-12", "L999", " -$12"),
        ("12345", "999,999", "  12,345"),
        ("12345", "999G999", "  12,345"),
        ("123", "999,999", "     123"),
        ("43981", "XXXX", " ABCD"),
        ("43981", "xxxx", " abcd"),
        ("43981", "0X0x", " ABcd"),
        ("43981", "0000000X", " 0000ABCD"),
        ("NUMERIC '0.23'", "B99.999S", "       "),
        ("NUMERIC '1.23'", "B99.999S", " 1.230+"),
        ("20", "9.99EEEE", " 2.00E+01"),
        ("299792458", "S9.999EEEE", "+2.998E+08"),
        ("NUMERIC '0.00096'", "9.9EEEE", " 9.6E-04"),
        ("NUMERIC '0.00099996'", "9.99EEEE", " 1.00E-03"),
        ("NUMERIC '12.5'", "999999.000FM", "12.5"),
        ("NUMERIC '23.5'", "S000V00", "+02350"),
        ("BIGNUMERIC '0.125'", "0.99", " 0.13"),
        ("-9223372036854775807 - 1", "FM9999999999999999999", "-9223372036854775808"),
    ] {
        let sql = format!("CAST({number} AS STRING FORMAT '{format}')");
        assert_eq!(value(&sql), json!(expected), "{sql}");
        assert_eq!(value(&format!("CAST({number} AS STRING FORMAT CONCAT('{format}', ''))")), json!(expected), "{sql}");
    }
    for (number, format, needle) in [
        ("1234", "999", "more digits before the point"),
        ("NUMERIC '0.5'", "9.9", "needs a 0"),
        ("NUMERIC '-0.1'", "9", "rounds to zero"),
        ("NUMERIC '12.0'", "FM99.9", "no digit would be left"),
        ("1", "9.9.9", "cannot stand there"),
        ("1", "9S9", "cannot stand there"),
        ("1", "SS", "cannot stand there"),
        ("1", "S", "has no digits"),
        ("1", "", "has no digits"),
        ("1", "9 9", "no element at ' 9'"),
        ("1", "99.9EEEE", "one digit before the point"),
        ("1", "9X", "at most 16 digits X and 0"),
        ("-1", "BIGNUMERIC", "no element at 'IGNUMERIC'"),
    ] {
        let cast = format!("CAST({number} AS STRING FORMAT '{format}')");
        let failure = World::new().failure(&format!("SELECT {cast} AS v"));
        assert!(failure.message.contains(needle), "{cast}: {failure}");
        assert_eq!(value(&format!("SAFE_{cast}")), json!(null), "{cast}");
    }
    assert_eq!(value("CAST(CAST(NULL AS INT64) AS STRING FORMAT '9')"), json!(null));
}
