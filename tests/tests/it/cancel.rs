//! A caller who hangs up, or whose time is over, stops the work.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{PRIVATE, Server, now, query_string, until};

/// Statements that would compute for minutes, each in operators of its own.
const ENDLESS: [&str; 6] = [
    "select count(*) as c from postgres_logs a cross join postgres_logs b cross join postgres_logs c cross join postgres_logs d",
    "select count(*) as c from postgres_logs a cross join postgres_logs b where concat(a.event_message, b.event_message) like '%zzz%y%'",
    "select count(*) as c from postgres_logs a join postgres_logs b on a.event_message like concat('%', b.id, '%', b.id) join postgres_logs c on true",
    "select count(*) as c from postgres_logs a join postgres_logs b on a.event_message = b.event_message and regexp_contains(concat(a.id, b.id), 'x+y') join postgres_logs c on c.event_message = a.event_message and c.id like '%e%'",
    "select a.event_message as k, max(concat(b.id, c.id)) as m from postgres_logs a cross join postgres_logs b cross join postgres_logs c group by k",
    "select distinct m.n from postgres_logs a cross join postgres_logs b cross join postgres_logs c cross join unnest(a.metadata) as m where concat(b.id, c.id) like '%y%'",
];

fn server(time: &str) -> Server {
    let server = Server::start_set(&[("TIDEGATE_LIMITS_REQUEST_TIME", time)]);
    let event = |i: usize| json!({"id": format!("e{i}"), "project": "p1", "timestamp": now(), "event_message": "m".repeat(50), "metadata": {"n": i}});
    server.send("postgres.logs", &Value::Array((0..3_000).map(event).collect()));
    server
}

/// How long the server still computes, up to some seconds.
fn time_to_rest(server: &Server) -> Duration {
    let began = Instant::now();
    let mut last = (server.processor_time(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(100));
        let used = server.processor_time();
        // Hundredths: what the clock of the interruptions takes does not count.
        if used > last.0 + 2 {
            last = (used, began.elapsed());
        } else if began.elapsed() > last.1 + Duration::from_millis(500) {
            return last.1;
        }
    }
    began.elapsed()
}

fn running(server: &Server) -> Value {
    server.call("GET", "/ready", &[], b"").body["running"].clone()
}

#[test]
fn a_caller_who_hangs_up_stops_the_work_within_a_second() {
    let server = server("60s");
    for sql in ENDLESS {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let query = query_string(&[("project", "p1"), ("sql", sql)]);
        let head =
            format!("GET /api/endpoints/query/logs.all?{query} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n\r\n");
        let before = server.processor_time();
        stream.write_all(head.as_bytes()).unwrap();
        // In hundredths: more than planning takes.
        until(&format!("the statement computes: {sql}"), || server.processor_time() > before + 30);
        drop(stream);
        let rest = time_to_rest(&server);
        println!("{rest:?} after the hang-up: {sql}");
        assert!(rest <= Duration::from_secs(1), "{sql}: {rest:?}");
        assert_eq!(running(&server), 0, "{sql}");
    }
}

#[test]
fn work_stops_when_its_time_is_over() {
    let server = server("1s");
    for sql in ENDLESS {
        let began = Instant::now();
        server.sql(sql).refused(504, "timeout", &["1 s"]);
        assert!(began.elapsed() < Duration::from_secs(3), "{sql}: {:?}", began.elapsed());
        let rest = time_to_rest(&server);
        println!("{rest:?} after the end of its time: {sql}");
        assert!(rest <= Duration::from_secs(1), "{sql}: {rest:?}");
        assert_eq!(running(&server), 0, "{sql}");
    }
}
