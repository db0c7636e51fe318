//! The doors of other services: their paths, keys, sources, answers, and what is read of their bodies. Real senders are
//! tried by `cargo xtask clients`.

use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tidegate_tests::{Answer, Data, PRIVATE, PUBLIC, Raw, Server};

pub(crate) const SOURCE: &str = "postgres.logs";
const TIME: i64 = 1_763_633_702_123_456;
const ISO: &str = "2025-11-20T10:15:02.123456Z";

/// `{"message": "m"}` in MessagePack, and as an entry of systemd's journal.
const MSGPACK: &[u8] = b"\x81\xa7message\xa1m";
const ENTRY: &[u8] = b"PRIORITY=6\nMESSAGE=m\n\n";
pub(crate) const EXPORT: &str = "application/vnd.fdo.journal";

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The rows of a query over the source itself, with `m` for its metadata.
pub(crate) fn rows(server: &Server, columns: &str) -> Vec<Value> {
    let query = format!("select {columns} from `{SOURCE}` left join unnest(metadata) as m order by event_message");
    let name = format!("rows-{}", uuid::Uuid::new_v4());
    server.save(&json!({"name": name, "query": query}));
    server.query(&name, &[]).rows().to_vec()
}

pub(crate) fn messages(server: &Server) -> Vec<Value> {
    rows(server, "event_message").into_iter().map(|row| row["event_message"].clone()).collect()
}

fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Raw {
    let mut all = headers.to_vec();
    if !headers
        .iter()
        .any(|(name, _)| ["x-api-key", "authorization", "dd-api-key", "x-amz-firehose-access-key"].contains(name))
    {
        all.push(("x-api-key", PUBLIC));
    }
    if !headers.iter().any(|(name, _)| *name == "x-source-name") && !path.contains('?') {
        all.push(("x-source-name", SOURCE));
    }
    server.fetch("POST", path, &all, body)
}

fn as_json(raw: Raw) -> Answer {
    let body = serde_json::from_slice(&raw.body).unwrap();
    Answer { status: raw.status, headers: raw.headers, body }
}

fn frame(text: &str) -> String {
    let message = format!("<190>1 {ISO} host app web.1 - {text}");
    format!("{} {message}", message.len())
}

pub(crate) fn firehose(texts: &[&str]) -> Vec<u8> {
    let records: Vec<Value> = texts.iter().map(|text| json!({"data": BASE64_STANDARD.encode(text)})).collect();
    json!({"requestId": "7", "timestamp": 1, "records": records}).to_string().into_bytes()
}

/// Every path, its content type, a body with one event, and the status of its answer.
fn doors() -> Vec<(&'static str, &'static str, Vec<u8>, u16)> {
    let json = "application/json";
    let record = json!({"message": "m"}).to_string().into_bytes();
    let records = ["json", "vector", "elixir/logger", "cloudflare", "vercel", "netlify"];
    let mut all: Vec<(&str, &str, Vec<u8>, u16)> = Vec::new();
    for name in records {
        for prefix in ["/logs", "/api/logs"] {
            all.push((Box::leak(format!("{prefix}/{name}").into_boxed_str()), json, record.clone(), 200));
        }
    }
    let loki = json!({"streams": [{"stream": {"job": "a"}, "values": [["1763633702123456789", "m"]]}]}).to_string();
    let bulk = b"{\"create\":{}}\n{\"message\":\"m\"}\n".to_vec();
    let firehose = firehose(&["m"]);
    for (path, kind, body, status) in [
        ("/logs/logplex", "application/logplex-1", frame("m").into_bytes(), 204),
        ("/api/logs/logplex", "application/logplex-1", frame("m").into_bytes(), 204),
        ("/loki/api/v1/push", json, loki.clone().into_bytes(), 204),
        ("/api/v1/push", json, loki.into_bytes(), 204),
        ("/_bulk", "application/x-ndjson", bulk.clone(), 200),
        ("/postgres.logs/_bulk", json, bulk.clone(), 200),
        ("/elasticsearch/_bulk", "application/vnd.elasticsearch+x-ndjson; compatible-with=9", bulk.clone(), 200),
        ("/elasticsearch/postgres.logs/_bulk", json, bulk, 200),
        ("/postgres.logs/_doc", json, record.clone(), 201),
        ("/postgres.logs/_doc/1", json, record.clone(), 201),
        ("/elasticsearch/postgres.logs/_create/2", json, record.clone(), 201),
        ("/services/collector", json, b"{\"event\": \"m\"}".to_vec(), 200),
        ("/services/collector/event", json, b"{\"event\": \"m\"}".to_vec(), 200),
        ("/services/collector/event/1.0", json, b"{\"event\": \"m\"}".to_vec(), 200),
        ("/services/collector/raw", "text/plain", b"m\n".to_vec(), 200),
        ("/", json, record.clone(), 202),
        ("/", "application/msgpack", MSGPACK.to_vec(), 202),
        ("/upload", EXPORT, ENTRY.to_vec(), 202),
        ("/journal/postgres.logs/upload", EXPORT, ENTRY.to_vec(), 202),
        ("/api/v2/logs", json, record, 202),
        ("/v1/datasets/postgres.logs/ingest", json, b"[{\"message\": \"m\"}]".to_vec(), 200),
        ("/logs/firehose", json, firehose.clone(), 200),
        ("/api/logs/firehose", json, firehose, 200),
    ] {
        all.push((path, kind, body, status));
    }
    all
}

#[test]
fn what_is_acknowledged_at_any_door_is_there_after_a_crash() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let doors = doors();
    for (path, kind, body, status) in &doors {
        let packed = gzip(body);
        let answer = post(&server, path, &[("content-type", kind), ("content-encoding", "gzip")], &packed);
        assert_eq!(answer.status, *status, "{path}: {}", answer.text());
    }
    server.kill_now();
    drop(server);
    let server = Server::start_in(&data);
    let found = messages(&server);
    assert_eq!((found.len(), found.iter().all(|message| message == "m")), (doors.len(), true), "{found:?}");
}

/// Half of a character, which another program has cut, stands for none; what is around it is kept.
#[test]
fn half_of_a_character_costs_no_event() {
    let server = Server::start();
    let half = |body: &[u8]| String::from_utf8_lossy(body).replace("\"m\"", "\"m\\ud83d\"").into_bytes();
    let mut sent = 0;
    for (path, kind, body, status) in doors() {
        let body = match path.ends_with("/firehose") {
            true => firehose(&["{\"message\": \"m\\ud83d\"}"]),
            false => half(&body),
        };
        if !body.is_ascii() || [EXPORT, "text/plain"].contains(&kind) || path.ends_with("/logplex") {
            continue;
        }
        let answer = post(&server, path, &[("content-type", kind)], &body);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        sent += 1;
    }
    let record = "{\"resourceLogs\": [{\"resource\": {\"attributes\": [{\"key\": \"a\", \"value\": {\"stringValue\": \"\\udc00\"}}]}, \
                  \"scopeLogs\": [{\"logRecords\": [{\"body\": {\"stringValue\": \"m\\ud83d\"}}]}]}]}";
    for (path, body) in [("/v1/logs", record), ("/api/logs?source_name=postgres.logs", "[{\"message\": \"m\\ud83d\"}]")]
    {
        let answer = post(&server, path, &[("content-type", "application/json")], body.as_bytes());
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        sent += 1;
    }
    let found = messages(&server);
    assert_eq!((found.len(), found.iter().all(|message| message == "m\u{fffd}")), (sent, true), "{found:?}");
}

/// A body with a good event, one that cannot be stored, and another good one; of the doors that take several.
fn mixed(path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let long = "x".repeat(1 << 20);
    if path.ends_with("/firehose") {
        return firehose(&["m", &long, "m"]);
    }
    if path.ends_with("/logplex") {
        return [frame("m"), frame(&long), frame("m")].concat().into_bytes();
    }
    if kind == EXPORT {
        return [ENTRY, format!("MESSAGE={long}\n\n").as_bytes(), ENTRY].concat();
    }
    if kind == "application/msgpack" {
        let long = [b"\x81\xa7message\xdb\x00\x10\x00\x00", long.as_bytes()].concat();
        return [b"\x93", MSGPACK, &long, MSGPACK].concat();
    }
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let (good, bad) = (text.trim_end(), text.trim_end().replace("\"m\"", &format!("\"{long}\"")));
    match path {
        _ if kind == "text/plain" => format!("m\n{long}\nm\n").into_bytes(),
        _ if path.ends_with("/push") => {
            let values =
                json!([["1763633702123456789", "m"], ["1763633702123456789", 5], ["1763633702123456789", "m"]]);
            json!({"streams": [{"stream": {"job": "a"}, "values": values}]}).to_string().into_bytes()
        }
        _ if path.contains("/_bulk") || path.contains("/services/") => format!("{good}\n{bad}\n{good}\n").into_bytes(),
        _ => format!("[{good},{bad},{good}]").into_bytes(),
    }
}

/// Senders repeat a request that has failed. So one of which something is stored has not.
#[test]
fn a_refused_event_among_good_ones_is_told_in_a_success() {
    let server = Server::start();
    let mut sent = 0;
    let logs = ("/api/logs", "application/json", b"{\"message\": \"m\"}".to_vec(), 200);
    for (path, kind, body, _) in doors().into_iter().chain([logs]) {
        let refused = || {
            let metrics = server.fetch("GET", "/metrics", &[("x-api-key", PRIVATE)], b"");
            let counts = metrics.text().lines().filter(|line| line.starts_with("tidegate_door_refused_events_total"));
            counts.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
        };
        let before = refused();
        if path.contains("/_doc") || path.contains("/_create") {
            continue;
        }
        let answer = post(&server, path, &[("content-type", kind)], &mixed(path, kind, &body));
        assert!((200..300).contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
        // Firehose takes an answer with more than it knows for a failure; systemd-journal-upload shows it to nobody.
        let tells =
            ["rejected", "refused", "\"failed\":1", "\"errors\":"].iter().any(|word| answer.text().contains(word));
        assert!(tells || path.ends_with("/firehose") || kind == EXPORT, "{path}: {}", answer.text());
        assert!((refused() - before - 1.0).abs() < 0.1, "{path}: the refusal is not counted");
        sent += 2;
    }
    assert_eq!(messages(&server).len(), sent);
}

/// Some clients send what they have only to a server that asks for it in this way.
#[test]
fn a_refusal_for_want_of_a_token_offers_basic_and_says_what_is_wrong_with_one() {
    let server = Server::start();
    for (path, kind, body, _) in doors() {
        for (headers, bearer) in [
            (vec![("content-type", kind)], "Bearer"),
            (vec![("content-type", kind), ("x-api-key", "wrong")], "Bearer error=\"invalid_token\""),
        ] {
            let answer = server.fetch("POST", path, &headers, &body);
            let offered: Vec<&str> = answer
                .headers
                .iter()
                .filter(|(name, _)| name == "www-authenticate")
                .map(|(_, value)| value.as_str())
                .collect();
            assert_eq!((answer.status, offered), (401, vec![bearer, "Basic realm=\"tidegate\""]), "{path}");
        }
    }
    let asked = server.fetch("GET", "/_license", &[], b"");
    assert_eq!((asked.status, asked.headers.iter().any(|(_, value)| value.starts_with("Basic "))), (401, true));
    // Elsewhere a browser would ask for a password that is of no use there.
    let query = server.fetch("GET", "/api/endpoints/query/logs.all", &[("x-api-key", "wrong")], b"");
    assert_eq!(
        (query.status, query.header("www-authenticate").as_deref()),
        (401, Some("Bearer error=\"invalid_token\""))
    );
}

#[test]
fn every_door_refuses_what_it_must() {
    let server = Server::start();
    let bomb = gzip(&vec![b' '; 64 << 20]);
    for (path, kind, body, _) in doors() {
        let status = |headers: &[(&str, &str)], body: &[u8]| {
            let mut all = vec![("content-type", kind)];
            all.extend(headers.iter().copied().filter(|(name, _)| *name != "content-type"));
            for header in headers.iter().filter(|(name, _)| *name == "content-type") {
                all[0] = *header;
            }
            let answer = post(&server, path, &all, body);
            assert!(!answer.body.is_empty(), "{path} refuses without a word");
            answer.status
        };
        assert_eq!(status(&[("x-api-key", "wrong")], &body), 401, "{path}");
        assert_eq!(status(&[("authorization", "Basic !")], &body), 401, "{path}");
        assert_eq!(status(&[("x-source-name", "nothing")], &body), 401, "{path}");
        // A journal may be of any length. This is the beginning of a field that never ends.
        let too_much = if kind == EXPORT { 400 } else { 413 };
        assert_eq!(status(&[("content-encoding", "gzip")], &bomb), too_much, "{path}");
        assert_eq!(status(&[("content-encoding", "gzip")], &gzip(&body)[..20]), 400, "{path}");
        assert_eq!(status(&[("content-encoding", "br")], &body), 415, "{path}");
        if !path.contains("/raw") {
            assert_eq!(status(&[], b"{\"a\": "), 400, "{path}");
        }
        if !path.contains("splunk")
            && !path.contains("services")
            && !path.contains("firehose")
            && !path.contains("/v2/")
        {
            assert_eq!(status(&[("content-type", "image/png")], &body), 415, "{path}");
        }
    }
    assert!(messages(&server).is_empty());
    assert!(server.peak_memory() < 400, "{} MiB", server.peak_memory());
    assert!(server.metric("tidegate_door_refused_requests_total{door=\"loki\"}") >= 10.0);
}

#[test]
fn the_rate_limit_is_told_as_each_protocol_tells_it() {
    let server = Server::start_set(&[("TIDEGATE_RATE_INGEST_PER_SECOND", "1"), ("TIDEGATE_RATE_BURST", "1")]);
    for (path, kind, body, _) in doors() {
        let send = || post(&server, path, &[("content-type", kind)], &body);
        let is_refused = |answer: &Raw| answer.status >= 400 || answer.text().contains("\"status\":429");
        let refused = (0..3).map(|_| send()).find(is_refused).unwrap();
        // Bulk helpers read it of each document, and give up at a request that fails.
        let status = if path.ends_with("/_bulk") { 200 } else { 429 };
        // What is refused with 429 is thrown away by its library for Python.
        let status = if path == "/" { 503 } else { status };
        assert_eq!(
            (refused.status, refused.header("retry-after").is_some()),
            (status, true),
            "{path}: {}",
            refused.text()
        );
    }
}

#[test]
fn a_token_stands_where_each_protocol_has_it() {
    let server = Server::start_set(&[("TIDEGATE_INGEST_KEY_IN_QUERY", "true")]);
    let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("anybody:{PUBLIC}")));
    let pair = format!("ApiKey {}", BASE64_STANDARD.encode(format!("id:{PUBLIC}")));
    let splunk = format!("Splunk {PUBLIC}");
    let bearer = format!("Bearer {PUBLIC}");
    let bulk = "{\"create\":{}}\n{\"message\":\"m\"}\n".to_owned();
    let record = "{\"message\": \"m\"}".to_owned();
    let body = |path: &str| match path {
        "/_bulk" => bulk.clone(),
        "/services/collector" => "{\"event\": \"m\"}".to_owned(),
        "/logs/firehose" => String::from_utf8(firehose(&["m"])).unwrap(),
        _ => record.clone(),
    };
    let mut sent = 0;
    for (path, header, value) in [
        ("/logs/json", "x-api-key", PUBLIC),
        ("/logs/json", "authorization", &bearer),
        ("/logs/json", "authorization", &basic),
        ("/_bulk", "authorization", &basic),
        ("/_bulk", "authorization", &pair),
        ("/services/collector", "authorization", &splunk),
        ("/api/v2/logs", "dd-api-key", PUBLIC),
        ("/logs/firehose", "x-amz-firehose-access-key", PUBLIC),
    ] {
        let headers = [("content-type", "application/json"), (header, value)];
        let answer = post(&server, path, &headers, body(path).as_bytes());
        assert!(answer.status < 300, "{path} {header}: {}", answer.text());
        sent += 1;
    }
    for name in ["source_name", "source", "collection_name"] {
        let path = format!("/logs/vector?api_key={PUBLIC}&{name}={SOURCE}");
        let answer = server.fetch("POST", &path, &[("content-type", "application/json")], record.as_bytes());
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        sent += 1;
    }
    assert_eq!(messages(&server).len(), sent);
    // The place of one protocol is none at another.
    assert_eq!(post(&server, "/logs/json", &[("authorization", &splunk)], record.as_bytes()).status, 401);
}

#[test]
fn a_door_may_have_a_source_for_requests_that_name_none() {
    let server =
        Server::start_set(&[("TIDEGATE_DOORS_LOKI_SOURCE", SOURCE), ("TIDEGATE_DOORS_ELASTICSEARCH_SOURCE", SOURCE)]);
    let headers = [("content-type", "application/json"), ("x-api-key", PUBLIC)];
    let loki = json!({"streams": [{"values": [["1763633702123456789", "loki"]]}]}).to_string();
    assert_eq!(server.fetch("POST", "/loki/api/v1/push", &headers, loki.as_bytes()).status, 204);
    let bulk =
        "{\"create\":{\"_index\":\"nowhere\"}}\n{\"message\":\"bulk\"}\n{\"create\":{}}\n{\"message\":\"bulk\"}\n";
    let answer = server.call("POST", "/_bulk", &headers, bulk.as_bytes());
    assert_eq!((answer.status, &answer.body["errors"]), (200, &json!(false)), "{}", answer.body);
    let answer = server.call("POST", "/logs/json", &headers, b"{}");
    answer.refused(400, "invalid_parameter", &["source_name", "json_source"]);
    assert_eq!(messages(&server), ["bulk", "bulk", "loki"]);
}

#[test]
fn records_of_logflare_senders_become_metadata() {
    let server = Server::start();
    let json = [("content-type", "application/json")];
    let vector = json!([
        {"message": "a", "timestamp": ISO, "project": "p1", "host": "h", "nested": {"x": 1}},
        {"msg": "b", "ts": TIME, "host": "i"},
    ]);
    let answer = as_json(post(&server, "/logs/vector", &json, vector.to_string().as_bytes()));
    assert_eq!(answer.body, json!({"message": "Logged!", "accepted": 2, "rejected": 0}));
    // The event of a logger is in its form already; its request names the source.
    let elixir = json!({"source": SOURCE, "batch": [{"message": "c", "timestamp": ISO, "metadata": {"host": "j"}}, 5]});
    let answer = server.call(
        "POST",
        "/logs/elixir/logger",
        &[("content-type", "application/json"), ("x-api-key", PUBLIC)],
        elixir.to_string().as_bytes(),
    );
    assert_eq!((answer.status, &answer.body["accepted"], &answer.body["rejected"]), (200, &json!(1), &json!(1)));
    assert!(answer.body["errors"][0]["message"].as_str().unwrap().contains("object"), "{}", answer.body);
    let found = rows(&server, "event_message, timestamp, m.host as host");
    let row = |message: &str, host: &str| json!({"event_message": message, "timestamp": TIME, "host": host});
    assert_eq!(found, [row("a", "h"), row("b", "i"), row("c", "j")]);
    let sql = "select n.x as x from postgres_logs cross join unnest(metadata) as m cross join unnest(m.nested) as n";
    assert_eq!(server.sql(sql).column("x"), [json!(1)]);
    let bert = post(&server, "/logs/elixir/logger", &[("content-type", "application/bert")], b"\x83");
    as_json(bert).refused(415, "unsupported_media_type", &["BERT", "application/json"]);
    assert!((server.metric("tidegate_door_events_total{door=\"vector\"}") - 2.0).abs() < 0.1);
}

#[test]
fn cloudflare_and_vercel_are_told_that_the_door_is_there() {
    let server = Server::start_set(&[("TIDEGATE_DOORS_VERCEL_VERIFY", "code")]);
    let headers = [("content-type", "application/octet-stream"), ("content-encoding", "gzip")];
    assert_eq!(post(&server, "/logs/cloudflare", &headers, &gzip(b"{\"content\":\"tests\"}")).status, 200);
    let lines = [("a", "2025-11-20T10:15:02Z"), ("b", "2025-11-20T10:15:03Z")].map(|(id, time)| {
        json!({"EdgeStartTimestamp": time, "RayID": id, "ClientRequestMethod": "GET", "EdgeResponseStatus": 200})
            .to_string()
    });
    assert_eq!(post(&server, "/logs/cloudflare", &headers, &gzip(lines.join("\n").as_bytes())).status, 200);
    let drain = json!([{"id": "1", "source": "build", "message": "built", "timestamp": 1_763_633_702_123_i64, "deploymentId": "d"}]);
    let answer = post(&server, "/logs/vercel", &[("content-type", "application/json")], drain.to_string().as_bytes());
    assert_eq!((answer.status, answer.header("x-vercel-verify").as_deref()), (200, Some("code")));
    // What asks whether the door is there is no event.
    for (headers, body) in
        [(vec![], "{}"), (vec![], ""), (vec![("x-vercel-verify", "code")], "{\"message\": \"test\"}")]
    {
        let asked = post(&server, "/logs/vercel", &headers, body.as_bytes());
        assert_eq!((asked.status, asked.header("x-vercel-verify").as_deref()), (200, Some("code")), "{}", asked.text());
    }
    let asked = server.fetch("GET", "/logs/vercel", &[], b"");
    assert_eq!((asked.status, asked.header("x-vercel-verify").as_deref()), (200, Some("code")));
    let found = rows(&server, "event_message, m.RayID as ray, m.deploymentId as deployment");
    let row = |message: &str, ray: Value, deployment: Value| json!({"event_message": message, "ray": ray, "deployment": deployment});
    assert_eq!(
        found,
        [
            row("GET | 200 | a", json!("a"), Value::Null),
            row("GET | 200 | b", json!("b"), Value::Null),
            row("built", Value::Null, json!("d")),
        ]
    );
}

#[test]
fn a_frame_of_a_drain_is_stored_once() {
    let server = Server::start();
    let headers = [("content-type", "application/logplex-1"), ("logplex-frame-id", "F1"), ("logplex-msg-count", "2")];
    let body = [frame("one"), frame("two")].concat();
    for _ in 0..2 {
        let answer = post(&server, "/logs/logplex", &headers, body.as_bytes());
        assert_eq!((answer.status, answer.body.len()), (204, 0));
    }
    // A body that breaks off loses its last message alone. A drain reads the status only, others the body.
    let mut cut = frame("three") + &frame("four");
    cut.pop();
    let answer = as_json(post(&server, "/logs/logplex", &[("content-type", "application/logplex-1")], cut.as_bytes()));
    assert_eq!((answer.status, &answer.body["accepted"], &answer.body["rejected"]), (200, &json!(1), &json!(1)));
    let found = rows(&server, "event_message, timestamp, m.appname as app, m.procid as process, m.level as level");
    let row = |message: &str| json!({"event_message": message, "timestamp": TIME, "app": "app", "process": "web.1", "level": "info"});
    assert_eq!(found, [row("one"), row("three"), row("two")]);
    assert!((server.metric("tidegate_door_refused_events_total{door=\"logplex\"}") - 1.0).abs() < 0.1);
}

#[test]
fn splunk_tells_the_event_that_it_refuses() {
    let server = Server::start();
    let good =
        json!({"time": 1_763_633_702.123_456, "host": "h", "event": {"msg": "a", "x": 1}, "fields": {"env": "e"}});
    let body = format!("{good}{{\"host\": \"h\"}}{}", json!({"event": "b", "host": "i"}));
    let answer = as_json(post(&server, "/services/collector/event", &[], body.as_bytes()));
    let errors = json!([{"index": 1, "message": "Event field is required, and cannot be blank"}]);
    assert_eq!(answer.body, json!({"text": "Success", "code": 0, "accepted": 2, "rejected": 1, "errors": errors}));
    assert_eq!(answer.status, 200);
    let raw = post(&server, "/services/collector/raw?source_name=postgres.logs&host=j", &[], b"c\n\nd\r\n");
    assert_eq!((raw.status, raw.text()), (200, "{\"text\":\"Success\",\"code\":0}"));
    assert_eq!(server.fetch("GET", "/services/collector/health", &[], b"").status, 200);
    let found: Vec<_> = rows(&server, "event_message, m.host as host, m.env as env");
    let row = |message: &str, host: &str, env: Value| json!({"event_message": message, "host": host, "env": env});
    assert_eq!(
        found,
        [row("a", "h", json!("e")), row("b", "i", Value::Null), row("c", "j", Value::Null), row("d", "j", Value::Null)]
    );
    let none = as_json(server.fetch("POST", "/services/collector", &[], b"{\"event\": 1}"));
    assert_eq!((none.status, &none.body["code"]), (401, &json!(2)));
}

#[test]
fn datadog_and_firehose_are_answered_in_their_words() {
    let server = Server::start();
    let logs = json!([{"ddsource": "s", "ddtags": "env:e", "hostname": "h", "message": "a", "service": "v"}, 5]);
    let answer = as_json(post(&server, "/api/v2/logs", &[("dd-api-key", PUBLIC)], logs.to_string().as_bytes()));
    assert_eq!((answer.status, answer.body["errors"].as_array().unwrap().len()), (202, 1));
    let probe = as_json(post(&server, "/api/v2/logs", &[("dd-api-key", PUBLIC)], b"{}"));
    assert_eq!((probe.status, probe.body), (202, json!({})));
    let refused = as_json(post(&server, "/api/v2/logs", &[("dd-api-key", "wrong")], b"{}"));
    assert_eq!((refused.status, &refused.body["errors"][0]["status"]), (401, &json!("401")));

    let attributes = json!({"commonAttributes": {"source_name": SOURCE}}).to_string();
    let headers = [
        ("content-type", "application/json"),
        ("x-amz-firehose-access-key", PUBLIC),
        ("x-amz-firehose-request-id", "7"),
        ("x-amz-firehose-common-attributes", &attributes),
    ];
    let body = firehose(&["{\"message\": \"b\", \"service\": \"w\"}\n{\"message\": \"c\"}", "d\n"]);
    let answer = server.call("POST", "/logs/firehose", &headers, &body);
    assert_eq!((answer.status, &answer.body["requestId"]), (200, &json!("7")));
    assert!(answer.body["timestamp"].as_u64().unwrap() > 1_700_000_000_000);
    let refused = server.call("POST", "/logs/firehose", &headers, b"{}");
    assert_eq!((refused.status, &refused.body["requestId"]), (400, &json!("7")));
    assert!(refused.body["errorMessage"].as_str().unwrap().contains("records"), "{}", refused.body);
    assert_eq!(messages(&server), ["a", "b", "c", "d"]);
    assert_eq!(rows(&server, "event_message, m.service as service")[0]["service"], "v");
    // A private token is told more than a public one.
    assert_eq!(post(&server, "/api/v2/logs", &[("dd-api-key", PRIVATE), ("x-source-name", "no")], b"{}").status, 404);
}

#[test]
fn a_door_whose_source_is_missing_is_told_when_the_service_opens() {
    let server = Server::start_set(&[
        ("TIDEGATE_DOORS_LOKI_SOURCE", "nowhere.logs"),
        ("TIDEGATE_DOORS_SPLUNK_SOURCE", "cloudflare.logs.prod"),
        ("TIDEGATE_SYSLOG_LISTEN", "127.0.0.1:0"),
    ]);
    // An answer comes when the service is open.
    server.manage("GET", "/api/sources", &Value::Null).is(200);
    let log = server.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("refused")).collect();
    let door = told.iter().any(|line| line.contains("[doors] loki_source") && line.contains("nowhere.logs"));
    let syslog = told.iter().any(|line| line.contains("[syslog] source is not set"));
    assert!(door && syslog && told.len() == 2, "{log}");
}
