//! `cargo xtask clients`: real clients send logs to the built service, and queries find them.
//!
//! The black-box tests send what clients are known to send; this sends what they do send. The
//! clients and what is expected of them stand in `tests/clients`, each in its own language. They
//! are installed below the target folder.

use std::fs::{create_dir_all, remove_dir_all};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::service::{PRIVATE, PUBLIC, Service, build};
use crate::{Outcome, built, python, root, run, say};

/// Builds the service and tries all clients.
pub(crate) fn command() -> Outcome {
    build()?;
    clients()
}

/// Tries all clients on the service that is built.
pub(crate) fn clients() -> Outcome {
    let folder = root().join("tests/clients");
    let python = python::environment("clients", &folder.join("requirements.txt"))?;
    let scripts = node(&folder)?;
    let service = Service::start(&built()?.join("clients"))?;
    for (program, script) in [
        (python.as_path(), folder.join("otel_logs.py")),
        (Path::new("node"), scripts.join("otel_logs.mjs")),
        (Path::new("node"), scripts.join("pino.mjs")),
    ] {
        send(&service, program, &script, &[])?;
    }
    drop(service);
    // Senders of other services: two runs on one folder, and the service is killed in between.
    let data = built()?.join("clients-of-doors");
    if data.exists() {
        remove_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    }
    for part in ["1", "2"] {
        let mut program = Command::new(built()?.join("tidegate"));
        program.env("TIDEGATE_DOORS_DATADOG_SOURCE", "postgres.logs");
        let service = Service::on(program, &data)?;
        send(&service, &python, &folder.join("doors.py"), &[part])?;
        send(&service, &python, &folder.join("otel_grpc.py"), &[part])?;
        send(&service, Path::new("node"), &scripts.join("doors.mjs"), &[part])?;
    }
    issuer(&scripts)?;
    syslog(&folder.join("syslog.py"))?;
    object_store(&folder)
}

/// A provider of OpenID Connect whose tokens are access tokens. Its address stands in the configuration, so the script starts
/// the service.
fn issuer(scripts: &Path) -> Outcome {
    say("asking with tokens of oidc-provider");
    let (program, folder) = (built()?.join("tidegate"), built()?.join("issuer"));
    run(Command::new("node").arg(scripts.join("issuer.mjs")).arg(program).arg(folder).env("NO_PROXY", "127.0.0.1"))
}

/// A server with copies of its segments in an object store, and workers that read them there.
fn object_store(scripts: &Path) -> Outcome {
    let python = python::environment("object-store", &scripts.join("object_store.txt"))?;
    say("asking workers over an object store");
    let (program, folder) = (built()?.join("tidegate"), built()?.join("object-store"));
    run(Command::new(python).arg(scripts.join("object_store.py")).arg(program).arg(folder))
}

/// Senders of syslog. They stay while the service is stopped and started, so the script starts it.
fn syslog(script: &Path) -> Outcome {
    // Each daemon takes the place of the other when it is installed.
    let senders: [(&str, &str, &[&str]); 3] = [
        ("logger", "logger", &["bsdutils"]),
        ("rsyslog", "rsyslogd", &["rsyslog", "rsyslog-gnutls"]),
        ("syslog-ng", "syslog-ng", &["syslog-ng-core", "syslog-ng-mod-http", "syslog-ng-scl"]),
    ];
    if Command::new("openssl").arg("version").output().is_err() {
        python::apt(&["openssl"])?;
    }
    for (sender, program, packages) in senders {
        if Command::new(program).arg("--version").output().is_err() {
            python::apt(packages)?;
        }
        say(&format!("sending logs with {sender}"));
        let folder = built()?.join("clients-of-syslog").join(sender);
        if folder.exists() {
            remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let program = built()?.join("tidegate");
        run(Command::new("python3").arg(script).arg(program).arg(&folder).arg(sender))?;
    }
    Ok(())
}

/// Runs a client's script, which fails if anything is not as it expects.
fn send(service: &Service, program: &Path, script: &Path, arguments: &[&str]) -> Outcome {
    say(&format!("sending logs with {} {}", script.file_name().unwrap_or_default().display(), arguments.join(" ")));
    let sent = run(Command::new(program)
        .arg(script)
        .args(arguments)
        .env("TIDEGATE_URL", &service.url)
        .env("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE)
        .env("TIDEGATE_PUBLIC_ACCESS_TOKEN", PUBLIC)
        .env("NO_PROXY", "127.0.0.1"));
    sent.map_err(|error| format!("{error}\nthe service said:\n{}", service.said()))
}

/// Installs the packages of Node.js; the folder where they and the scripts are.
fn node(from: &Path) -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        if Command::new(program).arg("--version").output().is_err() {
            python::apt(&["nodejs", "npm"])?;
        }
    }
    let to = built()?.join("node/clients");
    let told = |error: std::io::Error| format!("{}: {error}", to.display());
    create_dir_all(&to).map_err(told)?;
    let installed = to.join("package.json");
    let is_current = std::fs::read(&installed).ok() == std::fs::read(from.join("package.json")).ok();
    // Scripts look for packages beside themselves.
    for name in ["service.mjs", "pino.mjs", "otel_logs.mjs", "doors.mjs", "issuer.mjs"] {
        std::fs::copy(from.join(name), to.join(name)).map_err(told)?;
    }
    if !is_current || !to.join("node_modules").is_dir() {
        say(
            "installing packages of Node.js: pino, winston, their transports, the clients of OpenTelemetry and Elasticsearch, oidc-provider",
        );
        let fresh = to.join("installing");
        create_dir_all(&fresh).map_err(told)?;
        std::fs::copy(from.join("package.json"), fresh.join("package.json")).map_err(told)?;
        run(Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"])
            .current_dir(&fresh))?;
        let _ = remove_dir_all(to.join("node_modules"));
        std::fs::rename(fresh.join("node_modules"), to.join("node_modules")).map_err(told)?;
        // Last: what is written here is installed.
        std::fs::rename(fresh.join("package.json"), installed).map_err(told)?;
        let _ = remove_dir_all(fresh);
    }
    Ok(to)
}
