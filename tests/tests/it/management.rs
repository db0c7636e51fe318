//! Endpoints and sources over the management API: what is taken, what is told, what is kept.

use serde_json::{Value, json};
use tidegate_tests::{EDGE, Server, now, request};

fn fields(answer: &tidegate_tests::Answer) -> Vec<String> {
    let errors = answer.body["error"]["errors"].as_array().unwrap();
    errors.iter().map(|error| error["location"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn everything_wrong_with_an_endpoint_is_told_by_field() {
    let server = Server::start();
    let answer = server.manage(
        "POST",
        "/api/endpoints",
        &json!({"name": "logs.all", "query": 5, "max_limit": 0, "cache_duration_seconds": -1, "sandbox": true,
                "proactive_requerying_seconds": "x", "parameters": [{"nam": "a"}], "language": "pg_sql"}),
    );
    answer.refused(422, "refused", &["there is an endpoint logs.all already"]);
    let fields = fields(&answer);
    for field in [
        "name",
        "query",
        "max_limit",
        "cache_duration_seconds",
        "sandbox",
        "proactive_requerying_seconds",
        "parameters",
        "language",
    ] {
        assert_eq!(fields.iter().filter(|known| *known == field).count(), 1, "{field}: {fields:?}");
    }
    let post = |body: Value| server.manage("POST", "/api/endpoints", &body);
    post(json!({"name": "x"})).refused(422, "refused", &["the query is empty"]);
    post(json!({"query": "SELECT 1"})).refused(422, "refused", &["needs a name"]);
    let bad = post(json!({"name": "x", "query": "SELECT a FROM nowhere"}));
    bad.refused(422, "refused", &["there is no table nowhere", "line 1, column 15"]);
    assert_eq!(self::fields(&bad), ["query"]);
    post(json!("x")).refused(400, "invalid_body", &["JSON object"]);
    post(Value::Null).refused(400, "invalid_body", &["the body is empty; send a JSON object, {} at least"]);
    assert_eq!(server.manage("GET", "/api/endpoints/x", &Value::Null).status, 404, "nothing was saved");
}

#[test]
fn every_change_is_a_version_that_can_come_back() {
    let server = Server::start();
    let saved = server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 1 AS n"}));
    assert_eq!((saved.status, &saved.body["version"]), (201, &json!(1)), "{}", saved.body);
    let id = saved.body["id"].as_str().unwrap().to_owned();
    let path = format!("/api/endpoints/{id}");
    // What was read can be sent back, with a change.
    let mut whole = saved.body.clone();
    whole["query"] = json!("SELECT 2 AS n");
    let updated = server.manage("PUT", &path, &whole);
    assert_eq!((updated.status, &updated.body["version"]), (200, &json!(2)), "{}", updated.body);
    assert_eq!(server.manage("PATCH", &path, &json!({"name": "ours", "max_limit": 7})).body["version"], json!(3));
    assert_eq!(server.query("ours", &[]).column("n"), [json!(2)]);
    let versions = server.manage("GET", &format!("{path}/versions"), &Value::Null);
    let told: Vec<(i64, String, String)> = versions
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|version| {
            let text = |name: &str| version[name].as_str().unwrap().to_owned();
            (version["version"].as_i64().unwrap(), text("name"), text("query"))
        })
        .collect();
    let expected = [(3, "ours", "SELECT 2 AS n"), (2, "mine", "SELECT 2 AS n"), (1, "mine", "SELECT 1 AS n")];
    let expected = expected.map(|(version, name, query)| (version, name.to_owned(), query.to_owned()));
    assert_eq!(told, expected);
    assert!(versions.body.to_string().contains("the private token"), "who saved it: {}", versions.body);
    let restored = server.manage("POST", &format!("{path}/versions/1/restore"), &Value::Null);
    assert_eq!((restored.status, &restored.body["version"]), (200, &json!(4)), "{}", restored.body);
    assert_eq!(server.query("mine", &[]).column("n"), [json!(1)]);
    assert_eq!(server.query(&id, &[]).column("n"), [json!(1)]);
    let restore = |version: &str| server.manage("POST", &format!("{path}/versions/{version}/restore"), &Value::Null);
    restore("4").refused(422, "refused", &["current"]);
    restore("9").refused(404, "not_found", &["newest is 4"]);
    restore("x").refused(404, "not_found", &["no version x"]);
    server.manage("DELETE", &path, &Value::Null).is(204);
    server.manage("GET", &path, &Value::Null).refused(404, "not_found", &[]);
}

#[test]
fn a_saved_query_reads_another_endpoint() {
    let server = Server::start();
    server.send(EDGE, &json!([request("a", now(), "/rest"), request("b", now(), "/auth")]));
    let post = |body: Value| server.manage("POST", "/api/endpoints", &body);
    let inner = json!({
        "name": "paths", "query": format!("WITH own AS (SELECT * FROM `{EDGE}` WHERE project = @project) \
                  SELECT id, m.request[0].path AS path FROM own, UNNEST(metadata) AS m"),
        "parameters": [{"name": "project", "required": true}],
    });
    let inner = post(inner).is(201);
    post(json!({"name": "rest", "query": "SELECT id FROM paths WHERE path = '/rest'", "cache_duration_seconds": 600}))
        .is(201);
    assert_eq!(server.query("rest", &[("project", "p1")]).ids(), ["a"]);
    server.query("rest", &[]).refused(400, "invalid_parameter", &["'project' is required"]);
    // A change of what is read takes effect on the next request, cache or not; a new name breaks nothing.
    let path = format!("/api/endpoints/{}", inner.body["id"].as_str().unwrap());
    let changed = json!({"name": "renamed", "query": inner.body["query"].as_str().unwrap().replace("id,", "concat(id, '!') AS id,")});
    server.manage("PATCH", &path, &changed).is(200);
    assert_eq!(server.query("rest", &[("project", "p1")]).ids(), ["a!"]);
    let circle = server.manage("PATCH", &path, &json!({"query": "SELECT id, '' AS path FROM rest"}));
    circle.refused(422, "refused", &["reads itself"]);
    post(json!({"name": "own", "query": "SELECT * FROM own"})).refused(422, "refused", &["reads itself"]);
}

/// SQL finds a parameter in any case, so that a value under another case of its name would pass by its checks.
#[test]
fn a_parameter_is_sent_as_it_is_declared() {
    let server = Server::start();
    let mut other = request("b", now(), "/auth");
    other["project"] = json!("p2");
    server.send(EDGE, &json!([request("a", now(), "/rest"), other]));
    let post = |body: Value| {
        server.save(&body);
    };
    post(json!({
        "name": "narrow", "sandboxable": true,
        "query": format!("WITH t AS (SELECT id FROM `{EDGE}` WHERE project = @Project) SELECT id FROM t"),
        "parameters": [{"name": "project", "required": true, "enum": ["p1"]}],
    }));
    post(json!({
        "name": "around", "sandboxable": true,
        "query": "WITH u AS (SELECT id FROM narrow WHERE @PROJECT != '') SELECT id FROM u",
        "parameters": [{"name": "PROJECT", "required": true, "enum": ["p1"]}],
    }));
    for (endpoint, name, table) in [("narrow", "project", "t"), ("around", "PROJECT", "u")] {
        let sql = format!("SELECT id FROM {table} -- @project @Project @PROJECT");
        assert_eq!(server.query(endpoint, &[(name, "p1"), ("sql", &sql)]).ids(), ["a"]);
        for other in ["project", "Project", "PROJECT"].into_iter().filter(|other| *other != name) {
            let sent = [(name, "p1"), (other, "p2"), ("sql", &sql)];
            server.query(endpoint, &sent).refused(
                400,
                "invalid_parameter",
                &[other, &format!("did you mean '{name}'?")],
            );
            server.query(endpoint, &sent[1..]).refused(400, "invalid_parameter", &[other]);
        }
    }
}

#[test]
fn a_renamed_source_breaks_no_endpoint() {
    let server = Server::start();
    let post = |path: &str, body: Value| server.manage("POST", path, &body);
    let source = post("/api/sources", json!({"name": "shop"})).is(201);
    let id = source.body["id"].as_str().unwrap().to_owned();
    server.send("shop", &json!([{"id": "1"}]));
    assert_eq!(post("/api/endpoints", json!({"name": "sales", "query": "SELECT id FROM shop"})).status, 201);
    let renamed = server.manage("PATCH", &format!("/api/sources/{id}"), &json!({"name": "store"}));
    assert_eq!((renamed.status, &renamed.body["name"]), (200, &json!("store")), "{}", renamed.body);
    server.send("store", &json!([{"id": "2"}]));
    assert_eq!(tidegate_tests::set(server.query("sales", &[]).ids()).len(), 2);
    // Another source that takes the old name is not read instead, and settings can still be changed.
    assert_eq!(post("/api/sources", json!({"name": "shop"})).status, 201);
    server.send("shop", &json!([{"id": "3"}]));
    server.manage("PATCH", "/api/endpoints/sales", &json!({"max_limit": 500})).is(200);
    assert_eq!(tidegate_tests::set(server.query("sales", &[]).ids()).len(), 2);
    // A new query means what the names mean now.
    server.manage("PATCH", "/api/endpoints/sales", &json!({"query": "SELECT id FROM  shop"})).is(200);
    assert_eq!(server.query("sales", &[]).ids(), ["3"]);
}

#[test]
fn sources_tell_what_they_hold() {
    let server = Server::start();
    let time = now();
    server.send(EDGE, &json!([request("a", time, "/rest"), request("b", time + 1, "/auth")]));
    let shown = server.manage("GET", &format!("/api/sources/{EDGE}"), &Value::Null);
    assert_eq!((&shown.body["rows"], &shown.body["name"]), (&json!(2), &json!(EDGE)), "{}", shown.body);
    let schema = server.manage("GET", &format!("/api/sources/{EDGE}/schema"), &Value::Null);
    assert_eq!(schema.body["metadata.request.path"], json!("STRING"), "{}", schema.body);
    assert_eq!(schema.body["metadata.response.status_code"], json!("INT64"), "{}", schema.body);
    assert_eq!(schema.body["timestamp"], json!("TIMESTAMP"), "{}", schema.body);
    let rates = server.manage("GET", &format!("/api/sources/{EDGE}/fill-rates"), &Value::Null);
    assert_eq!((&rates.body["rows"], &rates.body["counted_rows"]), (&json!(2), &json!(2)), "{}", rates.body);
    let (path, none) = (&rates.body["fields"]["metadata.request.path"], &rates.body["fields"]["metadata.nothing"]);
    assert_eq!((path, none), (&json!(2), &Value::Null), "{}", rates.body);
    let recent = server.manage("GET", &format!("/api/sources/{EDGE}/recent?limit=1"), &Value::Null);
    assert_eq!(recent.ids(), ["b"]);
    server.manage("GET", &format!("/api/sources/{EDGE}/recent?limit=x"), &Value::Null).refused(
        400,
        "invalid_parameter",
        &["1000"],
    );
    server.manage("GET", "/api/sources/cloudflare.log.prod", &Value::Null).refused(
        404,
        "not_found",
        &["did you mean cloudflare.logs.prod?"],
    );
}

#[test]
fn sources_are_made_kept_and_deleted() {
    let server = Server::start();
    let wrong = server.manage("POST", "/api/sources", &json!({"name": 5, "retention_days": 100_000, "retention": 1}));
    wrong.refused(422, "refused", &["name must be a text", "at most 36500", "did you mean retention_days?"]);
    server.manage("POST", "/api/sources", &json!({"name": EDGE})).refused(422, "refused", &["is taken"]);
    let made = server.manage("POST", "/api/sources", &json!({"name": "shop", "retention_days": 7}));
    assert_eq!((made.status, &made.body["retention_days"]), (201, &json!(7)), "{}", made.body);
    let path = "/api/sources/shop";
    let forever = server.manage("PATCH", path, &json!({"retention_days": 0, "retention_bytes": 1_000_000}));
    assert_eq!((&forever.body["retention_days"], &forever.body["retention_bytes"]), (&json!(0), &json!(1_000_000)));
    assert_eq!(forever.body["effective_retention_days"], Value::Null);
    let back = server.manage("PUT", path, &json!({"retention_days": null}));
    assert_eq!((&back.body["retention_days"], &back.body["effective_retention_days"]), (&Value::Null, &json!(90)));
    assert_eq!(
        server.manage("POST", "/api/endpoints", &json!({"name": "s", "query": "SELECT id FROM shop"})).status,
        201
    );
    server.manage("DELETE", path, &Value::Null).refused(422, "refused", &["is read by s"]);
    server.manage("DELETE", "/api/endpoints/s", &Value::Null).is(204);
    server.manage("DELETE", path, &Value::Null).is(204);
    server.manage("GET", path, &Value::Null).refused(404, "not_found", &["shop"]);
}

#[test]
fn an_endpoint_that_others_read_is_not_deleted_and_nothing_takes_its_place() {
    let server = Server::start();
    let post = |path: &str, body: Value| server.manage("POST", path, &body);
    let inner = json!({"name": "inner", "query": "SELECT 'mine' AS owner WHERE 'x' = @project"});
    assert_eq!(post("/api/endpoints", inner).status, 201);
    assert_eq!(post("/api/endpoints", json!({"name": "outer", "query": "SELECT owner FROM inner"})).status, 201);
    server.manage("DELETE", "/api/endpoints/inner", &Value::Null).refused(422, "refused", &["is read by outer"]);
    // A source of that name would be read without the endpoint's filter.
    post("/api/sources", json!({"name": "inner"})).refused(422, "refused", &["there is an endpoint inner"]);
    post("/api/endpoints", json!({"name": EDGE, "query": "SELECT 1 AS n"})).refused(
        422,
        "refused",
        &["there is a source"],
    );
    for name in ["a`b", "a\\b", "8f0e8f3e-0000-4000-8000-000000000000"] {
        let refused = post("/api/sources", json!({"name": name}));
        assert_eq!((refused.status, fields(&refused)), (422, vec!["name".to_owned()]), "{name}");
    }
}

#[test]
fn a_change_that_changes_nothing_is_no_version_and_old_parameters_go() {
    let server = Server::start();
    let body = json!({"name": "mine", "query": "SELECT @a AS a, @b AS b"});
    let saved = server.manage("POST", "/api/endpoints", &body);
    assert_eq!(saved.body["parameters"].as_array().unwrap().len(), 2);
    for same in [json!({}), json!({"query": body["query"]}), saved.body.clone()] {
        let answer = server.manage("PATCH", "/api/endpoints/mine", &same);
        assert_eq!((answer.status, &answer.body["version"]), (200, &json!(1)), "{}", answer.body);
    }
    let changed = server.manage("PATCH", "/api/endpoints/mine", &json!({"query": "SELECT @b AS b"}));
    let names: Vec<&Value> = changed.body["parameters"].as_array().unwrap().iter().map(|own| &own["name"]).collect();
    assert_eq!((names, &changed.body["version"]), (vec![&json!("b")], &json!(2)));
}

#[test]
fn who_deletes_is_not_overruled_by_who_was_changing() {
    let server = Server::start();
    let saved = server.manage("POST", "/api/endpoints", &json!({"name": "mine", "query": "SELECT 0 AS n"}));
    let path = format!("/api/endpoints/{}", saved.body["id"].as_str().unwrap());
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (server, path) = (&server, &path);
                scope.spawn(move || {
                    let change = |n: u64| json!({"query": format!("SELECT {n} AS n")});
                    (0..20).map(|n| server.manage("PUT", path, &change(writer * 100 + n)).status).collect::<Vec<_>>()
                })
            })
            .collect();
        std::thread::sleep(std::time::Duration::from_millis(300));
        server.manage("DELETE", &path, &Value::Null).is(204);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [200, 404, 409].contains(status)), "{statuses:?}");
    server.manage("GET", &path, &Value::Null).refused(404, "not_found", &[]);
    server.query("mine", &[]).refused(404, "not_found", &[]);
}

#[test]
fn names_that_requests_have_for_something_else_are_refused() {
    let server = Server::start();
    let query = format!("SELECT id FROM `{EDGE}`");
    let refused = |body: Value, field: &str, words: &str| {
        let answer = server.manage("POST", "/api/endpoints", &body);
        answer.refused(422, "refused", &[words]);
        assert_eq!(answer.body["error"]["errors"][0]["location"], field, "{}", answer.body);
    };
    refused(json!({"name": "query", "query": query}), "name", "/api/endpoints/query/");
    // Declared, or only used.
    refused(json!({"name": "a", "query": query, "parameters": [{"name": "lql"}]}), "parameters", "ad-hoc");
    refused(json!({"name": "a", "query": format!("{query} WHERE id = @sql")}), "parameters", "ad-hoc");
    let twice = json!([{"name": "project"}, {"name": "Project"}]);
    refused(json!({"name": "a", "query": query, "parameters": twice}), "parameters", "declared twice");
    let unit = json!([{"name": "unit", "enum": ["hour", "day"], "default": "week"}]);
    refused(json!({"name": "a", "query": query, "parameters": unit}), "parameters", "'week'; allowed are hour, day");
    // One that is used in another spelling than declared is the same one.
    let own =
        json!({"name": "a", "query": format!("{query} WHERE project = @Project"), "parameters": [{"name": "project"}]});
    let answer = server.manage("POST", "/api/endpoints", &own);
    assert_eq!(answer.body["parameters"].as_array().unwrap().len(), 1, "{}", answer.body);
}

/// A misspelt column is told on save where there are logs that could have had it, however far it is from theirs.
#[test]
fn a_column_that_no_log_has_had_is_told_on_save() {
    let server = Server::start();
    let save = |name: &str, query: &str| {
        let answer = server.save(&json!({"name": name, "query": query}));
        answer.body["warnings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|told| told.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let query = format!(
        "SELECT nosuch, r.url, r.nothing_like_it FROM `{EDGE}` AS t, UNNEST(t.metadata) AS m, UNNEST(m.request) AS r"
    );
    assert_eq!(save("early", &query), Vec::<String>::new(), "no log is there so far");
    server.send(EDGE, &request("1", now(), "/x"));
    let told = save("late", &query);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("no log has had nosuch so far"), "{told:?}");
    assert!(told[1].contains("no log has had nothing_like_it so far"), "{told:?}");
    let told = save("near", &query.replace("r.nothing_like_it", "r.ulr"));
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(save("right", &format!("SELECT id, project FROM `{EDGE}`")), Vec::<String>::new());
}
