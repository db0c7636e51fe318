//! The two saved queries of the specification, as they are shipped.

use serde_json::json;

use super::super::support::World;

const LOGS_ALL: &str = include_str!("../../../../guest-endpoints/logs.all/query.sql");
const API_COUNTS: &str = include_str!("../../../../guest-endpoints/usage.api-counts/query.sql");
const SECOND: i64 = 1_000_000;

fn request(id: &str, timestamp: i64, url: &str, path: &str) -> serde_json::Value {
    json!({"id": id, "timestamp": timestamp, "event_message": id, "project": "p1",
           "metadata": {"request": {"url": url, "path": path}}})
}

fn world() -> World {
    let now = 1_763_633_702 * SECOND; // 10:15:02
    let minute = now - 2 * SECOND;
    World::new()
        .source(
            "cloudflare.logs.prod",
            &[
                request("a", minute, "https://p1.test/rest/v1/x", "/rest/v1/x"),
                request("b", minute + 1, "https://p1.test/auth/rest", "/auth/rest"),
                request("c", now - 3600 * SECOND, "https://p1.test/storage", "/storage"),
                request("d", now - 3600 * SECOND - 1, "https://p1.test/realtime", "/realtime"),
                request("e", minute - 1, "https://p2.test/rest", "/rest"),
            ],
        )
        .source("postgres.logs", &[])
        .source("deno-relay-logs", &[json!({"id": "r", "timestamp": 1, "metadata": {"project_ref": "p1"}})])
        .source("deno-subhosting-events", &[])
        .source("gotrue.logs.prod", &[])
        .source("realtime.logs.prod", &[json!({"id": "t", "timestamp": 1, "metadata": {"project": "p1"}})])
        .source("storage.logs.prod.2", &[])
        .source("postgREST.logs.prod", &[])
        .source("pgbouncer.logs.prod", &[])
}

#[test]
fn api_counts_has_one_row_a_bucket() {
    let minutely = world().with("interval", "minutely").with("project", "p1").rows(API_COUNTS);
    assert_eq!(
        minutely,
        json!([
            {"timestamp": "2025-11-20T09:15:00", "total_rest_requests": 0, "total_storage_requests": 1, "total_auth_requests": 0, "total_realtime_requests": 0},
            {"timestamp": "2025-11-20T10:15:00", "total_rest_requests": 2, "total_storage_requests": 0, "total_auth_requests": 1, "total_realtime_requests": 0},
        ])
    );
    let daily = world().with("interval", "daily").with("project", r"https://p[12]\.test").rows(API_COUNTS);
    assert_eq!(
        daily,
        json!([{"timestamp": "2025-11-20T00:00:00", "total_rest_requests": 3, "total_storage_requests": 1, "total_auth_requests": 1, "total_realtime_requests": 1}])
    );
    assert_eq!(world().with("interval", "hourly").with("project", "nobody").rows(API_COUNTS), json!([]));
}

#[test]
fn logs_all_bounds_are_exclusive_below_and_inclusive_above() {
    let ids = |world: World| -> Vec<String> {
        let rows = world.rows(LOGS_ALL);
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let p1 = || world().with("project", "p1");
    assert_eq!(ids(p1()), ["b", "a", "e", "c", "d"].map(str::to_owned).to_vec());
    assert_eq!(ids(p1().with("iso_timestamp_start", "").with("iso_timestamp_end", "")).len(), 5);
    assert_eq!(ids(p1().with("iso_timestamp_start", "2025-11-20T10:15:00Z")), ["b"]);
    assert_eq!(ids(p1().with("iso_timestamp_end", "2025-11-20T09:15:02Z")), ["c", "d"]);
    assert_eq!(ids(world().with("project", "p9")), Vec::<String>::new());
}

#[test]
fn every_table_of_logs_all_has_its_own_project_filter() {
    let world = world().with("project", "p1");
    for (table, count) in [
        ("edge_logs", 5),
        ("postgres_logs", 0),
        ("function_edge_logs", 1),
        ("function_logs", 0),
        ("auth_logs", 0),
        ("realtime_logs", 1),
        ("storage_logs", 0),
        ("postgrest_logs", 0),
        ("pgbouncer_logs", 0),
    ] {
        let rows = world
            .granted(LOGS_ALL, &format!("select count(*) as c from {table} left join unnest(metadata) m"))
            .unwrap();
        assert_eq!(rows, json!([{"c": count}]), "{table}");
    }
}

fn chain() -> World {
    World::new()
        .source("s", &[json!({"id": "1", "project": "p1", "n": 2}), json!({"id": "2", "project": "p2", "n": 3})])
        .endpoint(
            "own.rows",
            "WITH mine AS (SELECT id, n FROM s WHERE project = @project) SELECT id, n * 2 AS n FROM mine",
        )
        .endpoint("sums", "SELECT SUM(n) AS total FROM `own.rows`")
        .endpoint("s", "SELECT 'hidden by the source' AS id")
        .endpoint("a", "SELECT * FROM b")
        .endpoint("b", "SELECT * FROM a")
        .endpoint("broken", "SELECT nope(id) AS x FROM s")
        .with("project", "p2")
}

#[test]
fn a_saved_query_reads_another_endpoint_as_a_table() {
    let world = chain();
    assert_eq!(world.rows("SELECT o.id, o.n FROM `own.rows` AS o JOIN s ON s.id = o.id"), json!([{"id": "2", "n": 6}]));
    assert_eq!(world.rows("WITH t AS (SELECT * FROM sums) SELECT total FROM t"), json!([{"total": 6}]));
    assert_eq!(world.rows("SELECT COUNT(*) AS n FROM s"), json!([{"n": 2}]));
    // What is read under a name sees nothing of where it is read.
    assert_eq!(world.rows("WITH mine AS (SELECT 'x' AS id) SELECT id FROM `own.rows`"), json!([{"id": "2"}]));
}

#[test]
fn endpoints_are_no_tables_of_a_sandbox_and_no_circles() {
    let world = chain();
    let refused = world.granted("WITH t AS (SELECT 1 AS x) SELECT x FROM t", "SELECT * FROM sums").unwrap_err();
    assert_eq!(refused.code, tidegate_model::Code::UnknownTable, "{refused}");
    assert_eq!(
        world.granted("WITH t AS (SELECT * FROM sums) SELECT 1", "SELECT total FROM t").unwrap(),
        json!([{"total": 6}])
    );
    let circle = world.failure("SELECT * FROM a");
    assert!(circle.message.contains("reads itself") && circle.message.contains("a, b"), "{circle}");
    let broken = world.failure("SELECT * FROM broken");
    assert!(
        broken.message.contains("in the endpoint broken (its line 1, column 8): there is no function NOPE"),
        "{broken}"
    );
}
