//! What the contract promises to components, seen by their callers: how long an answer is kept, the time of the
//! request, remarks, problems that may pass. Fresh, kept, and made anew without a request.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{Answer, EDGE, PRIVATE, Raw, Server, folder, now, query_string, request, until};

use super::components::{guest, pack, put};

/// A server with the guest that does what its parameters say, and these settings of its endpoint.
fn server(settings: &Value) -> Server {
    let server = Server::start();
    let folder = folder();
    let packed = folder.path().join("hostile.wasm");
    pack("hostile", &guest("hostile.wasm"), &packed);
    assert_eq!(put(&server, "hostile", &std::fs::read(&packed).unwrap()).status, 201);
    set(&server, settings);
    server
}

fn set(server: &Server, settings: &Value) {
    server.manage("PATCH", "/api/endpoints/hostile", settings).is(200);
}

/// A log of a project, which is what the guest is told as its argument.
fn add(server: &Server, id: &str, project: &str) {
    let mut event = request(id, now(), "/x");
    event["project"] = json!(project);
    server.send(EDGE, &event);
}

fn ask(server: &Server, attack: &str, argument: &str) -> Answer {
    server.query("hostile", &[("attack", attack), ("project", argument)])
}

fn status(answer: &Answer) -> &str {
    answer.header("cache-status").unwrap_or_default()
}

/// For how many seconds more a kept answer is given.
fn ttl(answer: &Answer) -> u64 {
    let ttl = status(answer).strip_prefix("tidegate; hit; ttl=").unwrap_or_else(|| panic!("{}", status(answer)));
    ttl.parse().unwrap()
}

#[test]
fn a_component_lowers_the_time_for_which_its_answer_is_kept() {
    let server = server(&json!({"cache_duration_seconds": 600}));
    for (told, most) in [("100", 100), ("900", 600), ("500 200 300", 200), ("", 600)] {
        assert_eq!(status(&ask(&server, "max-age", told)), "tidegate; fwd=miss; stored", "{told}");
        let left = ttl(&ask(&server, "max-age", told));
        assert!(left <= most && left > most - 60, "{told}: {left}");
    }
    // It is not given any longer than it is told.
    add(&server, "1", "1");
    assert_eq!(ask(&server, "max-age", "1").ids(), ["1"]);
    add(&server, "2", "1");
    until("the answer expires", || ask(&server, "max-age", "1").rows().len() == 2);
    // Nothing is kept for no time.
    for n in 1..=3 {
        add(&server, &n.to_string(), "0");
        let answer = ask(&server, "max-age", "0");
        assert_eq!((answer.rows().len(), status(&answer)), (n, "tidegate; fwd=miss"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!((answer.header("etag"), answer.header("age")), (None, None));
    }
    assert_eq!(server.metric(r#"tidegate_cache_lookups_total{state="unkept"}"#), 3.0);
}

#[test]
fn an_answer_that_is_made_anew_is_kept_for_no_longer() {
    let server = server(&json!({"cache_duration_seconds": 600, "proactive_requerying_seconds": 1}));
    add(&server, "1", "20");
    assert_eq!(ask(&server, "max-age", "20").ids(), ["1"]);
    add(&server, "2", "20");
    until("it is made anew", || {
        let answer = ask(&server, "max-age", "20");
        let left = ttl(&answer);
        assert!(left <= 20, "{left}");
        answer.rows().len() == 2
    });
    // What is not kept is not made anew either: nobody asked again.
    let ran = || server.metric(r#"tidegate_component_outcomes_total{class="answered",reason=""}"#);
    set(&server, &json!({"description": "drops what was kept"}));
    let before = ran();
    assert_eq!(status(&ask(&server, "max-age", "0")), "tidegate; fwd=miss");
    assert_eq!(ask(&server, "time", "").status, 200);
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(ran() - before, 2.0);
}

#[test]
fn who_reads_the_time_of_the_request_answers_it_alone() {
    let server = server(&json!({"cache_duration_seconds": 600}));
    let one = || {
        let sent = now();
        let answer = ask(&server, "time", "");
        assert_eq!(status(&answer), "tidegate; fwd=miss");
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let told = answer.body["result"].as_i64().unwrap();
        assert!((sent..=now()).contains(&told), "sent at {sent}, told {told}");
    };
    one();
    one();
    // Nor is it shared by those who ask at once.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| (0..4).for_each(|_| one()));
        }
    });
}

#[test]
fn remarks_reach_the_caller() {
    let server = server(&json!({}));
    let get = |extra: &[(&str, &str)], headers: &[(&str, &str)]| -> Raw {
        let mut parameters = vec![("attack", "remark"), ("project", "from 192.0.2.7")];
        parameters.extend(extra);
        let mut all = vec![("x-api-key", PRIVATE), ("origin", "https://viewer.example.test")];
        all.extend(headers);
        server.fetch("GET", &format!("/api/endpoints/query/hostile?{}", query_string(&parameters)), &all, b"")
    };
    let has = |answer: &Raw, seen: &str, what: &str| {
        assert_eq!(answer.header("x-tidegate-note-seen").as_deref(), Some(seen), "{what}");
        let again = answer.header("x-tidegate-note-seen-again");
        assert_eq!(again.as_deref(), Some("50%25 of %C3%A9%0D%0Ax-evil: 1"), "{what}");
        assert_eq!(answer.header("x-evil"), None);
        // A page of another origin may read them.
        assert_eq!(answer.header("access-control-expose-headers").as_deref(), Some("*"), "{what}");
    };
    let mask = ("svc-endpoint-redact-pii", "true");
    has(&get(&[], &[]), "from 192.0.2.7", "fresh");
    has(&get(&[], &[mask]), "from REDACTED", "masked");
    has(&get(&[("format", "ndjson")], &[]), "from 192.0.2.7", "sent as it comes");
    has(&get(&[("format", "ndjson")], &[mask]), "from REDACTED", "sent as it comes, masked");
    set(&server, &json!({"cache_duration_seconds": 600}));
    for format in ["json", "ndjson", "csv", "arrow"] {
        for state in ["tidegate; fwd=miss; stored", "tidegate; hit"] {
            let answer = get(&[("format", format)], &[]);
            assert!(answer.header("cache-status").unwrap().starts_with(state), "{format}");
            has(&answer, "from 192.0.2.7", format);
            let tag = answer.header("etag").unwrap();
            let same = get(&[("format", format)], &[("if-none-match", &tag)]).is(304);
            has(&same, "from 192.0.2.7", "known already");
            has(&get(&[("format", format)], &[mask]), "from REDACTED", "kept and masked");
        }
    }
}

#[test]
fn a_problem_that_may_pass_says_when_to_try_again() {
    let server = server(&json!({"cache_duration_seconds": 600}));
    for (code, status) in
        [("invalid-argument", 400), ("not-found", 404), ("conflict", 409), ("unprocessable", 422), ("own", 500)]
    {
        let answer = ask(&server, "try-again", code);
        assert_eq!((answer.status, answer.header("retry-after")), (status, Some("10")), "{}", answer.body);
    }
    // One that does not say so.
    let answer = ask(&server, "no-such-attack", "");
    assert_eq!((answer.status, answer.header("retry-after")), (404, None));
}
