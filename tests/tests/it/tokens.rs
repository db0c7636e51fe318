//! Access tokens: what each may do and learn, and when that ends.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::{Answer, Data, EDGE, Server, binary, folder, iso, now, request};

fn of_project(id: &str, project: &str) -> Value {
    let mut event = request(id, now(), "/rest/v1/x");
    event["project"] = json!(project);
    event["metadata"]["request"]["url"] = json!(format!("https://{project}.example.test/rest/v1/x"));
    event
}

#[test]
fn a_token_is_shown_once_and_revoked_at_once() {
    let server = Server::start();
    let (id, token) = server.token_and_id(&json!({"description": "viewer", "scopes": "query"}));
    assert_eq!(server.query_as(&token, "logs.all", &[("project", "p1")]).status, 200);
    let list = server.manage("GET", "/api/access-tokens", &Value::Null);
    assert!(!list.body.to_string().contains(&token), "{}", list.body);
    let shown = list.body.as_array().unwrap().iter().find(|shown| shown["id"] == json!(id)).unwrap();
    assert_eq!((&shown["description"], &shown["scopes"]), (&json!("viewer"), &json!("query")));
    assert!(!server.log().contains(&token));
    for _ in 0..2 {
        server.manage("DELETE", &format!("/api/access-tokens/{id}"), &Value::Null).is(204);
    }
    server.query_as(&token, "logs.all", &[("project", "p1")]).refused(401, "unauthorized", &["revoked"]);
    let list = server.manage("GET", "/api/access-tokens", &Value::Null);
    assert!(!list.body.to_string().contains(&id), "{}", list.body);
    let shown = server.manage("GET", &format!("/api/access-tokens/{id}"), &Value::Null);
    assert!(shown.body["revoked_at"].is_string(), "{}", shown.body);
    server.manage("DELETE", "/api/access-tokens/nobody", &Value::Null).refused(404, "not_found", &["nobody"]);
}

#[test]
fn tokens_end_when_they_say_and_outlive_a_restart() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let short = server.token(&json!({"scopes": ["query"], "expires_at": iso(now() + 1_500_000)}));
    let long = server.token(&json!({"scopes": "query", "expires_at": iso(now() + 3_600_000_000)}));
    let (id, gone) = server.token_and_id(&json!({"scopes": "query"}));
    let all = [("project", "p1")];
    assert_eq!(server.query_as(&short, "logs.all", &all).status, 200);
    server.manage("DELETE", &format!("/api/access-tokens/{id}"), &Value::Null);
    assert_eq!(server.stop("-TERM"), Some(0));
    std::thread::sleep(std::time::Duration::from_millis(1_600));
    let server = Server::start_in(&data);
    server.query_as(&short, "logs.all", &all).refused(401, "unauthorized", &["expired"]);
    server.query_as(&gone, "logs.all", &all).refused(401, "unauthorized", &["revoked"]);
    assert_eq!(server.query_as(&long, "logs.all", &all).status, 200);
}

#[test]
fn the_last_use_of_a_token_is_told_and_outlives_a_restart() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let (id, token) = server.token_and_id(&json!({"scopes": "query"}));
    let last_used = |server: &Server| {
        let shown = server.manage("GET", &format!("/api/access-tokens/{id}"), &Value::Null);
        shown.body["last_used_at"].clone()
    };
    assert_eq!(last_used(&server), Value::Null);
    let began = iso(now());
    assert_eq!(server.query_as(&token, "logs.all", &[("project", "p1")]).status, 200);
    let first = last_used(&server);
    assert!(first.as_str().unwrap() >= began.as_str(), "{first} {began}");
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = Server::start_in(&data);
    assert_eq!(last_used(&server), first);
    let list = Command::new(binary()).args(["token", "list", "--data-dir"]).arg(&data).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let line = list.lines().find(|line| line.starts_with(&id)).unwrap();
    assert!(line.contains(&format!("used {}", &first.as_str().unwrap()[..19])), "{line} {first}");
    assert_eq!(server.query_as(&token, "logs.all", &[("project", "p1")]).status, 200);
    assert!(last_used(&server).as_str() > first.as_str());
}

#[test]
fn what_is_wrong_with_a_token_is_told_by_field() {
    let server = Server::start();
    let answer = server.manage(
        "POST",
        "/api/access-tokens",
        &json!({"scopes": "query everything", "expires_at": "soon", "pinned": {"project": ""}, "descripton": "x"}),
    );
    answer.refused(422, "refused", &["there is no scope 'everything'", "'soon'", "empty", "did you mean description?"]);
    let errors = answer.body["error"]["errors"].as_array().unwrap();
    let fields: Vec<&str> = errors.iter().map(|error| error["location"].as_str().unwrap()).collect();
    for field in ["scopes", "expires_at", "pinned", "descripton"] {
        assert!(fields.contains(&field), "{fields:?}");
    }
    let post = |body: Value| server.manage("POST", "/api/access-tokens", &body);
    post(json!({})).refused(422, "refused", &["needs scopes"]);
    post(json!({"scopes": "private", "pinned": {"project": "a"}})).refused(422, "refused", &["protect nothing"]);
    post(json!({"scopes": "query", "expires_at": "2020-01-01T00:00:00Z"})).refused(422, "refused", &["past"]);
    post(json!({"scopes": 5})).refused(422, "refused", &["scopes must be"]);
    post(json!([])).refused(400, "invalid_body", &["JSON object"]);
}

#[test]
fn a_token_for_one_endpoint_learns_nothing_about_another() {
    let server = Server::start();
    let token = server.token(&json!({"scopes": "query:endpoint:logs.all"}));
    assert_eq!(server.query_as(&token, "logs.all", &[("project", "p1")]).status, 200);
    let there = server.query_as(&token, "usage.api-counts", &[("project", "p1"), ("interval", "daily")]);
    let id = server.read("/api/endpoints/usage.api-counts")["id"].clone();
    let by_id = server.query_as(&token, id.as_str().unwrap(), &[]);
    let nowhere = server.query_as(&token, "no.such", &[]);
    let no_id = server.query_as(&token, "8f0e8f3e-0000-4000-8000-000000000000", &[]);
    there.refused(403, "forbidden", &["scope"]);
    for other in [by_id, nowhere, no_id] {
        assert_eq!((other.status, &other.body), (there.status, &there.body));
    }
    let all = server.token(&json!({"scopes": "query"}));
    server.query_as(&all, "logs.al", &[]).refused(404, "not_found", &["did you mean logs.all?"]);
    let ingest = server.token(&json!({"scopes": format!("ingest:source:{EDGE}")}));
    server.query_as(&ingest, "logs.all", &[("project", "p1")]).refused(403, "forbidden", &[]);
    for path in ["/api/endpoints", "/api/sources", "/api/access-tokens", "/api/endpoints/logs.all/versions"] {
        server.call("GET", path, &[("x-api-key", &all)], b"").refused(403, "forbidden", &["private"]);
        server.call("GET", path, &[], b"").refused(401, "unauthorized", &["X-API-KEY"]);
    }
}

#[test]
fn a_scope_by_id_follows_the_endpoint_and_one_by_name_the_name() {
    let server = Server::start();
    let saved = server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 1 AS n"}));
    let id = saved.body["id"].as_str().unwrap();
    let by_name = server.token(&json!({"scopes": "query:endpoint:mine"}));
    let by_id = server.token(&json!({"scopes": format!("query:endpoint:{id}")}));
    server.manage("PATCH", &format!("/api/endpoints/{id}"), &json!({"name": "ours"})).is(200);
    assert_eq!(server.query_as(&by_id, "ours", &[]).status, 200);
    server.query_as(&by_name, "ours", &[]).refused(403, "forbidden", &[]);
}

/// One token is one tenant: by name, with ad-hoc SQL and with LQL, whatever it sends.
#[test]
fn a_pinned_token_never_sees_another_project() {
    let server = Server::start();
    server.send(EDGE, &json!([of_project("mine", "abc"), of_project("theirs", "xyz")]));
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "abc"}}));
    assert_eq!(server.query_as(&token, "logs.all", &[]).ids(), ["mine"]);
    assert_eq!(server.query_as(&token, "logs.all", &[("project", "abc")]).ids(), ["mine"]);
    let sql = [
        "select id from edge_logs",
        "select id from edge_logs where project = 'xyz' or true",
        "select id from edge_logs where @project = 'abc'",
        "with edge_logs as (select * from edge_logs) select id from edge_logs",
        "select id from edge_logs union all select id from edge_logs where project = 'xyz'",
    ];
    for sql in sql {
        let answer = server.query_as(&token, "logs.all", &[("sql", sql)]);
        let rows = answer.body.to_string();
        assert!(!rows.contains("theirs"), "{sql}: {rows}");
        if answer.status == 200 {
            assert!(rows.contains("mine"), "{sql}: {rows}");
        }
    }
    let lql = server.query_as(&token, "logs.all", &[("lql", "f:edge_logs s:id")]);
    assert_eq!(lql.ids(), ["mine"]);
    // Another value is refused however it is written, and by whatever way it comes.
    for name in ["project", "Project", "PROJECT"] {
        server.query_as(&token, "logs.all", &[(name, "xyz")]).refused(403, "forbidden", &["project", "fixed"]);
    }
    let path = "/api/endpoints/query/logs.all";
    let json = [("x-api-key", token.as_str()), ("content-type", "application/json")];
    server.call("POST", path, &json, br#"{"project": "xyz"}"#).refused(403, "forbidden", &["fixed"]);
    let form = [("x-api-key", token.as_str()), ("content-type", "application/x-www-form-urlencoded")];
    server.call("POST", path, &form, b"project=xyz").refused(403, "forbidden", &["fixed"]);
    let physical = server.query_as(&token, "logs.all", &[("sql", "select id from `cloudflare.logs.prod`")]);
    physical.refused(400, "unknown_table", &[]);
    // Nor where the endpoint does not ask for the parameter.
    let free = json!({"name": "free", "query": format!("SELECT id FROM `{EDGE}`"), "cache_duration_seconds": 60});
    server.save(&free);
    assert_eq!(server.query("free", &[]).rows().len(), 2);
    for _ in 0..2 {
        assert_eq!(server.query_as(&token, "free", &[]).ids(), ["mine"]);
        assert_eq!(server.query("free", &[]).rows().len(), 2);
    }
    server.query_as(&token, "free", &[("project", "xyz")]).refused(403, "forbidden", &["fixed"]);
    // What no source knows as a key is a parameter, and the endpoint must have it.
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "abc", "interval": "daily"}}));
    server.query_as(&token, "free", &[]).refused(403, "forbidden", &["'interval'", "no parameter of this endpoint"]);
    assert_eq!(server.query_as(&token, "usage.api-counts", &[]).status, 200);
}

/// The first event of a source decides how its segments store a field. Later ones are beside it there, and a pin finds them
/// and nobody else's rows.
#[test]
fn a_pin_holds_where_the_project_was_once_a_list() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_FLUSH_INTERVAL", "100 ms")]);
    let mut first = of_project("0", "p1");
    first["project"] = json!(["p1", "p2"]);
    server.send(EDGE, &first);
    for (number, project) in ["p1", "p2", "p1", "p2"].iter().enumerate() {
        server.send(EDGE, &of_project(&format!("{}", number + 1), project));
    }
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "p1"}}));
    let seen = || {
        let sql = "SELECT id FROM edge_logs ORDER BY id";
        let counted = server.query_as(&token, "logs.all", &[("sql", "SELECT COUNT(*) AS n FROM edge_logs")]);
        assert_eq!(counted.column("n"), [json!(2)]);
        assert_eq!(server.query_as(&token, "logs.all", &[("sql", sql)]).ids(), ["1", "3"]);
    };
    seen();
    server.until_flushed();
    seen();
}

/// Endpoints of a catalog that does not say what their table names meant when they were saved, as it may be in one
/// written by an earlier release.
#[test]
fn a_pin_holds_where_the_catalog_does_not_say_which_tables_are_read() {
    let data = Data::new();
    let server = Server::start_in(&data);
    server.send(EDGE, &json!([of_project("mine", "abc"), of_project("theirs", "xyz")]));
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "abc"}}));
    let create = |name: &str, query: &str| {
        let body = json!({"name": name, "query": query, "sandboxable": true});
        server.save(&body);
    };
    let mine = format!("WITH mine AS (SELECT id FROM `{EDGE}` WHERE project = @project)");
    create("narrow", &format!("{mine} SELECT id FROM mine"));
    create("past", &format!("{mine} SELECT id FROM mine UNION ALL SELECT id FROM `{EDGE}`"));
    create("reads.past", "WITH t AS (SELECT id FROM past) SELECT id FROM t");
    let check = |server: &Server| {
        assert_eq!(server.query_as(&token, "narrow", &[]).ids(), ["mine"]);
        assert_eq!(server.query_as(&token, "narrow", &[("sql", "SELECT id FROM mine")]).ids(), ["mine"]);
        for (name, parameters) in
            [("past", &[][..]), ("reads.past", &[]), ("reads.past", &[("sql", "SELECT id FROM t")])]
        {
            assert_eq!(server.query_as(&token, name, parameters).ids(), ["mine", "mine"]);
        }
    };
    check(&server);
    assert_eq!(server.stop("-TERM"), Some(0));
    let catalog = rusqlite::Connection::open(data.join("catalog.sqlite")).unwrap();
    let changed =
        catalog.execute("UPDATE endpoints SET sources = '{}' WHERE name IN ('narrow', 'past', 'reads.past')", []);
    assert_eq!(changed, Ok(3));
    drop(catalog);
    check(&Server::start_in(&data));
}

/// Whether and where a query uses the parameter makes no difference: the rows of the source are held to it.
#[test]
fn a_pinned_token_reads_its_rows_whatever_the_query_does() {
    let server = Server::start();
    server.send(EDGE, &json!([of_project("mine", "abc"), of_project("theirs", "xyz")]));
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "abc"}}));
    let create = |name: &str, query: &str| {
        let answer =
            server.manage("POST", "/api/endpoints", &json!({"name": name, "query": query, "sandboxable": true}));
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.body["warnings"].to_string()
    };
    let mine = format!("mine AS (SELECT id, event_message FROM `{EDGE}` WHERE project = @project)");
    // Past the grants, in the body.
    let told = create("past", &format!("WITH {mine} SELECT id FROM mine UNION ALL SELECT id FROM `{EDGE}`"));
    assert!(told.contains(&format!("the query reads {EDGE} itself")), "{told}");
    assert_eq!(server.query("past", &[("project", "abc")]).rows().len(), 3);
    assert_eq!(server.query_as(&token, "past", &[]).ids(), ["mine", "mine"]);
    assert_eq!(server.query_as(&token, "past", &[("sql", "SELECT id FROM mine")]).ids(), ["mine"]);
    // A grant that is narrowed only by what reads it.
    let told = create(
        "beside",
        &format!(
            "WITH raw AS (SELECT id, project FROM `{EDGE}`), mine AS (SELECT id FROM raw WHERE project = @project) SELECT id FROM mine"
        ),
    );
    assert!(!told.contains("itself"), "{told}");
    assert_eq!(server.query_as(&token, "beside", &[]).ids(), ["mine"]);
    for sql in [
        "SELECT id FROM raw",
        "SELECT id FROM RAW WHERE @project = 'abc'",
        "WITH x AS (SELECT * FROM raw) SELECT id FROM x",
        "SELECT (SELECT MAX(id) FROM raw) AS id",
    ] {
        assert_eq!(server.query_as(&token, "beside", &[("sql", sql)]).ids(), ["mine"]);
    }
    assert_eq!(server.query_as(&token, "beside", &[("lql", "f:raw s:id")]).ids(), ["mine"]);
    assert_eq!(server.query_as(&token, "beside", &[("lql", "f:mine s:id")]).ids(), ["mine"]);
    assert_eq!(server.query_as(&token, "beside", &[("sql", "SELECT id FROM mine")]).ids(), ["mine"]);
    // Through another endpoint, one that uses it and one that does not.
    create("reads.beside", "WITH t AS (SELECT id FROM beside) SELECT id FROM t");
    assert_eq!(server.query_as(&token, "reads.beside", &[]).ids(), ["mine"]);
    assert_eq!(server.query_as(&token, "reads.beside", &[("sql", "SELECT id FROM t")]).ids(), ["mine"]);
    create("reads.past", "WITH t AS (SELECT id FROM past) SELECT id FROM t");
    assert_eq!(server.query_as(&token, "reads.past", &[]).ids(), ["mine", "mine"]);
    assert_eq!(server.query_as(&token, "reads.past", &[("sql", "SELECT id FROM t")]).ids(), ["mine", "mine"]);
    // What stands behind a column that no log has had yet was not looked into on save, and is known all the same.
    let early = format!("WITH {mine} SELECT soon AS id FROM mine UNION ALL SELECT id FROM `postgres.logs`");
    let told = create("early", &early);
    assert!(told.contains("no column soon") && told.contains("itself"), "{told}");
    // Others read all.
    assert_eq!(server.query("beside", &[("project", "abc"), ("sql", "SELECT id FROM raw")]).rows().len(), 2);
}

#[test]
fn pinned_tokens_share_no_cached_answers() {
    let server = Server::start();
    server.send(EDGE, &json!([of_project("mine", "abc"), of_project("theirs", "xyz")]));
    let query = format!("SELECT id FROM `{EDGE}` WHERE project = @project");
    let cached = json!({"name": "cached", "query": query, "cache_duration_seconds": 600});
    server.save(&cached);
    let abc = server.token(&json!({"scopes": "query", "pinned": {"project": "abc"}}));
    let xyz = server.token(&json!({"scopes": "query", "pinned": {"project": "xyz"}}));
    for _ in 0..2 {
        assert_eq!(server.query_as(&abc, "cached", &[]).ids(), ["mine"]);
        assert_eq!(server.query_as(&xyz, "cached", &[]).ids(), ["theirs"]);
        assert_eq!(server.query("cached", &[]).rows().len(), 0, "no project, no rows");
    }
}

#[test]
fn the_command_line_makes_and_revokes_while_the_server_runs() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let run = |arguments: &[&str]| {
        let out = Command::new(binary()).arg("token").args(arguments).arg("--data-dir").arg(&data).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (out.status.success(), text(&out.stdout), text(&out.stderr))
    };
    let (done, token, told) = run(&["create", "--scopes", "query", "--pin", "project=abc", "--expires", "30d"]);
    assert!(done && token.starts_with("tg_"), "{told}");
    server.send(EDGE, &json!([of_project("mine", "abc"), of_project("theirs", "xyz")]));
    assert_eq!(server.query_as(&token, "logs.all", &[]).ids(), ["mine"]);
    let (_, list, _) = run(&["list"]);
    let line = list.lines().find(|line| line.contains("abc")).unwrap();
    let id = line.split_whitespace().next().unwrap();
    assert!(line.contains("query") && line.contains("expires") && !list.contains(&token), "{list}");
    let (done, _, told) = run(&["revoke", id]);
    assert!(done && told.contains("revoked"), "{told}");
    server.query_as(&token, "logs.all", &[]).refused(401, "unauthorized", &["revoked"]);
    let (done, _, told) = run(&["create", "--scopes", "qery"]);
    assert!(!done && told.contains("there is no scope 'qery'"), "{told}");
    let (done, _, told) = run(&["revoke", "8f0e8f3e-0000-4000-8000-000000000000"]);
    assert!(!done && told.contains("there is no token"), "{told}");
}

/// Errors tell nothing of other tenants: what fails for their rows is never computed.
#[test]
fn a_pinned_token_learns_nothing_from_errors() {
    let server = Server::start();
    server.send(EDGE, &json!([of_project("mine", "abc"), of_project("theirs", "xyz")]));
    let realtime = |id: &str, project: &str| json!({"id": id, "event_message": id, "metadata": {"project": project}});
    server.send("realtime.logs.prod", &json!([realtime("mine", "abc"), realtime("theirs", "xyz")]));
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "abc"}}));
    let fails = [
        "CAST(IF(id = 'theirs', CONCAT(id, event_message), '1') AS INT64) = 1",
        "1 / IF(id = 'theirs', 0, 1) > 0",
        "LENGTH(REPEAT('x', IF(id = 'theirs', 1000000000, 1))) = 1",
        "REGEXP_CONTAINS('a', IF(id = 'theirs', '(', 'a'))",
        "PARSE_TIMESTAMP('%Y', IF(id = 'theirs', 'x', '2026')) IS NOT NULL",
    ];
    for table in ["edge_logs", "realtime_logs"] {
        for fails in fails {
            for sql in [
                format!("SELECT id FROM {table} WHERE {fails}"),
                format!("SELECT id FROM (SELECT id, {fails} AS x FROM {table}) WHERE x"),
                format!("SELECT id FROM {table} ORDER BY {fails}"),
            ] {
                assert_eq!(server.query_as(&token, "logs.all", &[("sql", &sql)]).ids(), ["mine"], "{sql}");
            }
        }
    }
}

/// A regular expression that finds the tenant would find it in the names of others.
#[test]
fn a_pin_on_a_pattern_means_the_whole_word() {
    let server = Server::start();
    server.send(
        EDGE,
        &json!([of_project("1", "a.c"), of_project("2", "abc"), of_project("3", "a.cd"), of_project("4", "xa.c")]),
    );
    let count = |token: &str| {
        let answer = server.query_as(token, "usage.api-counts", &[("interval", "hourly")]);
        answer.column("total_rest_requests").iter().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    let token = server.token(&json!({"scopes": "query", "pinned": {"project": "a.c"}}));
    assert_eq!(count(&token), 1);
}

/// One project's name stands in the paths of others: what a token fixes is the column of the request, whatever is
/// searched for in its address.
#[test]
fn a_pin_that_is_searched_for_in_a_text_is_the_column_of_its_name() {
    let server = Server::start();
    let mut elsewhere = of_project("elsewhere", "abc");
    elsewhere["metadata"]["request"]["url"] = json!("https://xyz.example.test/rest/v1/rest");
    let mut nobodys = of_project("nobodys", "rest");
    nobodys.as_object_mut().unwrap().remove("project");
    server.send(
        EDGE,
        &json!([of_project("1", "abc"), of_project("2", "xyz"), of_project("3", "rest"), elsewhere, nobodys]),
    );
    let pinned = |project: &str| server.token_and_id(&json!({"scopes": "query", "pinned": {"project": project}})).1;
    let total =
        |answer: Answer| -> u64 { answer.column("total_rest_requests").iter().map(|n| n.as_u64().unwrap()).sum() };
    // Without a pin it is the specification's expression over the address.
    for (project, requests) in [("rest", 5), ("v1", 5), ("abc", 1), ("xyz", 2)] {
        let parameters = [("interval", "hourly"), ("project", project)];
        assert_eq!(total(server.query("usage.api-counts", &parameters)), requests, "{project}");
    }
    for (project, requests) in [("rest", 1), ("v1", 0), ("abc", 1), ("xyz", 1), ("test", 0)] {
        let token = pinned(project);
        let interval = ("interval", "hourly");
        assert_eq!(total(server.query_as(&token, "usage.api-counts", &[interval])), requests, "{project}");
        for adhoc in [
            ("sql", "SELECT path FROM requests"),
            ("sql", "SELECT a.path FROM requests AS a LEFT JOIN (SELECT path FROM requests LIMIT 0) AS b USING (path)"),
            ("lql", "f:requests s:path"),
        ] {
            let answer = server.query_as(&token, "usage.api-counts", &[interval, adhoc]);
            assert_eq!(answer.rows().len() as u64, requests, "{project}: {adhoc:?}");
        }
    }
    // So it is for every endpoint.
    let save = |name: &str, query: &str, required: bool| {
        let parameters = json!([{"name": "project", "required": required}]);
        let endpoint = json!({"name": name, "query": query, "sandboxable": true, "parameters": parameters});
        server.save(&endpoint);
    };
    let url = "t.metadata[0].request[0].url";
    let searched = format!(
        "WITH r AS (SELECT id FROM `{EDGE}` AS t WHERE {url} LIKE CONCAT('%', @project, '%')) SELECT id FROM r"
    );
    save("searched", &searched, true);
    let (rest, xyz) = (pinned("rest"), pinned("xyz"));
    assert_eq!(server.query_as(&rest, "searched", &[]).ids(), ["3"]);
    // Another endpoint that reads it.
    save("reader", "WITH all_of AS (SELECT id FROM searched) SELECT id FROM all_of", false);
    assert_eq!(server.query_as(&rest, "reader", &[]).ids(), ["3"]);
    assert_eq!(server.query_as(&xyz, "reader", &[("sql", "SELECT id FROM all_of")]).ids(), ["2"]);
    assert_eq!(server.query("reader", &[("project", "rest")]).rows().len(), 5);
    // A source whose rows have no such column has none for a token.
    server.send("realtime.logs.prod", &json!({"id": "4", "event_message": "of rest"}));
    let other = "WITH r AS (SELECT id FROM `realtime.logs.prod` WHERE REGEXP_CONTAINS(event_message, @project)) SELECT id FROM r";
    save("columnless", other, true);
    assert_eq!(server.query("columnless", &[("project", "rest")]).ids(), ["4"]);
    assert_eq!(server.query_as(&rest, "columnless", &[]).rows(), Vec::<Value>::new());
    // What the sender may choose instead chooses among its own rows.
    let default =
        format!("WITH r AS (SELECT id FROM `{EDGE}` WHERE project = COALESCE(@other, @project)) SELECT id FROM r");
    save("default", &default, false);
    assert_eq!(server.query_as(&rest, "default", &[("other", "xyz")]).rows(), Vec::<Value>::new());
    assert_eq!(server.query("default", &[("other", "xyz")]).ids(), ["2"]);
    save("first", &default.replace("@other, @project", "@project, @other"), false);
    assert_eq!(server.query_as(&rest, "first", &[("other", "xyz")]).ids(), ["3"]);
}

#[test]
fn a_scope_of_an_endpoint_that_is_not_there_is_told() {
    let server = Server::start();
    let scopes = "query:endpoint:log.all query:endpoint:logs.all ingest:source:nowhere";
    let answer = server.manage("POST", "/api/access-tokens", &json!({"scopes": scopes})).is(201);
    // What the token reads is told, too: `access_report`.
    let of_scopes = |answer: &Answer| {
        let mut warnings = answer.body["warnings"].as_array().unwrap().clone();
        warnings.retain(|warning| !warning.as_str().unwrap().contains("first token of its kind"));
        json!(warnings)
    };
    assert_eq!(of_scopes(&answer), json!(["there is no endpoint log.all so far; did you mean logs.all?"]));
    let answer = server.manage("POST", "/api/access-tokens", &json!({"scopes": "query"}));
    assert_eq!(of_scopes(&answer), json!([]));
}

#[test]
fn tokens_that_promise_more_than_they_hold_are_refused() {
    let server = Server::start();
    let both = json!({"scopes": "ingest private", "pinned": {"project": "abc"}});
    server.manage("POST", "/api/access-tokens", &both).refused(422, "refused", &["protect nothing"]);
    let own = folder();
    let out = Command::new(binary())
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(own.path().join("data"))
        .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", "the-same-token-for-both")
        .env("TIDEGATE_PUBLIC_ACCESS_TOKEN", "the-same-token-for-both")
        .output()
        .unwrap();
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("are the same"), "{out:?}");
}
