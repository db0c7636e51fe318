//! A hostile sender and a hostile tenant do their worst in turn, while another tenant asks for its logs and
//! somebody looks whether the service is there. Neither may notice much, and memory stays within what is set.
//!
//! Each attack is a function that does it once, with the answers that it may have: a 500 is never one. They run in
//! turn for 15 seconds, and for as long as `SIEGE_SECONDS` says; from 60 on the bounds are those of an
//! operator, for a release build on an idle machine (`TIDEGATE_BIN`). One alone:
//! `cargo test --test it -- --ignored siege::schema_bomb`.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PRIVATE, PUBLIC, Server, now, request, serve};

/// What is set, in MiB, together with what a server may hold beside it.
const LIMITS: [(&str, u64); 6] = [
    ("TIDEGATE_LIMITS_TOTAL_MEMORY", 256),
    ("TIDEGATE_ADMISSION_ANSWER_MEMORY", 64),
    ("TIDEGATE_CACHE_MEMORY", 32),
    ("TIDEGATE_INGEST_BUFFER_BYTES", 128),
    ("TIDEGATE_INGEST_BODY_MEMORY", 64),
    ("TIDEGATE_COMPONENTS_CODE_MEMORY", 64),
];
const BESIDE: u64 = 500;

/// One attack, done once.
type Attack = fn(&Siege);

macro_rules! attacks {
    ($($name:ident),* $(,)?) => {
        /// All attacks, by name.
        const ATTACKS: &[(&str, Attack)] = &[$((stringify!($name), attack::$name)),*];

        $(
            #[test]
            #[ignore = "one attack alone; all of them in turn are every_attack_in_turn"]
            fn $name() {
                besiege(&[(stringify!($name), attack::$name)]);
            }
        )*
    };
}

attacks!(
    schema_bomb,
    long_keys,
    junk_keys,
    sparse_keys,
    nested_lists,
    mixed_leaves,
    wide_schema,
    array_literals,
    many_patterns,
    constant_folding,
    many_parameters,
    slow_readers,
    deep_json,
    joins_in_a_row,
    matches_to_the_end,
);

#[test]
fn every_attack_in_turn() {
    besiege(ATTACKS);
}

/// The server, and who is hostile.
struct Siege {
    server: Server,
    /// The hostile tenant's token.
    evil: String,
    /// Which round it is: each sends other keys.
    round: Mutex<usize>,
}

/// What was waited for, in milliseconds, worst last.
struct Waits(Mutex<Vec<u128>>);

impl Waits {
    fn of(&self, share: f64) -> u128 {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_unstable();
        assert!(!all.is_empty(), "nobody was answered");
        all[((all.len() - 1) as f64 * share) as usize]
    }
}

fn seconds() -> u64 {
    std::env::var("SIEGE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

/// Whether it is the form that runs with all other tests.
fn is_brief() -> bool {
    seconds() < 60
}

fn besiege(attacks: &[(&str, Attack)]) {
    let data = Data::new();
    let start = || {
        let mut command = serve(&data);
        command.envs(LIMITS.map(|(name, mebibytes)| (name, format!("{mebibytes} MiB"))));
        command.env("TIDEGATE_LIMITS_STATEMENT_MEMORY", "128 MiB").env("TIDEGATE_LIMITS_ANSWER_BYTES", "32 MiB");
        command.env("TIDEGATE_LIMITS_REQUEST_TIME", if is_brief() { "30 s" } else { "5 s" });
        Server::spawn(command, data.with_extension("log"), true)
    };
    let server = start();
    let token = |limits: Value| {
        let made = server.manage("POST", "/api/access-tokens", &json!({"scopes": "query", "limits": limits}));
        made.body["token"].as_str().unwrap().to_owned()
    };
    let (good, evil) = (token(json!({})), token(json!({"request_time": "5 s"})));
    let logs: Vec<Value> = (0..500).map(|i| own_log(&format!("g{i}"), "good")).collect();
    server.send(EDGE, &Value::Array(logs));
    let siege = Siege { server, evil, round: Mutex::new(0) };
    let (over, asks, probes) = (AtomicBool::new(false), Waits(Mutex::default()), Waits(Mutex::default()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                let path = "/api/endpoints/query/logs.all?project=good";
                let answer = siege.server.call("GET", path, &[("x-api-key", &good)], b"");
                asks.0.lock().unwrap().push(began.elapsed().as_millis());
                assert_eq!(answer.rows().len(), 100);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let began = Instant::now();
                assert_eq!(probe(&siege.server), 200);
                probes.0.lock().unwrap().push(began.elapsed().as_millis());
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        // Whatever happens, the others come to an end.
        let _end = Ends(&over);
        let end = Instant::now() + Duration::from_secs(seconds());
        while Instant::now() < end {
            for (name, attack) in attacks {
                let began = Instant::now();
                attack(&siege);
                let peak = siege.server.peak_memory();
                eprintln!("{name}: {} ms, {peak} MiB at most so far", began.elapsed().as_millis());
            }
            *siege.round.lock().unwrap() += 1;
        }
    });
    let most = LIMITS.iter().map(|(_, mebibytes)| mebibytes).sum::<u64>() + BESIDE;
    let peak = siege.server.peak_memory();
    let (ask, probe) = (asks.of(0.99), probes.of(0.99));
    eprintln!("logs.all {ask} ms, /health {probe} ms (p99), {peak} MiB of {most}");
    // A debug build on a machine that builds others: what is bounded at all, and not how quick it is.
    let (ask_most, probe_most) = if is_brief() { (30_000, 5_000) } else { (1_000, 100) };
    assert!(peak < most, "{peak} MiB; {most} are set");
    assert!(ask < ask_most, "the other's p99 is {ask} ms");
    assert!(probe < probe_most, "the p99 of /health is {probe} ms");
    // After a start everything is as it was.
    assert_eq!(siege.server.stop("-TERM"), Some(0));
    let server = start();
    let path = "/api/endpoints/query/logs.all?project=good";
    assert_eq!(server.call("GET", path, &[("x-api-key", &good)], b"").rows().len(), 100);
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for `/health` on a connection of its own.
fn probe(server: &Server) -> u16 {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said.get(9..12).unwrap_or_default().parse().unwrap_or(0)
}

fn own_log(id: &str, project: &str) -> Value {
    let mut event = request(id, now(), "/rest/v1/x");
    event["project"] = json!(project);
    event
}

impl Siege {
    fn round(&self) -> usize {
        *self.round.lock().unwrap()
    }

    /// Sends a body, which may be refused, and never breaks anything.
    fn send(&self, source: &str, body: &[u8], packed: bool) {
        let path = format!("/api/logs?source_name={source}");
        let mut headers = vec![("x-api-key", PUBLIC), ("content-type", "application/json")];
        if packed {
            headers.push(("content-encoding", "gzip"));
        }
        let answer = self.server.call("POST", &path, &headers, body);
        assert!([200, 400, 413, 422, 429, 503].contains(&answer.status), "{}: {}", answer.status, answer.body);
    }

    fn pack_and_send(&self, source: &str, body: &[u8]) {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(body).unwrap();
        let packed = packer.finish().unwrap();
        self.send(source, &packed, true);
    }

    /// Asks for a query, several times at once.
    fn ask(&self, sql: &str, at_once: usize) {
        let body = json!({"project": "evil", "sql": sql}).to_string();
        let one = || {
            let headers = [("x-api-key", self.evil.as_str()), ("content-type", "application/json")];
            let answer = self.server.call("POST", "/api/endpoints/query/logs.all", &headers, body.as_bytes());
            let status = answer.status;
            assert!([200, 400, 413, 422, 429, 503, 504].contains(&status), "{status}: {}", answer.body);
        };
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(one);
            }
        });
    }
}

mod attack {
    use super::*;

    /// Few leaves, many records: a thousand keys, each nested 29 deep.
    pub(super) fn schema_bomb(siege: &Siege) {
        let nested = format!("{}1{}", "{\"a\":".repeat(29), "}".repeat(29));
        let keys: Vec<String> = (0..1_000).map(|i| format!("\"k{i}\":{nested}")).collect();
        siege.send(EDGE, format!("{{\"event_message\":\"x\",\"metadata\":{{{}}}}}", keys.join(",")).as_bytes(), false);
    }

    /// Keys of nearly a megabyte.
    pub(super) fn long_keys(siege: &Siege) {
        let event = |i: usize| format!("{{\"metadata\":{{\"{i}{}\":1}}}}", "k".repeat(1_000_000));
        let events: Vec<String> = (0..15).map(|i| event(i + siege.round() * 15)).collect();
        siege.send(EDGE, format!("[{}]", events.join(",")).as_bytes(), false);
    }

    /// A thousand keys that nobody needs, before one that somebody does; and that one is found.
    pub(super) fn junk_keys(siege: &Siege) {
        let source = "realtime.logs.prod";
        let junk: serde_json::Map<String, Value> = (0..1_000).map(|i| (format!("junk{i}"), json!(i))).collect();
        siege.send(source, json!({"event_message": "junk", "metadata": junk}).to_string().as_bytes(), false);
        let id = format!("honest{}", siege.round());
        let honest = json!({"id": id, "event_message": "honest", "metadata": {"project": "honest", "status": 500}});
        let headers = [("x-api-key", PUBLIC), ("content-type", "application/json")];
        let path = format!("/api/logs?source_name={source}");
        let sent = siege.server.call("POST", &path, &headers, honest.to_string().as_bytes());
        if sent.status == 200 {
            let sql = format!(
                "SELECT l.id FROM realtime_logs AS l, UNNEST(l.metadata) AS m WHERE m.status = 500 AND l.id = '{id}'"
            );
            let found = siege.server.query("logs.all", &[("project", "honest"), ("sql", &sql)]);
            assert_eq!(found.ids(), [id]);
        }
    }

    /// Ten kilobytes that become a hundred thousand events of one key each, of nearly a thousand keys in turn.
    pub(super) fn sparse_keys(siege: &Siege) {
        let mut events = String::from("[");
        for i in 0..100_000 {
            let _ = write!(events, "{}{{\"k{:03}\":\"a\"}}", if i > 0 { "," } else { "" }, i % 996);
        }
        events.push(']');
        siege.pack_and_send("postgREST.logs.prod", events.as_bytes());
    }

    /// Fifteen kilobytes of lists of lists.
    pub(super) fn nested_lists(siege: &Siege) {
        let list = format!("[{}[0]]", "[0],".repeat(240_000));
        let events: Vec<String> = (0..15).map(|_| format!("{{\"metadata\":{{\"l\":{list}}}}}")).collect();
        siege.pack_and_send("pgbouncer.logs.prod", format!("[{}]", events.join(",")).as_bytes());
    }

    /// Many rows in memory over many columns, and somebody who asks for five of them.
    pub(super) fn mixed_leaves(siege: &Siege) {
        let source = "storage.logs.prod.2";
        let leaves: serde_json::Map<String, Value> =
            (0..900).map(|i| (format!("m{i}"), if i % 2 == 0 { json!(i) } else { json!("text") })).collect();
        siege.send(source, json!({"metadata": leaves}).to_string().as_bytes(), false);
        let event = |i: usize| format!("{{\"metadata\":{{\"project\":\"evil\",\"m{}\":{i}}}}}", i % 900);
        let events: Vec<String> = (0..90_000).map(event).collect();
        siege.send(source, format!("[{}]", events.join(",")).as_bytes(), false);
        siege.ask("SELECT * FROM storage_logs LIMIT 5", 2);
    }

    /// A schema of tens of thousands of records, and somebody who asks for it.
    pub(super) fn wide_schema(siege: &Siege) {
        let source = "gotrue.logs.prod";
        let keys: Vec<String> = (0..45_000).map(|i| format!("\"w{i}\":{{\"a\":1}}")).collect();
        siege.send(source, format!("{{\"metadata\":{{{}}}}}", keys.join(",")).as_bytes(), false);
        siege.server.call("GET", &format!("/api/sources/{source}/schema"), &[("x-api-key", PRIVATE)], b"").is(200);
    }

    /// Typed arrays, one after the other: the parser reads each again.
    pub(super) fn array_literals(siege: &Siege) {
        siege.ask(&format!("SELECT {}1", "ARRAY<INT64>[], ".repeat(2_600)), 2);
    }

    /// Thousands of patterns that take long to compile.
    pub(super) fn many_patterns(siege: &Siege) {
        let patterns: Vec<String> = (0..8_000).map(|i| format!("'' ~ '\\\\pL{{50}}{i}'")).collect();
        siege.ask(&format!("SELECT {}", patterns.join(" OR ")), 8);
        // One that is a parameter.
        let pattern = "(\\pL{1000}){9}".repeat(500);
        let body = json!({"interval": "daily", "project": pattern}).to_string();
        let headers = [("x-api-key", siege.evil.as_str()), ("content-type", "application/json")];
        let answer = siege.server.call("POST", "/api/endpoints/query/usage.api-counts", &headers, body.as_bytes());
        assert!([400, 422, 429, 503, 504].contains(&answer.status), "{}: {}", answer.status, answer.body);
    }

    /// Thousands of constants, each of which takes long to compute.
    pub(super) fn constant_folding(siege: &Siege) {
        let one = |i: usize| format!("EDIT_DISTANCE(REPEAT('ab', 5000), REPEAT('ba', 500{}))", i % 10);
        let all: Vec<String> = (0..2_900).map(one).collect();
        siege.ask(&format!("SELECT {}", all.join(" + ")), 8);
    }

    /// Forty joins of as many rows as one of them has.
    pub(super) fn joins_in_a_row(siege: &Siege) {
        if siege.round() == 0 {
            let event = |i: usize| json!({"id": format!("an id that is longer than a view, {i}"), "project": "evil"});
            let events: Vec<Value> = (0..20_000).map(event).collect();
            siege.send(EDGE, Value::Array(events).to_string().as_bytes(), false);
        }
        let joins: String = (1..=40).map(|i| format!(" JOIN edge_logs AS t{i} USING (id)")).collect();
        siege.ask(&format!("SELECT COUNT(*) FROM edge_logs AS t0{joins}"), 2);
    }

    /// Matches each of which looks at all of the text that is left.
    pub(super) fn matches_to_the_end(siege: &Siege) {
        siege.ask("SELECT ARRAY_LENGTH(REGEXP_EXTRACT_ALL(REPEAT('a', 2000000), r'a*[^a]|a')) AS n", 8);
    }

    /// A form of eighty thousand names, four times.
    pub(super) fn many_parameters(siege: &Siege) {
        let form: String = (0..80_000).map(|i| format!("{i:x}&")).collect();
        assert!(form.len() < 512 << 10);
        let sql = format!("{form}sql=SELECT+1");
        for _ in 0..4 {
            let headers = [("x-api-key", siege.evil.as_str()), ("content-type", "application/x-www-form-urlencoded")];
            let answer = siege.server.call("POST", "/api/endpoints/query/logs.all", &headers, sql.as_bytes());
            assert!([413, 429, 503].contains(&answer.status), "{}: {}", answer.status, answer.body);
        }
    }

    /// A hundred readers of as much as an answer may be, who read nothing.
    pub(super) fn slow_readers(siege: &Siege) {
        let sql = "SELECT+REPEAT('x',28000)+AS+t+FROM+UNNEST(GENERATE_ARRAY(1,1000))";
        let mut readers = Vec::new();
        for _ in 0..100 {
            let mut stream = TcpStream::connect(siege.server.address()).unwrap();
            let evil = &siege.evil;
            let path = format!("/api/endpoints/query/logs.all?project=evil&sql={sql}");
            write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {evil}\r\n\r\n").unwrap();
            readers.push(stream);
        }
        std::thread::sleep(Duration::from_secs(3));
        let held = siege.server.metric("tidegate_answers_bytes") / 1_048_576.0;
        assert!(held < 48.0, "{held} MiB");
    }

    /// A value of JSON that takes many times its text.
    pub(super) fn deep_json(siege: &Siege) {
        siege.ask("SELECT JSON_TYPE(CONCAT('[', REPEAT('[0],', 1000000), '0]')) AS t", 8);
    }
}
