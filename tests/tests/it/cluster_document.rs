//! `docs/cluster.md`: its commands, and those of its files for systemd, compose and Kubernetes, run as they stand there, on
//! other ports and folders.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_tests::{Server, binary, folder, lasting_port, serve, until};

const DOCUMENT: &str = include_str!("../../../docs/cluster.md");
const LONG: Duration = Duration::from_secs(30);

/// The texts of the blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in DOCUMENT.lines() {
        match (&mut block, line) {
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, line) if line.strip_prefix("```") == Some(language) => block = Some(String::new()),
            (None, _) => {}
        }
    }
    blocks
}

/// The lines of the blocks of commands.
fn commands() -> Vec<String> {
    blocks("sh").iter().flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The ports of the page, each with one that is free now.
fn ports() -> BTreeMap<String, String> {
    [4000, 4100, 4101, 4102, 4103].map(|port: u16| (port.to_string(), lasting_port().to_string())).into()
}

/// The text with each port of the page after a colon replaced by the free one. It is read once and whole numbers are
/// compared, because a free port may begin with the digits of one of the page, such as 41015.
fn with_ports(text: &str, ports: &BTreeMap<String, String>) -> String {
    let mut parts = text.split(':');
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = part.split_at(digits);
        replaced.push(':');
        replaced.push_str(ports.get(number).map_or(number, String::as_str));
        replaced.push_str(after);
    }
    replaced
}

#[test]
fn a_free_port_that_begins_like_one_of_the_page_stays_whole() {
    let ports = [("4000", "41001"), ("4100", "41015"), ("4101", "40641")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    let replaced = with_ports("a:4000, b:4100 c::4101:x 4100 :41000:", &ports.into());
    assert_eq!(replaced, "a:41001, b:41015 c::40641:x 4100 :41000:");
    assert_eq!(with_ports("none", &BTreeMap::new()), "none");
}

/// Makes the certificates of the page in a folder.
fn certificates(folder: &Path) {
    for line in commands().iter().filter(|line| line.starts_with("openssl")) {
        let out = Command::new("sh").current_dir(folder).args(["-ec", line]).output().unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

/// Waits until the server uses its worker.
fn until_used(server: &Server) {
    until("the worker is used", || server.call("GET", "/ready", &[], b"").body["workers"][0]["used"] == true);
}

#[test]
fn every_command_of_the_page_on_workers_runs() {
    let folder = folder();
    let ports = ports();
    let adapted = |line: &str| {
        with_ports(line, &ports)
            .replace("tidegate worker", &format!("exec {} worker", binary().display()))
            .replace("tidegate serve", &format!("exec {} serve", binary().display()))
    };
    let mut running = Vec::new();
    let mut seen = BTreeMap::<&str, usize>::new();
    for line in commands() {
        let line = line.as_str();
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
    until_used(&server);
}

/// The command line of the worker in a file of the page, and the settings of its server.
struct Deployment {
    worker: String,
    server: BTreeMap<String, String>,
}

/// The unit for systemd. Its server is another machine's, with the settings of the page's own file.
fn systemd(settings: &BTreeMap<String, String>) -> Deployment {
    let unit = blocks("ini").pop().unwrap().replace("\\\n", " ");
    let worker = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    Deployment { worker: worker.to_owned(), server: settings.clone() }
}

fn compose() -> Deployment {
    let file = blocks("yaml").into_iter().find(|block| block.starts_with("services:")).unwrap();
    let (server, worker) = file.split_once("\n  worker:\n").unwrap();
    let settings = server.lines().filter_map(|line| line.trim().split_once(": "));
    let settings = settings.filter(|(name, _)| name.starts_with("TIDEGATE_"));
    let (_, command) = worker.split_once("command: >-\n").unwrap();
    // The lines of the command are further in than the keys beside it.
    let command: Vec<&str> = command.lines().take_while(|line| line.starts_with("      ")).collect();
    Deployment {
        worker: format!("tidegate {}", command.join(" ")),
        server: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

fn kubernetes(settings: &BTreeMap<String, String>) -> Deployment {
    let file = blocks("yaml").into_iter().find(|block| block.starts_with("apiVersion:")).unwrap();
    let (_, arguments) = file.split_once("args: [").unwrap();
    let (arguments, rest) = arguments.split_once(']').unwrap();
    assert!(rest.contains("readinessProbe: {httpGet: {path: /ready, port: 4101}}"), "{rest}");
    assert!(rest.contains("livenessProbe: {httpGet: {path: /health, port: 4101}}"), "{rest}");
    let arguments = arguments.split(',').map(|argument| format!("'{}'", argument.trim().trim_matches('"')));
    let (_, workers) = DOCUMENT.split_once("`TIDEGATE_CLUSTER_WORKERS=").unwrap();
    let mut server = settings.clone();
    server.insert("TIDEGATE_CLUSTER_WORKERS".to_owned(), workers.split('`').next().unwrap().to_owned());
    Deployment { worker: format!("tidegate {}", arguments.collect::<Vec<_>>().join(" ")), server }
}

/// The settings of the file for the server.
fn settings() -> BTreeMap<String, String> {
    let file = blocks("toml").into_iter().find(|block| block.starts_with("[cluster]")).unwrap();
    let lines = file.lines().filter_map(|line| line.split_once(" = "));
    // A text, or a number before its comment.
    let text = |value: &str| match value.split('"').nth(1) {
        Some(text) => text.to_owned(),
        None => value.split('#').next().unwrap().trim().to_owned(),
    };
    lines.map(|(name, value)| (format!("TIDEGATE_CLUSTER_{}", name.to_uppercase()), text(value))).collect()
}

#[test]
fn the_files_for_systemd_compose_and_kubernetes_start_workers_that_a_server_uses() {
    let settings = settings();
    assert_eq!(settings.len(), 6, "{settings:?}");
    for (name, deployment) in
        [("systemd", systemd(&settings)), ("compose", compose()), ("Kubernetes", kubernetes(&settings))]
    {
        let (folder, ports) = (folder(), ports());
        let path = folder.path();
        certificates(path);
        let data = path.join("data");
        let adapted = |text: &str| {
            let text = with_ports(text, &ports).replace("0.0.0.0", "127.0.0.1");
            let text = ["/etc/tidegate/", "/certificates/"]
                .iter()
                .fold(text, |text, written| text.replace(written, &format!("{}/", path.display())));
            ["/srv/tidegate", "/var/lib/tidegate", "/data"].iter().fold(text, |text, written| {
                text.replace(&format!("--store {written}"), &format!("--store {}", data.display()))
                    .replace(&format!("'{written}'"), &format!("'{}'", data.display()))
            })
        };
        let mut server = serve(&data);
        for (setting, value) in &deployment.server {
            // All names of workers stand for this machine; the certificate of the page has its address.
            let value = match setting.as_str() {
                "TIDEGATE_CLUSTER_WORKERS" => adapted("127.0.0.1:4100"),
                _ => adapted(value),
            };
            server.env(setting, value);
        }
        let server = Server::spawn(server, path.join("server.log"), true);
        let mut worker = Command::new("sh");
        let line = adapted(&deployment.worker);
        let (program, arguments) = line.split_once(' ').unwrap();
        assert!(program.ends_with("tidegate"), "{name}: {line}");
        worker.args(["-ec", &format!("exec {} {arguments}", binary().display())]);
        let _worker = Server::spawn(worker, path.join("worker.log"), true);
        until_used(&server);
        let probe = adapted("http://127.0.0.1:4101");
        for route in ["health", "ready"] {
            let answer = ureq::get(format!("{probe}/{route}")).call();
            assert_eq!(answer.unwrap().status(), 200, "{name}: {route}");
        }
    }
}
