//! Clients over https, to a server behind a proxy that ends the encryption.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tidegate_tests::{EDGE, PRIVATE, PUBLIC, Server, binary, folder, now, request};

/// A certificate for the loopback address in a file, and what serves it.
fn certificate(folder: &Path) -> (ServerConfig, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let file = folder.join("certificate.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    (config, file)
}

/// A proxy before a server: its address, and the file of the certificate to trust.
fn proxy(server: &Server, folder: &Path) -> (String, PathBuf) {
    let (config, file) = certificate(folder);
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = format!("https://{}", listener.local_addr().unwrap());
    let behind = server.address().to_owned();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, behind) = (Arc::clone(&config), behind.clone());
            std::thread::spawn(move || exchange(stream.unwrap(), config, &behind));
        }
    });
    (address, file)
}

/// One request and its answer. A client that does not trust the certificate hangs up.
fn exchange(stream: TcpStream, config: Arc<ServerConfig>, behind: &str) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut client = StreamOwned::new(connection, stream);
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let text = String::from_utf8_lossy(&head).to_lowercase();
    let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body)?;
    let mut server = TcpStream::connect(behind)?;
    let end = head.len() - 2;
    server.write_all(&[&head[..end], b"connection: close\r\n\r\n", &body].concat())?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    client.write_all(&answer)?;
    client.conn.send_close_notify();
    client.flush()
}

#[test]
fn clients_speak_https_to_who_has_a_certificate_that_is_trusted() {
    let (server, own) = (Server::start(), folder());
    let (url, certificate) = proxy(&server, own.path());
    let call = |arguments: &[&str], token: &str, trusted: &Path| {
        let mut command = Command::new(binary());
        command.args(arguments).args(["--url", &url]).env("TIDEGATE_TOKEN", token).env("SSL_CERT_FILE", trusted);
        command.env_remove("SSL_CERT_DIR").stdin(Stdio::null()).current_dir(own.path()).output().unwrap()
    };
    std::fs::write(own.path().join("events.ndjson"), request("over-tls", now(), "/").to_string()).unwrap();
    let sent = call(&["import", "--source", EDGE, "events.ndjson"], PUBLIC, &certificate);
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(server.query("logs.all", &[("project", "p1")]).ids(), ["over-tls"]);
    let listed = call(&["versions", "logs.all"], PRIVATE, &certificate);
    assert!(listed.status.success() && String::from_utf8_lossy(&listed.stdout).contains("* "), "{listed:?}");
    // Another certificate than the one that is trusted: nothing is sent.
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let stranger = own.path().join("stranger.pem");
    std::fs::write(&stranger, other.cert.pem()).unwrap();
    let refused = call(&["versions", "logs.all"], PRIVATE, &stranger);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("certificate"), "{told}");
}

/// Traces go to who has a certificate that is trusted, and to nobody else.
#[test]
fn traces_are_sent_over_https() {
    for trusted in [true, false] {
        let own = folder();
        let (config, file) = certificate(own.path());
        let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let stranger = own.path().join("stranger.pem");
        std::fs::write(&stranger, other.cert.pem()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}", listener.local_addr().unwrap());
        let received = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            receive(stream, config)
        });
        let trust = if trusted { &file } else { &stranger };
        let server = Server::start_set(&[
            ("TIDEGATE_TRACES_ENDPOINT", &address),
            ("TIDEGATE_TRACES_SERVICE_NAME", "a-service-of-tests"),
            ("SSL_CERT_FILE", trust.to_str().unwrap()),
        ]);
        server.query("logs.all", &[("project", "p1")]);
        // The last spans are sent before the end.
        let kill = Command::new("kill").args(["-TERM", &server.process().to_string()]).status().unwrap();
        assert!(kill.success());
        let received = received.join().unwrap();
        if !trusted {
            server.until_logged("traces do not reach their receiver");
        }
        assert_eq!(server.wait(), Some(0));
        let has = |words: &str| {
            received.as_ref().is_ok_and(|bytes| bytes.windows(words.len()).any(|part| part == words.as_bytes()))
        };
        assert_eq!(has("POST /v1/traces HTTP/1.1"), trusted, "{received:?}");
        assert_eq!(has("a-service-of-tests"), trusted, "{received:?}");
    }
}

/// One request with its body, which is answered.
fn receive(stream: TcpStream, config: ServerConfig) -> std::io::Result<Vec<u8>> {
    let connection = ServerConnection::new(Arc::new(config)).map_err(std::io::Error::other)?;
    let mut client = StreamOwned::new(connection, stream);
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        bytes.extend(byte);
    }
    let head = String::from_utf8_lossy(&bytes).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body)?;
    client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    client.conn.send_close_notify();
    client.flush()?;
    bytes.extend(body);
    Ok(bytes)
}
