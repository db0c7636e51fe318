//! The nine tables of `logs.all`, through ad-hoc SQL: specification 2.4 and 4.5.

use serde_json::{Value, json};
use tidegate_tests::{Server, now};

/// Table, source, and where its project stands: at the top, or in metadata under this name.
const TABLES: [(&str, &str, Option<&str>); 9] = [
    ("edge_logs", "cloudflare.logs.prod", None),
    ("postgres_logs", "postgres.logs", None),
    ("function_edge_logs", "deno-relay-logs", Some("project_ref")),
    ("function_logs", "deno-subhosting-events", Some("project_ref")),
    ("auth_logs", "gotrue.logs.prod", None),
    ("realtime_logs", "realtime.logs.prod", Some("project")),
    ("storage_logs", "storage.logs.prod.2", Some("project")),
    ("postgrest_logs", "postgREST.logs.prod", None),
    ("pgbouncer_logs", "pgbouncer.logs.prod", None),
];

#[test]
fn every_table_filters_by_its_own_project() {
    let server = Server::start();
    let time = now();
    for (table, source, inside) in TABLES {
        let at_top = |id: &str, project: &str| json!({"id": id, "timestamp": time, "project": project, "event_message": table, "metadata": {"level": "info"}});
        let within = |id: &str, name: &str, project: &str| json!({"id": id, "timestamp": time, "event_message": table, "metadata": [{name: project, "level": "info"}]});
        let events = match inside {
            None => json!([
                at_top("mine", "p1"),
                at_top("other", "p2"),
                within("misplaced", "project", "p1"),
                at_top("none", "")
            ]),
            Some(name) => {
                let wrong = if name == "project" { "project_ref" } else { "project" };
                json!([
                    within("mine", name, "p1"),
                    within("other", name, "p2"),
                    within("misplaced", wrong, "p1"),
                    at_top("top", "p1")
                ])
            }
        };
        server.send(source, &events);
    }
    for (table, ..) in TABLES {
        let answer = server.sql(&format!("select id, timestamp, event_message, metadata from {table}"));
        assert_eq!(answer.ids(), ["mine"], "{table}");
        assert_eq!(answer.column("event_message"), [json!(table)]);
        assert_eq!(answer.column("timestamp"), [json!(time)]);
        let bounded = server.query(
            "logs.all",
            &[
                ("project", "p1"),
                ("iso_timestamp_end", "2020-01-01T00:00:00Z"),
                ("sql", &format!("select id from {table}")),
            ],
        );
        assert_eq!(bounded.rows(), &[] as &[Value], "{table} has the time bounds too");
    }
}

#[test]
fn a_table_without_logs_is_an_empty_table() {
    let server = Server::start();
    for (table, ..) in TABLES {
        let sql = format!(
            "select id, m.level as level, r.status_code from {table} cross join unnest(metadata) as m left join unnest(m.response) as r where m.never.seen is null"
        );
        assert_eq!(server.sql(&sql).rows(), &[] as &[Value], "{table}");
        assert_eq!(server.sql(&format!("select count(*) as c from {table}")).column("c"), [json!(0)]);
    }
}

#[test]
fn what_was_never_seen_is_null() {
    let server = Server::start();
    server.send("postgres.logs", &json!({"id": "1", "project": "p1", "metadata": {"parsed": {"level": "info"}}}));
    let sql = "select id, m.never.seen as a, parsed.hint as b, r.status_code as c \
               from postgres_logs cross join unnest(metadata) as m cross join unnest(m.parsed) as parsed \
               left join unnest(m.response) as r";
    let nulls = json!({"id": "1", "a": null, "b": null, "c": null});
    assert_eq!(server.sql(sql).rows(), [nulls]);
    let counted = "select count(m.never) as n, max(m.never) as m from postgres_logs cross join unnest(metadata) as m";
    assert_eq!(server.sql(counted).rows(), [json!({"n": 0, "m": null})]);
}

#[test]
fn adhoc_queries_reach_the_grants_and_nothing_else() {
    let server = Server::start();
    server.manage("POST", "/api/sources", &json!({"name": "secret.logs"})).is(201);
    server.send("secret.logs", &json!([{"id": "CANARY", "project": "p1", "event_message": "CANARY"}]));
    for sql in [
        "select id from `secret.logs`",
        "select id from `cloudflare.logs.prod`",
        "select e.id from edge_logs e join `secret.logs` s on true",
        "with secret as (select * from `secret.logs`) select id from edge_logs",
        "select id from edge_logs union all select id from `secret.logs`",
        "select (select max(id) from `secret.logs`) as x",
        "select * from information_schema.tables",
    ] {
        let answer = server.sql(sql);
        answer.refused(400, "unknown_table", &[]);
        assert!(!answer.body.to_string().contains("CANARY"), "{sql}");
    }
    for sql in [
        "drop table edge_logs",
        "select 1; select 2",
        "insert into edge_logs (id) values ('x')",
        "explain select 1",
        "copy edge_logs to '/tmp/x'",
    ] {
        assert_eq!(server.sql(sql).status, 400, "{sql}");
    }
    assert_eq!(server.sql("select 'hello' as world").rows(), [json!({"world": "hello"})]);
}

#[test]
fn the_row_cap_holds_and_a_cut_is_told() {
    let server = Server::start();
    let events: Vec<Value> = (0..1_200).map(|i| json!({"project": "p1", "event_message": i.to_string()})).collect();
    server.send("postgres.logs", &Value::Array(events));
    let cut = server.sql("select id from postgres_logs");
    assert_eq!((cut.rows().len(), cut.header("x-result-truncated")), (1000, Some("true")));
    let whole = server.sql("select id from postgres_logs limit 1000");
    assert_eq!((whole.rows().len(), whole.header("x-result-truncated")), (1000, None));
}

#[test]
fn lql_reads_the_same_tables() {
    let server = Server::start();
    server.send(
        "postgres.logs",
        &json!([
            {"id": "a", "project": "p1", "event_message": "connection lost", "metadata": {"parsed": {"error_severity": "ERROR"}}},
            {"id": "b", "project": "p1", "event_message": "connection made", "metadata": {"parsed": {"error_severity": "LOG"}}},
        ]),
    );
    let lql = |text: &str| server.query("logs.all", &[("project", "p1"), ("lql", text)]);
    assert_eq!(lql("f:postgres_logs m.parsed.error_severity:ERROR s:id").ids(), ["a"]);
    assert_eq!(lql("f:postgres_logs made s:id").ids(), ["b"]);
    assert_eq!(lql("made").status, 400, "several tables and none named");
}
