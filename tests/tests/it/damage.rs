//! Damage at rest, as callers and operators see it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PRIVATE, Server, binary, lasting_port, now, request, until};

use crate::object_server::{Fault, ObjectServer};

fn run(command: &str, data: &Path, more: &[&str]) -> Output {
    Command::new(binary()).arg(command).arg("--data-dir").arg(data).args(more).output().unwrap()
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|kind| kind == "parquet") {
            found.push(path);
        }
    }
    found
}

/// A server in which the logs of one source are in a segment; another source has logs too.
fn with_segment(data: &Path) -> PathBuf {
    let server = Server::start_in(data);
    let events: Vec<Value> = (0..1200).map(|n| request(&format!("e{n}"), now(), "/")).collect();
    server.send(EDGE, &json!(events));
    server.send("postgres.logs", &json!([{"id": "p", "project": "p1", "event_message": "ready"}]));
    until("a segment is written", || !files(&data.join("segments")).is_empty());
    server.stop("-TERM");
    files(&data.join("segments")).remove(0)
}

fn metric(server: &Server, name: &str) -> String {
    let text = server.text("/metrics");
    text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap_or("missing").to_owned()
}

#[test]
fn a_damaged_segment_is_named_told_and_set_aside() {
    let data = Data::new();
    let segment = with_segment(&data);
    let id = segment.file_stem().unwrap().to_str().unwrap();
    let out = run("verify", &data, &[]);
    assert!(out.status.success() && said(&out).contains("nothing is damaged"), "{}", said(&out));

    let good = std::fs::read(&segment).unwrap();
    let mut bad = good.clone();
    let data_bytes = bad.len() / 2;
    bad[4..data_bytes].iter_mut().step_by(1000).for_each(|byte| *byte ^= 4);
    std::fs::write(&segment, &bad).unwrap();
    let server = Server::start_in(&data);
    assert_eq!(server.call("GET", "/ready", &[], b"").body["status"], "ok");
    let refused = server.sql("SELECT * FROM edge_logs ORDER BY timestamp DESC LIMIT 1200");
    refused.refused(500, "data_damaged", &[id, "checksum", "tidegate verify", "tidegate repair"]);
    assert!(!refused.body.to_string().contains(data.to_str().unwrap()), "no paths");
    // Other sources are read, and the service is ready for them.
    assert_eq!(server.sql("SELECT id FROM postgres_logs").ids(), ["p"]);
    let ready = server.call("GET", "/ready", &[], b"");
    assert_eq!((ready.status, &ready.body["status"]), (200, &json!("degraded")), "{}", ready.body);
    assert_eq!(ready.body["warnings"][0]["what"], "damage", "{}", ready.body);
    assert_eq!(metric(&server, "tidegate_store_segments_damaged"), "1");
    let out = run("verify", &data, &[]);
    assert!(!out.status.success() && said(&out).contains("in use"), "{}", said(&out));
    server.stop("-TERM");

    let out = run("verify", &data, &[]);
    assert!(out.status.code() == Some(1) && said(&out).contains(id), "{}", said(&out));
    let out = run("backup", &data, &["--to", data.beside("copy").to_str().unwrap()]);
    assert!(!out.status.success() && said(&out).contains(id), "{}", said(&out));
    let out = run("repair", &data, &[]);
    assert!(out.status.success() && said(&out).contains("1 segments with 1200 rows set aside"), "{}", said(&out));
    assert!(run("verify", &data, &[]).status.success());

    let server = Server::start_in(&data);
    assert_eq!(server.sql("SELECT id FROM edge_logs").rows(), &[] as &[Value]);
    let ready = server.call("GET", "/ready", &[], b"");
    assert_eq!((&ready.body["status"], &ready.body["warnings"][0]["what"]), (&json!("degraded"), &json!("quarantine")));
    assert_eq!(metric(&server, "tidegate_store_events_quarantined"), "1200");
    server.stop("-TERM");

    // A good copy in its place comes back.
    std::fs::write(data.join("quarantine").join(segment.file_name().unwrap()), good).unwrap();
    let out = run("repair", &data, &[]);
    assert!(said(&out).contains("1 with 1200 rows taken back"), "{}", said(&out));
    let server = Server::start_in(&data);
    assert_eq!(server.sql("SELECT COUNT(*) AS n FROM edge_logs").column("n"), [1200]);
    assert_eq!(server.call("GET", "/ready", &[], b"").body["status"], "ok");
}

#[test]
fn segments_without_a_catalog_are_kept_and_a_catalog_is_made_of_them() {
    let data = Data::new();
    let segment = with_segment(&data);
    std::fs::remove_file(data.join("catalog.sqlite")).unwrap();
    let mut command = Command::new(binary());
    let address = format!("127.0.0.1:{}", lasting_port());
    command.args(["serve", "--listen", &address, "--data-dir"]).arg(&data);
    let server = Server::spawn_at(command, data.beside("second.log"), &address);
    server.until_logged("tidegate repair --rebuild-catalog");
    server.call("GET", "/ready", &[], b"").is(503);
    assert!(segment.exists() && !data.join("catalog.sqlite").exists());
    server.stop("-TERM");

    let out = run("repair", &data, &["--rebuild-catalog"]);
    assert!(out.status.success() && said(&out).contains("tokens"), "{}", said(&out));
    let server = Server::start_in(&data);
    assert_eq!(server.sql("SELECT COUNT(*) AS n FROM edge_logs").column("n"), [1200]);
    server.call("GET", "/api/sources", &[("x-api-key", PRIVATE)], b"").is(200);
}

#[test]
fn why_an_object_store_refuses_is_printed() {
    let data = Data::new();
    with_segment(&data);
    let store = ObjectServer::start();
    store.faults(|_| Some(Fault::Status(403)));
    for command in ["verify", "repair"] {
        let out = Command::new(binary())
            .arg(command)
            .arg("--data-dir")
            .arg(&data)
            .args(["--copies", "s3://bucket/logs"])
            .envs(store.settings())
            .output()
            .unwrap();
        let said = said(&out);
        assert!(!out.status.success(), "{command}: {said}");
        for words in ["the object store denies access", "403 Forbidden", "AccessDenied"] {
            assert!(said.contains(words), "{command}: {said:?} lacks {words:?}");
        }
        assert!(!said.contains('\u{1b}'), "colours in a pipe: {said:?}");
    }
}
