//! A server with a certificate of its own: who reaches it, what happens when the certificate is replaced, and
//! that handshakes can hold nothing that others need.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use tempfile::TempDir;
use tidegate_tests::{EDGE, PRIVATE, PUBLIC, Server, binary, folder, now, until};

use crate::slow_readers::{field, frame};

const LONG: Duration = Duration::from_secs(60);

type Client = StreamOwned<ClientConnection, TcpStream>;

/// A certificate for the loopback address, and its key.
struct Pair {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem(), der: made.cert.der().clone() }
    }
}

/// The folder with the files of a server.
struct Files(TempDir);

impl Files {
    fn new(pair: &Pair) -> Self {
        let files = Self(folder());
        files.put(&pair.certificate, &pair.key);
        files
    }

    fn certificate(&self) -> PathBuf {
        self.0.path().join("certificate.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    /// As programs do that replace certificates: each file by a rename.
    fn put(&self, certificate: &str, key: &str) {
        let new = self.0.path().join("new");
        for (path, text) in [(self.key(), key), (self.certificate(), certificate)] {
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, path).unwrap();
        }
    }

    fn serve(&self, settings: &[(&str, &str)]) -> Server {
        let (certificate, key) = (self.certificate(), self.key());
        let tls = [
            ("TIDEGATE_SERVER_TLS_CERTIFICATE", certificate.to_str().unwrap()),
            ("TIDEGATE_SERVER_TLS_KEY", key.to_str().unwrap()),
        ];
        Server::start_set(&[&tls, settings].concat())
    }
}

/// Connects, trusting one certificate; the protocols are those that the client offers.
fn connect(server: &Server, trusted: &Pair, protocols: &[&str]) -> std::io::Result<Client> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = "127.0.0.1".try_into().unwrap();
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(LONG))?;
    let mut connection = ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

/// One request on a kept connection, and its whole answer.
fn ask(client: &mut Client, path: &str, token: &str) -> String {
    write!(client, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\n\r\n").unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    let head = String::from_utf8(answer).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.unwrap_or_else(|| panic!("no length: {head}")).trim().parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[test]
fn with_a_certificate_https_is_spoken_and_nothing_else() {
    let pair = Pair::new();
    let files = Files::new(&pair);
    let server = files.serve(&[]);
    for (offered, chosen) in [
        (&["http/1.1"][..], Some("http/1.1")),
        (&["h2", "http/1.1"], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&[], None),
    ] {
        let client = connect(&server, &pair, offered).unwrap();
        assert_eq!(client.conn.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
    }
    let mut client = connect(&server, &pair, &["http/1.1"]).unwrap();
    for _ in 0..2 {
        assert!(ask(&mut client, "/health", "").starts_with("http/1.1 200 "));
    }
    // HTTP/2: a request whose head is an index of each usual header, and an answer whose head begins so.
    let mut client = connect(&server, &pair, &["h2"]).unwrap();
    let head = [&[0x82, 0x87][..], &field(Ok(4), "/health"), &field(Ok(1), "x")].concat();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    client.write_all(&[frame(4, 0, 0, &[]), frame(1, 5, 1, &head)].concat()).unwrap();
    loop {
        let mut start = [0; 9];
        client.read_exact(&mut start).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, start[0], start[1], start[2]]).try_into().unwrap()];
        client.read_exact(&mut payload).unwrap();
        if start[3] == 1 {
            assert_eq!(payload[0], 0x88, "status 200");
            break;
        }
    }
    // Who forgets the s is told, and nobody else's certificate is taken for this one.
    let told = server.exchange(&[b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"]);
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("begins with https://"), "{told}");
    assert!(connect(&server, &Pair::new(), &[]).is_err());
    assert_eq!(server.stop("-TERM"), Some(0));
}

#[test]
fn the_commands_of_authors_and_senders_speak_to_it() {
    let pair = Pair::new();
    let (files, own) = (Files::new(&pair), folder());
    let server = files.serve(&[]);
    let url = format!("https://{}", server.address());
    let tidegate = |arguments: &[&str], token: &str| {
        let mut command = Command::new(binary());
        command.args(arguments).env("TIDEGATE_URL", &url).env("TIDEGATE_TOKEN", token).current_dir(own.path());
        let out = command
            .env("SSL_CERT_FILE", files.certificate())
            .env_remove("SSL_CERT_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "{arguments:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let text = "x".repeat(2_000);
    let event = |i: i64| {
        json!({"id": format!("{i:04}"), "timestamp": now() - i, "project": "p1", "event_message": text}).to_string()
            + "\n"
    };
    let events: String = (0..3_000).map(event).collect();
    std::fs::write(own.path().join("events.ndjson"), events).unwrap();
    tidegate(&["import", "--source", EDGE, "events.ndjson"], PUBLIC);
    tidegate(&["new", "mine", "--lang", "sql"], PRIVATE);
    tidegate(&["push", "mine"], PRIVATE);
    assert!(tidegate(&["versions", "mine"], PRIVATE).contains("* "));
    // An answer of many records of TLS comes through whole.
    let mut client = connect(&server, &pair, &[]).unwrap();
    let path =
        "/api/endpoints/query/logs.all?project=p1&sql=SELECT+id,event_message+FROM+edge_logs+ORDER+BY+id+LIMIT+1000";
    write!(client, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() > 2_000_000, "{}", answer.len());
    assert!((0..1_000).all(|i| answer.contains(&format!("\"{i:04}\""))));
}

#[test]
fn a_new_certificate_is_used_and_a_bad_one_is_not() {
    let (first, second) = (Pair::new(), Pair::new());
    let files = Files::new(&first);
    let server = files.serve(&[]);
    let mut kept = connect(&server, &first, &[]).unwrap();
    assert!(ask(&mut kept, "/health", "").starts_with("http/1.1 200 "));
    files.put(&second.certificate, &second.key);
    until("the new certificate is used", || connect(&server, &second, &[]).is_ok());
    assert!(connect(&server, &first, &[]).is_err());
    assert!(ask(&mut kept, "/health", "").starts_with("http/1.1 200 "), "what is open stays open");
    for (certificate, key, words) in [
        ("no certificate", second.key.as_str(), "has no certificate in PEM"),
        (&first.certificate, &second.key, "is not that of the first certificate"),
        (&second.certificate, "no key", "has no private key in PEM"),
    ] {
        files.put(certificate, key);
        until(words, || server.log().contains(words));
        let mut client = connect(&server, &second, &[]).unwrap();
        assert!(ask(&mut client, "/health", "").starts_with("http/1.1 200 "));
    }
    std::fs::remove_file(files.key()).unwrap();
    until("a file that is gone", || server.log().contains("key.pem: No such file"));
    assert!(connect(&server, &second, &[]).is_ok());
    // Each is told once, however often it is looked at, and the key never.
    std::thread::sleep(Duration::from_secs(3));
    let log = server.log();
    assert_eq!(log.matches("the one before stays in use").count(), 4, "{log}");
    assert!(!log.contains("PRIVATE KEY-----\n"), "{log}");
    // From a bad one the way leads back.
    files.put(&first.certificate, &first.key);
    until("the first certificate again", || connect(&server, &first, &[]).is_ok());
    assert!(ask(&mut kept, "/health", "").starts_with("http/1.1 200 "));
}

#[test]
fn handshakes_have_a_time() {
    let pair = Pair::new();
    let files = Files::new(&pair);
    let server = files.serve(&[("TIDEGATE_SERVER_HEAD_TIMEOUT", "500 ms")]);
    let mut silent = TcpStream::connect(server.address()).unwrap();
    // The head of a message of 16,000 bytes that dribbles in, and a handshake that is done without a request after it.
    let mut slow = TcpStream::connect(server.address()).unwrap();
    slow.write_all(&[0x16, 3, 1, 0x3e, 0x80, 1, 0, 0x3e, 0x7c]).unwrap();
    let mut done = connect(&server, &pair, &[]).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let began = Instant::now();
    loop {
        let _ = slow.write_all(&[0]);
        match slow.read(&mut [0; 64]) {
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        assert!(began.elapsed() < LONG, "a byte now and then is no handshake");
    }
    silent.set_read_timeout(Some(LONG)).unwrap();
    assert_eq!(silent.read(&mut [0; 64]).unwrap(), 0);
    assert_eq!(done.read(&mut [0; 64]).unwrap_or(0), 0);
    assert!(ask(&mut connect(&server, &pair, &[]).unwrap(), "/health", "").starts_with("http/1.1 200 "));
}

#[test]
fn handshakes_are_counted_among_connections_and_end_with_the_server() {
    let pair = Pair::new();
    let files = Files::new(&pair);
    let server =
        files.serve(&[("TIDEGATE_SERVER_CONNECTIONS_WITHOUT_TOKEN", "5"), ("TIDEGATE_SERVER_HEAD_TIMEOUT", "10 min")]);
    let held: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let mut client = connect(&server, &pair, &[]).unwrap();
    let refused = ask(&mut client, "/api/sources", "");
    assert!(refused.starts_with("http/1.1 503 ") && refused.contains("without an access token"), "{refused}");
    let mut client = connect(&server, &pair, &[]).unwrap();
    assert!(ask(&mut client, "/api/sources", PRIVATE).starts_with("http/1.1 200 "));
    let log = {
        let status = Command::new("kill").args(["-TERM", &server.process().to_string()]).status().unwrap();
        assert!(status.success());
        server.until_logged("stopped");
        server.log()
    };
    assert!(!log.contains("did not end in time"), "{log}");
    drop(held);
    assert_eq!(server.wait(), Some(0));
}

/// What is encrypted waits in buffers of its own, and must not count as taken there.
#[test]
fn clients_that_do_not_read_are_cut() {
    let pair = Pair::new();
    let files = Files::new(&pair);
    let server = files.serve(&[("TIDEGATE_SERVER_WRITE_TIMEOUT", "1 s"), ("TIDEGATE_SERVER_IDLE_TIMEOUT", "10 min")]);
    let text = "x".repeat(64 << 10);
    let events: Vec<_> = (0..100)
        .map(|i| json!({"id": format!("{i}"), "timestamp": now() - i, "project": "p1", "event_message": text}))
        .collect();
    let body = json!(events).to_string();
    let mut sender = connect(&server, &pair, &[]).unwrap();
    write!(
        sender,
        "POST /api/logs?source_name={EDGE} HTTP/1.1\r\nhost: x\r\nx-api-key: {PUBLIC}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    sender.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let path = "/api/endpoints/query/logs.all?project=p1&sql=SELECT+event_message+FROM+edge_logs";
    let silent: Vec<Client> = (0..5)
        .map(|_| {
            let mut client = connect(&server, &pair, &[]).unwrap();
            write!(client, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n\r\n").unwrap();
            client
        })
        .collect();
    until("they are cut", || {
        let metrics = ask(&mut connect(&server, &pair, &[]).unwrap(), "/metrics", PRIVATE);
        metrics.lines().any(|line| line == "tidegate_connections 1")
    });
    drop(silent);
}

#[test]
fn what_cannot_be_used_is_said_before_anything_starts() {
    let (pair, other) = (Pair::new(), Pair::new());
    let files = Files::new(&pair);
    let encrypted = files.0.path().join("encrypted.pem");
    std::fs::write(&encrypted, pair.key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")).unwrap();
    let others = files.0.path().join("other.pem");
    std::fs::write(&others, &other.key).unwrap();
    let (certificate, key) = (files.certificate(), files.key());
    let none = PathBuf::new();
    for (certificate, key, words) in [
        (&certificate, &none, "tls_certificate is set and tls_key is not"),
        (&none, &key, "tls_key is set and tls_certificate is not"),
        (&files.0.path().join("nowhere.pem"), &key, "nowhere.pem: No such file"),
        (&files.0.path().to_owned(), &key, "it is no file"),
        (&key, &key, "key.pem has no certificate in PEM"),
        (&certificate, &certificate, "certificate.pem has no private key in PEM"),
        (&certificate, &encrypted, "that is not encrypted"),
        (&certificate, &others, "other.pem is not that of the first certificate in"),
    ] {
        let data = files.0.path().join("data");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let out = Command::new(binary())
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", &text(&data)])
            .env("TIDEGATE_SERVER_TLS_CERTIFICATE", text(certificate))
            .env("TIDEGATE_SERVER_TLS_KEY", text(key))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && told.contains(words), "{words}: {told}");
        assert!(!data.exists(), "{words}");
    }
}
