//! `docs/cluster.md`: its commands run as they stand there, on other ports.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_tests::{Server, binary, folder};

const DOCUMENT: &str = include_str!("../../../docs/cluster.md");
const LONG: Duration = Duration::from_secs(30);

/// The lines of the blocks of commands.
fn commands() -> Vec<&'static str> {
    let mut lines = Vec::new();
    let mut is_inside = false;
    for line in DOCUMENT.lines() {
        match line {
            "```sh" => is_inside = true,
            "```" => is_inside = false,
            line if is_inside => lines.push(line),
            _ => {}
        }
    }
    lines
}

#[test]
fn every_command_of_the_page_on_workers_runs() {
    let folder = folder();
    // Ports that are free now, in the place of those of the page.
    let ports: BTreeMap<String, String> = [4000, 4100, 4101, 4102, 4103]
        .map(|port: u16| {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            (format!(":{port}"), format!(":{free}"))
        })
        .into();
    let adapted = |line: &str| {
        let line = ports.iter().fold(line.to_owned(), |line, (written, free)| line.replace(written, free));
        line.replace("tidegate worker", &format!("exec {} worker", binary().display()))
            .replace("tidegate serve", &format!("exec {} serve", binary().display()))
    };
    let mut running = Vec::new();
    let mut seen = BTreeMap::<&str, usize>::new();
    for line in commands() {
        let command = adapted(line);
        let mut shell = Command::new("sh");
        // `exec` takes settings in front of it as they are.
        let command = match command.split_once(" exec ") {
            Some((settings, rest)) if settings.contains('=') => format!("export {settings}; exec {rest}"),
            _ => command,
        };
        shell.current_dir(folder.path()).args(["-ec", &command]);
        let kind = ["tidegate worker", "tidegate serve", "curl", "openssl", "mkdir"]
            .into_iter()
            .find(|kind| line.contains(kind))
            .unwrap_or_else(|| panic!("{line}: no known command"));
        *seen.entry(kind).or_default() += 1;
        match kind {
            "tidegate worker" | "tidegate serve" => {
                let log = folder.path().join(format!("{}.log", running.len()));
                running.push(Server::spawn(shell, log, true));
            }
            "curl" => {
                // What the first answer says of the workers comes within moments.
                let began = Instant::now();
                loop {
                    let out = shell.stderr(Stdio::inherit()).output().unwrap();
                    assert!(out.status.success(), "{line}");
                    let answer = String::from_utf8(out.stdout).unwrap();
                    let is_good = match line.ends_with("/ready") {
                        true => answer.matches("\"used\":true").count() == 2,
                        false => answer.contains("tidegate_worker_tasks 0"),
                    };
                    if is_good {
                        break;
                    }
                    assert!(began.elapsed() < LONG, "{line}: {answer}");
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            _ => {
                let out = shell.output().unwrap();
                assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
            }
        }
    }
    assert_eq!((seen["tidegate worker"], seen["tidegate serve"]), (3, 1), "{seen:?}");
    // The certificates of the page fit each other.
    let secure = running.last().unwrap();
    let mut command = Command::new(binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "other"]).current_dir(folder.path());
    let port = secure.base.rsplit(':').next().unwrap();
    command.env("TIDEGATE_CLUSTER_WORKERS", format!("127.0.0.1:{port}"));
    command.env("TIDEGATE_CLUSTER_TLS_CERTIFICATE", "server.pem").env("TIDEGATE_CLUSTER_TLS_KEY", "server-key.pem");
    command.env("TIDEGATE_CLUSTER_TLS_CA", "cluster-ca.pem");
    let server = Server::spawn(command, folder.path().join("secure.log"), true);
    let began = Instant::now();
    while server.call("GET", "/ready", &[], b"").body["workers"][0]["used"] != true {
        assert!(began.elapsed() < LONG, "{}", server.call("GET", "/ready", &[], b"").body);
        std::thread::sleep(Duration::from_millis(50));
    }
}
