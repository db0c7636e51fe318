//! Names: by whatever spelling and in whatever place, only what was granted is there.

use serde_json::json;
use tidegate_tests::{PRIVATE, PUBLIC};

use super::{ask, attack, bounded, healthy, none, server};

/// Every place in which a query may stand, with `?` for it.
const PLACES: [&str; 22] = [
    "select * from ?",
    "select * from logs, ? as s",
    "select * from logs cross join ? as s",
    "select * from logs join ? as s on true",
    "select * from logs left join ? as s on s.id = logs.id",
    "select * from logs join (select id from ?) s on logs.id != s.id",
    "select l.id from logs l join other o on l.id = (select max(id) from ?)",
    "select (select max(id) from ?) as x",
    "select (select max(event_message) from ?) as x from logs",
    "select array(select id from ?) as x",
    "select exists(select 1 from ?) as x",
    "select id from logs where id not in (select id from ?)",
    "select id from logs where exists (select 1 from ? s where s.id != logs.id)",
    "select id from logs where id < (select max(id) from ?)",
    "select case when true then (select max(id) from ?) end as x",
    "select id, count(*) as c from logs group by id having count(*) = (select count(*) from ?)",
    "select id from logs order by (select max(id) from ?)",
    "select id from logs limit (select count(*) from ?)",
    "select id from logs union all select id from ?",
    "select id from ? except distinct select id from logs",
    "with a as (select * from ?) select * from a",
    "with a as (with b as (select * from ?) select * from b) select id from logs",
];

/// Spellings of tables that are there and were not granted.
const SPELLINGS: [&str; 23] = [
    "`secret.logs`",
    "secret.logs",
    "`secret`.`logs`",
    "secret.`logs`",
    "`SECRET.LOGS`",
    "`Secret.Logs`",
    "` secret.logs`",
    "\"secret.logs\"",
    "`postgres.logs`",
    "postgres.logs",
    "`cloudflare.logs.prod`",
    "cloudflare.logs.prod",
    "`default.public.secret.logs`",
    "`datafusion.public.secret.logs`",
    "public.`secret.logs`",
    "`my-project.secret.logs`",
    "[secret.logs]",
    "`ѕecret.logs`",
    "`secret.logs\\0`",
    "`secret%2Elogs`",
    "`./secret.logs`",
    "table(`secret.logs`)",
    "(`secret.logs`)",
];

#[test]
fn only_the_grants_exist_in_every_place_and_spelling() {
    let server = server();
    let mut wrong = Vec::new();
    for spelling in SPELLINGS {
        for place in PLACES {
            wrong.extend(attack(&server, &place.replace('?', spelling), |answer| answer.status == 400));
        }
    }
    for place in PLACES.into_iter().filter(|place| !place.starts_with("select exists")) {
        // The places themselves are real ones, but for those that the dialect does not have.
        wrong.extend(attack(&server, &place.replace('?', "logs"), |_| true));
    }
    none(wrong);
    healthy(&server, "names");
}

#[test]
fn no_name_leads_around_the_grants() {
    let server = server();
    let refused = [
        // What a name means inside the grants is not what it means outside.
        "with logs as (select * from `postgres.logs`) select * from logs",
        "with `postgres.logs` as (select * from `postgres.logs`) select * from `postgres.logs`",
        "with a as (with logs as (select * from `postgres.logs`) select * from logs) select * from a",
        "with logs as (with logs as (select * from `secret.logs`) select * from logs) select * from logs",
        "with a as (select 1 as x), a as (select 2 as x) select * from a",
        "with a as (select * from b), b as (select * from a) select * from a",
        "with a as (select * from a) select * from a",
        "with recursive r as (select 1 as n union all select n + 1 from r) select count(*) from r",
        "with recursive r as (select * from `postgres.logs` union all select * from r) select * from r",
        "with recursive a as (select * from b), b as (select * from a), `postgres.logs` as (select 1) select * from a",
        "with recursive logs as (select * from logs union all select * from logs) select * from logs",
        "select * from logs as `postgres.logs`, `postgres.logs` as x",
        "select * from (select * from logs) as secret, secret.logs",
        // Catalogues and what is around tables.
        "select * from information_schema.tables",
        "select * from INFORMATION_SCHEMA.SCHEMATA",
        "select * from `information_schema.columns`",
        "select * from `information_schema`.`df_settings`",
        "select * from datafusion.information_schema.tables",
        "select * from `region-us`.INFORMATION_SCHEMA.JOBS",
        "select * from information_schema.views",
        "select * from __TABLES__",
        "select * from `secret.__TABLES__`",
        "select * from pg_catalog.pg_tables",
        "select * from sqlite_master",
        "select * from system.tables",
        "select * from logs for system_time as of timestamp_sub(current_timestamp(), interval 1 hour)",
        "select * from `postgres.logs` for system_time as of '2020-01-01'",
        "select * from logs version as of 1",
        "select * from logs tablesample system (10 percent)",
        "select * from `secret.*`",
        "select * from `secret*`",
        "select * from `logs_*` where _TABLE_SUFFIX = 'x'",
        "select * from '/etc/passwd'",
        "select * from `/etc/passwd`",
        "select * from 'file:///etc/passwd'",
        "select * from `http://127.0.0.1/x`",
        "select * from read_parquet('/tmp/x')",
        "select * from read_csv('/etc/passwd')",
        "select * from external_query('x', 'select 1')",
        "select * from generate_series(1, 1000000000)",
        "select * from range(1000000000)",
        "select * from table(logs)",
        "select * from unnest(`secret.logs`)",
        "select * from ml.predict(model `m`, table logs)",
        "select secret.logs.id from logs",
        "select `secret.logs`.id from logs",
        "select * from lateral (select * from `secret.logs`) x",
        "select * from pivot(logs)",
        "table logs",
        "values (1)",
        "from secret.logs",
        "from `postgres.logs` |> select id",
        "from logs |> join `secret.logs` using (id)",
        "from logs |> union all (select * from `postgres.logs`)",
        "from logs |> where id in (from `secret.logs` |> select id)",
        "from logs |> as secret |> join secret.logs on true",
        // What is no query.
        "explain select id from logs",
        "explain analyze select id from logs",
        "describe logs",
        "show tables",
        "show all",
        "set x = 1",
        "set datafusion.execution.batch_size = 1",
        "declare x int64 default 1",
        "call p()",
        "execute immediate 'select 1'",
        "begin transaction",
        "begin select 1; end",
        "commit",
        "if true then select 1; end if",
        "loop select 1; end loop",
        "create table x as select 1",
        "create or replace view logs as select 1",
        "create external table x stored as csv location '/etc/passwd'",
        "create temp function f(x int64) as (x)",
        "create function f() returns int64 language js as 'return 1'",
        "drop table logs",
        "drop table if exists `secret.logs`",
        "alter table logs add column x int64",
        "truncate table logs",
        "insert into logs (id) values ('x')",
        "insert into logs select * from logs",
        "update logs set id = 'x' where true",
        "delete from logs where true",
        "merge into logs using other on false when not matched then insert (id) values ('x')",
        "copy logs to '/tmp/x'",
        "copy (select 1) to '/tmp/x' stored as csv",
        "export data options (uri = 'gs://x/*') as select * from logs",
        "load data into x from files (uris = ['/etc/passwd'])",
        "grant select on logs to x",
        "analyze table logs",
        "vacuum",
        "attach 'x' as y",
        "pragma table_info(logs)",
        "use secret",
        "kill 1",
        "prepare x as select 1",
        "select id into x from logs",
        "select id from logs for update",
        "with a as (delete from logs returning *) select * from a",
        "with a as (insert into logs select * from logs returning *) select * from a",
        "select 1; select 2",
        "select 1; drop table logs",
        "select id from logs; -- \n select * from `secret.logs`",
        // Comments.
        "select 1 /* never closed",
        "select 1 /* /* */ never closed",
        "select * from/**/`secret.logs`",
        "select * from `secret/**/.logs`",
        "select 1 -- \u{2028} ; \n ; select 2",
        "/* select 1 */",
        "--",
        "#",
        ";",
        ";;;",
        // Parameters and variables.
        "select @@version",
        "select @@global.x",
        "set @project = 'p2'",
        "declare @project string default 'p2'",
        "select @project := 'p2'",
        "select * from @project",
        "select * from `@project`",
        // Not text, or not what it seems.
        "select '\u{0}' from `secret.logs`",
        "select id from log\u{0}s",
        "select id from ｌｏｇｓ",
        "select id from lоgs",
        "select\u{a0}id\u{a0}from\u{a0}secret.logs",
        "'",
        "`",
        "\"",
        "select '''",
        "select r'",
        "(",
        ")",
        "select",
        "\u{feff}",
        "\u{202e}select 1",
    ];
    let mut wrong = Vec::new();
    for sql in refused {
        wrong.extend(attack(&server, sql, |answer| (400..500).contains(&answer.status)));
    }
    // These may answer, but not with what is not theirs.
    for (sql, rows) in [
        ("select @project as p", Some(json!([{"p": "p1"}]))),
        ("with logs as (select 'own' as id) select id from logs", Some(json!([{"id": "own"}]))),
        ("with `postgres.logs` as (select 'own' as id) select id from `postgres.logs`", Some(json!([{"id": "own"}]))),
        ("with logs as (select id from logs where id = 'e1') select id from logs", None),
        ("with other as (select * from logs), logs as (select * from other) select count(*) as c from logs", None),
        ("with LOGS as (select 1 as id) select * from logs", None),
        ("select count(*) as c from LoGs", Some(json!([{"c": 2_000}]))),
        ("select count(*) as c from `logs`", Some(json!([{"c": 2_000}]))),
        ("select * from logs as secret", None),
        ("select logs.* from logs as logs, other as secret", None),
        ("select id from logs where id = '' or '1' = '1' --", None),
        ("select id, project from logs", None),
        ("select id from logs where event_message like '%NOT-FOR%'", Some(json!([]))),
        ("select count(*) as c from logs where @project = 'p2' or true", Some(json!([{"c": 2_000}]))),
        ("select distinct m.request from logs cross join unnest(metadata) as m", None),
        ("select * from logs where false union all select * from logs where true", None),
        ("select to_json_string(logs) as x from logs", None),
        ("select logs from logs", None),
        ("select current_user() as x", None),
        ("select session_user() as x", None),
        ("select version() as x", None),
        ("select 1 as x; ", Some(json!([{"x": 1}]))),
        ("select 1 as x # a comment", Some(json!([{"x": 1}]))),
    ] {
        wrong.extend(attack(&server, sql, |answer| rows.is_none_or(|rows| answer.body["result"] == rows)));
    }
    none(wrong);
    healthy(&server, "names");
}

#[test]
fn what_is_no_text_is_refused() {
    let server = server();
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/json")];
    let path = "/api/endpoints/query/attack";
    let post = |body: &[u8]| server.call("POST", path, &headers, body);
    assert_eq!(post(b"{\"project\": \"p1\", \"sql\": \"select '\xff\xfe' as x\"}").status, 400);
    assert_eq!(post(b"{\"project\": \"p1\", \"sql\": [\"select 1\"]}").status, 400);
    assert_eq!(post(b"{\"project\": \"p1\", \"sql\": {\"a\": 1}}").status, 400);
    assert_eq!(post(b"{\"project\": [\"p1\", \"p2\"], \"sql\": \"select 1\"}").status, 400);
    // Bytes that are no text in a query string become the sign for that, and no name.
    let answer = server.call("GET", &format!("{path}?project=p1&sql=select+id+from+%ff%fe"), &headers, b"");
    bounded("%ff%fe", &answer);
    assert_eq!(answer.status, 400);
    server.call("GET", &format!("{path}?project=p1&project=p2&sql=select+1"), &headers, b"").is(400);
    let escaped =
        server.call("GET", &format!("{path}?project=p1&sql=select+id+from+%60secret%2elogs%60"), &headers, b"");
    escaped.refused(400, "unknown_table", &["secret.logs", "logs, other"]);
    healthy(&server, "no text");
}

#[test]
fn without_a_sandbox_only_a_private_token_asks() {
    let server = server();
    // A private token reads the sources themselves; nobody else anything.
    assert_eq!(ask(&server, "closed", "select count(*) as c from `secret.logs`").column("c"), [json!(1)]);
    for token in [PUBLIC, "no-token-at-all-of-this-server"] {
        let body = json!({"project": "p1", "sql": "select 1"}).to_string();
        let headers = [("x-api-key", token), ("content-type", "application/json")];
        for endpoint in ["closed", "attack", "absent"] {
            let answer = server.call("POST", &format!("/api/endpoints/query/{endpoint}"), &headers, body.as_bytes());
            assert_eq!(answer.status, if token == PUBLIC { 403 } else { 401 }, "{}", answer.body);
        }
    }
}
