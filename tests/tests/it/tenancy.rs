//! Whose rows are whose: what sources declare, and what tokens that pin a tenant key read of them.

use serde_json::{Value, json};
use tidegate_tests::Server;

fn token(server: &Server, pinned: &Value) -> String {
    server.token(&json!({"scopes": "query", "pinned": pinned}))
}

fn source(server: &Server, name: &str, tenant: &Value) {
    let made = server.manage("POST", "/api/sources", &json!({"name": name, "tenant": tenant}));
    assert_eq!((made.status, &made.body["tenant"]), (201, tenant), "{}", made.body);
}

fn save(server: &Server, name: &str, query: &str) {
    let body = json!({"name": name, "query": query, "sandboxable": true});
    server.save(&body);
}

/// What a source declares can be read back, and what is no declaration is refused with the reason.
#[test]
fn a_source_says_whose_its_rows_are() {
    let server = Server::start();
    source(&server, "app", &json!({"project": "metadata.`service.name`", "team": "team"}));
    source(&server, "regions", &json!("shared"));
    source(&server, "plain", &Value::Null);
    for (name, tenant) in [
        ("cloudflare.logs.prod", "project"),
        ("deno-relay-logs", "metadata.project_ref"),
        ("deno-subhosting-events", "metadata.project_ref"),
        ("realtime.logs.prod", "metadata.project"),
        ("storage.logs.prod.2", "metadata.project"),
        ("pgbouncer.logs.prod", "project"),
    ] {
        let shown = server.manage("GET", &format!("/api/sources/{name}"), &Value::Null);
        assert_eq!(shown.body["tenant"], json!({"project": tenant}), "{name}");
    }
    for wrong in
        [json!("all"), json!({}), json!({"a b": "x"}), json!({"project": "a..b"}), json!({"project": ""}), json!(5)]
    {
        let refused = server.manage("PATCH", "/api/sources/app", &json!({"tenant": wrong}));
        refused.refused(422, "refused", &["tenant"]);
    }
    let changed = server.manage("PATCH", "/api/sources/app", &json!({"tenant": null}));
    assert_eq!((changed.status, &changed.body["tenant"]), (200, &Value::Null));
}

/// The key may lie in records, repeat, and be of another kind in some rows.
#[test]
fn a_row_is_a_tenants_by_exactly_its_value() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    source(&server, "app", &json!({"project": "metadata.project"}));
    let row = |id: &str, metadata: Value| json!({"id": id, "event_message": id, "metadata": metadata});
    server.send(
        "app",
        &json!([
            row("01", json!({"project": "abc"})),
            row("02", json!({"project": "xyz"})),
            row("03", json!([{"project": "abc"}])),
            row("04", json!([{"project": "abc"}, {"project": "abc"}, {"other": 1}])),
            row("05", json!([{"project": "abc"}, {"project": "xyz"}])),
            row("06", json!({"project": ["abc"]})),
            row("07", json!({"project": "ABC"})),
            row("08", json!({"project": "abc "})),
            row("09", json!({"project": null})),
            row("10", json!({})),
            row("11", json!("abc")),
            row("12", json!({"project": 42})),
            row("13", json!({"project": "42"})),
            row("14", json!({"project": 42.5})),
            row("15", json!({"project": true})),
            row("16", json!({"project": {"project": "abc"}})),
            {"id": "17", "event_message": "17", "project": "abc"},
        ]),
    );
    save(&server, "all", "WITH t AS (SELECT id FROM app) SELECT id FROM t ORDER BY id");
    let check = || {
        for (project, ids) in [
            ("abc", &["01", "03", "04"][..]),
            ("xyz", &["02"]),
            ("42", &["12", "13"]),
            ("true", &["15"]),
            ("42.5", &["14"]),
            ("[\"abc\"]", &[]),
            ("ab", &[]),
        ] {
            let token = token(&server, &json!({"project": project}));
            assert_eq!(server.query_as(&token, "all", &[]).ids(), ids, "{project}");
        }
        assert_eq!(server.query("all", &[]).rows().len(), 17);
    };
    check();
    server.until_flushed();
    check();
}

/// A source that cannot tell whose its rows are refuses, where it is read, and says what to do.
#[test]
fn what_is_not_declared_is_refused_where_it_is_read() {
    let server = Server::start();
    source(&server, "app", &json!({"project": "project"}));
    source(&server, "teams", &json!({"project": "project", "team": "team"}));
    source(&server, "regions", &json!("shared"));
    source(&server, "plain", &Value::Null);
    for name in ["app", "teams", "regions", "plain"] {
        let row = |project: &str, team: &str| json!({"id": format!("{name}-{project}-{team}"), "event_message": "m", "project": project, "team": team});
        server.send(name, &json!([row("abc", "t1"), row("abc", "t2"), row("xyz", "t1")]));
        save(
            &server,
            &format!("of.{name}"),
            &format!("WITH t AS (SELECT id FROM {name}) SELECT id FROM t ORDER BY id"),
        );
    }
    save(&server, "both", "WITH a AS (SELECT id FROM app), p AS (SELECT id FROM plain) SELECT id FROM a ORDER BY id");
    let abc = token(&server, &json!({"project": "abc"}));
    assert_eq!(server.query_as(&abc, "of.app", &[]).ids(), ["app-abc-t1", "app-abc-t2"]);
    assert_eq!(server.query_as(&abc, "of.regions", &[]).rows().len(), 3);
    server.query_as(&abc, "of.plain", &[]).refused(
        403,
        "forbidden",
        &["does not say whose its rows are", "\"tenant\""],
    );
    // A granted table that the statement does not read refuses nothing.
    assert_eq!(server.query_as(&abc, "both", &[]).ids(), ["app-abc-t1", "app-abc-t2"]);
    server.query_as(&abc, "both", &[("sql", "SELECT id FROM p")]).refused(403, "forbidden", &["whose its rows are"]);
    server.query_as(&abc, "both", &[("lql", "f:p s:id")]).refused(403, "forbidden", &["whose its rows are"]);
    let refused = server.query_as(&abc, "of.plain", &[]);
    assert!(!refused.body["error"].to_string().contains("plain"), "{}", refused.body);
    // Both pins must hold, and a second one never falls away.
    let both = token(&server, &json!({"project": "abc", "team": "t1"}));
    assert_eq!(server.query_as(&both, "of.teams", &[]).ids(), ["teams-abc-t1"]);
    server.query_as(&both, "of.app", &[]).refused(403, "forbidden", &["does not have the tenant key team"]);
    // A name that is misspelt closes.
    let misspelt = token(&server, &json!({"projct": "abc"}));
    for name in ["of.app", "of.teams", "of.plain"] {
        server.query_as(&misspelt, name, &[]).refused(403, "forbidden", &[]);
    }
    // What is declared holds at once, for answers that were kept, too.
    server.manage("PATCH", "/api/endpoints/of.plain", &json!({"cache_duration_seconds": 600})).is(200);
    let declare = |tenant: Value| {
        server.manage("PATCH", "/api/sources/plain", &json!({"tenant": tenant, "widens": true})).is(200);
    };
    declare(json!({"project": "project"}));
    assert_eq!(server.query_as(&abc, "of.plain", &[]).ids(), ["plain-abc-t1", "plain-abc-t2"]);
    declare(json!({"project": "team"}));
    assert_eq!(server.query_as(&abc, "of.plain", &[]).rows(), Vec::<Value>::new());
    declare(json!("shared"));
    assert_eq!(server.query_as(&abc, "of.plain", &[]).rows().len(), 3);
    declare(Value::Null);
    server.query_as(&abc, "of.plain", &[]).refused(403, "forbidden", &["whose its rows are"]);
}

/// An alert asks for the tenant that it has.
#[test]
fn an_alert_reads_the_rows_of_its_tenant() {
    let server = Server::start();
    source(&server, "app", &json!({"project": "project"}));
    let row = |id: &str, project: &str| json!({"id": id, "event_message": id, "project": project});
    server.send("app", &json!([row("1", "abc"), row("2", "xyz"), row("3", "xyz")]));
    save(&server, "all", "WITH t AS (SELECT id FROM app) SELECT id FROM t");
    let alert = |name: &str, tenant: Value| {
        let alert = json!({"name": name, "every_minutes": 60, "condition": "rows > 0", "url": "http://127.0.0.1:9/", "paused": true, "tenant": tenant});
        server.manage("POST", "/api/endpoints/all/alerts", &alert)
    };
    for (name, tenant, rows) in [("own", json!({"project": "abc"}), 1), ("every", json!({}), 3)] {
        let made = alert(name, tenant.clone());
        assert_eq!((made.status, &made.body["tenant"]), (201, &tenant), "{}", made.body);
        let run = server.manage("POST", &format!("/api/endpoints/all/alerts/{name}/runs"), &Value::Null);
        assert_eq!(run.body["rows"], json!(rows), "{}", run.body);
    }
    alert("wrong", json!({"projct": "abc"})).refused(422, "refused", &["'projct'", "tenant key of no source"]);
}

/// What somebody else sends does not change the types of an answer.
#[test]
fn types_are_those_of_a_tenants_own_values() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    source(&server, "app", &json!({"project": "project"}));
    let row = |id: &str, project: &str, n: Value| json!({"id": id, "event_message": id, "project": project, "n": n, "metadata": {"n": n}});
    server.send("app", &row("1", "abc", json!(49)));
    save(
        &server,
        "all",
        "WITH t AS (SELECT id, n, m.n AS inner_n, n + 1 AS next FROM app CROSS JOIN UNNEST(metadata) AS m) SELECT * FROM t ORDER BY id",
    );
    let abc = token(&server, &json!({"project": "abc"}));
    let own = json!([{"id": "1", "n": 49, "inner_n": 49, "next": 50}]);
    assert_eq!(server.query_as(&abc, "all", &[]).body["result"], own);
    for n in [json!("x"), json!(1.5), json!([1]), json!({"a": 1}), json!(true)] {
        server.send("app", &row("2", "xyz", n));
        assert_eq!(server.query_as(&abc, "all", &[]).body["result"], own);
    }
    server.until_flushed();
    assert_eq!(server.query_as(&abc, "all", &[]).body["result"], own);
    server.send("app", &row("3", "abc", json!("y")));
    let sql = [("sql", "SELECT n FROM (SELECT id, SAFE_CAST(n AS STRING) AS n FROM t) ORDER BY id")];
    save(&server, "plain", "WITH t AS (SELECT id, n FROM app) SELECT * FROM t");
    assert_eq!(server.query_as(&abc, "plain", &sql).column("n"), [json!("49"), json!("y")]);
}
