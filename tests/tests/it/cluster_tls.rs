//! Certificates between a server and its workers: who has none, or one that others signed, gets nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;
use tempfile::TempDir;
use tidegate_tests::{Data, Server, binary, folder, serve};

const LONG: Duration = Duration::from_secs(30);

/// An authority, and a folder with what it signs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    folder: TempDir,
}

/// The files of one side.
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    authority: PathBuf,
}

impl Authority {
    fn new() -> Self {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), certificate, folder: folder() }
    }

    /// A certificate for a host, in files.
    fn sign(&self, name: &str, host: &str) -> Files {
        let at = |part: &str| self.folder.path().join(format!("{name}-{part}.pem"));
        let files = Files { certificate: at("certificate"), key: at("key"), authority: at("authority") };
        self.sign_into(&files, host);
        std::fs::write(&files.authority, &self.certificate).unwrap();
        files
    }

    fn sign_into(&self, files: &Files, host: &str) {
        self.sign_as(IsCa::NoCa, files, host);
    }

    fn sign_as(&self, is_ca: IsCa, files: &Files, host: &str) {
        let mut parameters = CertificateParams::new(vec![host.to_owned()]).unwrap();
        parameters.is_ca = is_ca;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        for (path, text) in [(&files.key, key.serialize_pem()), (&files.certificate, certificate.pem())] {
            let new = path.with_extension("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, path).unwrap();
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn worker(data: &Path, files: &Files, log: &str) -> Server {
    let mut command = Command::new(binary());
    command.args(["worker", "--listen", "127.0.0.1:0", "--probe-listen", "127.0.0.1:0", "--store"]).arg(data);
    for (flag, path) in
        [("--tls-certificate", &files.certificate), ("--tls-key", &files.key), ("--tls-client-ca", &files.authority)]
    {
        command.arg(flag).arg(path);
    }
    Server::spawn(command, data.with_file_name(log), false)
}

fn server(data: &Path, files: &Files, workers: &[&Server], log: &str) -> Server {
    let addresses: Vec<&str> = workers.iter().map(|worker| worker.address()).collect();
    let mut command = serve(data);
    command.env("TIDEGATE_CLUSTER_WORKERS", addresses.join(",")).env("TIDEGATE_CLUSTER_LEAST_BYTES", "0");
    command.env("TIDEGATE_INGEST_FLUSH_ROWS", "100").env("TIDEGATE_CACHE_MEMORY", "0");
    command.env("TIDEGATE_CLUSTER_TLS_CERTIFICATE", &files.certificate);
    command.env("TIDEGATE_CLUSTER_TLS_KEY", &files.key).env("TIDEGATE_CLUSTER_TLS_CA", &files.authority);
    Server::spawn(command, data.with_file_name(log), true)
}

/// Waits until the only worker is used, or until there is a reason with such a word why it is not.
fn wait(server: &Server, word: Option<&str>) {
    let began = Instant::now();
    loop {
        let ready = server.manage("GET", "/ready", &Value::Null);
        let worker = &ready.body["workers"][0];
        let reason = worker["reason"].as_str().unwrap_or_default();
        match word {
            None if worker["used"] == true => return,
            Some(word) if worker["used"] == false && reason.contains(word) => return,
            _ => {}
        }
        assert!(began.elapsed() < LONG, "{word:?}: {}", ready.body);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn done(server: &Server) -> bool {
    let page = server.text("/metrics");
    let mut tasks = page.lines().filter(|line| line.starts_with("tidegate_cluster_tasks_total{"));
    tasks.any(|line| line.contains("outcome=\"done\"") && !line.ends_with(" 0"))
}

fn fill(server: &Server) {
    let events = (0..100).map(|n| tidegate_tests::request(&format!("e{n}"), tidegate_tests::now(), "/x"));
    server.send(tidegate_tests::EDGE, &Value::Array(events.collect()));
    server.until_segments(1);
}

const COUNT: &str = "select count(*) as c from edge_logs where event_message like '%x%'";

/// Talks TLS as a client that trusts the authority of the worker, with a certificate or without. What the worker says.
fn talk(worker: &Server, trusted: &str, own: Option<&Files>) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some(files) => {
            let chain = vec![CertificateDer::from_pem_file(&files.certificate).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap()
        }
    };
    let stream = TcpStream::connect(worker.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let connection = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let request = "GET /v1/worker HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => Err(error.to_string()),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

#[test]
fn a_worker_does_nothing_for_who_has_no_certificate() {
    let (authority, other) = (Authority::new(), Authority::new());
    let data = Data::new();
    std::fs::create_dir(&data).unwrap();
    let worker = worker(&data, &authority.sign("worker", "127.0.0.1"), "worker.log");
    let own = authority.sign("server", "server.test");
    assert!(talk(&worker, &authority.certificate, Some(&own)).unwrap().starts_with("HTTP/1.1 200"));
    assert!(talk(&worker, &authority.certificate, None).is_err());
    assert!(talk(&worker, &authority.certificate, Some(&other.sign("stranger", "server.test"))).is_err());
    // Without TLS.
    let answer = worker.exchange(&[b"GET /v1/worker HTTP/1.1\r\nhost: worker\r\n\r\n"]);
    assert!(!answer.contains("200 OK"), "{answer}");
    // Each is counted, and the log tells of the first with its reason.
    assert!(
        worker.log().contains("a connection is refused") && worker.log().contains("127.0.0.1:"),
        "{}",
        worker.log()
    );
    let refused = ["no certificate", "certificates presented"].iter().any(|words| worker.log().contains(words));
    assert!(refused || worker.log().contains("PeerSentNoCertificates"), "{}", worker.log());
    // Probes have an address of their own, at which there is nothing else.
    let log = worker.log();
    let probes = log.split("probes_at=Some(").nth(1).unwrap().split(')').next().unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(probes).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: worker\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/ready").starts_with("HTTP/1.1 200") && ask("/metrics").contains("tidegate_worker_tasks 0"));
    assert!(ask("/metrics").contains("tidegate_worker_connections_refused_total 3"), "{}", ask("/metrics"));
    assert!(ask("/v1/worker").starts_with("HTTP/1.1 404") && ask("/v1/tasks").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_server_uses_workers_that_its_authority_signed() {
    let (authority, other) = (Authority::new(), Authority::new());
    let data = Data::new();
    std::fs::create_dir(&data).unwrap();
    let files = authority.sign("worker", "127.0.0.1");
    let worker = worker(&data, &files, "worker.log");
    let own = authority.sign("server", "server.test");
    {
        let server = server(&data, &own, &[&worker], "data.log");
        wait(&server, None);
        fill(&server);
        assert_eq!(server.sql(COUNT).rows()[0]["c"], 100);
        assert!(done(&server), "{}", server.text("/metrics"));
        // The certificate of the worker is replaced, by one that the server must not trust, and then by a good one. A
        // connection that is there stays.
        other.sign_into(&files, "127.0.0.1");
        worker.until_logged("the new certificate is in use");
        wait(&server, None);
        assert_eq!(server.stop("-TERM"), Some(0));
    }
    let again = server(&data, &own, &[&worker], "data2.log");
    wait(&again, Some("its certificate is signed by none that this side trusts"));
    // Statements run here.
    assert_eq!(again.sql(COUNT).rows()[0]["c"], 100);
    assert!(!done(&again));
    // One for another host is not that of this worker.
    authority.sign_into(&files, "other.test");
    wait(&again, Some("its certificate is for other names"));
    // One that may sign others is nobody's own.
    authority.sign_as(IsCa::Ca(BasicConstraints::Unconstrained), &files, "127.0.0.1");
    wait(&again, Some("its certificate is one that signs others"));
    authority.sign_into(&files, "127.0.0.1");
    wait(&again, None);
    assert_eq!(again.sql(COUNT).rows()[0]["c"], 100);
    assert!(done(&again));
}

#[test]
fn a_server_that_others_signed_is_not_let_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    let data = Data::new();
    std::fs::create_dir(&data).unwrap();
    let worker = worker(&data, &authority.sign("worker", "127.0.0.1"), "worker.log");
    let mut files = other.sign("server", "server.test");
    files.authority = authority.sign("x", "x").authority;
    let server = server(&data, &files, &[&worker], "data.log");
    wait(&server, Some("it refused the certificate of this side"));
}

#[test]
fn a_server_without_certificates_is_told_that_a_worker_may_want_them() {
    let authority = Authority::new();
    let data = Data::new();
    std::fs::create_dir(&data).unwrap();
    let worker = worker(&data, &authority.sign("worker", "127.0.0.1"), "worker.log");
    let mut command = serve(&data);
    command.env("TIDEGATE_CLUSTER_WORKERS", worker.address());
    let server = Server::spawn(command, data.with_file_name("data.log"), true);
    wait(&server, Some("set tls_certificate, tls_key and tls_ca"));
}

#[test]
fn files_that_cannot_be_used_are_named_at_the_start() {
    let authority = Authority::new();
    let files = authority.sign("worker", "127.0.0.1");
    let folder = folder();
    let data = folder.path().to_str().unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "no certificate").unwrap();
    let run = |arguments: &[&str], environment: &[(&str, &str)]| {
        let out = Command::new(binary()).args(arguments).envs(environment.iter().copied()).output().unwrap();
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let (certificate, key, ca) = (text(&files.certificate), text(&files.key), text(&files.authority));
    let listen = ["worker", "--store", data, "--listen", "127.0.0.1:0", "--tls-certificate", certificate];
    let told = run(&[&listen[..], &["--tls-key", key]].concat(), &[]);
    assert!(told.contains("--tls-client-ca"), "{told}");
    let told = run(&[&listen[..], &["--tls-key", key, "--tls-client-ca", text(&broken)]].concat(), &[]);
    assert!(told.contains("broken.pem"), "{told}");
    let settings = [
        ("TIDEGATE_CLUSTER_WORKERS", "127.0.0.1:4100"),
        ("TIDEGATE_CLUSTER_TLS_CERTIFICATE", certificate),
        ("TIDEGATE_CLUSTER_TLS_KEY", key),
    ];
    let told = run(&["serve", "--data-dir", &format!("{data}/data")], &settings);
    assert!(told.contains("tls_ca"), "{told}");
    let wrong = [&settings[..], &[("TIDEGATE_CLUSTER_TLS_CA", text(&broken))]].concat();
    let told = run(&["serve", "--data-dir", &format!("{data}/data"), "--listen", "127.0.0.1:0"], &wrong);
    assert!(told.contains("broken.pem"), "{told}");
    assert!(!ca.is_empty());
}
