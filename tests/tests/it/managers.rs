//! What the managers around a server are told, and tell it: signals, systemd's notifications, Prometheus.

use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_tests::{Server, binary, folder, lasting_port, now};

const LONG: Duration = Duration::from_secs(30);

/// Waits for words in the server's log.
fn said(server: &Server, words: &str) {
    let began = Instant::now();
    while !server.log().contains(words) {
        assert!(began.elapsed() < LONG, "{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A manager of services takes an end by SIGHUP as a clean one, after which it starts nothing.
#[test]
fn a_server_without_a_terminal_goes_on_after_sighup() {
    let server = Server::start();
    let process = server.process().to_string();
    assert!(Command::new("kill").args(["-HUP", &process]).status().unwrap().success());
    said(&server, "SIGHUP does nothing");
    assert_eq!(server.call("GET", "/health", &[], b"").status, 200);
    assert_eq!(server.stop("-TERM"), Some(0));
}

/// A manager of services is told that the server is ready when it is, and not while its folder cannot be opened.
#[test]
fn systemd_is_told_when_the_service_is_open() {
    let folder = folder();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    // Not a catalog.
    std::fs::write(data.join("catalog.sqlite"), b"this is not a database at all".repeat(100)).unwrap();
    let socket = folder.path().join("notify");
    let told = std::os::unix::net::UnixDatagram::bind(&socket).unwrap();
    told.set_read_timeout(Some(LONG)).unwrap();
    let mut command = Command::new(binary());
    let address = format!("127.0.0.1:{}", lasting_port());
    command.args(["serve", "--listen", &address, "--data-dir"]).arg(&data).env("NOTIFY_SOCKET", &socket);
    let server = Server::spawn_at(command, folder.path().join("log"), &address);
    said(&server, "the service cannot be opened");
    let next = || {
        let mut message = [0; 1000];
        let length = told.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    assert!(next().starts_with("EXTEND_TIMEOUT_USEC="));
    std::fs::remove_file(data.join("catalog.sqlite")).unwrap();
    let mut message = next();
    while message.starts_with("EXTEND_TIMEOUT_USEC=") {
        message = next();
    }
    assert_eq!(message.trim(), "READY=1");
    assert_eq!(server.call("GET", "/ready", &[], b"").status, 200);
}

/// The rules name metrics that are there.
#[test]
fn the_alerts_of_prometheus_name_real_metrics() {
    let server = Server::start();
    let metrics = server.text("/metrics");
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/prometheus-alerts.yml");
    let rules = std::fs::read_to_string(rules).unwrap();
    let expressions = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let words = expressions.flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')));
    let names: std::collections::BTreeSet<&str> = words.filter(|word| word.starts_with("tidegate_")).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let is_there = metrics.lines().any(|line| line.split([' ', '{']).next() == Some(name));
        assert!(is_there, "{name} is no metric");
    }
    assert_eq!(server.metric("tidegate_ready"), 1.0);
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"] {
        assert!(server.metric(name) > 0.0, "{name}: {metrics}");
    }
    let age = now() as f64 / 1e6 - server.metric("process_start_time_seconds");
    assert!((-5.0..600.0).contains(&age), "{age}");
}
