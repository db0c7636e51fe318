//! What operators see and set: configuration, probes, metrics, log lines, shares of tokens.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;
use serde_json::{Value, json};
use tidegate_tests::{
    Data, EDGE, PRIVATE, PUBLIC, Server, binary, folder, lasting_port, now, request, until, until_within,
};

const LONG: Duration = Duration::from_secs(30);

/// Waits for a line of the server's log.
fn line(server: &Server, words: &[&str]) -> String {
    let began = Instant::now();
    loop {
        let log = server.log();
        if let Some(line) = log.lines().find(|line| words.iter().all(|word| line.contains(word))) {
            return line.to_owned();
        }
        assert!(began.elapsed() < LONG, "no line with {words:?}:\n{log}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Pages of other origins may query and send logs: browsers ask before a request with such a header.
#[test]
fn pages_of_other_origins_may_send_the_headers_that_are_read() {
    let server = Server::start();
    for name in [
        "authorization",
        "x-api-key",
        "last-event-id",
        "content-encoding",
        "idempotency-key",
        "if-match",
        "x-source-name",
        "x-source",
    ] {
        let asked = [
            ("origin", "https://viewer.example.test"),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", name),
        ];
        let answer = server.fetch("OPTIONS", "/api/logs", &asked, b"");
        let allowed = answer.header("access-control-allow-headers").unwrap();
        assert!(answer.status == 200 && allowed.split(',').any(|one| one == name), "{name}: {allowed}");
        assert_eq!(answer.header("access-control-allow-origin").as_deref(), Some("*"));
    }
}

fn print_config(arguments: &[&str], environment: &[(&str, &str)]) -> Result<String, String> {
    let mut command = Command::new(binary());
    command.args(["serve", "--print-config"]).args(arguments).envs(environment.iter().copied());
    let out = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

#[test]
fn the_configuration_in_effect_is_printed_and_can_be_fed_back() {
    let environment = [
        ("TIDEGATE_LIMITS_ROWS", "20"),
        ("TIDEGATE_PRIVATE_ACCESS_TOKEN", "very-secret-private-token"),
        ("LOGFLARE_PUBLIC_ACCESS_TOKEN", "very-secret-public-token"),
    ];
    let printed = print_config(&["--listen", "127.0.0.1:7"], &environment).unwrap();
    for line in ["rows = 20  # environment TIDEGATE_LIMITS_ROWS", "listen = \"127.0.0.1:7\"  # flag --listen"] {
        assert!(printed.contains(line), "{printed}");
    }
    assert!(!printed.contains("secret"), "{printed}");
    let folder = folder();
    let file = folder.path().join("printed.toml");
    std::fs::write(&file, &printed).unwrap();
    let again = print_config(&["--config", file.to_str().unwrap()], &[]).unwrap();
    let values = |text: &str| -> Vec<String> {
        let of = |line: &str| line.split("  # ").next().unwrap_or_default().to_owned();
        text.lines().filter(|line| !line.starts_with('#')).map(of).collect()
    };
    assert_eq!(values(&again), values(&printed));
    assert!(again.contains("rows = 20  # file"), "{again}");
    let refused = print_config(&[], &[("TIDEGATE_LIMITS_ROWZ", "1")]).unwrap_err();
    assert!(refused.contains("did you mean TIDEGATE_LIMITS_ROWS?"), "{refused}");
}

#[test]
fn health_answers_at_once_whatever_is_wrong_with_the_data() {
    let data = Data::new();
    std::fs::create_dir(&data).unwrap();
    // Not a catalog, whatever its name is.
    let first = Server::start_in(&data);
    first.stop("-TERM");
    let catalog = std::fs::read_dir(&data)
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|kind| kind == "sqlite" || kind == "db"))
        .expect("a catalog file");
    let kept = std::fs::read(&catalog).unwrap();
    std::fs::write(&catalog, b"this is not a database at all, but long enough to be looked at".repeat(100)).unwrap();

    let mut command = Command::new(binary());
    let address = format!("127.0.0.1:{}", lasting_port());
    command.args(["serve", "--listen", &address, "--data-dir"]).arg(&data);
    let server = Server::spawn_at(command, data.beside("second.log"), &address);
    server.call("GET", "/health", &[], b"").is(200);
    let began = Instant::now();
    loop {
        let ready = server.call("GET", "/ready", &[], b"");
        assert_eq!((ready.status, &ready.body["status"]), (503, &json!("not_ready")), "{}", ready.body);
        let message = ready.body["problems"][0]["message"].as_str().unwrap();
        assert!(!message.contains(data.to_str().unwrap()), "no paths: {message}");
        if ready.body["problems"][0]["what"] == json!("start") {
            break;
        }
        assert!(began.elapsed() < LONG, "{}", ready.body);
        std::thread::sleep(Duration::from_millis(20));
    }
    server.call("GET", "/api/sources", &[("x-api-key", PRIVATE)], b"").refused(503, "overloaded", &["/ready"]);
    line(&server, &["the service cannot be opened"]);
    // What is mended is taken up without a restart.
    std::fs::write(&catalog, kept).unwrap();
    server.until_ready();
    server.call("GET", "/api/sources", &[("x-api-key", PRIVATE)], b"").is(200);
}

/// Who sees that the port is healthy sends at once: it is let wait until the service is open.
#[test]
fn what_is_sent_while_the_service_opens_is_not_refused() {
    for _ in 0..3 {
        let folder = folder();
        let address = format!("127.0.0.1:{}", lasting_port());
        let mut command = Command::new(binary());
        command.args(["serve", "--listen", &address, "--data-dir"]).arg(folder.path().join("data"));
        let server = Server::spawn_at(command, folder.path().join("log"), &address);
        server.send(EDGE, &json!([request("a", now(), "/")]));
        assert_eq!(server.sql("SELECT id FROM edge_logs").ids(), ["a"]);
    }
}

#[test]
fn each_request_has_an_id_and_a_line_that_tells_no_secret() {
    let server = Server::start();
    let path = "/api/endpoints/query/logs.all?project=p1&secret=in-the-query";
    let headers = [("x-api-key", PRIVATE), ("x-request-id", "my-id-17")];
    let answer = server.call("GET", path, &headers, b"");
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some("my-id-17")));
    let told = line(&server, &["my-id-17", "milliseconds"]);
    for word in ["GET", "/api/endpoints/query/{endpoint}", "/api/endpoints/query/logs.all", "status=200", "127.0.0.1:"]
    {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(told.contains("endpoint=\"logs.all\""), "{told}");
    let log = server.log();
    assert!(!log.contains("in-the-query") && !log.contains(PRIVATE), "{log}");
    // An id that could break lines is replaced, and refusals have one too.
    let refused = server.call("GET", "/nothing/here", &[("x-request-id", "two words")], b"");
    assert_eq!((refused.status, refused.header("x-request-id").unwrap().len()), (404, 36));
    // The span of a text line: the request and the endpoint that ran for it.
    assert!(told.contains("request{id=\"my-id-17\" endpoint=\"logs.all\"}"), "{told}");
    line(&server, &["/nothing/here", "route=\"none\"", "code=\"not_found\""]);
}

#[test]
fn lines_are_json_where_that_is_set() {
    let server = Server::start_set(&[("TIDEGATE_SERVER_LOG_FORMAT", "json")]);
    server.query("logs.all", &[("project", "p1")]);
    let told = line(&server, &["milliseconds", "logs.all"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["status"], &told["endpoint"], &told["method"]), (&json!(200), &json!("logs.all"), &json!("GET")));
    assert!(told["span"]["id"].as_str().is_some_and(|id| id.len() == 36), "{told}");
    assert!(told["token"].as_str().is_some_and(|id| !PRIVATE.contains(id)), "{told}");
    for line in server.log().lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn metrics_count_by_route_and_name_nobody() {
    let server = Server::start();
    server.send(EDGE, &json!([request("a", now(), "/"), request("b", now(), "/")]));
    server.query("logs.all", &[("project", "p1")]);
    server.query("logs.all", &[("project", "p1"), ("sql", "SELECT nothing FROM nowhere")]);
    server.call("GET", "/api/endpoints/query/logs.all", &[], b"");
    server.call("GET", "/some/path/of/a/scanner", &[], b"");
    let metrics = server.text("/metrics");
    for line in [
        "tidegate_requests_total{route=\"/api/logs\",method=\"POST\",status=\"2xx\"} 1",
        "tidegate_requests_total{route=\"/api/endpoints/query/{endpoint}\",method=\"GET\",status=\"2xx\"} 1",
        "tidegate_requests_total{route=\"/api/endpoints/query/{endpoint}\",method=\"GET\",status=\"4xx\"} 2",
        "tidegate_requests_total{route=\"none\",method=\"GET\",status=\"4xx\"} 1",
        "tidegate_failures_total{route=\"/api/endpoints/query/{endpoint}\",code=\"unknown_table\"} 1",
        "tidegate_failures_total{route=\"/api/endpoints/query/{endpoint}\",code=\"unauthorized\"} 1",
        "tidegate_request_duration_seconds_count{route=\"/api/logs\"} 1",
        "tidegate_ingest_events_total 2",
        "tidegate_queries_running 0",
        "tidegate_store_read_only 0",
        "tidegate_store_commits_total 1",
        "tidegate_cache_entries 0",
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line}:\n{metrics}");
    }
    for word in ["logs.all", "scanner", EDGE, PRIVATE, PUBLIC] {
        assert!(!metrics.contains(word), "{word}:\n{metrics}");
    }
    let memory = metrics.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
    assert!(memory.parse::<u64>().unwrap() > 1 << 20);
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn metrics_have_memory_and_disk_with_their_limits() {
    let server = Server::start_set(&[
        ("TIDEGATE_LIMITS_TOTAL_MEMORY", "96 MiB"),
        ("TIDEGATE_LIMITS_STATEMENT_MEMORY", "64 MiB"),
        ("TIDEGATE_ADMISSION_ANSWER_MEMORY", "160 MiB"),
        ("TIDEGATE_INGEST_BODY_MEMORY", "16 MiB"),
        ("TIDEGATE_CACHE_MEMORY", "5 MiB"),
        ("TIDEGATE_STORAGE_FOOTER_MEMORY", "3 MiB"),
    ]);
    for (name, mebibytes) in [
        ("statements_memory_limit", 96.0),
        ("answers_limit", 160.0),
        ("ingest_body_limit", 16.0),
        ("cache_limit", 5.0),
        ("footers_limit", 3.0),
    ] {
        let name = format!("tidegate_{name}_bytes");
        assert_eq!(server.metric(&name), mebibytes * 1024.0 * 1024.0, "{name}");
    }
    // Plans that are kept have a few kilobytes.
    let holds_much = || server.metric("tidegate_statements_memory_bytes") > 1024.0 * 1024.0;
    assert!(!holds_much(), "nothing runs");
    assert!(server.metric("tidegate_store_unflushed_bytes") < server.metric("tidegate_store_unflushed_limit_bytes"));
    let (used, all) = (server.metric("tidegate_disk_used_bytes"), server.metric("tidegate_disk_bytes"));
    assert!(0.0 < used && used <= all, "{used} of {all}");

    // While a statement groups many rows, it holds some of it.
    let is_seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_seen.load(Ordering::Relaxed) {
                server.sql("SELECT COUNT(DISTINCT x * 1000 + y) AS n FROM UNNEST(GENERATE_ARRAY(1, 600)) AS x, UNNEST(GENERATE_ARRAY(1, 600)) AS y");
            }
        });
        until("memory of a statement is seen", holds_much);
        is_seen.store(true, Ordering::Relaxed);
    });
    until("the memory of a statement is given back", || !holds_much());
}

#[test]
fn a_token_has_its_share_and_is_told_what_is_left() {
    let server = Server::start_set(&[("TIDEGATE_RATE_QUERIES_PER_SECOND", "1"), ("TIDEGATE_RATE_BURST", "3")]);
    let answer = server.query("logs.all", &[("project", "p1")]);
    assert_eq!((answer.status, answer.header("ratelimit-policy")), (200, Some("\"queries\";q=3;w=3")));
    assert!(answer.header("ratelimit").unwrap().starts_with("\"queries\";r=2;t="), "{answer:?}");
    let began = Instant::now();
    let refused = loop {
        let answer = server.query("logs.all", &[("project", "p1")]);
        if answer.status != 200 {
            break answer;
        }
        assert!(began.elapsed() < LONG, "the share never ends");
    };
    refused.refused(429, "too_many_requests", &["1 requests a second"]);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.header("ratelimit").unwrap().starts_with("\"queries\";r=0;t="), "{refused:?}");
    // Sending is another share, and it has no limit here.
    server.send(EDGE, &json!([request("a", now(), "/")]));
}

#[test]
fn more_queries_than_places_are_told_to_come_again() {
    let server = Server::start_set(&[
        ("TIDEGATE_ADMISSION_CONCURRENCY", "1"),
        ("TIDEGATE_ADMISSION_QUEUE", "1"),
        ("TIDEGATE_ADMISSION_WAIT", "200 ms"),
        ("TIDEGATE_LIMITS_REQUEST_TIME", "5 s"),
    ]);
    // Slow by its work, not by its rows.
    let events: Vec<_> = (0..2000).map(|i| request(&i.to_string(), now() - i, "/")).collect();
    server.send(EDGE, &json!(events));
    let slow = "SELECT COUNT(*) AS n FROM edge_logs a CROSS JOIN edge_logs b CROSS JOIN edge_logs c WHERE a.id < b.id AND b.id < c.id";
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| server.sql(slow))).collect();
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 503).collect();
        assert!(refused.len() >= 4, "{:?}", answers.iter().map(|answer| answer.status).collect::<Vec<_>>());
        for answer in refused {
            answer.refused(503, "overloaded", &["try again"]);
            assert!(answer.header("retry-after").is_some());
        }
    });
    // A statement that is over its time keeps its place until it has seen so.
    let count = "SELECT COUNT(*) AS n FROM edge_logs";
    until_within(Duration::from_secs(20), "a place is free", || server.sql(count).status == 200);
    assert_eq!(server.sql(count).rows()[0]["n"], json!(2000));
}

#[test]
fn bodies_beyond_their_memory_are_refused_and_give_it_back() {
    let server = Server::start_set(&[
        ("TIDEGATE_INGEST_MAX_BODY", "64 KiB"),
        ("TIDEGATE_INGEST_EVENT_BYTES", "64 KiB"),
        ("TIDEGATE_INGEST_BODY_MEMORY", "64 KiB"),
    ]);
    let event = json!({"event_message": "x".repeat(40 << 10)}).to_string();
    // The share of the token, which is half, is held by a body that does not end.
    let held = {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        write!(stream, "POST /api/logs?source_name={EDGE} HTTP/1.1\r\nhost: x\r\nx-api-key: {PUBLIC}\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n").unwrap();
        stream.write_all(&vec![b' '; 40 << 10]).unwrap();
        stream
    };
    until("the body is held", || {
        server.text("/metrics").lines().any(|line| line == "tidegate_ingest_body_bytes 32768")
    });
    server.send_raw(EDGE, &[], event.as_bytes()).refused(
        429,
        "too_many_requests",
        &["of this token", "nothing of the request was stored"],
    );
    let path = format!("/api/logs?source_name={EDGE}");
    let headers = [("x-api-key", PRIVATE), ("content-type", "application/json")];
    let other = server.call("POST", &path, &headers, event.as_bytes());
    assert_eq!(other.status, 200, "the other half is for others: {other:?}");
    drop(held);
    until("the memory is given back", || server.send_raw(EDGE, &[], event.as_bytes()).status == 200);
}

#[test]
fn traces_are_sent_and_continue_those_of_callers() {
    use std::io::{Read, Write};
    let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", receiver.local_addr().unwrap());
    let received = std::thread::spawn(move || {
        let (mut stream, _) = receiver.accept().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let n = stream.read(&mut buffer).unwrap();
            bytes.extend_from_slice(&buffer[..n]);
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if bytes.len() >= end + 4 + length.trim().parse::<usize>().unwrap() {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
                return (head, bytes[end + 4..].to_vec());
            }
        }
    });
    let server = Server::start_set(&[
        ("TIDEGATE_TRACES_ENDPOINT", &address),
        ("TIDEGATE_TRACES_SERVICE_NAME", "a-service-of-tests"),
        // An error is one in a trace, with whatever status it is sent.
        ("TIDEGATE_SERVER_ERRORS", "ok"),
    ]);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("00-{trace}-00f067aa0ba902b7-01");
    let headers = [("x-api-key", PRIVATE), ("traceparent", &*parent)];
    let refused = server.call("GET", "/api/endpoints/query/logs.all?project=", &headers, b"");
    assert_eq!((refused.status, refused.header("x-tidegate-status")), (200, Some("400")), "{}", refused.body);
    // Who has no token continues no trace: the server alone decides what is sampled.
    let stranger = format!("/nowhere/{}", "x".repeat(5_000));
    assert_eq!(server.fetch("GET", &stranger, &[("traceparent", &*parent)], b"").status, 404);
    let line = line(&server, &["/nowhere/x"]);
    assert!(line.len() < 2_000 && line.contains("xx…"), "{line}");
    // The last spans are sent before the end.
    assert_eq!(server.stop("-TERM"), Some(0));
    let (head, body) = received.join().unwrap();
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    assert!(!String::from_utf8_lossy(&body).contains(PRIVATE));
    let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let resource = &sent.resource_spans[0];
    assert!(format!("{:?}", resource.resource).contains("a-service-of-tests"));
    let spans: Vec<_> = sent.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans).collect();
    let id: Vec<u8> = (0..16).map(|i| u8::from_str_radix(&trace[2 * i..2 * i + 2], 16).unwrap()).collect();
    let of_caller: Vec<_> = spans.iter().filter(|span| span.trace_id == id).collect();
    let [query] = of_caller.as_slice() else { panic!("{spans:?}") };
    assert_eq!((query.name.as_str(), query.kind()), ("GET /api/endpoints/query/{endpoint}", SpanKind::Server));
    assert!(query.start_time_unix_nano < query.end_time_unix_nano);
    let attributes = |span: &Span| -> BTreeMap<String, String> {
        let shown = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
            Some(Any::StringValue(text)) => text,
            Some(Any::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        span.attributes.iter().map(|own| (own.key.clone(), shown(own.value.clone()))).collect()
    };
    let own = attributes(query);
    for (name, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/api/endpoints/query/{endpoint}"),
        ("http.response.status_code", "400"),
        ("url.path", "/api/endpoints/query/logs.all"),
        ("url.scheme", "http"),
        ("client.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("tidegate.endpoint", "logs.all"),
    ] {
        assert_eq!(own.get(name).map(String::as_str), Some(value), "{name}: {own:?}");
    }
    let stranger = spans.iter().find(|span| attributes(span)["url.path"].starts_with("/nowhere")).unwrap();
    assert_eq!((stranger.name.as_str(), stranger.parent_span_id.len()), ("GET", 0));
}

#[test]
fn a_backup_of_a_running_server_can_be_restored() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let server = Server::start_in(&path("data"));
    server.send(EDGE, &json!([request("a", now(), "/"), request("b", now(), "/")]));
    let run = |arguments: &[&str]| Command::new(binary()).args(arguments).output().unwrap();
    let (data, copy, again) = (path("data"), path("copy"), path("again"));
    let (data, copy, again) = (data.to_str().unwrap(), copy.to_str().unwrap(), again.to_str().unwrap());
    let out = run(&["backup", "--data-dir", data, "--to", copy]);
    assert!(out.status.success() && String::from_utf8_lossy(&out.stdout).contains("9 sources"), "{out:?}");
    server.send(EDGE, &json!([request("later", now(), "/")]));
    let out = run(&["restore", "--from", copy, "--data-dir", again]);
    assert!(out.status.success(), "{out:?}");
    let out = run(&["restore", "--from", copy, "--data-dir", again]);
    assert!(!out.status.success(), "a folder with data is not written over: {out:?}");
    let restored = Server::start_in(&path("again"));
    let mut ids = restored.sql("SELECT id FROM edge_logs").ids();
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
}

/// A compressor for each answer that is not read would take the room of all who have no token.
#[test]
fn metrics_are_compressed_for_tokens_only() {
    let server = Server::start();
    let coding = |headers: &[(&str, &str)]| {
        let answer = server.fetch("GET", "/metrics", headers, b"").is(200);
        answer.header("content-encoding")
    };
    let gzip = ("accept-encoding", "gzip");
    assert_eq!(coding(&[gzip]), None);
    assert_eq!(coding(&[gzip, ("x-api-key", PRIVATE)]).as_deref(), Some("gzip"));
}
