//! The deny list; and rules that mask personal data and have limits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, Server, iso, now, query_string, serve, until, until_within};

use super::issuer::{Issuer, Signer, ask, of_project, refused, server, start};

const DENIED: &str = "/api/issuers/denied";

fn deny(server: &Server, entry: &Value) -> Value {
    let made = server.manage("POST", DENIED, entry).is(201);
    made.body
}

fn soon(seconds: i64) -> String {
    iso(now() + seconds * 1_000_000)
}

#[test]
fn tokens_are_denied_at_once_and_come_back() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = start(&issuer);
    let with = |subject: &str, id: &str| {
        let mut claims = issuer.claims(600);
        claims["sub"] = json!(subject);
        claims["jti"] = json!(id);
        signer.sign(&claims)
    };
    let (one, two, other) = (with("user-1", "t1"), with("user-1", "t2"), with("user-2", "t3"));
    until("the keys are there", || ask(&server, &one, &[]).status == 200);
    // One token.
    let entry = deny(&server, &json!({"issuer": "main", "jti": "t1", "until": soon(600), "reason": "lost"}));
    assert_eq!((&entry["name"], &entry["issuer"]), (&json!("main"), &json!(issuer.base)));
    assert_eq!((&entry["jti"], &entry["subject"], &entry["reason"]), (&json!("t1"), &Value::Null, &json!("lost")));
    refused(&ask(&server, &one, &[]), "denied");
    assert_eq!((ask(&server, &two, &[]).status, ask(&server, &other, &[]).status), (200, 200));
    // A subject, whose iss is named.
    let of_subject = deny(&server, &json!({"issuer": issuer.base, "subject": "user-1", "until": soon(600)}));
    refused(&ask(&server, &two, &[]), "denied");
    assert_eq!(ask(&server, &other, &[]).status, 200);
    // Again: the same entry, with another end. What is over is gone.
    let again = deny(&server, &json!({"issuer": "main", "subject": "user-1", "until": soon(2)}));
    assert_eq!((&again["id"], &again["reason"]), (&of_subject["id"], &json!("")));
    assert_eq!(server.read(DENIED).as_array().map(Vec::len), Some(2));
    until_within(Duration::from_secs(30), "the end", || ask(&server, &two, &[]).status == 200);
    let left = server.read(DENIED);
    assert_eq!((left.as_array().map(Vec::len), &left[0]["id"]), (Some(1), &entry["id"]), "{left}");
    let path = format!("{DENIED}/{}", entry["id"].as_str().unwrap());
    server.manage("DELETE", &path, &Value::Null).is(204);
    server.manage("DELETE", &path, &Value::Null).refused(404, "not_found", &["no entry"]);
    assert_eq!(ask(&server, &one, &[]).status, 200);
    // The metrics have the words, and neither log nor metrics have the subject.
    let metrics = server.text("/metrics");
    let counter = "tidegate_issuer_tokens_refused_total{issuer=\"main\",reason=\"denied\"} ";
    let line = metrics.lines().find(|line| line.starts_with(counter)).unwrap();
    assert!(!line.ends_with(" 0"), "{line}");
    assert!(metrics.contains("tidegate_issuer_tokens_accepted_total{issuer=\"main\"}"), "{metrics}");
    assert!(metrics.contains("tidegate_issuer_fetches_total{issuer=\"main\",outcome=\"read\"}"), "{metrics}");
    assert!(metrics.contains("tidegate_issuer_keys_age_seconds{issuer=\"main\"}"), "{metrics}");
    let log = server.log();
    assert!(log.contains("the deny list has its sub or its jti") && log.contains("tokens of an issuer are denied"));
    assert!(!log.contains("user-1") && !metrics.contains("user-1"), "{log}");
}

#[test]
fn what_would_deny_nothing_is_refused() {
    let issuer = Issuer::start();
    let (server, _own) = start(&issuer);
    for (entry, words) in [
        (json!({"subject": "u", "until": soon(60)}), "issuer is missing"),
        (json!({"issuer": "mian", "subject": "u", "until": soon(60)}), "did you mean main?"),
        (json!({"issuer": "main", "until": soon(60)}), "neither of them is sent"),
        (json!({"issuer": "main", "subject": "u", "jti": "t", "until": soon(60)}), "both of them are sent"),
        (json!({"issuer": "main", "subject": "", "until": soon(60)}), "1 to 255 bytes"),
        (json!({"issuer": "main", "subject": "u"}), "until is missing"),
        (json!({"issuer": "main", "subject": "u", "until": soon(-60)}), "in the past"),
        (json!({"issuer": "main", "subject": "u", "until": soon(400 * 86_400)}), "at most 366 days"),
        (json!({"issuer": "main", "subject": "u", "until": "soon"}), "no ISO 8601 time"),
        (json!({"issuer": "main", "subject": "u", "untill": soon(60)}), "did you mean until?"),
    ] {
        server.manage("POST", DENIED, &entry).refused(422, "refused", &[words]);
    }
    server.call("GET", DENIED, &[], b"").is(401);
    assert_eq!(server.read(DENIED), json!([]));
    // Without issuers there is nothing to deny.
    let plain = Server::start();
    let entry = json!({"issuer": "main", "subject": "u", "until": soon(60)});
    plain.manage("POST", DENIED, &entry).refused(422, "refused", &["the configuration has no [[issuer]]"]);
    assert!(!plain.text("/metrics").contains("tidegate_issuer_tokens_refused_total{"));
}

#[test]
fn the_deny_list_outlives_the_server_and_is_managed_by_commands() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, own) = start(&issuer);
    let command = |server: &Server, arguments: &[&str]| {
        let output = server.client(&["issuer"]).args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let token = signer.sign(&issuer.claims(600));
    until("the keys are there", || ask(&server, &token, &[]).status == 200);
    let (fine, told, error) =
        command(&server, &["deny", "main", "--subject", "user-1", "--until", "30d", "--reason", "has left"]);
    assert!(fine && told.contains("main  subject user-1  until ") && told.contains("has left"), "{told}{error}");
    refused(&ask(&server, &token, &[]), "denied");
    for (arguments, words) in [
        (&["deny", "mein", "--jti", "t", "--until", "1d"][..], "did you mean main?"),
        (&["deny", "main", "--until", "1d"], "--subject"),
        (&["deny", "main", "--subject", "u", "--until", "tomorrow"], "write 30d"),
        (&["allow", "nothing"], "no entry nothing"),
    ] {
        let (fine, _, error) = command(&server, arguments);
        assert!(!fine && error.contains(words), "{arguments:?}: {error}");
    }
    assert_eq!(server.stop("-TERM"), Some(0));
    let mut again = serve(own.path().join("data"));
    again.arg("--config").arg(own.path().join("tidegate.toml"));
    let server = Server::spawn(again, own.path().join("again.log"), true);
    until("the keys are there", || ask(&server, &token, &[]).status == 401);
    refused(&ask(&server, &token, &[]), "denied");
    let (_, list, _) = command(&server, &["denied"]);
    let id = list.split(' ').next().unwrap();
    let (fine, _, told) = command(&server, &["allow", id]);
    assert!(fine && told.contains("is allowed"), "{told}");
    assert_eq!(ask(&server, &token, &[]).status, 200);
    assert_eq!(command(&server, &["denied"]).1, "");
}

#[test]
fn a_follower_ends_when_its_subject_is_denied() {
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = start(&issuer);
    server.send(EDGE, &json!([of_project("a", "p1")]));
    let token = signer.sign(&issuer.claims(600));
    until("the keys are there", || ask(&server, &token, &[]).status == 200);
    let path = format!("/api/endpoints/query/logs.all?{}", query_string(&[("sql", "SELECT id FROM edge_logs")]));
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("accept", "text/event-stream")];
    std::thread::scope(|scope| {
        let stream = scope.spawn(|| server.fetch("GET", &path, &headers, b"").text().to_owned());
        until("the follower", || server.metric("tidegate_followers") == 1.0);
        let denied = Instant::now();
        deny(&server, &json!({"issuer": "main", "subject": "user-1", "until": soon(600)}));
        let text = stream.join().unwrap();
        assert!(text.contains("\"id\":\"a\"") && text.contains("token_revoked"), "{text}");
        assert!(denied.elapsed() < Duration::from_secs(60));
    });
}

#[test]
fn a_rule_masks_personal_data_and_its_limits_hold() {
    const MASKED: &str = r#"
[[issuer.rule]]
name = "support"
when = { "/roles" = "support" }
scopes = "query"
redact = true
limits = { rows = "2", answer_bytes = "1 KiB" }

[[issuer.rule]]
name = "viewers"
when = { "/roles" = "viewer" }
scopes = "query"
"#;
    let (issuer, signer) = (Issuer::start(), Signer::new("k1"));
    issuer.publish(&[&signer]);
    let (server, _own) = server(&format!("url = \"{}/jwks\"", issuer.base), &issuer.base, MASKED);
    let events: Vec<Value> = (0..3)
        .map(|n| {
            let mut event = of_project(&format!("e{n}"), "p1");
            event["event_message"] = json!("from 203.0.113.7");
            event
        })
        .collect();
    server.send(EDGE, &json!(events));
    let with = |role: &str| {
        let mut claims = issuer.claims(600);
        claims["roles"] = json!([role]);
        signer.sign(&claims)
    };
    let (support, viewer) = (with("support"), with("viewer"));
    until("the keys are there", || ask(&server, &viewer, &[("project", "p1")]).status == 200);
    let messages = |answer: &Answer| answer.column("event_message");
    let open = ask(&server, &viewer, &[("project", "p1")]);
    assert_eq!(messages(&open), [json!("from 203.0.113.7"), json!("from 203.0.113.7"), json!("from 203.0.113.7")]);
    // No header of the caller turns it off, and of three rows there are two.
    let path = format!("/api/endpoints/query/logs.all?{}", query_string(&[("project", "p1")]));
    let bearer = format!("Bearer {support}");
    let answer = server.call("GET", &path, &[("authorization", &bearer), ("svc-endpoint-redact-pii", "false")], b"");
    answer.refused(403, "forbidden", &["redacts personal data"]);
    let answer = ask(&server, &support, &[("project", "p1")]);
    assert_eq!(messages(&answer), [json!("from REDACTED"), json!("from REDACTED")], "{}", answer.body);
    assert_eq!(answer.header("x-result-truncated"), Some("true"));
    let sql = [("project", "p1"), ("sql", "SELECT id, event_message FROM edge_logs")];
    assert_eq!(messages(&ask(&server, &support, &sql)), [json!("from REDACTED"), json!("from REDACTED")]);
    let long = [("project", "p1"), ("sql", "SELECT REPEAT('x', 4000) AS text FROM edge_logs")];
    ask(&server, &support, &long).refused(422, "limit_exceeded", &["larger than 1024 bytes"]);
    assert_eq!(ask(&server, &viewer, &long).status, 200);
}
