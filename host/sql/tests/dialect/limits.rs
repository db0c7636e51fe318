//! What a statement may hold, and that one which nobody waits for ends.

use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_model::{Code, Failure};
use tidegate_sql::Stop;

use super::super::support::World;
use super::tables::json_cases;

const CASES: &str = include_str!("cases/limits.txt");

/// A table of `rows` rows.
fn world(rows: usize) -> World {
    let rows: Vec<_> = (0..rows).map(|n| json!({"n": n, "s": format!("some text that is long enough {n}")})).collect();
    World::new().source("t", &rows)
}

fn limited(world: &World, sql: &str) -> Failure {
    let began = Instant::now();
    let failure = world.failure(sql);
    // Not a measurement: what is not refused takes hours, and beside other work a refusal may take half a minute.
    assert!(began.elapsed() < Duration::from_secs(300), "{sql}");
    assert_eq!(failure.code, Code::LimitExceeded, "{sql}\n{failure:?}");
    failure
}

/// A statement ends soon after it is asked to.
fn stops(world: &World, sql: &str, soon: Duration) {
    let stop = Stop::after(Duration::from_secs(60));
    let asking = stop.clone();
    let stopping = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        asking.ask();
        Instant::now()
    });
    let ended = world.run_until(sql, &stop);
    let stopped = stopping.join().unwrap();
    let short: String = sql.chars().take(150).collect();
    assert_eq!(ended.expect_err(&short).code, Code::Timeout, "{short}");
    assert!(stopped.elapsed() < soon, "{short} went on for {:?}", stopped.elapsed());
}

#[test]
fn what_a_statement_holds_is_bounded() {
    let world = world(2_000).holding(8 << 20);
    for sql in [
        // Sorted, grouped, joined, collected.
        "select a.s from t a, t b order by b.s, a.n",
        "select count(*) from (select a.s, b.n from t a, t b group by 1, 2)",
        "select array_agg(a.s) from t a, t b",
        // Texts count, not only what refers to them: here few rows hold much.
        "select array_agg(repeat(s, 100)) from t",
        "select n, array_agg(repeat(s, 100)) from t group by n",
        "select array(select repeat(a.s, 100) from t a)",
        "select string_agg(a.s) from t a, t b",
        "select count(*) from (select distinct a.s || cast(b.n as string) from t a, t b)",
        // The rows of a round, and those that DISTINCT compares with.
        "with recursive r as (select n, s from t union distinct select n + 2000, s from r) select count(*) from r",
        "with recursive r as (select n, s from t union all select r.n, r.s from r, t) select count(*) from r",
        // Windows over everything.
        "select sum(a.n) over () from t a, t b",
        "select row_number() over (order by a.n, b.n), ntile(3) over (order by a.n) from t a, t b",
    ] {
        limited(&world, sql);
    }
    // A list of everything so far grows with the square of the rows.
    let world = self::world(20_000);
    limited(&world, "select array_agg(s) over () from t");
    limited(&world, "select array_agg(s) over (order by n) from t");
    let cube =
        "unnest(generate_array(1, 1000)) x, unnest(generate_array(1, 1000)) y, unnest(generate_array(1, 1000)) z";
    limited(&world, &format!("select (select count(*) from {cube} where x > t.n) from t"));
}

#[test]
fn a_long_literal_is_not_repeated_without_bound() {
    let world = world(20_000);
    let text = "x".repeat(200_000);
    let rows = world.rows(&format!("select count(*) as c from (select '{text}' as v, n from t) where length(v) > n"));
    assert_eq!(rows, json!([{"c": 20_000}]));
    let rows = world.rows("select sum(x) as s from t, unnest(generate_array(1, 1000)) as x");
    assert_eq!(rows, json!([{"s": 20_000_i64 * 500_500}]));
}

#[test]
fn the_stop_sign_ends_what_does_not_let_go() {
    let world = world(20_000);
    for sql in [
        // All of it: the first rows of a window may come soon.
        "select max(m) from (select max(n) over (order by n rows between 10000 preceding and 10000 following) as m from t, unnest(generate_array(1, 100)) x)",
        "select (select count(*) from unnest(generate_array(1, 2000)) as x where x > t.n and regexp_contains(t.s, 'a.*b.*c')) from t",
        // Every pair of a key and a row.
        "select count(*) from t a where (select count(*) from t b where length(concat(a.s, b.s)) > b.n) > 5",
    ] {
        stops(&world, sql, Duration::from_secs(3));
    }
}

#[test]
fn columns_that_double_are_counted() {
    let world = world(1);
    let chain = |first: &str, next: &dyn Fn(usize) -> String| {
        let levels: Vec<String> = (1..40).map(|i| format!("a{i} as ({})", next(i - 1))).collect();
        format!("with a0 as ({first}), {} select count(*) from a39", levels.join(", "))
    };
    for sql in [
        chain("select s from t", &|i| format!("select *, *, *, *, *, *, * from a{i}")),
        chain("select struct(s as a, s as b) as x from t", &|i| {
            format!("select struct(x as a, x as b) as x from a{i}")
        }),
        chain("select [s] as x from t", &|i| format!("select [struct(x as a, x as b)] as x from a{i}")),
        chain("select s as x from t", &|i| format!("select array_agg(struct(x as a, x as b)) as x from a{i}")),
    ] {
        let failure = world.failure(&sql);
        assert_eq!(failure.code, Code::LimitExceeded, "{sql}\n{failure}");
    }
}

#[test]
fn what_many_columns_of_one_batch_hold_is_counted() {
    let world = world(2_000).holding(256 << 20);
    let listed = |count: usize, item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let columns = |column: &dyn Fn(usize) -> String| format!("select {} from t", listed(100, column));
    for sql in [
        columns(&|i| format!("repeat(s, 800 + {i} + n - n)")),
        columns(&|i| format!("cast(repeat(s, 800 + {i} + n - n) as bytes)")),
        columns(&|i| format!("generate_array(n - n, 1000 + {i})")),
        columns(&|i| format!("array_concat(generate_array(n - n, 1000 + {i}), [n])")),
        columns(&|i| format!("array_reverse(generate_array(n - n, 1000 + {i}))")),
        columns(&|i| format!("array_slice(generate_array(n - n, 1000 + {i}), 1, 1000)")),
        columns(&|i| format!("if(n > {i}, generate_array(n - n, 1000), generate_array(n - n, 1001))")),
        columns(&|i| format!("coalesce(if(n < {i}, null, cast(repeat(s, 800) as bytes)), cast(s as bytes))")),
        columns(&|i| format!("to_json_string(struct(repeat(s, 700 + {i} + n - n) as a))")),
        format!("select length(concat({})) from t", listed(90, &|i| format!("repeat(s, 800 + {i} + n - n)"))),
        format!("select [{}] from t", listed(10_000, &|_| "n".to_owned())),
    ] {
        let failure = world.failure(&sql);
        assert_eq!(failure.code, Code::LimitExceeded, "{failure}\n{}", sql.chars().take(200).collect::<String>());
    }
}

#[test]
fn a_row_that_takes_long_is_ended() {
    let world = World::new().source("t", &[json!({"s": "a".repeat(1_000), "n": 1})]);
    for sql in [
        "select repeat(s, 16000) like concat('%', repeat('_', 60000 + n), 'b%') from t",
        "select repeat(s, 16000) like concat('%', repeat('%a', 30000 + n), 'b%') from t",
        "select s like repeat('%', 16000000 + n) from t",
        "select regexp_contains(s, repeat('a', 16000000 + n)) from t",
        "select regexp_contains(s, concat(repeat('(', 30000 + n), repeat(')', 30000 + n))) from t",
    ] {
        let began = Instant::now();
        let ended = world.run_until(sql, &Stop::after(Duration::from_secs(2)));
        assert!(ended.is_err() || ended.is_ok_and(|rows| rows[0]["f0_"].is_boolean()), "{sql}");
        assert!(began.elapsed() < Duration::from_secs(8), "{sql} took {:?}", began.elapsed());
    }
    let items: Vec<String> = (0..6_000).map(|i| format!("n + {i}")).collect();
    assert_eq!(world.failure(&format!("select n in ({}) from t", items.join(", "))).code, Code::LimitExceeded);
    let items = items.get(..2_000).unwrap().join(", ");
    assert_eq!(world.rows(&format!("select n in ({items}) as v from t")), json!([{"v": true}]));
}

/// It comes as many batches of one buffer, which is held once.
#[test]
fn a_large_array_is_counted_once() {
    let world = World::new().holding(64 << 20);
    for (sql, expected) in [
        ("SELECT APPROX_QUANTILES(a, 2)[OFFSET(1)] AS v FROM UNNEST(GENERATE_ARRAY(1, 99999)) AS a", 50_000),
        ("SELECT MAX(c) AS v FROM (SELECT COUNT(*) OVER () AS c FROM UNNEST(GENERATE_ARRAY(1, 99999)) AS a)", 99_999),
    ] {
        assert_eq!(world.rows(sql), serde_json::json!([{"v": expected}]), "{sql}");
    }
}

fn listed(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

/// A table and parameters from which short texts make long work.
fn hostile() -> World {
    let json = format!(r#"{{"a": [{}1]}}"#, "1,".repeat(50_000));
    world(10).with("ab", &"ab".repeat(2_000)).with("wild", &"_".repeat(1_000)).with("json", &json)
}

#[test]
fn planning_ends_when_nobody_waits_for_it() {
    let world = hostile();
    for sql in [
        // Patterns are compiled, to be checked and to fold what they are compared with.
        format!("select {}", listed(4_000, |i| format!(r"'' ~ '\\pL{{50}}{i}'"))),
        format!("select {} from t", listed(2_000, |i| format!(r"s ~ '\\pL{{50}}{i}'"))),
        format!("select {} from t", listed(2_000, |i| format!(r"regexp_extract(s, '\\pL{{50}}{i}')"))),
        // Constants are folded.
        format!("select {}", listed(1_500, |i| format!("edit_distance(repeat('a', 16000 + {i}), repeat('b', 16000))"))),
        format!("select {}", listed(4_000, |_| "edit_distance(@ab, @ab)".to_owned())),
        format!("select {}", listed(4_000, |_| "json_value(@json, '$.a')".to_owned())),
        format!("select {}", listed(2_000, |_| "length(concat(@json, @json))".to_owned())),
        format!("select {}", listed(3_000, |i| format!("length(format('%1000000d', {i}))"))),
        // The optimizer goes over many relations and keys.
        format!(
            "with a as (select {} from t) select * from a {}",
            listed(100, |i| format!("n + {i} as c{i}")),
            "union all select * from a ".repeat(1_500)
        ),
        format!("select 1 from t where {}", vec!["exists (select 1 from t u where u.n = t.n)"; 1_500].join(" or ")),
        format!("select count(*) from t group by {}", listed(5_000, |i| format!("n + {i}"))),
        // So does what runs: the engine compiles again for each batch what it is given.
        format!("select {} from t", listed(4_000, |_| "s like @wild".to_owned())),
        format!("select count(*) from t where {}", vec!["s = repeat('x', 16000000)"; 2_000].join(" or ")),
        // Each match looks at all of the text that is left.
        "select regexp_extract_all(repeat('a', 2000000), 'a*[^a]|a') from t".to_owned(),
        "select regexp_extract_all(repeat(left(s, 1), 2000000), 'a*[^a]|.') from t".to_owned(),
        "select length(regexp_replace(repeat(left(s, 1), 2000000), '(.)*(\\n)|.', '')) from t".to_owned(),
        "select regexp_extract(repeat(left(s, 1), 2000000), 's*[^s]|s', 1, 1900000) from t".to_owned(),
    ] {
        stops(&world, &sql, Duration::from_secs(5));
    }
}

#[test]
fn what_a_plan_holds_is_counted() {
    let world = hostile().holding(64 << 20);
    for sql in [
        format!("select {}", listed(9_000, |_| "@json".to_owned())),
        format!("select {}", listed(2_000, |_| "cast(@json as bytes)".to_owned())),
        format!(
            "with a as (select s from t where {}) select * from a {}",
            vec!["n = 1"; 1_000].join(" or "),
            "union all select * from a ".repeat(1_500)
        ),
        format!(
            "with a as (select {} from t) select * from a {}",
            listed(100, |i| format!("n as c{i}")),
            "union all select * from a ".repeat(1_500)
        ),
    ] {
        limited(&world, &sql);
    }
}

#[test]
fn keys_and_windows_that_cannot_be_planned_in_time_are_refused() {
    let world = world(10);
    let windows = |count: usize| {
        let calls = listed(count, |i| format!("sum(n) over (partition by n + {i} order by s) + n as c{i}"));
        format!("select c0 from (select {calls} from t) order by 1 limit 1")
    };
    assert_eq!(world.failure(&windows(65)).code, Code::TooLarge);
    assert_eq!(world.rows(&windows(8)), json!([{"c0": 0}]));
    let keys = |count: usize| format!("select n from t order by {} limit 1", listed(count, |i| format!("n + {i}")));
    assert_eq!(world.failure(&keys(257)).code, Code::TooLarge);
    assert_eq!(world.rows(&keys(256)), json!([{"n": 0}]));
}

#[test]
fn bounds_count_what_pipes_and_pivots_make() {
    let world = world(3);
    let piped = |operator: &str, count: usize| format!("from t {}", format!(" |> {operator}").repeat(count));
    for operator in ["set n = n + 1", "extend n + 1 as m", "where n > 0", "assert true"] {
        assert_eq!(world.failure(&piped(operator, 129)).code, Code::TooLarge, "{operator}");
    }
    let unpivot = " unpivot(v for k in (n)) unpivot(n for j in (v))";
    for count in [65, 600] {
        let failure = world.failure(&format!("select 1 from t {}", unpivot.repeat(count)));
        assert_eq!(failure.code, Code::TooLarge, "{failure}");
    }
    let windows = (0..97).map(|i| format!(" |> extend sum(n) over (partition by n + {i}) as c{i}")).collect::<String>();
    assert_eq!(world.failure(&format!("from t {windows}")).code, Code::TooLarge);
    let keys = |count: usize| listed(count, |i| format!("n + {i}"));
    assert_eq!(world.failure(&format!("from t |> order by {}", keys(257))).code, Code::TooLarge);
    assert_eq!(world.failure(&format!("from t |> aggregate group and order by {}", keys(257))).code, Code::TooLarge);
    assert_eq!(world.failure(&format!("select array_agg(n order by {}) from t", keys(257))).code, Code::TooLarge);
    assert_eq!(world.failure(&format!("select sum(n) over (order by {}) from t", keys(257))).code, Code::TooLarge);
}

/// A column that a SET replaces is not handed on: each level of the plan is as wide as the first.
#[test]
fn pipes_do_not_widen_what_they_replace() {
    let world = world(3).holding(4 << 20);
    let sets = " |> set n = n + 1".repeat(120);
    assert_eq!(world.rows(&format!("from t {sets} |> aggregate sum(n) as s")), json!([{"s": 363}]));
}

/// A payload stands in a flat call, not in a chain that nests.
#[test]
fn an_assertion_says_any_number_of_things() {
    let world = world(1);
    let failure = world.failure(&format!("select 1 as a |> assert a = 2, {}", listed(1_500, |_| "a".to_owned())));
    assert_eq!(failure.message, format!("Assert failed: {}", vec!["1"; 1_500].join(" ")));
}

#[test]
fn keys_of_grouping_sets_that_the_engine_cannot_number_are_refused() {
    let world = world(3);
    let keys = |count: usize| listed(count, |i| format!("n + {i}"));
    let failure = world.failure(&format!("select count(*) from t group by grouping sets (({}))", keys(65)));
    assert_eq!(failure.code, Code::LimitExceeded, "{failure}");
    // Equal sets are told apart in the bits that keys leave.
    let tuples = listed(63, |_| format!("({})", keys(63)));
    let failure = world.failure(&format!("select count(*) from t group by rollup({tuples})"));
    assert_eq!(failure.code, Code::LimitExceeded, "{failure}");
    let sql = format!("select count(*) as c, grouping(n + 0) as g from t group by grouping sets (({}), ())", keys(63));
    assert_eq!(
        world.rows(&format!("select c, g from ({sql}) order by c")),
        json!([{"c": 1, "g": 0}, {"c": 1, "g": 0}, {"c": 1, "g": 0}, {"c": 3, "g": 1}])
    );
}

/// Each query has all columns of the result, which are more than its text says.
#[test]
fn columns_of_queries_united_by_name_are_counted() {
    let world = World::new().holding(32 << 20);
    let queries: Vec<String> = (0..300).map(|i| format!("select {i} as c{i}")).collect();
    limited(&world, &format!("select c0 from ({}) limit 1", queries.join(" full union all by name ")));
}

/// What the engine copies for each level would be there 2^40 times.
#[test]
fn values_of_nested_coalesce_are_not_copied() {
    let world = world(2);
    let nested = format!("{}n{}", "coalesce(".repeat(40), ", 1)".repeat(40));
    assert_eq!(world.rows(&format!("select sum({nested}) as s from t")), json!([{"s": 1}]));
    let joins = (0..16).map(|i| format!(" full join (select 1 as n, {i} as v) as u{i} using (n)")).collect::<String>();
    assert_eq!(world.rows(&format!("select count(n) as c from t {joins}")), json!([{"c": 2}]));
}

/// A value that is used twice at each of forty levels: the engine would set it in the condition 2^40 times.
#[test]
fn conditions_on_values_that_unfold_are_refused() {
    let world = world(2);
    let pipes = |count: usize| " |> set s = left(concat(s, s), 2)".repeat(count);
    let ctes = |count: usize| {
        let level = |i: usize| format!("a{i} as (select n, left(concat(s, s), 2) as s from a{})", i - 1);
        let levels: Vec<String> = (1..=count).map(level).collect();
        format!("with a0 as (select n, s from t), {}", levels.join(", "))
    };
    for (count, expected) in [(4, None), (40, Some(Code::TooLarge))] {
        for sql in [
            format!("from t {} |> where s > 'a' and n = 1 |> select n", pipes(count)),
            format!("{} select n from a{count} where s > 'a' and n = 1", ctes(count)),
            format!("{} select x.n from a{count} as x join t as y on x.n = y.n and x.s > 'a'", ctes(count)),
        ] {
            assert_eq!(world.attempt(&sql).err().map(|failure| failure.code), expected, "{sql}");
        }
        // Without a condition each level is computed by itself.
        assert_eq!(world.rows(&format!("from t {} |> where n = 1 |> select n", pipes(count))), json!([{"n": 1}]));
    }
}

/// The same within an expression.
#[test]
fn expressions_that_unfold_to_much_are_refused() {
    let world = world(2);
    for (open, close) in [
        ("abs(coalesce(", ", 1))"),
        ("nullif(", ", 1)"),
        ("greatest(", ", 1)"),
        ("cast((", " between 0 and 1) as int64)"),
        ("case ", " when 1 then 2 when 2 then 3 when 3 then 4 end"),
        ("cast((cast(", " as string) like any unnest(['a', 'b'])) as int64)"),
    ] {
        let nested = |depth: usize| format!("{}n{}", open.repeat(depth), close.repeat(depth));
        let failure = world.failure(&format!("select {} as v from t", nested(12)));
        assert_eq!(failure.code, Code::TooLarge, "{open}: {failure}");
        assert!(world.attempt(&format!("select {} as v from t", nested(3))).is_ok(), "{open}");
    }
    // Lists may be long.
    let items = listed(3_000, |i| i.to_string());
    assert_eq!(
        world.rows(&format!("select n in unnest([{items}]) as v from t where n in ({items}) limit 1")),
        json!([{"v": true}])
    );
}

/// What is too long to fold is computed when the statement runs, once for a batch, and to the same result.
#[test]
fn long_constants_are_what_they_were() {
    let world = world(3);
    for (sql, expected) in json_cases(CASES, "long_constants_are_what_they_were") {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
}

/// A recursive table ends with an error that tells which bound it met.
#[test]
fn recursive_tables_are_bounded() {
    let world = world(1_000);
    for (sql, bound) in [
        ("with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r", "500 rounds"),
        (
            "with recursive r as (select n from t union all select r.n from r, unnest(generate_array(1, 200)) x) select count(*) from r",
            "10000000 rows",
        ),
    ] {
        assert!(limited(&world, sql).message.contains(bound), "{sql}");
    }
    // What is not read is not made.
    let rows = world.rows(
        "with recursive r as (select 1 as n union all select n + 1 from r) select count(*) as c from (select n from r limit 7)",
    );
    assert_eq!(rows, json!([{"c": 7}]));
}
