//! JWTs of an issuer as access tokens, with an issuer on this machine whose keys a test changes.

mod denied;
mod issuer;

use std::process::Command;
use std::time::Duration;

use base64::Engine;
use serde_json::{Value, json};
use tidegate_tests::{EDGE, PRIVATE, Server, binary, folder, now, query_string, serve, until};

use issuer::{Issuer, RULES, Signer, ask, b64, of_project, refused, start};

#[test]
fn claims_become_scopes_pins_and_limits() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = start(&issuer);
    let events: Vec<Value> =
        [("a", "p1"), ("b", "p2"), ("c", "p1"), ("d", "p1")].map(|(id, of)| of_project(id, of)).into();
    server.send(EDGE, &json!(events));
    let token = signer.sign(&issuer.claims(600));
    // The project need not be sent, another one cannot be, and of three rows there are two.
    let answer = ask(&server, &token, &[]);
    assert_eq!(answer.rows().len(), 2);
    assert!(!answer.ids().contains(&"b".to_owned()));
    ask(&server, &token, &[("project", "p2")]).refused(403, "forbidden", &["fixed"]);
    let by_key = server.call("GET", "/api/endpoints/query/logs.all", &[("x-api-key", &token)], b"");
    assert_eq!(by_key.rows().len(), 2);
    // It may do nothing else.
    let bearer = format!("Bearer {token}");
    for (method, path) in
        [("GET", "/api/sources"), ("GET", "/api/endpoints/query/usage.api-counts"), ("GET", "/api/access-tokens")]
    {
        assert_eq!(server.call(method, path, &[("authorization", &bearer)], b"").status, 403, "{path}");
    }
    let sent = server.call("POST", "/api/logs?source_name=cloudflare.logs.prod", &[("authorization", &bearer)], b"{}");
    assert!(matches!(sent.status, 401 | 403), "{}", sent.body);
    // It is told what it may do, and is named by its issuer.
    let current = server.call("GET", "/api/access-tokens/current", &[("authorization", &bearer)], b"").body;
    assert_eq!(current["description"], "main:user-1", "{current}");
    assert_eq!((&current["pinned"], &current["limits"]["rows"]), (&json!({"project": "p1"}), &json!("2")), "{current}");
    assert!(current["expires_at"].is_string() && current["id"].is_null(), "{current}");
    // A missing claim is no missing pin, and a token that no rule matches may do nothing.
    for (change, words) in [
        (json!({"org": {}}), "project"),
        (json!({"org": {"project": ""}}), "project"),
        (json!({"roles": []}), "no rule"),
    ] {
        let mut claims = issuer.claims(600);
        claims.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        ask(&server, &signer.sign(&claims), &[("project", "p1")]).refused(403, "forbidden", &[words]);
    }
    // Who manages is the author of what it saves.
    let mut staff = issuer.claims(600);
    staff["roles"] = json!(["staff"]);
    let staff = format!("Bearer {}", signer.sign(&staff));
    let saved = json!({"name": "mine", "query": "SELECT 1 AS n"}).to_string();
    let headers = [("authorization", staff.as_str()), ("content-type", "application/json")];
    server.call("POST", "/api/endpoints", &headers, saved.as_bytes()).is(201);
    let versions = server.call("GET", "/api/endpoints/mine/versions", &headers, b"").body;
    assert!(versions.to_string().contains("main:user-1"), "{versions}");
    // The log has what stands for the subject, and never the token.
    let log = server.log();
    assert!(
        log.contains("main:") && !log.contains(&token) && !log.contains(token.rsplit('.').next().unwrap()),
        "{log}"
    );
}

#[test]
fn refused_tokens_are_told_one_word() {
    let (issuer, signer, stranger) = (Issuer::start(), Signer::new("k1"), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = start(&issuer);
    let changed = |name: &str, value: Value| {
        let mut claims = issuer.claims(600);
        claims[name] = value;
        signer.sign(&claims)
    };
    refused(&ask(&server, &changed("exp", json!(now() / 1_000_000 - 1)), &[]), "expired");
    refused(&ask(&server, &changed("aud", json!("other")), &[]), "audience");
    refused(&ask(&server, &changed("iss", json!("https://other.example.com")), &[]), "audience");
    refused(&ask(&server, &stranger.sign(&issuer.claims(600)), &[]), "signature");
    refused(&ask(&server, &Signer::new("k9").sign(&issuer.claims(600)), &[]), "key");
    let good = signer.sign(&issuer.claims(600));
    let none = format!("{}.{}.", b64(r#"{"alg":"none","typ":"at+jwt"}"#), good.split('.').nth(1).unwrap());
    refused(&ask(&server, &none, &[]), "key");
    // Not in an address, nor as a password.
    let path = format!("/api/logs?source_name={EDGE}&api_key={good}");
    server.call("POST", &path, &[], b"{}").is(401);
    let basic = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(format!("x:{good}")));
    let answer = server.call("POST", &format!("/api/logs?source_name={EDGE}"), &[("authorization", &basic)], b"{}");
    answer.refused(401, "unauthorized", &["unknown"]);
    // Stored tokens go on.
    server.query("logs.all", &[("project", "p1")]).is(200);
    assert!(!server.log().contains(&good));
}

#[test]
fn keys_are_rotated_and_an_issuer_may_be_down() {
    let (issuer, old, new) = (Issuer::start(), Signer::new("k1"), Signer::new("k2"));
    // The start waits for nobody.
    let (server, _own) = start(&issuer);
    let token = old.sign(&issuer.claims(600));
    until("it is told", || server.call("GET", "/ready", &[], b"").body["status"] == "degraded");
    ask(&server, &token, &[]).refused(503, "issuer_unavailable", &["try again"]);
    let ready = server.call("GET", "/ready", &[], b"").is(200);
    assert!(ready.body["warnings"].to_string().contains("1 of 1 issuers"), "{}", ready.body);
    assert!(!ready.body.to_string().contains(&issuer.base));
    issuer.publish(&[&old]);
    until("the keys are there", || ask(&server, &token, &[]).status == 200);
    until("that is told", || server.call("GET", "/ready", &[], b"").body["status"] == "ok");
    // The first token of a new key is good: who sends it waits for the key.
    std::thread::sleep(Duration::from_millis(1_100));
    issuer.publish(&[&old, &new]);
    let later = new.sign(&issuer.claims(600));
    assert_eq!(ask(&server, &later, &[]).status, 200);
    assert_eq!(ask(&server, &token, &[]).status, 200);
    // Without the issuer, its tokens are good as before.
    issuer.go_down();
    std::thread::sleep(Duration::from_millis(1_100));
    refused(&ask(&server, &Signer::new("k9").sign(&issuer.claims(600)), &[]), "key");
    until("it is told again", || server.call("GET", "/ready", &[], b"").body["status"] == "degraded");
    assert_eq!(ask(&server, &old.sign(&issuer.claims(601)), &[]).status, 200);
    assert_eq!(ask(&server, &later, &[]).status, 200);
    // A new set takes away the old key.
    issuer.publish(&[&new]);
    until("the key is gone", || ask(&server, &token, &[]).status == 401);
    assert_eq!(ask(&server, &later, &[]).status, 200);
}

#[test]
fn a_flood_of_unknown_keys_is_one_question() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let own = folder();
    let config = own.path().join("tidegate.toml");
    let base = &issuer.base;
    let text = format!(
        "[[issuer]]\nname = \"main\"\nissuer = \"{base}\"\nkeys = {{ url = \"{base}/jwks\" }}\naudience = \"tidegate\"\n{}",
        RULES.replace("\"private\"", "\"query\"")
    );
    std::fs::write(&config, text).unwrap();
    let data = own.path().join("data");
    let mut command = serve(&data);
    command.arg("--config").arg(&config);
    let server = Server::spawn(command, data.with_extension("log"), true);
    let good = signer.sign(&issuer.claims(600));
    until("the keys are there", || ask(&server, &good, &[]).status == 200);
    let stranger = Signer::new("unknown");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (server, issuer, stranger, good) = (&server, &issuer, &stranger, &good);
            scope.spawn(move || {
                for n in 0..100 {
                    let mut claims = issuer.claims(600);
                    claims["n"] = json!([thread, n]);
                    refused(&ask(server, &stranger.sign(&claims), &[]), "key");
                    assert_eq!(ask(server, good, &[]).status, 200);
                }
            });
        }
    });
    // At the start, and once more if that is half a minute ago.
    assert!(issuer.asked() <= 2, "{}", issuer.asked());
}

#[test]
fn keys_come_from_a_file_or_by_discovery() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = issuer::server("discover = true", &issuer.base, RULES);
    let token = signer.sign(&issuer.claims(600));
    until("they are discovered", || ask(&server, &token, &[]).status == 200);
    drop(server);
    // A file is read again when it changes.
    let own = folder();
    let file = own.path().join("keys.json");
    std::fs::write(&file, json!({"keys": [signer.public()]}).to_string()).unwrap();
    let (server, _own) = issuer::server(&format!("file = \"{}\"", file.display()), &issuer.base, RULES);
    until("the file is read", || ask(&server, &token, &[]).status == 200);
    let other = Signer::new("k2");
    std::fs::write(&file, json!({"keys": [other.public(), {"kty": "unknown"}]}).to_string()).unwrap();
    until("it is read again", || ask(&server, &token, &[]).status == 401);
    assert_eq!(ask(&server, &other.sign(&issuer.claims(600)), &[]).status, 200);
    drop(server);
    // A redirect is not followed.
    let (server, _own) = issuer::server(&format!("url = \"{}/moved\"", issuer.base), &issuer.base, RULES);
    until("it is told", || server.log().contains("redirects are not followed"));
    ask(&server, &token, &[]).refused(503, "issuer_unavailable", &[]);
    drop(server);
    // Nor are keys read that a discovery document names on another host.
    let elsewhere = format!("{}/elsewhere", issuer.base);
    let before = issuer.asked();
    let (server, _own) = issuer::server("discover = true", &elsewhere, RULES);
    until("it is told", || server.log().contains("is on another host; name it"));
    let mut claims = issuer.claims(600);
    claims["iss"] = json!(elsewhere);
    ask(&server, &signer.sign(&claims), &[]).refused(503, "issuer_unavailable", &[]);
    assert_eq!(issuer.asked(), before, "it was not asked for keys");
}

#[test]
fn a_follower_ends_with_its_token() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = start(&issuer);
    server.send(EDGE, &json!([of_project("a", "p1")]));
    let long = signer.sign(&issuer.claims(600));
    until("the keys are there", || ask(&server, &long, &[]).status == 200);
    let sql = query_string(&[("sql", "SELECT id FROM edge_logs")]);
    let bearer = format!("Bearer {}", signer.sign(&issuer.claims(3)));
    let headers = [("authorization", bearer.as_str()), ("accept", "text/event-stream")];
    let stream = server.fetch("GET", &format!("/api/endpoints/query/logs.all?{sql}"), &headers, b"");
    let text = stream.text();
    assert!(text.contains("\"id\":\"a\"") && text.contains("token_revoked"), "{text}");
    assert!(server.call("GET", "/api/sources", &[("x-api-key", PRIVATE)], b"").status == 200);
}

#[test]
fn a_configuration_that_would_let_anybody_in_does_not_start() {
    let own = folder();
    let config = own.path().join("tidegate.toml");
    let good = format!(
        "[[issuer]]\nname = \"main\"\nissuer = \"https://id.example.com/\"\nkeys = {{ url = \"https://id.example.com/jwks\" }}\n\
         audience = \"tidegate\"\nallow_private = true\nnot_before = 2026-01-31T12:00:00Z\n{RULES}"
    );
    let run = |text: &str, print: bool| {
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data-dir").arg(own.path().join("data")).args(print.then_some("--print-config"));
        let output = command.output().unwrap();
        // Standard error has remarks, too, such as of a variable of the tests that the command does not know.
        let told = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&told).into_owned())
    };
    let (fine, printed) = run(&good, true);
    assert!(fine, "{printed}");
    // What is printed is the same configuration.
    let printed = printed.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n");
    let (fine, again) = run(&printed, true);
    assert!(fine && again.contains("\"/org/project\"") && again.contains("2026-01-31T12:00:00Z"), "{again}");
    let issuers = |text: &str| text.split_once("\n[[issuer]]").map(|(_, rest)| rest.trim().to_owned());
    assert_eq!(issuers(&printed), issuers(&again));
    for (from, to, words) in [
        ("audience = \"tidegate\"", "", "audience is missing"),
        ("audience =", "audiance =", "did you mean audience?"),
        ("allow_private = true", "", "allow_private = true at the issuer"),
        ("https://id.example.com/jwks", "http://id.example.com/jwks", "with https"),
        ("\"/org/project\"", "\"org\"", "no JSON pointer"),
        ("limits = { rows", "limits = { row", "did you mean rows?"),
        ("scopes = \"private\"", "scopes = \"ingest\"", "logs of every tenant"),
        ("[[issuer]]", "[issuer]", "write [[issuer]]"),
        ("[[issuer", "[[issuers", "did you mean [[issuer]]?"),
        ("pin =", "pins =", "did you mean pin?"),
    ] {
        let (fine, message) = run(&good.replace(from, to), false);
        assert!(!fine && message.contains(words), "{to}: {message}");
    }
}
