//! `[storage] url`: segments are elsewhere too before they are used. Where they cannot be put, events stay, and it is told.

use std::path::Path;

use serde_json::{Value, json};
use tidegate_tests::{EDGE, Server, folder, request, serve, until};

const TIME: i64 = 1_763_633_702_000_000;

fn start(folder: &Path, url: &str) -> Server {
    let mut command = serve(folder.join("data"));
    command.envs([
        ("TIDEGATE_STORAGE_URL", url),
        ("TIDEGATE_INGEST_FLUSH_ROWS", "50"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "100ms"),
        ("TIDEGATE_COMPACTION_FAN_IN", "3"),
    ]);
    Server::spawn(command, folder.join("log"), true)
}

fn send(server: &Server, from: i64) {
    let event = |number: i64| {
        let mut event = request(&format!("{number:04}"), TIME + number * 1_000, "/items");
        event["project"] = json!("p1");
        event
    };
    server.send(EDGE, &Value::Array((from..from + 50).map(event).collect()));
}

/// The segments below a folder, by name and content.
fn segments(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for source in std::fs::read_dir(folder.join("segments")).into_iter().flatten() {
        for file in std::fs::read_dir(source.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "parquet") {
                found.push((path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn segments_have_copies_and_wait_where_they_cannot() {
    let folder = folder();
    let (data, copies) = (folder.path().join("data"), folder.path().join("copies"));
    std::fs::create_dir(&copies).unwrap();
    let url = format!("file://{}", copies.display());
    let server = start(folder.path(), &url);
    for part in 0..4 {
        send(&server, part * 50);
        until("a flush", || server.metric("tidegate_store_flushes_total") > part as f64);
    }
    until("a merge", || server.metric("tidegate_store_merges_total") > 0.0);
    // A copy is whole when its segment is used; those that were merged stay for an hour.
    let copied = segments(&copies);
    for segment in segments(&data) {
        assert!(copied.contains(&segment), "{} has no copy", segment.0);
    }
    assert!(server.metric("tidegate_objects_put_total") >= 5.0);
    server.call("GET", "/ready", &[], &[]).is(200);

    // No folder can be where a file is.
    let (kept, hidden) = (copies.join("segments"), copies.join("hidden"));
    std::fs::rename(&kept, &hidden).unwrap();
    std::fs::write(&kept, "").unwrap();
    send(&server, 200);
    until("a failure", || server.metric("tidegate_objects_failing") > 0.0);
    let ready = server.call("GET", "/ready", &[], &[]);
    assert_eq!((ready.status, &ready.body["problems"][0]["what"]), (503, &json!("objects")));
    let count = |server: &Server| server.sql("SELECT COUNT(*) AS c FROM edge_logs").column("c");
    assert_eq!(count(&server), [json!(250)]);
    server.kill_now();
    drop(server);
    std::fs::remove_file(&kept).unwrap();
    std::fs::rename(&hidden, &kept).unwrap();
    // What was killed with its events in the log, and lost a copy.
    let (lost, _) = segments(&data).remove(0);
    let source = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(source.join(&lost)).unwrap();
    let server = start(folder.path(), &url);
    assert_eq!(count(&server), [json!(250)]);
    until("they are put again", || {
        let copied = segments(&copies);
        server.metric("tidegate_store_unflushed_bytes") == 0.0
            && segments(&data).iter().all(|segment| copied.contains(segment))
    });
    server.call("GET", "/ready", &[], &[]).is(200);
    assert_eq!(server.stop("-TERM"), Some(0));
}

#[test]
fn an_address_that_cannot_be_one_ends_the_start() {
    let folder = folder();
    for (url, words) in [
        ("ftp://host/folder", "s3://bucket/prefix"),
        (&format!("file://{}", folder.path().join("data").display()), "cannot have the copies of its own segments"),
    ] {
        let mut command = serve(folder.path().join("data"));
        let ended = command.env("TIDEGATE_STORAGE_URL", url).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(words), "{said}");
    }
}
