//! What a log viewer asks, over logs as the shipper of a self-hosted installation sends them: its pages, reports and charts
//! have their rows from the pack `log-viewer`, and a tenant's token no others than its own.

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PRIVATE, Server, folder, iso, now, query_string};

use super::pack::{PACK, sql, start_with};

/// The tables of `logs.all` in the pack, each with the source behind it.
const TABLES: [(&str, &str); 14] = [
    ("edge_logs", EDGE),
    ("postgres_logs", "postgres.logs"),
    ("function_edge_logs", "deno-relay-logs"),
    ("function_logs", "deno-subhosting-events"),
    ("auth_logs", "gotrue.logs.prod"),
    ("realtime_logs", "realtime.logs.prod"),
    ("storage_logs", "storage.logs.prod.2"),
    ("postgrest_logs", "postgREST.logs.prod"),
    ("pgbouncer_logs", "pgbouncer.logs.prod"),
    ("supavisor_logs", "supavisor.logs.prod"),
    ("auth_audit_logs", "gotrue.audit.logs.prod"),
    ("pg_upgrade_logs", "pg_upgrade.logs.prod"),
    ("etl_replication_logs", "etl.replication.logs.prod"),
    ("pg_cron_logs", "postgres.logs"),
];

/// One log of each source as the shipper of a self-hosted installation sends it, of `project`.
pub(super) fn self_hosted(project: &str, time: i64) -> Vec<(&'static str, Value)> {
    let at = |seconds: i64| iso(time - seconds * 1_000_000);
    let of = |id: &str, message: &str, metadata: Value| json!({"id": format!("{project}-{id}"), "timestamp": at(5), "project": project, "event_message": message, "metadata": metadata});
    let without_project = |mut event: Value| {
        event.as_object_mut().unwrap().remove("project");
        event
    };
    let edge = |id: &str, path: &str, status: i64| {
        of(
            id,
            path,
            json!({"request": {"method": "GET", "path": path, "protocol": "HTTP/1.1", "headers": {"user_agent": "curl/8"}},
                   "response": {"status_code": status}}),
        )
    };
    let function =
        json!({"project_ref": project, "function_id": "f1", "execution_time_ms": 40, "response": {"status_code": 500}});
    let auth = json!({"level": "info", "msg": "request completed", "path": "/token", "status": 200, "timestamp": "2026",
                      "auth_event": {"action": "login", "actor_id": "u1"}});
    let service = |level: Value| json!({"project": project, "level": level});
    vec![
        (
            EDGE,
            json!([
                edge("e1", "/rest/v1/todos?select=*", 200),
                edge("e2", "/auth/v1/token", 401),
                edge("e3", "/storage/v1/object", 502)
            ]),
        ),
        (
            "postgres.logs",
            json!([
                of("p1", "duplicate key", json!({"host": "db", "parsed": {"error_severity": "ERROR"}})),
                of("p2", "cron job 4 starting: select 1", json!({"host": "db", "parsed": {"error_severity": "LOG"}})),
            ]),
        ),
        ("deno-relay-logs", without_project(of("fe", "POST | 500", function))),
        (
            "deno-subhosting-events",
            without_project(of(
                "f",
                "hello",
                json!({"project_ref": project, "function_id": "f1", "event_type": "Log", "level": "info"}),
            )),
        ),
        ("gotrue.logs.prod", of("a", "{\"level\":\"info\"}", auth)),
        ("realtime.logs.prod", without_project(of("r", "joined", service(json!("error"))))),
        ("storage.logs.prod.2", without_project(of("s", "GET", service(json!(40))))),
        ("postgREST.logs.prod", of("pr", "Schema cache loaded", json!({"host": project}))),
        ("pgbouncer.logs.prod", of("pb", "stats", json!({"host": "db"}))),
        ("supavisor.logs.prod", without_project(of("sv", "ClientHandler: connected", service(json!("info"))))),
        ("gotrue.audit.logs.prod", of("au", "login", json!({"auth_audit_event": {"action": "login"}}))),
        (
            "pg_upgrade.logs.prod",
            json!({"id": format!("{project}-up"), "timestamp": at(5), "project": project, "event_message": "upgrade began"}),
        ),
        (
            "etl.replication.logs.prod",
            json!({"id": format!("{project}-etl"), "timestamp": at(5), "project": project, "pipeline_id": 42, "event_message": "{\"level\":\"error\"}"}),
        ),
    ]
}

fn send_all(server: &Server, project: &str, time: i64) {
    for (source, events) in self_hosted(project, time) {
        server.send(source, &events);
    }
}

/// The pages of a log viewer: what each table is asked for its list, its histogram, its badge and one row.
#[test]
fn every_page_of_a_log_viewer_has_its_rows() {
    let data = Data::new();
    let server = start_with(&data, &["log-viewer"]);
    let time = now();
    send_all(&server, "default", time);
    send_all(&server, "other", time);
    let since = iso(time - 3_600_000_000);
    for (table, _) in TABLES {
        let ask = |text: &str| {
            let all = [
                ("project", "default"),
                ("iso_timestamp_start", since.as_str()),
                ("iso_timestamp_end", ""),
                ("sql", text),
            ];
            server.query("logs.all", &all)
        };
        let listed =
            ask(&format!("select id, {table}.timestamp, event_message from {table} order by timestamp desc limit 100"));
        let ids = listed.ids();
        let expected = match table {
            "edge_logs" => 3,
            "postgres_logs" => 2,
            _ => 1,
        };
        assert_eq!(ids.len(), expected, "{table}: {ids:?}");
        assert!(ids.iter().all(|id| id.starts_with("default-")), "{table}: {ids:?}");
        let histogram = ask(&format!(
            "-- a chart\nselect timestamp_trunc(t.timestamp, minute) as timestamp, \
             count(case when not (false or false) then 1 end) as ok_count, count(case when false then 1 end) as error_count, \
             count(case when false then 1 end) as warning_count, from {table} t where t.timestamp > '{since}' \
             group by timestamp order by timestamp asc;"
        ));
        assert_eq!(
            histogram.column("ok_count").iter().filter_map(Value::as_i64).sum::<i64>(),
            expected as i64,
            "{table}"
        );
        assert_eq!(
            ask(&format!("select count(*) as count from {table}")).column("count"),
            [json!(expected)],
            "{table}"
        );
        let id = &ids[0];
        let one = ask(&format!("select id, timestamp, event_message, metadata from {table} where id = '{id}' limit 1"));
        assert_eq!(&one.ids()[0], id, "{table}");
        // What the hosted pages select beside, and what reports filter by.
        let named =
            ask(&format!("select identifier, id from {table} where identifier = 'default' order by id limit 100"));
        assert_eq!(named.rows().len(), expected, "{table}");
        assert_eq!(ask(&format!("select id from {table} where identifier = 'other'")).rows().len(), 0, "{table}");
    }
    let pipeline = "select count(*) as count from etl_replication_logs where (pipeline_id = 42)";
    assert_eq!(sql(&server, pipeline).column("count"), [json!(1)]);
    let pooler = "select count(*) as count from supavisor_logs cross join unnest(metadata) as m \
                  where (m.project like 'default%') and (regexp_contains(event_message, 'ClientHandler'))";
    assert_eq!(sql(&server, pooler).column("count"), [json!(1)]);
    let cron = "select id, parsed.error_severity from pg_cron_logs cross join unnest(metadata) as m \
                cross join unnest(m.parsed) as parsed where (parsed.application_name = 'pg_cron' or event_message::text LIKE '%cron job%')";
    assert_eq!(sql(&server, cron).ids(), ["default-p2"]);
}

/// Reports add a condition on the identifier behind unnested records, where the bare name must be the table's column.
#[test]
fn reports_that_filter_by_identifier_have_rows() {
    let data = Data::new();
    let server = start_with(&data, &["log-viewer"]);
    let time = now();
    send_all(&server, "default", time);
    let mut replica = self_hosted("default", time)[0].1[0].clone();
    (replica["id"], replica["identifier"]) = (json!("replica"), json!("default-rr-eu-1"));
    server.send(EDGE, &json!([replica]));
    let edge = "from edge_logs f cross join unnest(f.metadata) as m cross join unnest(m.request) as request \
                cross join unnest(m.response) as response cross join unnest(request.headers) as headers";
    for (report, rows, counted) in [
        (
            format!("-- requests\nselect cast(timestamp_trunc(f.timestamp, hour) as datetime) as timestamp, count(f.id) as count \
                     {edge} WHERE identifier = 'default' GROUP BY timestamp ORDER BY timestamp ASC"),
            1..=2,
            3,
        ),
        (
            format!("select request.path as path, request.method as method, request.search as search, response.status_code as status_code, \
                     count(f.id) as count, avg(response.origin_time) as avg \
                     {edge} WHERE identifier = 'default' and response.status_code >= 400 group by path, method, search, status_code \
                     order by count desc limit 10"),
            2..=2,
            2,
        ),
        (
            format!("select identifier, count(*) as count {edge} where identifier = 'default-rr-eu-1' group by identifier"),
            1..=1,
            1,
        ),
        (
            "select p.error_severity as severity, count(*) as count from postgres_logs as t cross join unnest(metadata) as m \
             cross join unnest(m.parsed) as p where identifier = 'default' and p.error_severity in ('ERROR', 'FATAL') group by severity"
                .to_owned(),
            1..=1,
            1,
        ),
        (
            "select count(*) as count from auth_logs cross join unnest(metadata) as metadata where identifier = 'default' and \
             metadata.status < 400"
                .to_owned(),
            1..=1,
            1,
        ),
    ] {
        let answer = sql(&server, &report);
        let counts = answer.column("count");
        assert!(rows.contains(&counts.len()), "{report}\n{}", answer.body);
        assert_eq!(counts.iter().filter_map(Value::as_i64).sum::<i64>(), counted, "{report}\n{}", answer.body);
    }
}

#[test]
fn the_charts_of_a_log_viewer_have_their_columns() {
    let data = Data::new();
    let server = start_with(&data, &["log-viewer"]);
    let time = now();
    send_all(&server, "default", time);
    for interval in ["1hr", "1day", "7day", "minutely", "hourly", "daily"] {
        let rows = server.query("usage.api-counts", &[("interval", interval), ("project", "default")]);
        let total = |column: &str| rows.column(column).iter().filter_map(Value::as_i64).sum::<i64>();
        let counts = ["rest", "storage", "auth", "realtime"].map(|product| total(&format!("total_{product}_requests")));
        assert_eq!(counts, [1, 1, 1, 0], "{interval}");
    }
    assert_eq!(server.query("usage.api-requests-count", &[("project", "default")]).column("count"), [json!(3)]);
    for endpoint in ["functions.req-stats", "functions.combined-stats"] {
        let rows = server.query(endpoint, &[("project", "default"), ("interval", "1hr"), ("function_id", "f1")]);
        assert_eq!(rows.column("timestamp")[0].to_string().len(), 16, "{}", rows.body);
        assert_eq!(
            (rows.column("server_err_count"), rows.column("avg_execution_time")),
            (vec![json!(1)], vec![json!(40.0)])
        );
    }
    let auth = server.query("auth.metrics", &[("project", "default"), ("interval", "1day")]);
    assert_eq!(auth.column("period"), [json!("current"), json!("previous")]);
    for row in auth.rows() {
        for (name, value) in row.as_object().unwrap() {
            assert!(name == "period" || value.as_i64() >= Some(0), "{name} of {row}");
        }
    }
    assert_eq!(
        (auth.column("active_users"), auth.column("api_error_requests")),
        (vec![json!(1), json!(0)], vec![json!(1), json!(0)])
    );
    let metrics = server.query("project.metrics", &[("project", "default"), ("interval", "1hr")]);
    let services: Vec<Value> = metrics.column("service");
    for service in ["auth", "db", "functions", "realtime", "storage"] {
        assert!(services.contains(&json!(service)), "{}", metrics.body);
    }
    let (start, end) = (iso(time - 3_600_000_000), iso(time + 1_000_000));
    let bounds = [
        ("project", "default"),
        ("iso_timestamp_start", &*start),
        ("iso_timestamp_end", &*end),
        ("granularity", "minute"),
    ];
    let health = server.query("service-health", &bounds);
    let row = &health.rows()[0];
    assert!(row["timestamp"].as_str().unwrap().ends_with(":00Z"), "{row}");
    assert_eq!(row["edge_logs"], json!({"ok": 1, "warning": 1, "error": 1, "total": 3}), "{row}");
    assert_eq!(row["etl_replication_logs"], json!({"ok": 0, "warning": 0, "error": 1, "total": 1}), "{row}");
}

/// A token that fixes the project reads its rows and no others, in every table and from every endpoint.
#[test]
fn a_pinned_token_is_bound_in_every_table_of_the_pack() {
    let own = folder();
    let server = start_with(&own.path().join("data"), &["log-viewer"]);
    let time = now();
    for project in ["default", "other"] {
        send_all(&server, project, time);
    }
    // What names the tenant in a text is still somebody else's.
    let mut foreign = self_hosted("other", time)[0].1[0].clone();
    foreign["id"] = json!("foreign");
    foreign["metadata"]["request"]["url"] = json!("https://default.example.test/rest/v1");
    server.send(EDGE, &json!([foreign]));
    let made =
        server.manage("POST", "/api/access-tokens", &json!({"scopes": "query", "pinned": {"project": "default"}}));
    let token = made.body["token"].as_str().unwrap();
    let ask = |token: &str, endpoint: &str, parameters: &[(&str, &str)]| {
        let path = format!("/api/endpoints/query/{endpoint}?{}", query_string(parameters));
        server.call("GET", &path, &[("x-api-key", token)], b"")
    };
    for (table, _) in TABLES {
        let all = format!("select id from {table}");
        let seen = ask(token, "logs.all", &[("sql", &all)]);
        assert!(
            !seen.rows().is_empty() && seen.ids().iter().all(|id| id.starts_with("default-")),
            "{table}: {}",
            seen.body
        );
        let escaped = format!("select id from {table} where identifier = 'other' or true");
        assert_eq!(ask(token, "logs.all", &[("sql", &escaped)]).ids().len(), seen.ids().len(), "{table}");
    }
    let start = iso(time - 3_600_000_000);
    for (endpoint, more) in [
        ("logs.all", vec![]),
        ("usage.api-counts", vec![("interval", "1hr")]),
        ("usage.api-requests-count", vec![]),
        ("functions.req-stats", vec![("interval", "1hr"), ("function_id", "f1")]),
        ("functions.combined-stats", vec![("interval", "1hr")]),
        ("auth.metrics", vec![("interval", "1hr")]),
        ("project.metrics", vec![("interval", "1hr")]),
        ("service-health", vec![("iso_timestamp_start", start.as_str()), ("granularity", "day")]),
    ] {
        assert!(PACK.contains(&endpoint));
        let own = ask(token, endpoint, &more);
        assert!(!own.rows().is_empty(), "{endpoint}: {}", own.body);
        let other = [more.as_slice(), &[("project", "other")]].concat();
        ask(token, endpoint, &other).refused(403, "forbidden", &["project"]);
        // The operator, who may ask for either, gets the same of the one: nothing of the other is in it.
        if endpoint != "usage.api-counts" {
            let same = [more.as_slice(), &[("project", "default")]].concat();
            assert_eq!(ask(PRIVATE, endpoint, &same).body, own.body, "{endpoint}");
        }
    }
    let counts = ask(token, "usage.api-counts", &[("interval", "1hr")]);
    assert_eq!(
        counts.column("total_rest_requests").iter().filter_map(Value::as_i64).sum::<i64>(),
        1,
        "{}",
        counts.body
    );
    // Nor by ad-hoc text over the tables of the other endpoints.
    for (endpoint, table, rows) in
        [("usage.api-counts", "requests", 3), ("project.metrics", "db", 2), ("service-health", "edge_logs", 3)]
    {
        let text = format!("select count(*) as count from {table}");
        let more = if endpoint == "usage.api-counts" {
            vec![("interval", "1hr"), ("sql", &*text)]
        } else {
            vec![("sql", &*text)]
        };
        assert_eq!(ask(token, endpoint, &more).column("count"), [json!(rows)], "{endpoint}");
    }
}
