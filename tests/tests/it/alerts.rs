//! Alerts through HTTP: a receiver that fails, restarts, addresses that are refused, slow receivers, and hostile inputs. How
//! time goes on is tried in the service's own tests, which turn its clock.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tidegate_tests::{Data, EDGE, PRIVATE, Server, folder, now, request, serve, until};

/// A message that came.
#[derive(Debug, Clone)]
struct Received {
    path: String,
    headers: Vec<(String, String)>,
    text: String,
    body: Value,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Verifies the signature as a receiver does.
    fn is_signed(&self, secret: &str) -> bool {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(format!("{}.{}", self.header("x-tidegate-timestamp"), self.text).as_bytes());
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let seconds: i64 = self.header("x-tidegate-timestamp").parse().unwrap();
        (now() / 1_000_000 - seconds).abs() < 60 && self.header("x-tidegate-signature") == format!("v1={hex}")
    }
}

/// A receiver: it answers the heads that it is given, then 200. With `slow` it answers nothing.
struct Receiver {
    address: String,
    all: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    fn start(answers: &[&str], slow: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let all: Arc<Mutex<Vec<Received>>> = Arc::default();
        let own = Arc::clone(&all);
        let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let answers = Arc::new(Mutex::new(answers.into_iter()));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (own, answers) = (Arc::clone(&own), Arc::clone(&answers));
                std::thread::spawn(move || {
                    let mut stream = BufReader::new(stream.unwrap());
                    let mut lines = Vec::new();
                    loop {
                        let mut line = String::new();
                        if stream.read_line(&mut line).unwrap_or(0) <= 2 {
                            break;
                        }
                        lines.push(line.trim_end().to_owned());
                    }
                    let headers: Vec<(String, String)> = lines
                        .iter()
                        .skip(1)
                        .filter_map(|line| line.split_once(": "))
                        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                        .collect();
                    let length = headers.iter().find(|(name, _)| name == "content-length");
                    let mut text = vec![0; length.map_or(0, |(_, value)| value.parse().unwrap())];
                    stream.read_exact(&mut text).unwrap();
                    let text = String::from_utf8(text).unwrap();
                    let path = lines.first().map(|line| line.split(' ').nth(1).unwrap().to_owned()).unwrap_or_default();
                    let body = serde_json::from_str(&text).unwrap_or_default();
                    own.lock().unwrap().push(Received { path, headers, text, body });
                    if slow {
                        std::thread::sleep(Duration::from_secs(30));
                    }
                    let head = answers.lock().unwrap().next().unwrap_or_else(|| "200 OK".to_owned());
                    let _ =
                        write!(stream.get_mut(), "HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                });
            }
        });
        Self { address, all }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?key=of-the-receiver", self.address)
    }

    fn received(&self) -> Vec<Received> {
        self.all.lock().unwrap().clone()
    }

    /// The states of what came with this path.
    fn states(&self) -> Vec<String> {
        self.received().iter().map(|one| one.body["state"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn start(data: &Path, settings: &[(&str, &str)]) -> Server {
    let mut command = serve(data);
    command.env("TIDEGATE_ALERTS_ALLOW_NETWORKS", "127.0.0.1").env("TIDEGATE_ALERTS_RETRY_WAIT", "50ms");
    command.envs(settings.iter().copied());
    Server::spawn(command, data.with_extension("log"), true)
}

const PATH: &str = "/api/endpoints/paths/alerts";

/// An endpoint with the requests of a path.
fn endpoint(server: &Server) {
    server.save(&json!({
        "name": "paths", "redact_pii": true,
        "query": format!("SELECT id, r.path AS path, CHAR_LENGTH(r.path) AS length, '192.0.2.7' AS ip FROM `{EDGE}` AS t
            CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS r WHERE r.path = @path"),
        "parameters": [{"name": "path", "required": true}, {"name": "n", "kind": "int64"}],
    }));
}

fn alert(name: &str, url: &str) -> Value {
    json!({"name": name, "every_minutes": 1440, "condition": "rows > 0", "url": url, "parameters": {"path": "/x"}})
}

fn create(server: &Server, alert: &Value) -> String {
    let made = server.manage("POST", PATH, alert).is(201);
    // What its receiver reads is told: `access_readers`.
    let warnings = made.body["warnings"].as_array().unwrap();
    assert!(warnings.iter().all(|line| line.as_str().unwrap().contains("reads more than before")), "{warnings:?}");
    made.body["secret"].as_str().unwrap().to_owned()
}

/// Waits for the first run, which follows at once.
fn ran(server: &Server, name: &str) -> Value {
    let runs = || server.read(&format!("{PATH}/{name}/runs"));
    until("it is run", || runs().as_array().is_some_and(|runs| !runs.is_empty()));
    runs()[0].clone()
}

fn run(server: &Server, name: &str) -> Value {
    let run = server.manage("POST", &format!("{PATH}/{name}/runs"), &Value::Null).is(200);
    run.body
}

fn show(server: &Server, name: &str) -> Value {
    server.read(&format!("{PATH}/{name}"))
}

#[test]
fn a_receiver_that_fails_twice_gets_a_signed_message_and_each_occurrence_once() {
    let own = folder();
    let data = own.path().join("data");
    let server = start(&data, &[]);
    let receiver = Receiver::start(&["500 X", "503 X"], false);
    server.send(EDGE, &json!([request("1", now(), "/y")]));
    endpoint(&server);
    let secret = create(&server, &alert("hook", &receiver.url()));
    assert_eq!(ran(&server, "hook")["holds"], false);
    assert_eq!(receiver.states().len(), 0);

    server.send(EDGE, &json!([request("2", now(), "/x")]));
    assert_eq!(run(&server, "hook")["message"], "firing");
    until("it is delivered", || show(&server, "hook")["last_delivery"]["delivered"] == true);
    let all = receiver.received();
    assert_eq!(all.len(), 3);
    for one in &all {
        assert!(one.is_signed(&secret) && !one.is_signed("another"), "{one:?}");
        assert_eq!((one.path.as_str(), one.header("content-type")), ("/hook?key=of-the-receiver", "application/json"));
        assert_eq!(one.body, all[0].body, "the same occurrence");
    }
    let body = &all[0].body;
    assert_eq!((&body["endpoint"], &body["alert"], &body["value"]), (&json!("paths"), &json!("hook"), &json!(1)));
    assert_eq!(body["sample"], json!([{"id": "2", "path": "/x", "length": 2, "ip": "REDACTED"}]));
    let shown = show(&server, "hook");
    assert_eq!((&shown["firing"], &shown["last_delivery"]["attempt"]), (&json!(true), &json!(3)));
    let all = server.read("/api/alerts");
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
    assert_eq!((&all[0]["endpoint"]["name"], &all[0]["firing"]), (&json!("paths"), &json!(true)), "{all}");
    assert_eq!(all[0]["last_run"], shown["last_run"]);
    assert_eq!(shown["occurrence"], body["occurrence"]);
    assert!(run(&server, "hook")["message"].is_null());

    // A restart in between sends nothing again, and the occurrence goes on.
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start(&data, &[]);
    assert!(run(&server, "hook")["message"].is_null());
    assert_eq!(show(&server, "hook")["occurrence"], body["occurrence"]);
    let other = json!({"parameters": {"path": "/none"}});
    let changed = server.manage("PATCH", &format!("{PATH}/hook"), &other);
    assert_eq!((changed.status, &changed.body["secret"]), (200, &Value::Null), "{}", changed.body);
    until("it is over", || receiver.states() == ["firing", "firing", "firing", "resolved"]);
    let last = receiver.received().pop().unwrap();
    assert!(last.is_signed(&secret));
    assert_eq!((&last.body["occurrence"], &last.body["rows"]), (&body["occurrence"], &json!(0)));
    until("it is counted", || server.metric("tidegate_alerts_messages_sent_total") == 1.0);
    assert_eq!(server.metric("tidegate_alerts_firing"), 0.0);

    // The test says what a run would find, and changes nothing.
    let test = server.manage("POST", &format!("{PATH}/hook/test"), &Value::Null);
    assert_eq!((&test.body["delivered"], &test.body["holds"]), (&json!(true), &json!(false)), "{}", test.body);
    assert_eq!(receiver.states().pop().unwrap(), "test");
    // A body is not needed for a new secret.
    let made = server.manage("POST", &format!("{PATH}/hook/secret"), &Value::Null);
    assert!(made.status == 200 && made.body["secret"].as_str().unwrap().starts_with("tgs_"), "{}", made.body);
    let set = server.manage("POST", &format!("{PATH}/hook/secret"), &json!({"secret": "a-secret-of-my-own"}));
    assert_eq!(set.body["secret"], "a-secret-of-my-own");
    server.manage("POST", &format!("{PATH}/hook/test"), &Value::Null).is(200);
    assert!(receiver.received().pop().unwrap().is_signed("a-secret-of-my-own"));

    // No secret is told again: neither here, nor in a version, nor in the log; nor is the rest of the address in the log.
    let mut told = server.log();
    assert!(told.contains(&receiver.address) && !told.contains("of-the-receiver"), "{told}");
    for path in [PATH, "/api/endpoints/paths", "/api/endpoints/paths/versions", "/metrics", "/api/openapi"] {
        told.push_str(server.fetch("GET", path, &[("x-api-key", PRIVATE)], b"").text());
    }
    let component = server.fetch("GET", "/api/endpoints/paths/component", &[("x-api-key", PRIVATE)], b"").body;
    told.push_str(&String::from_utf8_lossy(&component));
    assert!(!told.contains(&secret) && !told.contains("a-secret-of-my-own"));

    // With the endpoint its alerts end.
    server.manage("DELETE", "/api/endpoints/paths", &Value::Null).is(204);
    server.manage("GET", PATH, &Value::Null).is(404);
    assert_eq!(server.metric("tidegate_alerts"), 0.0);
}

/// The catalog keeps the message: as long as that cannot be changed, the receiver would get it again and again.
#[test]
fn a_confirmed_message_is_not_sent_again_while_that_cannot_be_written() {
    let data = Data::new();
    let server = start(&data, &[]);
    let receiver = Receiver::start(&[], false);
    server.send(EDGE, &json!([request("0", now(), "/y")]));
    endpoint(&server);
    create(&server, &alert("hook", &receiver.url()));
    ran(&server, "hook");
    let catalog = rusqlite::Connection::open(data.join("catalog.sqlite")).unwrap();
    catalog.busy_timeout(Duration::from_secs(30)).unwrap();
    catalog
        .execute_batch(
            "CREATE TRIGGER held BEFORE DELETE ON alert_messages BEGIN SELECT RAISE(ABORT, 'a test holds it'); END",
        )
        .unwrap();
    server.send(EDGE, &json!([request("1", now(), "/x")]));
    assert_eq!(run(&server, "hook")["message"], "firing");
    until("it is sent", || receiver.states() == ["firing"]);
    until("that is told", || server.log().contains("what became of a message of an alert cannot be written"));
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(receiver.states(), ["firing"], "it is sent once");
    assert_eq!(server.metric("tidegate_alerts_messages_waiting"), 1.0);
    catalog.execute_batch("DROP TRIGGER held").unwrap();
    until("that is written", || server.metric("tidegate_alerts_messages_waiting") == 0.0);
    assert_eq!(show(&server, "hook")["last_delivery"]["delivered"], true);
    assert_eq!(receiver.states(), ["firing"]);
    assert_eq!(server.metric("tidegate_alerts_messages_sent_total"), 1.0);
}

#[test]
fn a_renamed_alert_keeps_its_secret() {
    let receiver = Receiver::start(&[], false);
    let own = folder();
    let server = start(&own.path().join("data"), &[]);
    endpoint(&server);
    let secret = create(&server, &alert("many", &receiver.url()));
    let renamed = server.manage("PATCH", &format!("{PATH}/many"), &json!({"name": "few"}));
    assert_eq!((renamed.status, &renamed.body["name"]), (200, &json!("few")), "{}", renamed.body);
    server.manage("POST", &format!("{PATH}/few/test"), &Value::Null).is(200);
    assert!(receiver.received().iter().any(|one| one.body["alert"] == "few" && one.is_signed(&secret)));
    // Another receiver could sign in its name otherwise.
    assert_ne!(
        create(&server, &alert("many", &receiver.url())),
        secret,
        "an alert that is made has a secret of its own"
    );
}

#[test]
fn alerts_have_versions_as_the_endpoint_has() {
    let own = folder();
    let server = start(&own.path().join("data"), &[]);
    let receiver = Receiver::start(&[], false);
    endpoint(&server);
    let secret = create(&server, &alert("one", &receiver.url()));
    create(&server, &alert("two", &receiver.url()));
    let names = || -> Vec<String> {
        let all = server.read(PATH);
        all.as_array().unwrap().iter().map(|alert| alert["name"].as_str().unwrap().to_owned()).collect()
    };
    let whole = server.read("/api/endpoints/paths");
    assert_eq!((&whole["version"], &whole["alerts"][1]["name"]), (&json!(3), &json!("two")));
    let back = server.manage("POST", "/api/endpoints/paths/versions/2/restore", &Value::Null);
    assert_eq!((back.status, names()), (200, vec!["one".to_owned()]), "{}", back.body);
    // What was read can be sent back; a change of the query keeps the alerts.
    server.manage("PUT", "/api/endpoints/paths", &whole).is(200);
    assert_eq!(names(), ["one", "two"]);
    server.manage("PATCH", "/api/endpoints/paths", &json!({"max_limit": 50})).is(200);
    assert_eq!(names(), ["one", "two"]);
    let shown = show(&server, "one");
    assert_eq!(server.manage("PUT", &format!("{PATH}/one"), &shown).body["every_minutes"], 1440);
    // An alert that comes back has its secret, one that was deleted has another.
    server.manage("POST", &format!("{PATH}/one/test"), &Value::Null);
    assert!(receiver.received().pop().unwrap().is_signed(&secret));
    server.manage("DELETE", &format!("{PATH}/one"), &Value::Null).is(204);
    assert_eq!(names(), ["two"]);
    assert_ne!(create(&server, &alert("one", &receiver.url())), secret);

    // From a folder, with `tidegate push`, and back with `tidegate pull`.
    let copy = own.path().join("copy");
    let tidegate = |arguments: &[&str]| {
        let output = server.client(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    };
    tidegate(&["pull", "paths", "--folder", copy.to_str().unwrap()]);
    let toml = std::fs::read_to_string(copy.join("endpoint.toml")).unwrap();
    assert!(toml.contains("[[alert]]") && toml.contains("condition = \"rows > 0\""), "{toml}");
    assert!(tidegate(&["push", copy.to_str().unwrap()]).contains("unchanged"));
    std::fs::write(copy.join("endpoint.toml"), toml.replace("name = \"two\"", "name = \"three\"")).unwrap();
    assert!(tidegate(&["push", copy.to_str().unwrap()]).contains("alerts: three, one"));
    assert_eq!(names(), ["one", "three"]);
    assert!(tidegate(&["alert", "list", "paths"]).contains("rows > 0, every 1440 min"));
    assert!(tidegate(&["alert", "list"]).contains("paths/"));
    assert!(tidegate(&["alert", "test", "paths", "three"]).contains("the receiver answered 200"));
    assert!(tidegate(&["alert", "run", "paths", "three"]).contains("0 rows, the condition does not hold"));
    assert!(tidegate(&["alert", "secret", "paths", "three"]).starts_with("tgs_"));
}

#[test]
fn only_allowed_addresses_are_reached_and_no_redirect_is_followed() {
    let data = Data::new();
    let other = Receiver::start(&[], false);
    let redirect = format!("302 Found\r\nlocation: http://{}/elsewhere", other.address);
    let receiver = Receiver::start(&[&redirect, &redirect], false);
    let server =
        start(&data, &[("TIDEGATE_ALERTS_ALLOW_NETWORKS", ""), ("HTTP_PROXY", &format!("http://{}", other.address))]);
    endpoint(&server);
    let port = receiver.address.rsplit(':').next().unwrap().to_owned();
    let test = |server: &Server, url: &str| {
        let name = format!("a{}", url.len());
        if server.manage("PATCH", &format!("{PATH}/{name}"), &json!({"url": url})).status == 404 {
            create(server, &alert(&name, url));
        }
        server.manage("POST", &format!("{PATH}/{name}/test"), &Value::Null).body
    };
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "127.1",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "169.254.169.254",
        "10.0.0.1",
        "100.64.0.1",
    ] {
        let told = test(&server, &format!("http://{host}:{port}/"));
        assert_eq!((&told["delivered"], &told["status"]), (&json!(false), &Value::Null), "{host}: {told}");
        let why = told["error"].as_str().unwrap();
        assert!(
            why.contains("no address of the public internet")
                || why.contains("host is not known")
                || why.contains("connection failed"),
            "{host}: {why}"
        );
    }
    assert_eq!((receiver.states().len(), other.states().len()), (0, 0));
    assert_eq!(server.stop("-TERM"), Some(0));

    let server = start(&data, &[]);
    let told = test(&server, &receiver.url());
    assert_eq!((&told["delivered"], &told["status"]), (&json!(false), &json!(302)), "{told}");
    assert_eq!((receiver.states().len(), other.states().len()), (1, 0));
}

#[test]
fn a_slow_receiver_holds_up_neither_queries_nor_other_alerts() {
    let data = Data::new();
    let settings = [
        ("TIDEGATE_ALERTS_SEND_TIME", "1500ms"),
        ("TIDEGATE_ALERTS_ATTEMPTS", "2"),
        ("TIDEGATE_ALERTS_SEND_CONCURRENCY", "4"),
    ];
    let server = start(&data, &settings);
    let (slow, quick) = (Receiver::start(&[], true), Receiver::start(&[], false));
    server.send(EDGE, &json!([request("1", now(), "/x")]));
    endpoint(&server);
    let mut alerts: Vec<Value> = (0..8).map(|n| alert(&format!("slow {n}"), &slow.url())).collect();
    alerts.push(alert("quick", &quick.url()));
    let began = Instant::now();
    server.manage("PATCH", "/api/endpoints/paths", &json!({"alerts": alerts})).is(200);
    until("the slow one is asked", || !slow.received().is_empty());
    assert_eq!(server.query("paths", &[("path", "/x")]).rows().len(), 1);
    until("the quick one has it", || quick.states() == ["firing"]);
    assert!(slow.received().len() <= 4, "{:?} after {:?}", slow.received().len(), began.elapsed());
    until("a slow one is given up", || server.metric("tidegate_alerts_messages_given_up_total") >= 1.0);
    let delivery = |n: usize| show(&server, &format!("slow%20{n}"))["last_delivery"].clone();
    let given_up = (0..8).map(delivery).find(|delivery| delivery["given_up"] == true).unwrap();
    assert_eq!(given_up["error"], "the receiver did not answer in time");
}

#[test]
fn what_an_alert_may_not_be_is_told_by_field() {
    let data = Data::new();
    let server = start(&data, &[("TIDEGATE_ALERTS_MOST", "3")]);
    endpoint(&server);
    let with = |field: &str, value: Value| {
        let mut alert = alert("a", "https://example.com/");
        alert[field] = value;
        server.manage("POST", PATH, &alert)
    };
    for (field, value, words) in [
        ("name", json!(""), "name"),
        ("name", json!("../x"), "name"),
        ("name", json!("a".repeat(65)), "name"),
        ("every_minutes", json!(0), "every_minutes"),
        ("every_minutes", json!(1441), "1440"),
        ("every_minutes", json!("5"), "whole number"),
        ("condition", json!("rows"), "no condition"),
        ("condition", json!("rows > 1e400"), "no condition"),
        ("condition", json!("rows > 1000"), "max_limit"),
        ("condition", json!("size > 1"), "there are"),
        ("condition", json!("ip > 1"), "STRING"),
        ("url", json!("file:///etc/passwd"), "https://"),
        ("url", json!("http://u:p@example.com/"), "user name"),
        ("url", json!("http://example.com\r\nx: y"), "sign"),
        ("url", json!(format!("http://example.com/{}", "x".repeat(2100))), "2048"),
        ("parameters", json!({}), "'path' is required"),
        ("parameters", json!({"path": "/x", "pth": "1"}), "did you mean path?"),
        ("parameters", json!({"path": "/x", "n": "many"}), "no integer"),
        ("parameters", json!({"path": {}}), "parameters"),
        ("again_after_minutes", json!(1441), "again_after_minutes"),
        ("every_minute", json!(5), "did you mean every_minutes?"),
    ] {
        let refused = with(field, value.clone());
        assert_eq!(refused.status, 422, "{field} {value}: {}", refused.body);
        let text = refused.body.to_string();
        assert!(
            text.contains(words) || (words == "there are" && text.contains("no column size")),
            "{field} {value}: {text}"
        );
    }
    assert_eq!(server.manage("POST", PATH, &json!({})).body["error"]["errors"].as_array().unwrap().len(), 4);
    assert_eq!(server.read(PATH), json!([]), "nothing was saved");
    for n in 0..3 {
        create(&server, &alert(&format!("a{n}"), "http://127.0.0.1:1/"));
    }
    server.manage("POST", PATH, &alert("a3", "http://127.0.0.1:1/")).refused(422, "refused", &["[alerts] most"]);
    server.manage("POST", PATH, &alert("a1", "http://127.0.0.1:1/")).refused(422, "refused", &["two alerts"]);
    for (method, path) in [
        ("GET", "/x"),
        ("PATCH", "/x"),
        ("DELETE", "/x"),
        ("GET", "/x/runs"),
        ("POST", "/x/runs"),
        ("POST", "/x/test"),
        ("POST", "/x/secret"),
    ] {
        let body = if method == "PATCH" || path.ends_with("secret") { json!({}) } else { Value::Null };
        assert_eq!(server.manage(method, &format!("{PATH}{path}"), &body).status, 404, "{method} {path}");
    }
    server.manage("POST", &format!("{PATH}/a0/secret"), &json!({"secret": "short"})).refused(
        422,
        "refused",
        &["16 to 256"],
    );
    // Who may query, pinned or not, may neither see nor make an alert: it would run beyond the pins.
    for token in
        [json!({"scopes": "query"}), json!({"scopes": "query", "pinned": {"path": "/y"}}), json!({"scopes": "ingest"})]
    {
        let token = server.manage("POST", "/api/access-tokens", &token).body["token"].as_str().unwrap().to_owned();
        let headers = [("x-api-key", token.as_str())];
        let body = alert("b", "http://127.0.0.1:1/").to_string();
        server.call("GET", PATH, &headers, b"").refused(403, "forbidden", &[]);
        server.call("POST", PATH, &headers, body.as_bytes()).refused(403, "forbidden", &[]);
        server.call("POST", &format!("{PATH}/a0/runs"), &headers, b"").refused(403, "forbidden", &[]);
        server.call("POST", &format!("{PATH}/a0/test"), &headers, b"").refused(403, "forbidden", &[]);
        server.call("POST", &format!("{PATH}/a0/secret"), &headers, b"{}").refused(403, "forbidden", &[]);
    }
}
