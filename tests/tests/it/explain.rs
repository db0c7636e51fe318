//! What a query would read is told without running it, to those who may know of all rows.

use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, PRIVATE, PUBLIC, Server, folder, query_string};

use crate::cluster::Cluster;
use crate::components::{guest, pack, put};

fn explain(server: &Server, endpoint: &str, body: &Value) -> Answer {
    server.manage("POST", &format!("/api/endpoints/{endpoint}/explain"), body)
}

fn of_sql(server: &Server, sql: &str) -> Value {
    let answer = explain(server, "logs.all", &json!({"project": "p1", "sql": sql})).is(200);
    answer.body
}

fn scan<'a>(explanation: &'a Value, place: &str) -> &'a Value {
    let scans = explanation["scans"].as_array().unwrap();
    scans.iter().find(|scan| scan["place"] == place).unwrap_or_else(|| panic!("{explanation}"))
}

#[test]
fn what_is_left_to_read_is_told() {
    // Five segments and rows in memory, half a second after each other.
    let cluster = Cluster::start(0, &[]);
    cluster.fill();
    let server = &cluster.server;
    let before = server.metric("tidegate_requests_total");
    let all = of_sql(server, "select count(*) as c from edge_logs where event_message like '%/path/3%'");
    assert_eq!(all["tables"], json!([{"name": "edge_logs", "columns": ["event_message"]}]));
    let source = &all["sources"][0];
    assert_eq!((&source["name"], &source["segments"], &source["rows"]), (&json!(EDGE), &json!(5), &json!(2_000)));
    assert_eq!((&source["runs"], &source["memory_rows"]), (&json!(5), &json!(200)));
    let read = scan(&all, "segments");
    assert_eq!((&read["segments"], &read["runs"], &read["rows"]), (&json!(5), &json!(5), &json!(2_000)), "{all}");
    assert_eq!((&read["bytes"], &read["indexes"]), (&source["bytes"], &json!(["texts"])));
    let conditions = read["conditions"].to_string();
    assert!(conditions.contains("project") && conditions.contains("event_message"), "{conditions}");
    assert_eq!(scan(&all, "memory")["rows"], json!(200));
    assert!(all.get("workers").is_none(), "{all}");

    // The newest: in order, so that the limit above, which counts what passes the conditions, ends the scan.
    let newest = of_sql(server, "select id from edge_logs order by timestamp desc limit 7");
    let read = scan(&newest, "segments");
    assert_eq!((&read["in_order"], &read["limit"]), (&json!(true), &Value::Null), "{newest}");
    // A time leaves out segments.
    let time = server.sql("select timestamp from edge_logs order by timestamp limit 1 offset 100").rows()[0].clone();
    let time = format!("timestamp_micros({})", time["timestamp"]);
    let few = of_sql(server, &format!("select id from edge_logs where timestamp < {time}"));
    assert_eq!((few["scans"].as_array().unwrap().len(), &scan(&few, "segments")["segments"]), (1, &json!(1)), "{few}");
    let none = of_sql(server, "select id from edge_logs where timestamp < timestamp '2001-01-01'");
    assert_eq!((&none["scans"], &none["sources"][0]["segments"]), (&json!([]), &json!(5)));
    // An id is looked for in an index.
    let one = of_sql(server, "select id from edge_logs where id = '00000001'");
    assert_eq!(scan(&one, "segments")["indexes"], json!(["ids"]), "{one}");

    // As a saved query, and in LQL.
    let saved = explain(server, "usage.api-counts", &json!({"interval": "minutely", "project": "p1"}));
    assert_eq!(saved.body["tables"][0]["name"], json!("requests"), "{}", saved.body);
    assert!(saved.body["scans"].as_array().unwrap().len() <= 2, "{}", saved.body);
    let lql = explain(server, "logs.all", &json!({"project": "p1", "lql": "f:edge_logs id:00000001"}));
    assert_eq!(scan(&lql.body, "segments")["indexes"], json!(["ids"]), "{}", lql.body);
    assert!(lql.body["tables"].to_string().contains("edge_logs"), "{}", lql.body);

    // Nothing ran: no query is among the slow ones, and what is explained is no call of its endpoint.
    let statistics = server.read("/api/endpoint-statistics");
    let of =
        |name: &str| statistics.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()["calls"].clone();
    assert_eq!((of("usage.api-counts"), of("logs.all")), (json!(0), json!(1)));
    assert!(server.metric("tidegate_requests_total") >= before);
}

#[test]
fn what_workers_would_do_is_told() {
    let cluster = Cluster::start(2, &[]);
    cluster.fill();
    let server = &cluster.server;
    let cut = of_sql(server, "select count(*) as c from edge_logs where event_message like '%/path/3%'");
    let remote = cut["workers"]["remote"].as_array().unwrap();
    assert_eq!((remote.len(), &remote[0]["source"]), (1, &json!(EDGE)), "{cut}");
    let tasks = remote[0]["tasks"].as_array().unwrap();
    let sum = |field: &str| tasks.iter().map(|task| task[field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("segments"), sum("rows")), (5, 2_000), "{cut}");
    assert!(sum("bytes") > 0 && tasks.iter().all(|task| task["worker"].is_string() && task.get("ran").is_none()));
    // Nothing was sent to a worker.
    assert!(
        cluster
            .workers
            .iter()
            .all(|worker| worker.metric("tidegate_worker_tasks_asked_total{outcome=\"started\"}") == 0.0)
    );

    let explained = ["explain", "logs.all", "f:edge_logs c:count(*)", "-p", "project=p1"];
    let out = server.client(&explained).output().unwrap();
    let printed = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for words in
        ["table edge_logs:", "source cloudflare.logs.prod: 5 segments", "reads 5 segments: 5 runs with 2000 rows"]
    {
        assert!(printed.contains(words), "{printed}");
    }
}

#[test]
fn why_the_server_reads_by_itself_is_told() {
    let cluster = Cluster::start(1, &[("TIDEGATE_CLUSTER_LEAST_BYTES", "1 GiB")]);
    cluster.fill();
    let stays = of_sql(&cluster.server, "select count(*) as c from edge_logs");
    assert_eq!(
        (&stays["workers"]["remote"], &stays["workers"]["local"][0]["reason"]),
        (&json!([]), &json!("little")),
        "{stays}"
    );
    let none = of_sql(&cluster.server, "select 1 as one");
    assert_eq!((&none["scans"], &none["workers"]["local"][0]["reason"]), (&json!([]), &json!("no_segments")), "{none}");
}

#[test]
fn only_who_may_know_of_all_rows_is_told() {
    let server = Server::start();
    let token =
        |fields: Value| server.manage("POST", "/api/access-tokens", &fields).body["token"].as_str().unwrap().to_owned();
    let query = token(json!({"scopes": "query"}));
    let tenant = token(json!({"scopes": "query", "pinned": {"project": "p1"}}));
    let ask = |token: &str, endpoint: &str, parameters: &[(&str, &str)]| {
        let path = format!("/api/endpoints/{endpoint}/explain?{}", query_string(parameters));
        server.call("POST", &path, &[("x-api-key", token)], b"")
    };
    let own = [("project", "p1")];
    for token in [query.as_str(), tenant.as_str(), PUBLIC] {
        ask(token, "logs.all", &own).refused(403, "forbidden", &["private"]);
        // Whether an endpoint is there is not told either.
        ask(token, "no.such", &own).refused(403, "forbidden", &["private"]);
    }
    ask("unknown", "logs.all", &own).refused(401, "unauthorized", &[]);
    ask(PRIVATE, "no.such", &own).refused(404, "not_found", &["no.such"]);
    ask(PRIVATE, "logs.all", &[("project", "p1"), ("sql", "select nope from")]).refused(400, "syntax_error", &[]);
    ask(PRIVATE, "logs.all", &[]).refused(400, "invalid_parameter", &["project"]);
    assert_eq!(ask(PRIVATE, "logs.all", &own).status, 200);
    // What a text may read is what the query may.
    ask(PRIVATE, "logs.all", &[("project", "p1"), ("sql", "select id from `cloudflare.logs.prod`")]).refused(
        400,
        "unknown_table",
        &[],
    );
}

/// An endpoint with code is known to read what its code asks for, which nobody knows before it runs.
#[test]
fn an_endpoint_with_code_is_explained_by_its_statements_only() {
    let (server, folder) = (Server::start(), folder());
    let component = folder.path().join("packed.wasm");
    pack("edge-methods", &guest("edge-methods.cargo.wasm"), &component);
    put(&server, "edge.methods", &std::fs::read(&component).unwrap()).is(201);
    let refused = explain(&server, "edge.methods", &json!({"project": "p1"}));
    refused.refused(400, "invalid_parameter", &["code chooses its statements", "send one of them as sql"]);
    assert_eq!(refused.body["error"]["errors"][0]["location"], json!("sql"), "{}", refused.body);
    let sql = format!("select id from `{EDGE}` limit 1");
    let explained = explain(&server, "edge.methods", &json!({"project": "p1", "sql": sql}));
    assert_eq!((explained.status, &explained.body["sources"][0]["name"]), (200, &json!(EDGE)), "{}", explained.body);

    let run = |arguments: &[&str]| {
        server.client(&["explain", "edge.methods", "-p", "project=p1"]).args(arguments).output().unwrap()
    };
    let out = run(&[]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && out.stdout.is_empty(), "{said}");
    assert!(said.contains("code chooses its statements") && said.contains("send one of them as sql"), "{said}");
    let out = run(&["--sql", &sql]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8(out.stdout).unwrap().contains("source cloudflare.logs.prod: 0 segments"));
}
