//! `tidegate demo`, tried as a newcomer does: start it, paste what it prints, stop it.

use std::process::Command;

use serde_json::Value;
use tidegate_tests::{Server, binary, folder};

#[test]
fn the_printed_requests_work_when_pasted() {
    let folder = folder();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut command = Command::new(binary());
    command.args(["demo", "--listen", "127.0.0.1:0"]).env("TMPDIR", &temporary);
    let server = Server::spawn(command, folder.path().join("demo.log"), false);
    server.until_logged("Ctrl-C");
    let printed = server.log().replace("\\\n", "");
    let answers: Vec<Value> = printed
        .lines()
        .filter(|line| line.trim().starts_with("curl "))
        .map(|line| {
            let out = Command::new("bash").args(["-c", line]).output().unwrap();
            serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{line}\n{out:?}"))
        })
        .collect();
    let [counts, newest, adhoc, logged, found] = answers.as_slice() else { panic!("{printed}") };
    let rows = counts["result"].as_array().unwrap();
    assert!(rows.len() >= 7, "{counts}");
    let mut last = "";
    for row in rows {
        let bucket = row["timestamp"].as_str().unwrap();
        assert!(bucket > last, "ascending");
        last = bucket;
        for product in ["rest", "storage", "auth", "realtime"] {
            assert!(
                row[format!("total_{product}_requests")].is_i64() || row[format!("total_{product}_requests")].is_u64(),
                "{row}"
            );
        }
    }
    let rows = newest["result"].as_array().unwrap();
    assert_eq!(rows.len(), 100);
    for row in rows {
        assert_eq!(row["timestamp"].as_i64().unwrap().to_string().len(), 16);
        assert!(row["metadata"][0]["request"][0]["method"].is_string(), "{row}");
    }
    assert!(adhoc["result"].as_array().unwrap().len() > 3, "{adhoc}");
    assert_eq!(logged["message"], "Logged!");
    assert_eq!(found["result"][0]["event_message"], "hello from curl");
    let entries = || std::fs::read_dir(&temporary).unwrap().count();
    assert_eq!(entries(), 1, "everything is in one folder");
    let asked = std::time::Instant::now();
    assert_eq!(server.stop("-INT"), Some(0));
    assert!(asked.elapsed().as_secs() < 5, "Ctrl-C took {:?}", asked.elapsed());
    assert_eq!(entries(), 0, "the folder is removed");
}

/// Where the port is taken no folder is made, so none is missed at the end.
#[test]
fn a_taken_port_is_all_that_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let out = Command::new(binary()).args(["demo", "--listen", &address]).output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && told.contains("cannot listen") && !told.contains("removed"), "{told}");
}

/// `cargo run` hands on what the build script sets; that is no setting that was misspelt.
#[test]
fn a_variable_of_the_build_is_no_unknown_one() {
    let run = |variable: &str| {
        let mut command = std::process::Command::new(tidegate_tests::binary());
        let output = command.args(["serve", "--print-config"]).env_clear().env(variable, "x").output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(run("TIDEGATE_BUILD"), "");
    assert!(run("TIDEGATE_OF_SOMEBODY").contains("unknown and does nothing"));
}
