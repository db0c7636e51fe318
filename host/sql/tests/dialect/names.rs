//! Scopes: aliases, CTEs, joins, subqueries, and what must not be found.

use serde_json::json;
use tidegate_model::Code;

use super::super::support::World;
use super::tables::json_cases;

const CASES: &str = include_str!("cases/names.txt");

fn world() -> World {
    World::new()
        .source(
            "logs",
            &[
                json!({"id": "a", "timestamp": 60_000_000, "event_message": "x", "level": "info"}),
                json!({"id": "b", "timestamp": 61_000_000, "event_message": "y", "level": "error"}),
                json!({"id": "c", "timestamp": 125_000_000, "event_message": "z", "level": "info"}),
            ],
        )
        .source("secret.logs", &[json!({"id": "s", "timestamp": 1, "event_message": "CANARY"})])
}

const SAVED: &str = "with mine as (select id, timestamp, event_message, level from logs where level = 'info'),
                     other as (select id from logs) select id from mine";

#[test]
fn an_alias_wins_over_a_column_in_group_by_and_order_by() {
    let world = world();
    assert_eq!(
        world.rows("select timestamp_trunc(t.timestamp, minute) as timestamp, count(*) as count from logs t group by timestamp order by timestamp desc"),
        json!([{"timestamp": 120_000_000, "count": 1}, {"timestamp": 60_000_000, "count": 2}])
    );
    assert_eq!(
        world.rows("select level as kind, count(*) as c from logs group by 1 order by c desc, kind limit 1"),
        json!([{"kind": "info", "c": 2}])
    );
    assert_eq!(
        world.rows("select -unix_seconds(timestamp) as timestamp from logs order by timestamp limit 1"),
        json!([{"timestamp": -125}])
    );
}

#[test]
fn order_in_a_cte_survives_a_limit_outside() {
    let world = world();
    assert_eq!(
        world.rows(
            "with newest as (select id, timestamp from logs order by timestamp desc) select id from newest limit 2"
        ),
        json!([{"id": "c"}, {"id": "b"}])
    );
}

#[test]
fn unnamed_columns_get_names() {
    let world = world();
    assert_eq!(
        world.rows("select count(*), max(id), id as f0_ from logs where id = 'a' group by id"),
        json!([{"f0_": 1, "f1_": "a", "f0__1": "a"}])
    );
    assert_eq!(world.rows("select 'hello' as world"), json!([{"world": "hello"}]));
}

#[test]
fn wildcards() {
    let world = world();
    let rows = world.rows("select * except (timestamp) replace (upper(id) as id) from logs where id = 'a'");
    assert_eq!(rows, json!([{"level": "info", "id": "A", "event_message": "x"}]));
    assert_eq!(
        world.rows("select l.* except(timestamp, event_message) from logs l order by id limit 1"),
        json!([{"id": "a", "level": "info"}])
    );
}

#[test]
fn joins_and_set_operations() {
    let world = world();
    assert_eq!(
        world.rows(
            "select a.id as x, b.id as y from logs a left join logs b on a.level = b.level and a.id < b.id order by x"
        ),
        json!([{"x": "a", "y": "c"}, {"x": "b", "y": null}, {"x": "c", "y": null}])
    );
    assert_eq!(
        world.rows("select id, r.n from logs join (select id, 1 as n from logs where level = 'error') r using (id)"),
        json!([{"id": "b", "n": 1}])
    );
    assert_eq!(
        world.rows("select id, null as n from logs where id = 'a' union all select 'z', 5 order by id"),
        json!([{"id": "a", "n": null}, {"id": "z", "n": 5}])
    );
    assert_eq!(
        world.rows("select level from logs union distinct select level from logs order by level"),
        json!([{"level": "error"}, {"level": "info"}])
    );
    assert_eq!(
        world.rows("select id from logs except distinct select 'a' order by id"),
        json!([{"id": "b"}, {"id": "c"}])
    );
}

#[test]
fn subqueries() {
    let world = world();
    assert_eq!(world.rows("select (select max(id) from logs) as m"), json!([{"m": "c"}]));
    assert_eq!(
        world.rows("select id from logs where id in (select id from logs where level = 'error')"),
        json!([{"id": "b"}])
    );
    assert_eq!(
        world.rows("select id from logs l where exists (select 1 from logs o where o.level = l.level and o.id <> l.id) order by id"),
        json!([{"id": "a"}, {"id": "c"}])
    );
    assert_eq!(
        world.rows("select array(select id from logs order by id desc) as ids"),
        json!([{"ids": ["c", "b", "a"]}])
    );
    assert_eq!(
        world.rows("select t.id, t as whole from (select id, level from logs where id = 'a') t"),
        json!([{"id": "a", "whole": {"id": "a", "level": "info"}}])
    );
}

#[test]
fn parameters_are_values() {
    let world = world().with("id", "a' or '1'='1").with("n", "1").with("level", "info");
    assert_eq!(world.rows("select id from logs where id = @id"), json!([]));
    assert_eq!(world.rows("select id from logs where level = @level order by id limit @n"), json!([{"id": "a"}]));
    assert_eq!(world.rows("select @missing is null as v, @id as id"), json!([{"v": true, "id": "a' or '1'='1"}]));
}

#[test]
fn only_grants_can_be_named() {
    let world = world();
    assert_eq!(world.granted(SAVED, "select id from mine order by id").unwrap(), json!([{"id": "a"}, {"id": "c"}]));
    assert_eq!(
        world.granted(SAVED, "with x as (select id from MINE) select count(*) as c from x").unwrap(),
        json!([{"c": 2}])
    );
    for attack in [
        "select id from logs",
        "select id from `logs`",
        "select id from `secret.logs`",
        "select id from secret.logs",
        "select id from mine union all select event_message from `secret.logs`",
        "select (select max(event_message) from `secret.logs`) as x",
        "select id from mine where id in (select id from `secret.logs`)",
        "select id from mine join `secret.logs` s using (id)",
        "with logs as (select * from logs) select * from logs",
        "with x as (select * from `secret.logs`) select id from mine",
        "with mine as (select * from `secret.logs`) select * from mine",
        "select * from (select * from (select * from logs))",
        "select id from information_schema.tables",
        "select id from mine for system_time as of current_timestamp()",
        "select * from read_parquet('x')",
        "select * from table(logs)",
    ] {
        let failure = world.granted(SAVED, attack).expect_err(attack);
        assert!(matches!(failure.code, Code::UnknownTable | Code::Unsupported | Code::Syntax), "{attack}: {failure}");
        assert!(!failure.message.contains("CANARY"), "{attack}: {failure}");
    }
}

#[test]
fn a_shadowing_cte_reads_what_it_says() {
    let world = world();
    let rows = world.granted(SAVED, "with other as (select id from mine where id = 'a') select id from other").unwrap();
    assert_eq!(rows, json!([{"id": "a"}]));
}

#[test]
fn errors_name_the_place_and_the_nearest_name() {
    let world = world();
    for (sql, code, needles) in [
        ("select id\nfrom lgos", Code::UnknownTable, vec!["lgos", "did you mean logs?", "line 2, column 6"]),
        (
            "select l.idd from (select id from logs) l",
            Code::UnknownColumn,
            vec!["idd", "did you mean id?", "line 1, column 10"],
        ),
        ("select x.id from logs", Code::UnknownColumn, vec!["x", "line 1, column 8"]),
        ("select id, count(*) from logs", Code::InvalidQuery, vec!["id is neither grouped nor aggregated"]),
        ("select lowr(id) from logs", Code::UnknownFunction, vec!["did you mean LOWER?"]),
        ("select id from logs where count(*) > 1", Code::InvalidQuery, vec!["COUNT", "not allowed in WHERE"]),
        ("select id from logs where level", Code::InvalidQuery, vec!["needs a condition"]),
        ("select a.id from logs a, logs b where id = 'a'", Code::UnknownColumn, vec!["ambiguous", "a.id or b.id"]),
        ("select substr(id) from logs", Code::InvalidQuery, vec!["SUBSTR takes 2 to 3 arguments"]),
    ] {
        let failure = world.failure(sql);
        assert_eq!(failure.code, code, "{sql}\n{failure}");
        for needle in needles {
            assert!(failure.to_string().contains(needle), "{sql}\n{failure}\nlacks {needle}");
        }
    }
}

#[test]
fn what_stands_in_a_window_that_nobody_uses_is_read() {
    let world = super::super::support::World::new().source("t", &[serde_json::json!({"n": 1})]);
    assert!(world.attempt("SELECT n, COUNT(*) OVER w AS c FROM t WINDOW w AS (PARTITION BY n)").is_ok());
    for window in ["PARTITION BY (SELECT MAX(x) FROM other)", "PARTITION BY other.x", "ORDER BY t.n.x"] {
        let failure = world.failure(&format!("SELECT n FROM t WINDOW w AS ({window})"));
        assert!(failure.code.status() == 400, "{window}: {failure}");
    }
}

#[test]
fn joins_and_functions_that_are_none_are_told() {
    let world = super::super::support::World::new().source("t", &[serde_json::json!({"n": 1, "l": [1]})]);
    for (sql, words) in [
        ("SELECT a.n FROM t AS a JOIN t AS b", "needs ON or USING"),
        ("SELECT a.n FROM t AS a INNER JOIN t AS b", "CROSS JOIN"),
        ("SELECT a.n FROM t AS a CROSS APPLY t AS b", "this kind of join"),
        ("SELECT countt(*) FROM t", "did you mean COUNT?"),
        ("SELECT UNNEST(l) FROM t", "UNNEST stands in FROM"),
    ] {
        let failure = world.failure(sql);
        assert!(failure.message.contains(words), "{sql}: {failure}");
    }
    assert!(world.attempt("SELECT x FROM t JOIN UNNEST(t.l) AS x").is_ok());
    assert!(world.attempt("SELECT x FROM t JOIN t.l AS x").is_ok());
}

#[test]
fn every_key_of_an_event_has_a_name() {
    let event = json!({
        "_HOSTNAME": "h",
        "_overflow": "o",
        "m": {"": "empty", "a`b": "tick", "c\\d": "slash", "_present": true},
    });
    let world = World::new().source("t", &[event]);
    for (sql, expected) in json_cases(CASES, "every_key_of_an_event_has_a_name") {
        assert_eq!(world.rows(sql), expected, "{sql}");
    }
    let all = world.rows("select * from t");
    assert_eq!((&all[0]["_HOSTNAME"], all[0].get("_overflow")), (&json!("h"), None));
}
