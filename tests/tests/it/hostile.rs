//! The hostile guest, through the binary: every attack by its name. Each is seen to enter (it names
//! itself in the log first), ends with its status and its class in the log, and leaves nothing behind.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Answer, Data, EDGE, PRIVATE, Server, folder, query_string, request, until};

use super::compile::{length, section};
use super::components::{guest, pack, put};

/// A server with small limits, the hostile guest and one event in it.
fn server(settings: &[(&str, &str)]) -> Server {
    let mut all = vec![
        ("TIDEGATE_SERVER_LOG_FORMAT", "json"),
        ("TIDEGATE_LIMITS_COMPONENT_MEMORY", "16 MiB"),
        ("TIDEGATE_LIMITS_COMPONENT_CPU", "300 ms"),
    ];
    all.extend(settings);
    let server = Server::start_set(&all);
    server.send(EDGE, &request("1", tidegate_tests::now(), "/x"));
    let folder = folder();
    let packed = folder.path().join("hostile.wasm");
    pack("hostile", &guest("hostile.wasm"), &packed);
    put(&server, "hostile", &std::fs::read(&packed).unwrap()).is(201);
    server
}

/// One attack, with an id by which its lines in the log are found.
fn attack(server: &Server, name: &str, token: &str) -> Answer {
    let path = format!("/api/endpoints/query/hostile?{}", query_string(&[("attack", name)]));
    server.call("GET", &path, &[("x-api-key", token), ("x-request-id", &format!("of-{name}"))], b"")
}

/// The class and the reason in the line of a request, and whether the guest named the attack.
fn logged(server: &Server, name: &str) -> (String, String, bool) {
    let log = server.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let id = format!("of-{name}");
    let own: Vec<&Value> = lines.iter().filter(|line| line.to_string().contains(&id)).collect();
    let request = own.iter().find(|line| line["message"] == "request").unwrap_or_else(|| panic!("{name}: {log}"));
    let entered = own.iter().any(|line| line["line"] == json!(format!("attack {name}")));
    let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
    (text("class"), text("reason"), entered)
}

/// A number of the metrics page; 0 if it is not there.
fn metric(server: &Server, name: &str) -> f64 {
    let page = server.text("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |number| number.parse().unwrap())
}

/// Nothing is held: no place, no memory, no stack.
fn at_rest(server: &Server, after: &str) {
    for name in ["queries_running", "components_running", "components_memories", "components_stacks"] {
        assert_eq!(metric(server, &format!("tidegate_{name}")), 0.0, "{name} after {after}");
    }
}

/// Waits at most a second until nothing is held.
fn comes_to_rest(server: &Server, after: &str) {
    let began = Instant::now();
    while metric(server, "tidegate_components_running") > 0.0 && began.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
    }
    at_rest(server, after);
}

#[test]
fn every_attack_ends_in_its_class_and_harms_nobody() {
    // The calls are used up long before the time, also where other tests take the processors.
    let server = server(&[("TIDEGATE_LIMITS_COMPONENT_CPU", "2 s"), ("TIDEGATE_LIMITS_COMPONENT_CALLS", "1000")]);
    for (name, status, code, class, reason) in [
        ("spin", 504, "timeout", "exhausted", "cpu"),
        ("grow", 422, "limit_exceeded", "exhausted", "memory"),
        ("grow-at-once", 422, "limit_exceeded", "exhausted", "memory"),
        ("recurse", 500, "component_failed", "faulted", "stack_overflow"),
        ("panic", 500, "component_failed", "faulted", "unreachable"),
        ("divide", 500, "component_failed", "faulted", "unreachable"),
        ("wild-pointer", 500, "component_failed", "faulted", "out_of_bounds"),
        ("handles", 422, "limit_exceeded", "exhausted", "handles"),
        ("leak", 422, "limit_exceeded", "exhausted", "statements"),
        ("runs", 422, "limit_exceeded", "exhausted", "host_calls"),
        ("log", 422, "limit_exceeded", "exhausted", "host_calls"),
        ("long-line", 422, "limit_exceeded", "exhausted", "call_bytes"),
        ("huge-note", 200, "", "", ""),
        ("huge-document", 422, "limit_exceeded", "exhausted", "call_bytes"),
        ("huge-problem", 500, "component_failed", "problem", ""),
        ("false-reason", 500, "component_failed", "faulted", "contract"),
        ("undeclared", 500, "unknown_statement", "query_failed", ""),
        ("sql-as-name", 500, "unknown_statement", "query_failed", ""),
        ("override", 400, "invalid_parameter", "query_failed", ""),
        ("read-zero", 400, "invalid_parameter", "query_failed", ""),
        ("lie-about-rows", 500, "component_failed", "faulted", "contract"),
        ("bad-json", 500, "component_failed", "faulted", "contract"),
        ("deep-document", 500, "component_failed", "faulted", "contract"),
        ("no-such-attack", 404, "not_found", "problem", ""),
    ] {
        let answer = attack(&server, name, PRIVATE);
        assert_eq!(answer.status, status, "{name}: {}", answer.body);
        if status != 200 {
            answer.refused(status, code, &[]);
        }
        let text = answer.body.to_string();
        for secret in ["a secret of the guest", "wasm", "hostile::", "0x"] {
            assert!(text.len() < 8192 && !text.contains(secret), "{name}: {text}");
        }
        assert_eq!(logged(&server, name), (class.to_owned(), reason.to_owned(), true), "{name}");
        at_rest(&server, name);
        assert_eq!(attack(&server, "none", PRIVATE).ids(), ["1"], "after {name}");
        assert_eq!(server.query("logs.all", &[("project", "p1")]).ids(), ["1"], "after {name}");
    }
    let spins = r#"tidegate_component_outcomes_total{class="exhausted",reason="cpu"}"#;
    assert_eq!(metric(&server, spins), 1.0);
    // The message of a panic and the trap are the operator's to read.
    let log = server.log();
    assert!(log.contains("a secret of the guest") && log.contains("wasm trap: call stack exhausted"), "{log}");
}

#[test]
fn arguments_of_a_guest_are_values_and_nothing_else() {
    let server = server(&[]);
    assert_eq!(attack(&server, "sql-in-argument", PRIVATE).rows(), Vec::<Value>::new(), "no event has this text");
    assert_eq!(attack(&server, "wrong-kind", PRIVATE).ids(), ["1"], "an argument that no statement names is nothing");
}

#[test]
fn the_same_request_is_answered_with_the_same_bytes() {
    let server = server(&[]);
    for name in ["none", "read-all", "marker", "panic", "grow", "huge-problem"] {
        let path = format!("/api/endpoints/query/hostile?{}", query_string(&[("attack", name)]));
        let fetch = || server.fetch("GET", &path, &[("x-api-key", PRIVATE)], b"");
        let first = fetch();
        for _ in 0..3 {
            let again = fetch();
            assert_eq!((again.status, again.text()), (first.status, first.text()), "{name}");
        }
    }
}

#[test]
fn nothing_of_one_tenant_is_in_the_memory_of_another() {
    let server = server(&[("TIDEGATE_LIMITS_COMPONENT_CPU", "60 s")]);
    let tokens: Vec<String> = ["blue", "green"]
        .iter()
        .map(|tenant| {
            let token = json!({"description": tenant, "scopes": "query", "pinned": {"project": tenant}});
            server.token(&token)
        })
        .collect();
    // In turn, and several at once: each instance leaves its mark in 2 MiB.
    for _ in 0..2 {
        for token in &tokens {
            assert_eq!(attack(&server, "remember", token).body, json!({"result": 0}));
        }
    }
    std::thread::scope(|scope| {
        let of = |token: &String| {
            let (server, token) = (&server, token.clone());
            move || (0..3).map(|_| attack(server, "remember", &token).body).collect::<Vec<_>>()
        };
        let all: Vec<_> = tokens.iter().cycle().take(6).map(|token| scope.spawn(of(token))).collect();
        for answers in all {
            assert_eq!(answers.join().unwrap(), vec![json!({"result": 0}); 3], "a mark survived");
        }
    });
}

#[test]
fn a_caller_who_leaves_a_spinning_guest_frees_it() {
    let server = server(&[("TIDEGATE_LIMITS_COMPONENT_CPU", "60 s"), ("TIDEGATE_LIMITS_REQUEST_TIME", "60 s")]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head =
        format!("GET /api/endpoints/query/hostile?attack=spin HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    server.until_logged("attack spin");
    assert_eq!(metric(&server, "tidegate_components_running"), 1.0);
    drop(stream);
    comes_to_rest(&server, "the caller left");
    assert_eq!(attack(&server, "none", PRIVATE).ids(), ["1"]);
}

#[test]
fn spinning_guests_in_all_places_make_others_come_again() {
    let server = server(&[
        ("TIDEGATE_LIMITS_COMPONENT_CPU", "2 s"),
        ("TIDEGATE_ADMISSION_CONCURRENCY", "2"),
        ("TIDEGATE_ADMISSION_QUEUE", "4"),
        ("TIDEGATE_ADMISSION_WAIT", "100 ms"),
    ]);
    // One token takes one of the two places at most, so it takes two to fill them.
    let other = server.token(&json!({"scopes": "query"}));
    std::thread::scope(|scope| {
        let spins = [PRIVATE, other.as_str()].map(|token| scope.spawn(|| attack(&server, "spin", token)));
        until("the guests are entered", || metric(&server, "tidegate_components_running") >= 2.0);
        let refused = attack(&server, "none", PRIVATE);
        refused.refused(503, "overloaded", &["try again"]);
        assert!(refused.header("retry-after").is_some());
        for spin in spins {
            spin.join().unwrap().refused(504, "timeout", &[]);
        }
    });
    comes_to_rest(&server, "spins");
    assert_eq!(attack(&server, "none", PRIVATE).ids(), ["1"]);
}

/// The files of compiled code in a data folder.
fn compiled(data: &std::path::Path) -> BTreeSet<std::path::PathBuf> {
    std::fs::read_dir(data.join("compiled")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn compiled_code_that_was_touched_is_not_run() {
    let own = folder();
    let data = own.path().join("data");
    let server = Server::start_in(&data);
    server.send(EDGE, &request("1", tidegate_tests::now(), "/x"));
    assert_eq!(server.query("logs.all", &[("project", "p1")]).ids(), ["1"]);
    assert_eq!(server.sql("SELECT id FROM edge_logs").ids(), ["1"], "an ad-hoc query has code of its own");
    assert_eq!(server.stop("-TERM"), Some(0));
    let files = compiled(&data);
    assert!(!files.is_empty());
    let good: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    // One bit flipped; the authentic code of another component; nothing but the machine code.
    let flip = |mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        bytes
    };
    type Touch<'a> = (&'a str, Box<dyn Fn(usize) -> Vec<u8> + 'a>);
    let touches: [Touch<'_>; 3] = [
        ("flipped", Box::new(|n| flip(good[n].clone()))),
        ("another's", Box::new(|n| good[(n + 1) % good.len()].clone())),
        ("bare", Box::new(|n| good[n][48..].to_vec())),
    ];
    for (name, touched) in touches {
        for (number, file) in files.iter().enumerate() {
            std::fs::write(file, touched(number)).unwrap();
        }
        let before = std::fs::read_to_string(data.with_extension("log")).unwrap().len();
        let server = Server::start_in(&data);
        assert_eq!(server.query("logs.all", &[("project", "p1")]).ids(), ["1"], "{name}");
        let told = server.log()[before..].to_owned();
        assert!(told.contains("compiled code is not from this server"), "{name}: {told}");
        assert_eq!(server.stop("-TERM"), Some(0));
        for (number, file) in files.iter().enumerate() {
            let rewritten = std::fs::read(file).unwrap();
            // What the requests needed was written anew; what they did not is still the touched one.
            assert!(rewritten == good[number] || rewritten == touched(number), "{name}: {}", file.display());
        }
        let anew = files.iter().zip(&good).filter(|(file, good)| std::fs::read(file).unwrap() == **good).count();
        assert!(anew >= 1, "{name}: nothing was written anew");
    }
}

#[test]
fn uploads_that_are_no_components_are_refused_by_what_they_are() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let file = compiled(&data).into_iter().next().unwrap();
    let artefact = std::fs::read(file).unwrap();
    let packed = data.beside("hostile.wasm");
    pack("hostile", &guest("hostile.wasm"), &packed);
    let component = std::fs::read(&packed).unwrap();
    let wat = |text: &str| wat::parse_str(text).unwrap();
    let more = r#"(component (import "tidegate:endpoint/log@0.1.0" (instance (export "delete-lines" (func)))))"#;
    let mut manifest = component.clone();
    manifest.extend(custom_section("tidegate:manifest", &vec![b' '; 1 << 20]));
    for (what, bytes, words) in [
        ("nothing", Vec::new(), "no WebAssembly component"),
        ("text", b"select 1".to_vec(), "no WebAssembly component"),
        ("a program", std::fs::read("/proc/self/exe").unwrap()[..4096].to_vec(), "machine code"),
        ("compiled code of this engine", artefact[48..].to_vec(), "machine code"),
        ("a file of compiled code", artefact, "no WebAssembly component"),
        ("a core module", wat("(module)"), "core module"),
        ("a module of a toolchain", std::fs::read(guest("hostile.wasm")).unwrap(), "core module"),
        ("half a component", component[..component.len() / 2].to_vec(), "not valid"),
        ("a component that wants WASI", wat(r#"(component (import "wasi:cli/environment@0.2.0" (instance)))"#), "WASI"),
        ("a function too many", wat(more), "tidegate:endpoint/handler"),
        ("a megabyte of manifest", manifest, "manifest"),
    ] {
        let answer = put(&server, "hostile", &bytes);
        answer.refused(422, "refused", &[words]);
        assert!(answer.body.to_string().len() < 4096, "{what}: {}", answer.body);
        assert_eq!(server.query("logs.all", &[("project", "p1")]).status, 200, "after {what}");
    }
    assert_eq!(put(&server, "hostile", &component).status, 201);
}

/// A custom section, as it is appended to a component.
fn custom_section(name: &str, content: &[u8]) -> Vec<u8> {
    section(0, &[length(name.len()).as_slice(), name.as_bytes(), content].concat())
}
