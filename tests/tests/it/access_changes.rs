//! Changes that open rows: they are told, and what somebody has said of the tenants of a source is not loosened by a slip.

use serde_json::{Value, json};
use tidegate_tests::{Answer, PRIVATE, Server, binary, folder};

use super::access_report::{APP, does, make, run, save, scene, tenant};

fn says(server: &Server, source: &str, body: &Value) -> Answer {
    server.manage("PATCH", &format!("/api/sources/{source}"), body)
}

fn tenancy(server: &Server, source: &str) -> Value {
    server.read(&format!("/api/sources/{source}"))["tenant"].clone()
}

#[test]
fn a_declaration_is_loosened_only_where_that_is_meant() {
    let server = scene();
    let (_, token, _) = tenant(&server, "abc");
    let shared = json!({"tenant": "shared"});
    let refused = says(&server, APP, &shared);
    refused.refused(409, "conflict", &["app.users", "widens"]);
    let told = "1 token reads more than before: app.users through users, was project = own, now ALL (shared)";
    assert!(refused.body["error"]["errors"].to_string().contains(told), "{}", refused.body);
    assert_eq!(tenancy(&server, APP), json!({"project": "project"}), "nothing is changed");
    assert_eq!(server.query_as(&token, "users", &[]).rows().len(), 2);
    // A key in another field is looked at by somebody, too, and what is refused with it is not changed either.
    let moved = json!({"tenant": {"project": "metadata.project"}, "retention_days": 3});
    says(&server, APP, &moved).refused(409, "conflict", &[]);
    let out = run(&server, &["source", "tenant", APP, "shared"]);
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success() && text.contains(told) && text.contains("--widens"), "{text}");
    let said = does(&server, &["source", "tenant", APP, "shared", "--widens"]);
    assert!(said.contains("shared by all tenants") && said.contains(told), "{said}");
    assert_eq!(server.query_as(&token, "users", &[]).rows().len(), 3);
    // Narrower needs no word, and neither does another key beside the old one, nor nothing at all.
    for tenant in [json!({"project": "project"}), json!({"project": "project", "team": "team"}), Value::Null] {
        assert_eq!(says(&server, APP, &json!({"tenant": tenant})).status, 200, "{tenant}");
    }
    // What is said first is said by hand: it is told and not refused.
    says(&server, "members", &shared).is(200);
    says(&server, "members", &json!({"tenant": "shared", "widens": 1})).refused(422, "refused", &["widens"]);
}

/// Nobody reads it now, and a token that is made tomorrow would.
#[test]
fn a_key_that_goes_is_refused_without_tokens_too() {
    let server = scene();
    says(&server, APP, &json!({"tenant": "shared"})).refused(409, "conflict", &["nothing is changed"]);
    assert_eq!(says(&server, APP, &json!({"tenant": "shared", "widens": true})).status, 200);
}

#[test]
fn a_source_that_goes_takes_its_key_with_it() {
    let server = scene();
    let teams = json!({"name": "teams", "tenant": {"team": "team"}});
    server.manage("POST", "/api/sources", &teams).is(201);
    save(&server, "of.team", &format!("WITH u AS (SELECT id FROM `{APP}`) SELECT id FROM u WHERE @team = 't1'"), false);
    let (_, token, _) = make(&server, &json!({"scopes": "query", "pinned": {"project": "abc", "team": "t1"}}));
    server.query_as(&token, "of.team", &[]).refused(403, "forbidden", &["team"]);
    let refused = server.manage("DELETE", "/api/sources/teams", &Value::Null);
    refused.refused(409, "conflict", &["teams", "widens"]);
    let told = "1 token reads more than before: app.users through of.team, was refused, now project = own";
    assert!(refused.body["error"]["errors"].to_string().contains(told), "{}", refused.body);
    server.manage("GET", "/api/sources/teams", &Value::Null).is(200);
    assert!(!run(&server, &["source", "delete", "teams"]).status.success());
    assert!(does(&server, &["source", "delete", "teams", "--widens"]).contains("teams: deleted"));
    // The name is a key of no source now: it is a parameter, and says nothing about rows.
    assert_eq!(server.query_as(&token, "of.team", &[]).rows().len(), 2);
    // One that is made again under the name is another source, which nothing reads. But its key is one again, so an endpoint
    // without a parameter of that name does not refuse the token any more.
    let again = server.manage("POST", "/api/sources", &teams).is(201);
    let told = "1 token reads more than before: regions through regions.all, was refused, now ALL (shared)";
    assert_eq!(again.body["warnings"], json!([told]), "{}", again.body);
}

#[test]
fn a_push_that_is_refused_makes_no_source() {
    let server = scene();
    make(&server, &json!({"scopes": "query"}));
    let own = folder();
    let home = own.path().join("orders");
    std::fs::create_dir_all(&home).unwrap();
    std::fs::write(home.join("endpoint.toml"), "name = \"orders\"\n").unwrap();
    std::fs::write(home.join("query.sql"), "SELECT t.id FROM `shop.orders` AS t").unwrap();
    let built = own.path().join("orders.wasm");
    does(&server, &["build", home.to_str().unwrap(), "-o", built.to_str().unwrap()]);
    let component = std::fs::read(built).unwrap();
    let put = |how: &str| {
        let path = format!("/api/endpoints/orders/component{how}");
        server.call(
            if how.starts_with("/check") { "POST" } else { "PUT" },
            &path,
            &[("x-api-key", PRIVATE)],
            &component,
        )
    };
    let count = || server.read("/api/sources").as_array().unwrap().len();
    let before = count();
    for how in ["?make_sources=true&refuse_wider=true", "/check?make_sources=true&refuse_wider=true"] {
        let refused = put(how);
        refused.refused(422, "refused", &["nothing is saved"]);
        let told = "1 token reads more than before: shop.orders through orders, was not read, now ALL";
        assert!(refused.body["error"]["errors"].to_string().contains(told), "{}", refused.body);
        assert_eq!(count(), before, "{how}");
    }
    let checked = put("/check?make_sources=true");
    assert!(checked.body["warnings"].to_string().contains("shop.orders through orders"), "{}", checked.body);
    assert_eq!(count(), before);
    let saved = put("?make_sources=true");
    assert_eq!((saved.status, &saved.body["made_sources"]), (201, &json!(["shop.orders"])), "{}", saved.body);
}

#[test]
fn a_token_that_is_made_in_the_folder_is_told_by_the_server() {
    let own = folder();
    let data = own.path().join("data");
    let server = Server::start_in(&data);
    let create = |pin: &str| {
        let mut command = std::process::Command::new(binary());
        command.args(["token", "create", "--scopes", "query", "--pin", pin, "--data-dir"]).arg(&data);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let told = create("project=abc");
    assert!(told.contains("No other token has these scopes") && told.contains("tidegate access "), "{told}");
    let line = "the first token of its kind reads project = own: cloudflare.logs.prod through logs.all";
    server.until_logged(line);
    assert!(!create("project=xyz").contains("No other token"), "another of its kind is no news");
}

/// The save of an endpoint that reads what is not there yet, as ever.
#[test]
fn saving_without_made_sources_is_as_before() {
    let server = scene();
    save(&server, "again", &format!("WITH t AS (SELECT id FROM `{APP}`) SELECT id FROM t"), false);
    let missing = json!({"name": "none", "query": "SELECT id FROM nowhere"});
    server.manage("POST", "/api/endpoints", &missing).refused(422, "refused", &["nowhere"]);
}
