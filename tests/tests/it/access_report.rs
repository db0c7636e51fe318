//! Who reads what: the report says what requests are really answered, and changes tell what they widen.

use std::process::Output;

use serde_json::{Value, json};
use tidegate_tests::{PUBLIC, Server, folder, now};

use crate::components::{guest, pack, put};

pub(super) const APP: &str = "app.users";

/// A server with a source of two tenants and one that says nothing, and endpoints over them.
pub(super) fn scene() -> Server {
    let server = Server::start();
    for source in [
        json!({"name": APP, "tenant": {"project": "project"}}),
        json!({"name": "regions", "tenant": "shared"}),
        json!({"name": "members"}),
    ] {
        server.manage("POST", "/api/sources", &source).is(201);
    }
    let row = |id: &str, project: &str| json!({"id": id, "project": project, "event_message": "x", "mail": format!("{id}@example.test"), "timestamp": now()});
    for source in [APP, "regions", "members"] {
        server.send(source, &json!([row("1", "abc"), row("2", "xyz"), row("3", "abc")]));
    }
    save(&server, "users", &format!("WITH u AS (SELECT id, mail FROM `{APP}`) SELECT id FROM u"), true);
    save(&server, "regions.all", "WITH r AS (SELECT id FROM `regions`) SELECT COUNT(*) AS n FROM r", false);
    save(&server, "team.list", &format!("SELECT m.id FROM members AS m JOIN `{APP}` AS u ON m.id = u.id"), false);
    server
}

pub(super) fn save(server: &Server, name: &str, query: &str, sandboxable: bool) -> Value {
    let definition = json!({"name": name, "query": query, "sandboxable": sandboxable});
    let answer = server.save(&definition);
    answer.body
}

pub(super) fn make(server: &Server, token: &Value) -> (String, String, Value) {
    let answer = server.manage("POST", "/api/access-tokens", token).is(201);
    let text = |name: &str| answer.body[name].as_str().unwrap().to_owned();
    (text("id"), text("token"), answer.body["warnings"].clone())
}

pub(super) fn tenant(server: &Server, project: &str) -> (String, String, Value) {
    make(server, &json!({"scopes": "query", "pinned": {"project": project}}))
}

pub(super) fn report(server: &Server, id: &str) -> Value {
    let answer = server.manage("GET", &format!("/api/access-tokens/{id}/access"), &Value::Null).is(200);
    answer.body
}

pub(super) fn endpoint<'a>(report: &'a Value, name: &str) -> &'a Value {
    let found = report["endpoints"].as_array().unwrap().iter().find(|endpoint| endpoint["endpoint"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// What a table of an endpoint reads: source, rows and columns, as one text each.
pub(super) fn reads(report: &Value, name: &str, table: &str) -> Vec<String> {
    let tables = endpoint(report, name)["tables"].as_array().unwrap();
    let table =
        tables.iter().find(|found| found["table"] == table).unwrap_or_else(|| panic!("no {table} in {tables:?}"));
    let text = |source: &Value| {
        format!(
            "{} | {} | {}",
            source["source"].as_str().unwrap_or("-"),
            source["rows"].as_str().unwrap(),
            source["columns"]
        )
    };
    table["sources"].as_array().unwrap().iter().map(text).collect()
}

pub(super) fn run(server: &Server, arguments: &[&str]) -> Output {
    server.client(arguments).output().unwrap()
}

pub(super) fn does(server: &Server, arguments: &[&str]) -> String {
    let out = run(server, arguments);
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn a_report_says_what_requests_are_answered() {
    let server = scene();
    let (id, token, _) = tenant(&server, "abc");
    let told = report(&server, &id);
    assert_eq!(reads(&told, "users", "u"), [r#"app.users | project = 'abc' | ["id","mail"]"#]);
    assert_eq!(reads(&told, "users", "(body)"), [r#"app.users | project = 'abc' | ["id"]"#]);
    assert_eq!(server.query_as(&token, "users", &[]).rows().len(), 2);
    assert_eq!(endpoint(&told, "users")["adhoc"], "tables");
    assert_eq!(server.query_as(&token, "users", &[("sql", "SELECT mail FROM u")]).rows().len(), 2);
    // Rows that are only counted are read, too.
    assert_eq!(reads(&told, "regions.all", "(body)"), ["regions | ALL (shared) | []"]);
    assert_eq!(server.query_as(&token, "regions.all", &[]).rows()[0]["n"], 3);
    assert_eq!(endpoint(&told, "regions.all")["adhoc"], "nothing");
    server.query_as(&token, "regions.all", &[("sql", "SELECT id FROM r")]).refused(403, "forbidden", &["sandbox"]);
    assert_eq!(
        reads(&told, "team.list", "(body)"),
        [r#"app.users | REFUSED | ["id"]"#, r#"members | REFUSED | ["id"]"#],
        "one source refuses the statement"
    );
    let members = &endpoint(&told, "team.list")["tables"][0]["sources"][1];
    assert!(members["reason"].as_str().unwrap().contains("mark it shared"), "{members}");
    server.query_as(&token, "team.list", &[]).refused(403, "forbidden", &["tenant"]);
    // The shipped endpoints, their parameter and their limits.
    let edge = reads(&told, "logs.all", "edge_logs");
    assert!(edge[0].starts_with("cloudflare.logs.prod | project = 'abc' | "), "{edge:?}");
    assert!(endpoint(&told, "logs.all")["tables"][0]["parameters"].to_string().contains("project"));
    assert_eq!(endpoint(&told, "users")["limits"]["rows"], "1000");
    assert_eq!((&told["token"]["pinned"], &told["private"]), (&json!({"project": "abc"}), &json!(false)));
    let used = report(&server, &id)["token"]["last_used_at"].clone();
    assert!(told["token"]["last_used_at"].is_null() && used.is_string(), "{used}");
    assert_eq!(told["writes"], json!({"all": false, "sources": []}));
}

#[test]
fn a_name_that_binds_nothing_refuses_whole_endpoints() {
    let server = scene();
    let (id, token, _) = make(&server, &json!({"scopes": "query:endpoint:users", "pinned": {"colour": "red"}}));
    let told = report(&server, &id);
    let refused = endpoint(&told, "users")["refused"].as_str().unwrap();
    let answer = server.query_as(&token, "users", &[]);
    answer.refused(403, "forbidden", &["'colour'"]);
    assert!(answer.body.to_string().contains(&refused.split(" (").next().unwrap().replace('"', "\\\"")), "{refused}");
    assert_eq!(told["endpoints"].as_array().unwrap().len(), 1, "its scope is one endpoint");
}

#[test]
fn a_changed_tenant_key_changes_the_report_and_the_answer_together() {
    let server = scene();
    let (id, token, _) = tenant(&server, "abc");
    server.query_as(&token, "team.list", &[]).refused(403, "forbidden", &[]);
    let told = does(&server, &["source", "tenant", "members", "project=project"]);
    assert!(told.contains("members: tenant keys project=project"), "{told}");
    assert!(
        told.contains("1 token reads more than before: app.users through team.list, members through team.list; each was refused, now project = own"),
        "{told}"
    );
    assert!(
        server.log().contains("members through team.list; each was refused, now project = own"),
        "{}",
        server.log()
    );
    assert_eq!(reads(&report(&server, &id), "team.list", "(body)")[1], r#"members | project = 'abc' | ["id"]"#);
    assert_eq!(server.query_as(&token, "team.list", &[]).rows().len(), 2);
    let shared = server.manage("PATCH", &format!("/api/sources/{APP}"), &json!({"tenant": "shared", "widens": true}));
    let told = shared.body["warnings"].to_string();
    assert!(
        told.contains("app.users through team.list, app.users through users; each was project = own, now ALL (shared)"),
        "{told}"
    );
    assert_eq!(reads(&report(&server, &id), "users", "u")[0], r#"app.users | ALL (shared) | ["id","mail"]"#);
    assert_eq!(server.query_as(&token, "users", &[]).rows().len(), 3);
    // Less is no news.
    let undeclared = server.manage("PATCH", &format!("/api/sources/{APP}"), &json!({"tenant": null}));
    assert_eq!(undeclared.body["warnings"], json!([]), "{}", undeclared.body);
    assert!(reads(&report(&server, &id), "users", "u")[0].contains("REFUSED"));
    server.query_as(&token, "users", &[]).refused(403, "forbidden", &[]);
    assert!(does(&server, &["source", "list"]).contains("app.users"));
    assert!(does(&server, &["source", "show", APP]).contains("nobody says whose its rows are"));
    assert!(!run(&server, &["source", "tenant", APP, "project"]).status.success());
}

#[test]
fn tokens_of_a_kind_are_one_class() {
    let server = scene();
    for project in ["tenant-one", "tenant-two", "third"] {
        tenant(&server, project);
    }
    make(&server, &json!({"scopes": "ingest:source:members"}));
    let all = server.read("/api/access");
    let classes = all["classes"].as_array().unwrap();
    let class = classes.iter().find(|class| class["pinned"] == json!(["project"])).unwrap();
    assert_eq!((&class["tokens"], &class["scopes"]), (&json!(3), &json!("query")));
    assert_eq!(reads(class, "users", "u"), [r#"app.users | project = own | ["id","mail"]"#]);
    let ingest = classes.iter().find(|class| class["scopes"] == "ingest:source:members").unwrap();
    assert_eq!(ingest["writes"], json!({"all": false, "sources": ["members"]}));
    assert_eq!(ingest["endpoints"], json!([]));
    let text = all.to_string();
    assert!(!text.contains("tenant-one") && !text.contains("last_used"), "{text}");
    assert_eq!(all, server.read("/api/access"), "it can be compared");
    // Who reads a source.
    let by_source = server.read("/api/access?source=members");
    let class =
        by_source["classes"].as_array().unwrap().iter().find(|class| class["pinned"] == json!(["project"])).unwrap();
    assert_eq!(reads(class, "team.list", "(body)"), [r#"members | REFUSED | ["id"]"#]);
    assert_eq!(class["endpoints"].as_array().unwrap().len(), 1);
    assert!(by_source["classes"].as_array().unwrap().iter().any(|class| class["private"] == true));
    server.manage("GET", "/api/access?source=nowhere", &Value::Null).refused(404, "not_found", &["nowhere"]);
    let table = does(&server, &["access", "--all", "--source", APP]);
    assert!(table.contains("3 tokens with the scopes query; pins project"), "{table}");
    let line = table.lines().find(|line| line.contains("project = own")).unwrap();
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["users", "u", APP, "project = own", "id, mail"], "{table}");
    let json: Value = serde_json::from_str(&does(&server, &["access", "--all", "--json"])).unwrap();
    assert_eq!(json, all);
}

#[test]
fn a_token_learns_what_it_reads_and_not_what_it_is_refused() {
    let server = scene();
    let (id, token, _) = tenant(&server, "abc");
    let own = server.call("GET", "/api/access-tokens/current/access", &[("x-api-key", &token)], b"").is(200);
    assert_eq!(reads(&own.body, "users", "u"), [r#"app.users | project = 'abc' | ["id","mail"]"#]);
    let refused = reads(&own.body, "team.list", "(body)");
    assert_eq!(refused, ["- | REFUSED | null", "- | REFUSED | null"]);
    assert!(!own.body.to_string().contains("members"), "{}", own.body);
    for path in [format!("/api/access-tokens/{id}/access"), "/api/access".to_owned()] {
        server.call("GET", &path, &[("x-api-key", &token)], b"").refused(403, "forbidden", &["private"]);
    }
    let ingest = server.call("GET", "/api/access-tokens/current/access", &[("x-api-key", PUBLIC)], b"");
    assert_eq!((&ingest.body["endpoints"], &ingest.body["writes"]["all"]), (&json!([]), &json!(true)));
    server.manage("GET", "/api/access-tokens/nobody/access", &Value::Null).refused(404, "not_found", &["nobody"]);
    server.manage("DELETE", &format!("/api/access-tokens/{id}"), &Value::Null).is(204);
    server.manage("GET", &format!("/api/access-tokens/{id}/access"), &Value::Null).refused(404, "not_found", &[]);
    let table = does(&server, &["access", "current"]);
    assert!(table.contains("may manage everything"), "{table}");
}

#[test]
fn a_new_token_says_what_it_reads_unless_another_of_its_kind_does() {
    let server = scene();
    let (_, _, warned) = tenant(&server, "abc");
    let lines: Vec<&str> = warned.as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let own = "the first token of its kind reads project = own: app.users through users, cloudflare.logs.prod through logs.all, ";
    assert!(lines.iter().any(|line| line.starts_with(own) && line.ends_with(" more")), "{lines:?}");
    assert!(
        lines.contains(&"the first token of its kind reads ALL (shared): regions through regions.all"),
        "{lines:?}"
    );
    // Of the sources of the first start, some have the project in another field.
    assert_eq!(lines.len(), 4, "a line for each kind of rows: {lines:?}");
    assert!(!warned.to_string().contains("team.list"), "it is refused: {lines:?}");
    assert_eq!(tenant(&server, "xyz").2, json!([]));
}

#[test]
fn a_change_that_widens_is_told_and_can_be_refused() {
    let server = scene();
    for project in ["abc", "xyz"] {
        tenant(&server, project);
    }
    let path = "/api/endpoints/regions.all";
    let wider = json!({"query": format!("WITH r AS (SELECT id FROM `regions`) SELECT r.id, u.mail FROM r JOIN `{APP}` AS u ON u.id = r.id")});
    let news = "2 tokens read more than before: app.users through regions.all, was not read, now project = own";
    let checked = server.manage("POST", &format!("{path}/check"), &wider);
    assert!(checked.body["warnings"].to_string().contains(news), "{}", checked.body);
    let refused = server.manage("PATCH", &format!("{path}?refuse_wider=true"), &wider);
    refused.refused(422, "refused", &["nothing is saved"]);
    assert!(refused.body["error"]["errors"].to_string().contains(news), "{}", refused.body);
    server.manage("POST", &format!("{path}/check?refuse_wider=true"), &wider).refused(422, "refused", &[]);
    assert_eq!(server.read(path)["version"], 1);
    let saved = server.manage("PATCH", path, &wider);
    assert_eq!((saved.status, &saved.body["version"]), (200, &json!(2)));
    assert!(saved.body["warnings"].to_string().contains(news), "{}", saved.body);
    assert!(!server.read(path)["warnings"].to_string().contains("more than before"), "it is no fault that stays");
    // What is not wider is saved.
    let narrower = json!({"query": "WITH r AS (SELECT id FROM `regions`) SELECT id FROM r"});
    let saved = server.manage("PATCH", &format!("{path}?refuse_wider=true"), &narrower);
    assert_eq!((saved.status, &saved.body["warnings"]), (200, &json!([])), "{}", saved.body);
    // One more column, and ad-hoc text over granted tables.
    let column = json!({"query": format!("WITH u AS (SELECT id, mail FROM `{APP}`) SELECT id, mail FROM u"), "sandboxable": false});
    assert_eq!(
        server.manage("PATCH", "/api/endpoints/users?refuse_wider=true", &column).status,
        200,
        "text could read it before"
    );
    server.manage("PATCH", "/api/endpoints/users", &json!({"query": format!("WITH u AS (SELECT id, mail, event_message FROM `{APP}`) SELECT id, mail FROM u")})).is(200);
    let adhoc = server.manage("PATCH", "/api/endpoints/users", &json!({"sandboxable": true}));
    assert!(
        adhoc.body["warnings"].to_string().contains("app.users through users, also the column event_message"),
        "{}",
        adhoc.body
    );
    server.manage("PATCH", &format!("{path}?refuse_wider=maybe"), &narrower).refused(
        400,
        "invalid_parameter",
        &["true or false"],
    );
}

#[test]
fn readers_of_a_changed_endpoint_are_compared_too() {
    let server = scene();
    save(&server, "above", "SELECT * FROM users", false);
    make(&server, &json!({"scopes": "query:endpoint:above", "pinned": {"project": "abc"}}));
    let wider = json!({"query": format!("WITH u AS (SELECT id, mail FROM `{APP}`) SELECT id, mail FROM u")});
    let saved = server.manage("PATCH", "/api/endpoints/users?refuse_wider=true", &wider);
    saved.refused(422, "refused", &[]);
    assert!(
        saved
            .body
            .to_string()
            .contains("1 token reads more than before: app.users through above, also the column mail"),
        "{}",
        saved.body
    );
}

#[test]
fn a_push_that_widens_ends_with_an_error() {
    let server = scene();
    tenant(&server, "abc");
    let own = folder();
    let home = own.path().join("counts");
    let write = |query: &str| {
        std::fs::create_dir_all(&home).unwrap();
        std::fs::write(home.join("endpoint.toml"), "name = \"counts\"\n").unwrap();
        std::fs::write(home.join("query.sql"), query).unwrap();
    };
    let folder = home.to_str().unwrap();
    write("SELECT COUNT(*) AS n FROM regions");
    let out = run(&server, &["push", folder, "--refuse-wider"]);
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(
        told.contains("1 token reads more than before: regions through counts, was not read, now ALL (shared)"),
        "{told}"
    );
    server.manage("GET", "/api/endpoints/counts", &Value::Null).is(404);
    assert_eq!(run(&server, &["push", folder, "--refuse-wider", "--dry-run"]).status.code(), Some(1));
    assert_eq!(run(&server, &["check", folder, "--refuse-wider"]).status.code(), Some(1));
    let told = does(&server, &["push", folder]);
    assert!(told.contains("1 token reads more than before"), "{told}");
    write("SELECT COUNT(*) + 1 AS n FROM regions");
    assert!(does(&server, &["check", folder, "--refuse-wider"]).contains("no token of"));
    assert!(does(&server, &["push", folder, "--refuse-wider"]).contains("version 2"));
}

/// A component's fixed statements, and its code, which may write text over the granted tables.
#[test]
fn the_statements_of_code_are_reported() {
    let server = scene();
    let folder = folder();
    let packed = folder.path().join("incident-context.wasm");
    pack("incident-context", &guest("incident-context.wasm"), &packed);
    assert_eq!(put(&server, "incident.context", &std::fs::read(&packed).unwrap()).status, 201);
    let (id, ..) = tenant(&server, "abc");
    let told = report(&server, &id);
    let failures = reads(&told, "incident.context", "failures");
    assert!(failures[0].starts_with("cloudflare.logs.prod | project = 'abc' | "), "{failures:?}");
    let database = reads(&told, "incident.context", "database-errors");
    assert!(database[0].starts_with("postgres.logs | project = 'abc' | "), "{database:?}");
    let tables = endpoint(&told, "incident.context")["tables"].as_array().unwrap();
    assert!(tables.iter().all(|table| table["read_by"] == "code"), "{tables:?}");
}
