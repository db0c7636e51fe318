//! What the managers around a server are told, and tell it: signals, systemd's notifications, Prometheus.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, Server, binary, folder, lasting_port, now, request, serve};

const LONG: Duration = Duration::from_secs(30);

fn signal(server: &Server, signal: &str) {
    assert!(Command::new("kill").args([signal, &server.process().to_string()]).status().unwrap().success());
}

/// The socket of a manager of services, as systemd has it.
struct Manager(UnixDatagram);

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Self(socket)
    }

    /// What it is told next.
    fn next(&self) -> String {
        let mut message = [0; 1000];
        let length = self.0.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).trim().to_owned()
    }

    /// The same, without questions for more time.
    fn next_news(&self) -> String {
        loop {
            let message = self.next();
            if !message.starts_with("EXTEND_TIMEOUT_USEC=") {
                return message;
            }
        }
    }
}

/// A manager of services takes an end by SIGHUP as a clean one, after which it starts nothing. So it reads settings again.
#[test]
fn sighup_reads_the_level_of_the_log_again() {
    let folder = folder();
    let (settings, socket) = (folder.path().join("settings.toml"), folder.path().join("notify"));
    let manager = Manager::at(&socket);
    std::fs::write(&settings, "[server]\nlog_level = \"info\"\n").unwrap();
    let mut command = serve(folder.path().join("data"));
    command.arg("--config").arg(&settings).env("NOTIFY_SOCKET", &socket);
    let server = Server::spawn(command, folder.path().join("log"), true);
    assert_eq!(manager.next_news(), "READY=1");
    server.call("GET", "/health", &[], b"").is(200);
    assert!(!server.log().contains("route=\"/health\""), "{}", server.log());

    let reload = |words: &str| {
        signal(&server, "-HUP");
        let reloading = manager.next_news();
        let mut lines = reloading.lines();
        assert_eq!(lines.next(), Some("RELOADING=1"));
        let time = lines.next().and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
        assert!(time.is_some_and(|time| time.parse::<u64>().is_ok()), "{reloading}");
        assert_eq!(manager.next_news(), "READY=1");
        server.until_logged(words);
    };
    std::fs::write(&settings, "[server]\nlog_level = \"debug\"\n").unwrap();
    reload("the level of the log is read again");
    server.call("GET", "/health", &[], b"").is(200);
    server.until_logged("route=\"/health\"");
    // What cannot be read changes nothing.
    std::fs::write(&settings, "[server]\nlog_levle = \"warn\"\n").unwrap();
    reload("the settings cannot be read again");
    server.call("GET", "/ready", &[], b"").is(200);
    assert_eq!(server.stop("-TERM"), Some(0));
    assert_eq!(manager.next_news(), "STOPPING=1");
}

/// The watchdog is told again and again, as often as it asks, and only by who is asked.
#[test]
fn the_watchdog_of_systemd_is_told_that_the_server_lives() {
    let folder = folder();
    let socket = folder.path().join("notify");
    let manager = Manager::at(&socket);
    let mut command = serve(folder.path().join("data"));
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "300000");
    let server = Server::spawn(command, folder.path().join("log"), true);
    assert_eq!(manager.next_news(), "READY=1");
    for _ in 0..5 {
        assert_eq!(manager.next_news(), "WATCHDOG=1");
    }
    assert_eq!(server.stop("-TERM"), Some(0));
}

/// Load balancers learn that a server ends before it refuses them.
#[test]
fn after_sigterm_everything_is_served_until_the_delay_is_over() {
    let server = Server::start_set(&[("TIDEGATE_SERVER_DRAIN_DELAY", "1 h")]);
    server.call("GET", "/ready", &[], b"").is(200);
    signal(&server, "-TERM");
    let began = Instant::now();
    let ready = loop {
        let ready = server.call("GET", "/ready", &[], b"");
        if ready.status != 200 {
            break ready;
        }
        assert!(began.elapsed() < LONG, "{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((ready.status, &ready.body["problems"][0]["what"]), (503, &json!("draining")));
    assert_eq!(server.metric("tidegate_ready"), 0.0);
    // On connections that are new.
    server.send(EDGE, &json!([request("late", now(), "/")]));
    assert_eq!(server.sql("SELECT id FROM edge_logs").ids(), ["late"]);
    // A second signal ends the delay, not the process at once.
    assert_eq!(server.stop("-TERM"), Some(0));
}

/// A manager of services is told that the server is ready when it is, and not while its folder cannot be opened.
#[test]
fn systemd_is_told_when_the_service_is_open() {
    let data = Data::new();
    std::fs::create_dir(&data).unwrap();
    // Not a catalog.
    std::fs::write(data.join("catalog.sqlite"), b"this is not a database at all".repeat(100)).unwrap();
    let socket = data.beside("notify");
    let manager = Manager::at(&socket);
    let mut command = Command::new(binary());
    let address = format!("127.0.0.1:{}", lasting_port());
    command.args(["serve", "--listen", &address, "--data-dir"]).arg(&data).env("NOTIFY_SOCKET", &socket);
    let server = Server::spawn_at(command, data.beside("log"), &address);
    server.until_logged("the service cannot be opened");
    assert!(manager.next().starts_with("EXTEND_TIMEOUT_USEC="));
    std::fs::remove_file(data.join("catalog.sqlite")).unwrap();
    assert_eq!(manager.next_news(), "READY=1");
    server.call("GET", "/ready", &[], b"").is(200);
}

/// The words of expressions that are names of metrics.
fn names_of<'t>(expressions: impl Iterator<Item = &'t str>) -> BTreeSet<&'t str> {
    let words = expressions.flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_")).collect()
}

fn packaged(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(name)).unwrap()
}

/// The expressions of a dashboard, wherever they stand.
fn expressions<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
            Some(text) if name == "expr" || name == "definition" => found.push(text),
            _ => expressions(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

/// The page of a server that has workers and did something of everything.
fn metrics() -> (Server, String) {
    let server = Server::start_set(&[("TIDEGATE_CLUSTER_WORKERS", "127.0.0.1:1")]);
    server.send(EDGE, &json!([request("a", now(), "/")]));
    assert_eq!(server.sql("SELECT id FROM edge_logs").ids(), ["a"]);
    assert_eq!(server.sql("SELECT nothing FROM edge_logs").status, 400);
    let cached = json!({"name": "kept", "query": "SELECT 1 AS one", "cache_duration_seconds": 60});
    assert!(server.manage("POST", "/api/endpoints", &cached).status < 300);
    server.query("kept", &[]).is(200);
    let page = server.text("/metrics");
    (server, page)
}

/// Alerts and dashboard name metrics that are there.
#[test]
fn what_is_packaged_for_prometheus_names_real_metrics() {
    let (server, page) = metrics();
    let alerts = packaged("prometheus-alerts.yml");
    let alerts = names_of(alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ")));
    let dashboard: Value = serde_json::from_str(&packaged("grafana-dashboard.json")).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard, &mut found);
    let panels = names_of(found.into_iter());
    assert!(alerts.len() > 10 && panels.len() > 40, "{alerts:?} {panels:?}");
    for name in alerts.union(&panels) {
        let is_there = page.lines().any(|line| line.split([' ', '{']).next() == Some(name));
        assert!(is_there, "{name} is no metric");
    }
    // Every panel asks the source of data that the reader chooses.
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{panel}");
        }
    }
    assert_eq!(server.metric("tidegate_ready"), 1.0);
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"] {
        assert!(server.metric(name) > 0.0, "{name}: {page}");
    }
    let age = now() as f64 / 1e6 - server.metric("process_start_time_seconds");
    assert!((-5.0..600.0).contains(&age), "{age}");
}

/// As OpenMetrics has it: each metric once, buckets that grow up to the count of all, the end said.
#[test]
fn the_page_of_metrics_is_well_formed() {
    let (_server, page) = metrics();
    let types: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    let once: BTreeSet<&str> = types.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(types.len(), once.len(), "a metric stands there twice");
    assert!(page.ends_with("# EOF\n") && page.matches("# EOF").count() == 1);
    let value = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing: {page}")).parse::<f64>().unwrap()
    };
    for name in ["tidegate_store_commit_duration_seconds", "tidegate_store_flush_duration_seconds"] {
        assert!(types.contains(&format!("{name} histogram").as_str()));
        let bucket = format!("{name}_bucket{{le=\"");
        let buckets: Vec<(&str, f64)> = page
            .lines()
            .filter_map(|line| line.strip_prefix(&bucket)?.split_once("\"} "))
            .map(|(bound, count)| (bound, count.parse().unwrap()))
            .collect();
        assert!(buckets.is_sorted_by(|one, next| one.1 <= next.1), "{buckets:?}");
        assert_eq!(buckets.last(), Some(&("+Inf", value(&format!("{name}_count")))));
    }
    assert!(value("tidegate_store_commit_duration_seconds_count") >= 1.0);
    assert!(value("tidegate_store_commit_duration_seconds_sum") > 0.0);
}
