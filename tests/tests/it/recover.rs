//! `serve --recover-from`: a server whose disk is lost is there again, with its endpoints, tokens and what was in segments. The
//! lost one takes nothing in any more, should it come back.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_tests::{EDGE, Server, binary, folder, query_string, request, serve, until, until_within};

const TIME: i64 = 1_763_633_702_000_000;

fn command(folder: &Path, data: &str, recover: bool) -> Command {
    let url = format!("file://{}", folder.join("copies").display());
    let mut command = serve(folder.join(data));
    if recover {
        command.args(["--recover-from", &url]);
    }
    command.envs([
        ("TIDEGATE_STORAGE_URL", url.as_str()),
        ("TIDEGATE_INGEST_FLUSH_ROWS", "50"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "100ms"),
        ("TIDEGATE_COMPACTION_FAN_IN", "3"),
    ]);
    command
}

fn start(folder: &Path, data: &str, recover: bool) -> Server {
    Server::spawn(command(folder, data, recover), folder.join(format!("{data}.log")), true)
}

fn send(server: &Server, from: i64, count: i64) {
    let event = |number: i64| {
        let mut event = request(&format!("{number:04}"), TIME + number * 1_000, "/items");
        event["project"] = json!("p1");
        event
    };
    server.send(EDGE, &Value::Array((from..from + count).map(event).collect()));
}

/// Until everything is in segments, and a copy of the catalog was taken after that.
fn settled(server: &Server) {
    server.until_flushed();
    let now = tidegate_tests::now() / 1_000_000;
    // So that the time of a later copy is another number.
    std::thread::sleep(Duration::from_secs(1));
    let name = format!("marker.{now}");
    server.manage("POST", "/api/sources", &json!({"name": name})).is(201);
    until("a copy of the catalog", || {
        server.metric("tidegate_objects_catalog_timestamp_seconds") > now as f64
            && server.metric("tidegate_objects_catalog_behind_seconds") == 0.0
    });
}

fn count(server: &Server) -> Value {
    server.sql("SELECT COUNT(*) AS c, COUNT(DISTINCT id) AS d FROM edge_logs").rows()[0].clone()
}

fn ready(server: &Server) -> (u16, String) {
    let ready = server.call("GET", "/ready", &[], &[]);
    (ready.status, ready.body["problems"][0]["what"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_server_whose_disk_is_lost_is_there_again() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    let server = start(folder.path(), "data", false);
    let query = format!("SELECT COUNT(*) AS n FROM `{EDGE}` WHERE project = @project");
    server.save(&json!({"name": "mine", "query": query}));
    let token = json!({"description": "viewer", "scopes": "query:endpoint:mine", "pinned": {"project": "p1"}});
    let token = server.manage("POST", "/api/access-tokens", &token).body["token"].as_str().unwrap().to_owned();
    for part in 0..5 {
        send(&server, part * 50, 50);
    }
    settled(&server);
    assert_eq!(count(&server), json!({"c": 250, "d": 250}));
    server.kill_now();
    drop(server);
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();

    let server = start(folder.path(), "data", true);
    let said = server.log();
    assert!(said.contains("recovered from catalog/") && said.contains("lost at most: "), "{said}");
    assert_eq!(count(&server), json!({"c": 250, "d": 250}));
    assert_eq!(ready(&server).0, 200);
    let asked = format!("/api/endpoints/query/mine?{}", query_string(&[("project", "p1")]));
    let asked = server.call("GET", &asked, &[("x-api-key", &token)], b"");
    assert_eq!((asked.status, asked.column("n")), (200, vec![json!(250)]), "{}", asked.body);
    send(&server, 250, 50);
    settled(&server);
    assert_eq!(server.stop("-TERM"), Some(0));

    // Once more with the flag, as in a unit of systemd.
    let server = start(folder.path(), "data", true);
    assert!(server.log().contains("the data folder has a catalog: nothing is recovered"));
    assert_eq!(count(&server), json!({"c": 300, "d": 300}));
}

#[test]
fn the_server_that_was_replaced_stops_and_says_so() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    let old = start(folder.path(), "old", false);
    send(&old, 0, 50);
    settled(&old);
    // Nobody can reach it, but it runs.
    let new = start(folder.path(), "new", true);
    assert_eq!(count(&new), json!({"c": 50, "d": 50}));
    until_within(Duration::from_secs(60), "it notices", || old.metric("tidegate_objects_replaced") > 0.0);
    assert_eq!(ready(&old), (503, "replaced".to_owned()));
    assert_eq!(count(&old), json!({"c": 50, "d": 50}), "reads go on");
    let path = format!("/api/logs?source_name={EDGE}");
    let refused =
        old.call("POST", &path, &[("x-api-key", tidegate_tests::PUBLIC)], br#"[{"event_message": "late"}]"#).is(503);
    assert!(refused.body.to_string().contains("another server has taken over"), "{}", refused.body);
    assert_eq!(old.stop("-TERM"), Some(0));
    let again = command(folder.path(), "old", false).output().unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && said.contains("has taken over"), "{said}");
    send(&new, 50, 50);
    settled(&new);
    assert_eq!(count(&new), json!({"c": 100, "d": 100}));
}

#[test]
fn a_folder_that_cannot_be_recovered_ends_the_start_with_what_to_do() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    std::fs::create_dir(folder.path().join("other")).unwrap();
    std::fs::write(folder.path().join("other/notes"), "").unwrap();
    let ended = |mut command: Command| {
        let ended = command.output().unwrap();
        assert!(!ended.status.success());
        String::from_utf8_lossy(&ended.stderr).into_owned()
    };
    let said = ended(command(folder.path(), "data", true));
    assert!(said.contains("there are no copies of a data folder at this address"), "{said}");
    let said = ended(command(folder.path(), "other", true));
    assert!(said.contains("name a folder that is empty"), "{said}");
    let mut unlike = command(folder.path(), "data", true);
    unlike.env("TIDEGATE_STORAGE_URL", "");
    let said = ended(unlike);
    assert!(said.contains("must be the same address; it is not set"), "{said}");
}

fn run(arguments: &[&str]) -> (bool, String) {
    let ended = Command::new(binary()).args(arguments).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    (ended.status.success(), said)
}

#[test]
fn a_damaged_segment_is_fetched_from_its_copy() {
    let folder = folder();
    let of = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(of("copies")).unwrap();
    let url = format!("file://{}", of("copies"));
    let server = start(folder.path(), "data", false);
    send(&server, 0, 50);
    settled(&server);
    send(&server, 50, 3);
    let (done, said) = run(&["backup", "--catalog-only", "--data-dir", &of("data"), "--to", &of("backup")]);
    assert!(done && said.contains("it names 1 segments with 50 rows"), "{said}");
    assert_eq!(server.stop("-TERM"), Some(0));
    let (done, said) = run(&["verify", "--data-dir", &of("data"), "--copies", &url]);
    assert!(done && said.contains("nothing is damaged"), "{said}");

    let files = segments(&folder.path().join("data"));
    std::fs::write(&files[0], "damaged").unwrap();
    let (done, said) = run(&["repair", "--data-dir", &of("data"), "--copies", &url]);
    // Of the events that were sent in two calls, the last ones became a segment at the end of the server.
    assert!(done && said.contains("1 segments with ") && said.contains(" rows fetched from their copies"), "{said}");
    let (done, said) = run(&["restore", "--from", &of("backup"), "--data-dir", &of("restored"), "--copies", &url]);
    assert!(done, "{said}");
    // The copy that has become another one.
    std::fs::write(&segments(&folder.path().join("copies"))[0], "damaged").unwrap();
    let (done, said) = run(&["verify", "--data-dir", &of("data"), "--copies", &url]);
    assert!(
        !done && said.contains("the copy of segment") && said.contains("1 copies are missing or damaged"),
        "{said}"
    );
    let server = start(folder.path(), "data", false);
    assert_eq!(count(&server), json!({"c": 53, "d": 53}));
    // With the configuration of the server that runs: it is not replaced without a word.
    let mut refused = command(folder.path(), "restored", false);
    let refused = refused.output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("--take-over"), "{said}");
    send(&server, 100, 1);
    assert_eq!((ready(&server).0, server.stop("-TERM")), (200, Some(0)));
    let mut asked = command(folder.path(), "restored", false);
    asked.arg("--take-over");
    let server = Server::spawn(asked, folder.path().join("asked.log"), true);
    assert_eq!(count(&server), json!({"c": 53, "d": 53}));
    assert_eq!((ready(&server).0, server.stop("-TERM")), (200, Some(0)));
    // From then on the copies are its own.
    assert_eq!(count(&start(folder.path(), "restored", false)), json!({"c": 53, "d": 53}));
}

/// What no segment has when the server is stopped is put at the end.
#[test]
fn a_stopped_server_leaves_nothing_on_its_disk_alone() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("copies")).unwrap();
    let patient = |data: &str| {
        let mut command = command(folder.path(), data, false);
        command.env("TIDEGATE_INGEST_FLUSH_INTERVAL", "1h");
        Server::spawn(command, folder.path().join(format!("{data}.log")), true)
    };
    let server = patient("data");
    send(&server, 0, 7);
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start(folder.path(), "new", true);
    assert_eq!(count(&server), json!({"c": 7, "d": 7}));
    assert_eq!(server.stop("-TERM"), Some(0));

    // Where they cannot be put, it is said how many stay.
    let server = patient("new");
    send(&server, 7, 3);
    let segments = folder.path().join("copies/segments");
    std::fs::rename(&segments, folder.path().join("hidden")).unwrap();
    std::fs::write(&segments, "").unwrap();
    assert_eq!(server.stop("-TERM"), Some(0));
    let said = std::fs::read_to_string(folder.path().join("new.log")).unwrap();
    assert!(said.contains("on the disk of this server only") && said.contains("events=3"), "{said}");
}

/// A folder as object store may have empty objects after a power cut, of older releases.
#[test]
fn a_server_starts_whatever_object_a_power_cut_emptied() {
    let folder = folder();
    let copies = folder.path().join("copies");
    std::fs::create_dir(&copies).unwrap();
    let server = start(folder.path(), "data", false);
    send(&server, 0, 50);
    assert_eq!(server.stop("-TERM"), Some(0));
    for _ in 0..2 {
        std::fs::write(copies.join("owner.json"), "").unwrap();
        let mut epochs: Vec<_> =
            std::fs::read_dir(copies.join("epochs")).unwrap().map(|entry| entry.unwrap().path()).collect();
        epochs.sort();
        std::fs::write(epochs.last().unwrap(), "").unwrap();
        let server = start(folder.path(), "data", false);
        assert_eq!((ready(&server).0, count(&server)), (200, json!({"c": 50, "d": 50})));
        server.kill_now();
    }
}

/// The files of segments below a folder.
fn segments(folder: &Path) -> Vec<std::path::PathBuf> {
    let list = |folder: &Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    list(&folder.join("segments")).iter().flat_map(|source| list(source)).collect()
}
