//! JWTs of an issuer as access tokens, with an issuer on this machine whose keys a test changes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, PRIVATE, Server, binary, folder, now, query_string, request};

/// An issuer, with a discovery document and a key set that may be missing.
struct Issuer {
    base: String,
    keys: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl Issuer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (keys, asked) = (Arc::<Mutex<Option<Value>>>::default(), Arc::<AtomicUsize>::default());
        let (own, published, counted) = (base.clone(), Arc::clone(&keys), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                let path = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)).unwrap_or_default();
                while lines.next().is_some_and(|line| !line.is_empty()) {}
                let keys = published.lock().unwrap().clone();
                let (status, body) = match (path.as_str(), keys) {
                    ("/.well-known/openid-configuration", _) => {
                        ("200 OK", json!({"issuer": own, "jwks_uri": format!("{own}/jwks")}))
                    }
                    ("/moved", _) => ("302 Found", json!({})),
                    ("/jwks", Some(keys)) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        ("200 OK", keys)
                    }
                    _ => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        ("503 Service Unavailable", json!({}))
                    }
                };
                let body = body.to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nlocation: {own}/jwks\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { base, keys, asked }
    }

    fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.public()).collect();
        *self.keys.lock().unwrap() = Some(json!({"keys": keys}));
    }

    fn go_down(&self) {
        *self.keys.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Good claims, which end in so many seconds.
    fn claims(&self, seconds: i64) -> Value {
        let now = now() / 1_000_000;
        json!({
            "iss": self.base, "aud": "tidegate", "sub": "user-1", "iat": now, "exp": now + seconds,
            "roles": ["viewer"], "org": {"project": "p1"},
        })
    }
}

struct Signer {
    kid: &'static str,
    pair: EcdsaKeyPair,
}

fn b64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn new(kid: &'static str) -> Self {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random).unwrap();
        Self { kid, pair }
    }

    fn public(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "kid": self.kid, "x": b64(x), "y": b64(y)})
    }

    fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "ES256", "kid": self.kid, "typ": "at+jwt"});
        let signed = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", b64(signature))
    }
}

/// Rules for viewers, who see one project, and for staff.
const RULES: &str = r#"
[[issuer.rule]]
name = "viewers"
when = { "/roles" = "viewer" }
scopes = "query:endpoint:logs.all"
pin = { project = "/org/project" }
limits = { rows = "2" }

[[issuer.rule]]
name = "staff"
when = { "/roles" = "staff" }
scopes = "private"
"#;

/// A server with one issuer, whose `keys` are these.
fn server(keys: &str, issuer: &str, rules: &str) -> (Server, tempfile::TempDir) {
    let own = folder();
    let config = own.path().join("tidegate.toml");
    let text = format!(
        "[[issuer]]\nname = \"main\"\nissuer = \"{issuer}\"\nkeys = {{ {keys} }}\naudience = [\"tidegate\"]\n\
         type = \"at+jwt\"\nleeway = \"0 s\"\nfetch_pause = \"1 s\"\nallow_private = true\n{rules}"
    );
    std::fs::write(&config, text).unwrap();
    let data = own.path().join("data");
    let mut command = Command::new(binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data).arg("--config").arg(&config);
    (Server::spawn(command, data.with_extension("log"), true), own)
}

fn start(issuer: &Issuer) -> (Server, tempfile::TempDir) {
    server(&format!("url = \"{}/jwks\"", issuer.base), &issuer.base, RULES)
}

fn ask(server: &Server, token: &str, parameters: &[(&str, &str)]) -> Answer {
    let path = format!("/api/endpoints/query/logs.all?{}", query_string(parameters));
    server.call("GET", &path, &[("authorization", &format!("Bearer {token}"))], b"")
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}: not within 30 seconds");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn of_project(id: &str, project: &str) -> Value {
    let mut event = request(id, now(), "/rest/v1/x");
    event["project"] = json!(project);
    event
}

fn refused(answer: &Answer, word: &str) {
    answer.refused(401, "invalid_token", &[word]);
    let header = answer.header("www-authenticate").unwrap();
    assert!(header.starts_with("Bearer error=\"invalid_token\"") && header.contains(word), "{header}");
}

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
    assert_eq!(server.call("POST", "/api/endpoints", &headers, saved.as_bytes()).status, 201);
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
    assert_eq!(server.call("POST", &path, &[], b"{}").status, 401);
    let basic = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(format!("x:{good}")));
    let answer = server.call("POST", &format!("/api/logs?source_name={EDGE}"), &[("authorization", &basic)], b"{}");
    answer.refused(401, "unauthorized", &["unknown"]);
    // Stored tokens go on.
    assert_eq!(server.query("logs.all", &[("project", "p1")]).status, 200);
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
    let ready = server.call("GET", "/ready", &[], b"");
    assert_eq!(ready.status, 200, "{}", ready.body);
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
    let mut command = Command::new(binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data).arg("--config").arg(&config);
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
    let (server, _own) = self::server("discover = true", &issuer.base, RULES);
    let token = signer.sign(&issuer.claims(600));
    until("they are discovered", || ask(&server, &token, &[]).status == 200);
    drop(server);
    // A file is read again when it changes.
    let own = folder();
    let file = own.path().join("keys.json");
    std::fs::write(&file, json!({"keys": [signer.public()]}).to_string()).unwrap();
    let (server, _own) = self::server(&format!("file = \"{}\"", file.display()), &issuer.base, RULES);
    until("the file is read", || ask(&server, &token, &[]).status == 200);
    let other = Signer::new("k2");
    std::fs::write(&file, json!({"keys": [other.public(), {"kty": "unknown"}]}).to_string()).unwrap();
    until("it is read again", || ask(&server, &token, &[]).status == 401);
    assert_eq!(ask(&server, &other.sign(&issuer.claims(600)), &[]).status, 200);
    drop(server);
    // A redirect is not followed.
    let (server, _own) = self::server(&format!("url = \"{}/moved\"", issuer.base), &issuer.base, RULES);
    until("it is told", || server.log().contains("redirects are not followed"));
    ask(&server, &token, &[]).refused(503, "issuer_unavailable", &[]);
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
