//! Readers that are no stored tokens: rules of issuers, alerts, and a tenant as which a query is explained.

use serde_json::{Value, json};
use tidegate_tests::{Server, folder, now, serve, until};

use super::access_report::{APP, does, endpoint, make, reads, run, save, scene, tenant};

fn all(server: &Server, how: &str) -> Value {
    let answer = server.manage("GET", &format!("/api/access{how}"), &Value::Null).is(200);
    answer.body
}

#[test]
fn the_rules_of_issuers_are_readers() {
    let own = folder();
    let config = own.path().join("tidegate.toml");
    let text = "[[issuer]]\nname = \"main\"\nissuer = \"https://id.example.com/\"\nkeys = { file = \"none.json\" }\naudience = \"tidegate\"\n\
                [[issuer.rule]]\nwhen = { \"/roles\" = \"viewer\" }\nscopes = \"query:endpoint:users\"\npin = { project = \"/org/project\" }\n\
                limits = { rows = \"5\" }\n\
                [[issuer.rule]]\nname = \"support\"\nscopes = \"query\"\nredact = true\n";
    std::fs::write(&config, text).unwrap();
    let data = own.path().join("data");
    let start = || {
        let mut command = serve(&data);
        command.arg("--config").arg(&config);
        Server::spawn(command, data.with_extension("log"), true)
    };
    let server = start();
    let users = json!({"name": APP, "tenant": {"project": "project"}});
    server.manage("POST", "/api/sources", &users).is(201);
    server.send(APP, &json!([{"id": "1", "project": "abc", "mail": "a", "timestamp": now()}]));
    save(&server, "users", &format!("WITH u AS (SELECT id, mail FROM `{APP}`) SELECT id FROM u"), false);

    let told = all(&server, "");
    let names: Vec<&str> =
        told["rules"].as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(names, ["main/1", "main/support"]);
    let first = all(&server, "?rule=main/1");
    assert_eq!((&first["classes"], &first["alerts"], &first["rules"][0]), (&json!([]), &json!([]), &told["rules"][0]));
    let rule = &first["rules"][0];
    assert_eq!((&rule["pinned"], &rule["limits"]), (&json!({"project": "/org/project"}), &json!({"rows": "5"})));
    assert_eq!(reads(rule, "users", "(body)"), [r#"app.users | project = own | ["id"]"#]);
    assert_eq!(endpoint(rule, "users")["limits"]["rows"], "5");
    let support = &told["rules"][1];
    assert_eq!(reads(support, "users", "(body)"), [r#"app.users | ALL | ["id"]"#]);
    server.manage("GET", "/api/access?rule=main/supprt", &Value::Null).refused(404, "not_found", &["main/support"]);
    let table = does(&server, &["access", "--rule", "main/1"]);
    assert!(
        table
            .contains("tokens of the rule main/1 with the scopes query:endpoint:users; pins project from /org/project"),
        "{table}"
    );
    assert!(table.lines().any(|line| line.contains("app.users") && line.contains("project = own")), "{table}");
    let of_source = does(&server, &["access", "--rule", "main/support", "--source", APP]);
    assert!(of_source.contains("users") && !of_source.contains("logs.all"), "{of_source}");
    assert!(!run(&server, &["access", "--rule", "main/1", "--all"]).status.success());

    // What a change widens, it widens for them, too.
    let wider = json!({"query": format!("WITH u AS (SELECT id, mail FROM `{APP}`) SELECT id, mail FROM u")});
    let refused = server.manage("PATCH", "/api/endpoints/users?refuse_wider=true", &wider);
    let told = "the rule main/1 and the rule main/support";
    let errors = refused.body["error"]["errors"].to_string();
    assert!(
        errors.contains("the rule main/1, the rule main/support read more than before") || errors.contains(told),
        "{errors}"
    );
    assert!(errors.contains("also the column mail"), "{errors}");

    // Other rules are compared with those of the last start: one that pins nothing, one that masks nothing.
    let told = |server: &Server| -> Vec<String> {
        server.log().lines().filter(|line| line.contains("the rules of issuers")).map(str::to_owned).collect()
    };
    assert_eq!(told(&server), [""; 0]);
    server.stop("-TERM");
    let wider = text.replace("pin = { project = \"/org/project\" }\n", "").replace("redact = true\n", "");
    let wider = wider.replace("\"viewer\"", "[\"viewer\", 7]");
    std::fs::write(&config, wider).unwrap();
    let server = start();
    until("what the rules widen is told", || told(&server).len() == 3);
    let lines = told(&server).join("\n");
    for line in [
        "the rule main/1 reads more than before: app.users through users, was project = own, now ALL",
        "the rule main/1 applies to other tokens than before",
        "the rule main/support masks personal data no more",
    ] {
        assert!(lines.contains(line), "{lines}");
    }
    // The same rules at the next start are no change.
    server.stop("-TERM");
    let server = start();
    all(&server, "?rule=main/1");
    assert_eq!(told(&server).len(), 3, "{}", server.log());
}

#[test]
fn alerts_are_readers() {
    let server = scene();
    let alert = |name: &str, tenant: Value, url: &str| json!({"name": name, "every_minutes": 60, "condition": "rows > 0", "url": url, "paused": true, "tenant": tenant});
    let path = "/api/endpoints/users/alerts";
    let secret = "http://127.0.0.1:9/hooks/secret";
    let made = server.manage("POST", path, &alert("own", json!({"project": "abc"}), secret)).is(201);
    let told = "the receiver of the alert own of users reads more than before: app.users through users, was not read, now project = 'abc'";
    assert!(made.body["warnings"].to_string().contains(told), "{}", made.body);
    let every = server.manage("POST", path, &alert("every", json!({}), secret));
    assert!(every.body["warnings"].to_string().contains("the receiver of the alert every of users reads more than before: app.users through users, was not read, now ALL"), "{}", every.body);

    let report = all(&server, "");
    let alerts = report["alerts"].as_array().unwrap();
    let own = alerts.iter().find(|alert| alert["alert"] == "own").unwrap();
    assert_eq!(
        (&own["endpoint"], &own["receiver"], &own["paused"]),
        (&json!("users"), &json!("http://127.0.0.1:9"), &json!(true))
    );
    assert_eq!(reads(own, "users", "(body)"), [r#"app.users | project = 'abc' | ["id"]"#]);
    assert_eq!(endpoint(own, "users")["adhoc"], "nothing");
    let every = alerts.iter().find(|alert| alert["alert"] == "every").unwrap();
    assert_eq!(reads(every, "users", "(body)"), [r#"app.users | ALL | ["id"]"#]);
    assert!(!report.to_string().contains("secret"), "{report}");
    assert_eq!(all(&server, &format!("?source={APP}"))["alerts"].as_array().unwrap().len(), 2);
    assert_eq!(all(&server, "?source=regions")["alerts"], json!([]));
    let table = does(&server, &["access", "--all", "--source", APP]);
    assert!(table.contains("alert own of users, to http://127.0.0.1:9; paused"), "{table}");
    assert!(table.contains("asks for no tenant, and reads the rows of all"), "{table}");

    // Another tenant, another receiver and other rows are more; another condition is not.
    let change =
        |name: &str, body: Value| server.manage("PATCH", &format!("{path}/{name}"), &body).body["warnings"].to_string();
    assert_eq!(change("own", json!({"condition": "rows > 5"})), "[]");
    let other = change("own", json!({"tenant": {"project": "xyz"}}));
    assert!(other.contains("was project = 'abc', now project = 'xyz'"), "{other}");
    let moved = change("own", json!({"url": "http://127.0.0.1:8/"}));
    assert!(moved.contains("the receiver of the alert own of users reads more than before"), "{moved}");
    let shared = server.manage("PATCH", &format!("/api/sources/{APP}"), &json!({"tenant": "shared"}));
    shared.refused(409, "conflict", &[]);
    assert!(shared.body.to_string().contains("the receiver of the alert own of users reads more than before: app.users through users, was project = 'xyz', now ALL (shared)"), "{}", shared.body);
}

#[test]
fn a_query_is_explained_as_a_tenant_asks_it() {
    let server = scene();
    let explain = |body: &Value| server.manage("POST", "/api/endpoints/users/explain", body);
    let plain = explain(&json!({}));
    assert_eq!((plain.status, plain.body.get("as")), (200, None), "{}", plain.body);
    assert!(plain.body["sources"][0].get("of_tenant").is_none());
    let told = explain(&json!({"as": {"project": "abc"}}));
    assert_eq!((told.status, &told.body["as"]), (200, &json!({"project": "abc"})), "{}", told.body);
    assert_eq!(told.body["sources"][0]["of_tenant"], "project = 'abc'");
    assert!(told.body["scans"].to_string().contains("abc"), "{}", told.body);
    assert_ne!(plain.body["scans"], told.body["scans"]);
    let shared = server.manage("POST", "/api/endpoints/regions.all/explain", &json!({"as": {"project": "abc"}}));
    assert_eq!(shared.body["sources"][0]["of_tenant"], "ALL (shared)", "{}", shared.body);
    // What the tenant is refused is refused.
    let refused = server.manage("POST", "/api/endpoints/team.list/explain", &json!({"as": {"project": "abc"}}));
    refused.refused(403, "forbidden", &["whose its rows are"]);
    let adhoc = server.manage(
        "POST",
        "/api/endpoints/regions.all/explain",
        &json!({"as": {"project": "abc"}, "sql": "SELECT 1"}),
    );
    adhoc.refused(403, "forbidden", &["sandbox"]);
    for wrong in [json!({}), json!({"project": 5}), json!({"project": ""})] {
        explain(&json!({"as": wrong})).refused(400, "invalid_parameter", &["as"]);
    }
    let (_, token, _) = tenant(&server, "abc");
    let asked =
        server.call("POST", "/api/endpoints/users/explain", &[("x-api-key", &token)], br#"{"as": {"project": "xyz"}}"#);
    asked.refused(403, "forbidden", &["private"]);
    let lines = does(&server, &["explain", "users", "--as", "project=abc"]);
    assert!(lines.contains("  of the tenant: project = 'abc'"), "{lines}");
    assert!(!run(&server, &["explain", "users", "--as", "project"]).status.success());
}

/// The classes of tokens are as they were.
#[test]
fn tokens_are_beside_rules_and_alerts() {
    let server = scene();
    make(&server, &json!({"scopes": "query:endpoint:users", "pinned": {"project": "abc"}}));
    let report = all(&server, &format!("?source={APP}"));
    assert_eq!((&report["rules"], &report["alerts"]), (&json!([]), &json!([])));
    assert!(report["classes"].as_array().unwrap().iter().any(|class| class["scopes"] == "query:endpoint:users"));
}
