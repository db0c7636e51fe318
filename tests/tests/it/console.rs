//! The console's routes: its files and their headers, and the routes of the API that it needs. What it shows is tested
//! with a browser (`cargo xtask console`).

use serde_json::json;
use tidegate_tests::{PRIVATE, PUBLIC, Raw, Server};

fn policy(page: &Raw) -> String {
    page.header("content-security-policy").unwrap_or_else(|| panic!("no policy: {:?}", page.headers))
}

#[test]
fn the_page_is_guarded_and_its_files_may_be_kept() {
    let server = Server::start();
    let page = server.fetch("GET", "/console", &[("accept-encoding", "identity")], b"").is(200);
    assert_eq!(page.header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(page.header("x-content-type-options").as_deref(), Some("nosniff"));
    assert_eq!(page.header("set-cookie"), None);
    let policy = policy(&page);
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains("data:"), "{policy}");
    let text = page.text();
    assert!(!text.contains("<style") && !text.contains("style="), "{text}");
    // Built without Node.js, the page says so.
    let assets: Vec<&str> =
        text.split("\"/console/assets/").skip(1).map(|part| part.split('"').next().unwrap()).collect();
    assert!(!assets.is_empty() || text.contains("no console"), "{text}");
    for name in assets {
        let path = format!("/console/assets/{name}");
        let plain = server.fetch("GET", &path, &[("accept-encoding", "identity")], b"");
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{name}");
        let kept = plain.header("cache-control").unwrap();
        assert!(kept.contains("immutable"), "{kept}");
        assert_eq!(plain.header("x-content-type-options").as_deref(), Some("nosniff"));
        for coding in ["br", "gzip"] {
            let packed = server.exchange(&[format!(
                "GET {path} HTTP/1.1\r\nhost: a\r\naccept-encoding: {coding}\r\nconnection: close\r\n\r\n"
            )
            .as_bytes()]);
            assert!(packed.contains(&format!("content-encoding: {coding}\r\n")), "{name}");
        }
    }
    let licences = server.fetch("GET", "/console/licenses.md", &[], b"");
    assert_eq!(licences.status == 200, text.contains("/console/assets/"));
    assert!(licences.status == 404 || ["preact", "MIT"].iter().all(|word| licences.text().contains(word)));
    for path in [
        "/console/assets/licenses.md",
        "/console/assets/nothing.js",
        "/console/assets/index.html",
        "/console/assets/..%2f..%2fetc%2fpasswd",
    ] {
        assert_eq!(server.fetch("GET", path, &[], b"").status, 404, "{path}");
    }
}

#[test]
fn browsers_are_sent_to_the_console_and_others_are_not() {
    let server = Server::start();
    let browser =
        server.exchange(&[b"GET / HTTP/1.1\r\nhost: a\r\naccept: text/html,*/*;q=0.8\r\nconnection: close\r\n\r\n"]);
    assert!(browser.starts_with("HTTP/1.1 303") && browser.contains("location: /console\r\n"), "{browser}");
    for accept in ["", "accept: */*\r\n", "accept: application/json\r\n"] {
        let other =
            server.exchange(&[format!("GET / HTTP/1.1\r\nhost: a\r\n{accept}connection: close\r\n\r\n").as_bytes()]);
        assert!(other.starts_with("HTTP/1.1 404"), "{other}");
    }
}

#[test]
fn every_token_may_ask_what_it_may_do() {
    let server = Server::start();
    let current = |token: &str| server.call("GET", "/api/access-tokens/current", &[("x-api-key", token)], b"");
    assert_eq!(current(PRIVATE).body["scopes"], "private");
    assert_eq!(current(PUBLIC).status, 200);
    let definition = json!({"description": "tenant", "scopes": "query:endpoint:logs.all query:endpoint:own", "pinned": {"project": "p1"}, "limits": {"rows": 5}, "expires_at": "2099-01-31T00:00:00Z"});
    let made = server.manage("POST", "/api/access-tokens", &definition).body;
    let own = current(made["token"].as_str().unwrap()).body;
    assert_eq!(own["id"], made["id"]);
    assert_eq!(own["description"], "tenant");
    assert_eq!(own["scopes"], "query:endpoint:logs.all query:endpoint:own");
    assert_eq!(own["pinned"], json!({"project": "p1"}));
    assert_eq!(own["limits"], made["limits"]);
    assert_eq!(own["expires_at"], made["expires_at"]);
    assert!(!own.to_string().contains(made["token"].as_str().unwrap()));
    current("wrong").refused(401, "unauthorized", &[]);
    let path = format!("/api/access-tokens/{}", made["id"].as_str().unwrap());
    server.manage("DELETE", &path, &json!(null)).is(204);
    current(made["token"].as_str().unwrap()).refused(401, "unauthorized", &["revoked"]);
}

#[test]
fn a_check_says_what_a_save_would_and_saves_nothing() {
    let server = Server::start();
    server.send("postgres.logs", &json!([{"project": "p1", "event_message": "a"}]));
    let check = |name: &str, fields| server.manage("POST", &format!("/api/endpoints/{name}/check"), &fields);
    let query = "WITH t AS (SELECT id, event_mesage FROM `postgres.logs`) SELECT id, event_mesage FROM t";
    let fields = json!({"name": "own", "query": query});
    let new = check("own", fields.clone());
    assert_eq!((new.status, &new.body["version"], &new.body["unchanged"]), (200, &json!(null), &json!(false)));
    assert!(new.body["warnings"][0].as_str().unwrap().contains("event_mesage"), "{}", new.body);
    server.manage("GET", "/api/endpoints/own", &json!(null)).is(404);
    let saved = server.manage("POST", "/api/endpoints", &fields);
    assert_eq!((saved.status, &saved.body["warnings"]), (201, &new.body["warnings"]));
    // No log has the other column, so far.
    let read = json!({"postgres.logs": ["id"]});
    assert_eq!(new.body["grants"], json!([{"table": "t", "parameters": [], "reads": read}]));
    assert_eq!(new.body["statements"], json!([{"name": "default", "reads": {"t": ["event_mesage", "id"]}}]));
    let narrowed =
        "WITH t AS (SELECT id FROM `postgres.logs` WHERE project = @project), u AS (SELECT id FROM t) SELECT id FROM u";
    let narrowed = check("own", json!({"query": narrowed}));
    let parameters: Vec<_> =
        narrowed.body["grants"].as_array().unwrap().iter().map(|grant| &grant["parameters"]).collect();
    assert_eq!(parameters, [&json!(["project"]), &json!(["project"])], "{}", narrowed.body);
    assert_eq!(check("own", fields).body["unchanged"], true);
    let changed = check("own", json!({"query": "SELECT id FROM `postgres.logs`"}));
    assert_eq!((changed.status, &changed.body["version"]), (200, &json!(1)));
    // What is refused when it is saved is refused here, in the same words.
    for wrong in [
        json!({"query": "SELECT nowhere FROM `no.source`"}),
        json!({"query": "SELECT"}),
        json!({"max_limit": 0}),
        json!({"name": "logs.all"}),
    ] {
        let [check, save] = [check("own", wrong.clone()), server.manage("PUT", "/api/endpoints/own", &wrong)];
        assert!(save.status >= 400, "{wrong}: {}", save.body);
        assert_eq!((check.status, check.body), (save.status, save.body), "{wrong}");
    }
    assert_eq!(server.manage("GET", "/api/endpoints/own", &json!(null)).body["version"], 1);
    let stranger = server.call("POST", "/api/endpoints/own/check", &[("x-api-key", PUBLIC)], b"{}");
    stranger.refused(403, "forbidden", &[]);
}

#[test]
fn calls_of_endpoints_are_counted() {
    let server = Server::start();
    let fields = json!({"name": "kept", "query": "SELECT 1 AS a", "cache_duration_seconds": 60});
    server.save(&fields);
    for _ in 0..3 {
        assert_eq!(server.query("kept", &[]).rows().len(), 1);
    }
    server.query("logs.all", &[]).is(400);
    let all = server.manage("GET", "/api/endpoint-statistics", &json!(null)).body;
    let of = |name: &str| all.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    let kept = of("kept");
    assert_eq!(
        (&kept["calls"], &kept["refused"], &kept["cache_lookups"], &kept["cache_hits"]),
        (&json!(3), &json!(0), &json!(3), &json!(2))
    );
    assert!(kept["p95_milliseconds"].as_f64().unwrap() > 0.0, "{kept}");
    assert_eq!((&of("logs.all")["calls"], &of("logs.all")["refused"]), (&json!(1), &json!(1)));
    assert_eq!(of("usage.api-counts")["p95_milliseconds"], json!(null));
    let stranger = server.call("GET", "/api/endpoint-statistics", &[("x-api-key", PUBLIC)], b"");
    stranger.refused(403, "forbidden", &[]);
}

#[test]
fn the_document_names_the_tables_of_ad_hoc_queries() {
    let server = Server::start();
    for (name, sandboxable) in [("open", true), ("closed", false)] {
        let query = "WITH a AS (SELECT id FROM `postgres.logs` WHERE project = @project), b AS (SELECT id FROM a) SELECT id FROM b";
        let fields = json!({"name": name, "query": query, "sandboxable": sandboxable});
        server.save(&fields);
    }
    let definition = json!({"scopes": "query", "pinned": {"project": "p1"}});
    let token = server.manage("POST", "/api/access-tokens", &definition).body["token"].as_str().unwrap().to_owned();
    let document = server.call("GET", "/api/openapi", &[("x-api-key", &token)], b"").body;
    let operation = |name: &str| &document["paths"][format!("/api/endpoints/query/{name}")]["get"];
    assert_eq!(operation("open")["x-tidegate-tables"], json!(["a", "b"]));
    assert!(operation("closed").is_object() && operation("closed")["x-tidegate-tables"].is_null());
    assert_eq!(operation("open")["parameters"][0]["x-tidegate-pinned"], true);
}
