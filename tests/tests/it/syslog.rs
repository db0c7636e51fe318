//! Syslog over TCP and TLS: what senders send is there, over restarts too; nobody else gets in; hostile streams cost only
//! themselves.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, PUBLIC, Server, folder, serve, until};

use crate::doors::{SOURCE, messages, rows};

const LONG: Duration = Duration::from_secs(60);
const ACCEPTED: &str = "tidegate_door_events_total{door=\"syslog\"}";

/// A server that takes syslog over TCP.
pub(crate) fn start(settings: &[(&str, &str)]) -> Server {
    let own = [("TIDEGATE_SYSLOG_LISTEN", "127.0.0.1:0"), ("TIDEGATE_SYSLOG_SOURCE", SOURCE)];
    Server::start_set(&[&own, settings].concat())
}

/// Where it takes syslog.
fn address(server: &Server, tls: bool) -> String {
    let log = server.log();
    let line = log.lines().find(|line| line.contains("taking syslog") && line.contains(&format!("tls={tls}"))).unwrap();
    line.split("at=").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(address(server, false)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

pub(crate) fn send(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(bytes).unwrap();
    stream
}

fn until_metric(server: &Server, name: &str, value: f64) {
    server.until_metric(name, value);
    assert!((server.metric(name) - value).abs() < 0.5, "{name} is {}", server.metric(name));
}

pub(crate) fn refused(server: &Server, reason: &str) -> f64 {
    server.metric(&format!("tidegate_syslog_refused_messages_total{{reason=\"{reason}\"}}"))
}

/// Whether the server closes the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    !matches!(stream.read(&mut [0; 16]), Ok(1..))
}

/// The rows of a query over sources.
fn query(server: &Server, text: &str) -> Vec<Value> {
    let name = format!("rows-{}", uuid::Uuid::new_v4());
    server.save(&json!({"name": name, "query": text}));
    server.query(&name, &[]).rows().to_vec()
}

fn counted(message: &str) -> String {
    format!("{} {message}", message.len())
}

#[test]
fn a_thousand_messages_are_there_once_over_a_stop_and_a_crash() {
    let data = Data::new();
    let start = || {
        let mut command = serve(&data);
        command.envs([("TIDEGATE_SYSLOG_LISTEN", "127.0.0.1:0"), ("TIDEGATE_SYSLOG_SOURCE", SOURCE)]);
        Server::spawn(command, data.with_extension("log"), true)
    };
    let all = |from: usize, to: usize, as_frame: fn(String) -> String| -> Vec<u8> {
        (from..to)
            .map(|i| as_frame(format!("<13>1 2025-11-20T10:15:02Z h app 1 - - message {i:04}")))
            .collect::<String>()
            .into()
    };
    let server = start();
    let mut stream = send(&server, &all(0, 400, |message| counted(&message)));
    // Nothing waits for the messages to be stored: what has arrived is kept by the stop itself.
    assert_eq!(server.stop("-TERM"), Some(0));
    assert!(is_closed(&mut stream));
    let log = |server: &Server| server.log();
    std::fs::write(data.with_extension("log"), "").unwrap();
    let server = start();
    assert!(log(&server).contains("taking syslog"));
    let _stream = send(&server, &all(400, 700, |message| message + "\n"));
    until_metric(&server, ACCEPTED, 300.0);
    server.kill_now();
    drop(server);
    std::fs::write(data.with_extension("log"), "").unwrap();
    let server = start();
    let _stream = send(&server, &all(700, 1000, |message| counted(&(message + "\n"))));
    until_metric(&server, ACCEPTED, 300.0);
    let expected: Vec<Value> = (0..1000).map(|i| json!(format!("message {i:04}"))).collect();
    assert_eq!(messages(&server), expected);
}

#[test]
fn messages_of_all_forms_are_read_on_one_connection() {
    let server = start(&[("TIDEGATE_SYSLOG_TIME_ZONE", "Europe/Berlin")]);
    let new = "<165>1 2025-11-20T10:15:02.123456Z web-1 shop 71 ID47 [a@1 x=\"1\"] \u{feff}1 new";
    let new = counted(new);
    let bytes = [
        new.as_bytes(),
        b"<86>2025-11-20T10:15:02 web-1 sshd[7]: 2 old\r\n",
        b"<14>Nov 20 10:15:02 docker[871]: 3 \xff bytes\n",
        b"4 no syslog at all\n5 without an end",
    ];
    send(&server, &bytes.concat()).shutdown(Shutdown::Write).unwrap();
    until_metric(&server, ACCEPTED, 5.0);
    let columns =
        "event_message, m.level, m.severity, m.facility, m.hostname, m.app_name, m.proc_id, m.msg_id, timestamp";
    let found = rows(&server, columns);
    let text = |row: usize, name: &str| found[row][name].clone();
    let [first, second] = [0, 1].map(|row| {
        ["event_message", "level", "severity", "facility", "hostname", "app_name", "proc_id", "msg_id"]
            .map(|name| text(row, name))
    });
    let null = Value::Null;
    assert_eq!(json!(first), json!(["1 new", "notice", 5, 20, "web-1", "shop", "71", "ID47"]));
    assert_eq!(json!(second), json!(["2 old", "info", 6, 10, "web-1", "sshd", "7", null]));
    assert_eq!(text(0, "timestamp"), json!(1_763_633_702_123_456_i64));
    assert_eq!(text(1, "timestamp"), json!(1_763_630_102_000_000_i64), "an hour before, in Berlin");
    assert_eq!(text(2, "event_message"), json!("3 \u{fffd} bytes"));
    assert_eq!((text(2, "app_name"), text(2, "hostname")), (json!("docker"), null.clone()));
    assert_eq!((text(3, "event_message"), text(3, "level")), (json!("4 no syslog at all"), null));
    assert_eq!(text(4, "event_message"), json!("5 without an end"));
    let unnested = format!(
        "select e.x from `{SOURCE}` cross join unnest(metadata) as m cross join unnest(m.structured_data) as d \
         cross join unnest(d.`a@1`) as e"
    );
    assert_eq!(query(&server, &unnested), [json!({"x": "1"})]);
}

#[test]
fn who_is_in_no_network_needs_a_token() {
    let server = start(&[("TIDEGATE_SYSLOG_NETWORKS", "10.0.0.0/8"), ("TIDEGATE_SYSLOG_MESSAGE_TIMEOUT", "2s")]);
    let with = |element: &str, text: &str| format!("<13>1 - h a - - {element} {text}\n");
    let good = with(&format!("[tidegate@32473 token=\"{PUBLIC}\"]"), "good");
    let named = with(&format!("[tidegate@32473 token=\"{PUBLIC}\" source=\"{EDGE}\"]"), "elsewhere");
    let wrong = with("[tidegate@32473 token=\"wrong\"]", "wrong");
    let nowhere = with(&format!("[tidegate@32473 token=\"{PUBLIC}\" source=\"nowhere\"]"), "nowhere");
    let _kept =
        send(&server, [good, named, wrong, nowhere, with("-", "none"), "<13>old\n".to_owned()].concat().as_bytes());
    until_metric(&server, ACCEPTED, 2.0);
    until("refused", || refused(&server, "unauthorized") >= 4.0);
    assert_eq!(messages(&server), [json!("good")]);
    let elsewhere =
        query(&server, &format!("select event_message, m.level from `{EDGE}` cross join unnest(metadata) as m"));
    assert_eq!(elsewhere, [json!({"event_message": "elsewhere", "level": "notice"})]);
    let schema = server.manage("GET", &format!("/api/sources/{EDGE}/schema"), &Value::Null).is(200);
    assert!(!schema.body.to_string().contains("tidegate@32473"), "the token is stored");
    // Strangers are told to go: after some messages, and when they send none.
    let mut stream = send(&server, "<13>x\n".repeat(50).as_bytes());
    assert!(is_closed(&mut stream));
    assert!(refused(&server, "unauthorized") < 20.0);
    assert!(is_closed(&mut connect(&server)));
    let log = server.log();
    assert!(log.contains("has no valid token") && !log.contains("token=\\\"wrong"), "{log}");
    assert_eq!(log.matches("has no valid token").count(), 1, "one line a minute");
}

#[test]
fn what_would_let_anybody_send_is_refused_at_the_start() {
    let refused = |settings: &[(&str, &str)]| {
        let folder = folder();
        let mut command = serve(folder.path().join("data"));
        let output =
            command.env("TIDEGATE_SYSLOG_LISTEN", "127.0.0.1:0").envs(settings.iter().copied()).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&[("TIDEGATE_SYSLOG_NETWORKS", "0.0.0.0/0")]).contains("anybody could send"));
    assert!(refused(&[("TIDEGATE_SYSLOG_TLS_LISTEN", "127.0.0.1:0")]).contains("there is no certificate"));
    assert!(refused(&[("TIDEGATE_SYSLOG_TIME_ZONE", "Berlin")]).contains("Europe/Berlin"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (address.to_string(), taken)).unwrap();
    assert!(refused(&[("TIDEGATE_SYSLOG_LISTEN", &taken.0)]).contains("cannot listen for syslog"));
}

#[test]
fn hostile_streams_cost_only_themselves() {
    let server = start(&[("TIDEGATE_SYSLOG_MESSAGE_TIMEOUT", "1s"), ("TIDEGATE_SYSLOG_CONNECTIONS_PER_ADDRESS", "20")]);
    // A length that is too long, and a message that does not come.
    let mut endless = send(&server, b"9999999999 <13>1 - ");
    let mut half = send(&server, b"50 <13>1 - h a - - - half");
    // A line without an end, of 64 MiB.
    let mut line = connect(&server);
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        if line.write_all(&chunk).is_err() {
            break;
        }
    }
    // A wrong length; NULs; a number of 20 digits, which is a line.
    let mut wrong = send(&server, b"9 <13>first of twoxx");
    let nulls = send(&server, &vec![0; 1 << 20]);
    nulls.shutdown(Shutdown::Write).unwrap();
    let digits = send(&server, b"99999999999999999999 <13>1 - - - - - - x\n");
    for stream in [&mut endless, &mut half, &mut wrong] {
        assert!(is_closed(stream));
    }
    until("too slow", || refused(&server, "too_slow") >= 2.0);
    until("too long", || refused(&server, "too_long") >= 2.0);
    until("a wrong length", || refused(&server, "wrong_length") >= 1.0);
    until_metric(&server, ACCEPTED, 2.0);
    drop((line, nulls, digits));
    // More connections than an address may have are closed at once; the others are served.
    until("all are gone", || server.metric("tidegate_syslog_connections") < 0.5);
    let mut many: Vec<TcpStream> = (0..25).map(|_| connect(&server)).collect();
    until("some are refused", || server.metric("tidegate_syslog_connections_refused_total") >= 5.0);
    many[0].write_all(b"<13>still here\n").unwrap();
    until_metric(&server, ACCEPTED, 3.0);
    assert!(server.peak_memory() < 400, "{} MiB", server.peak_memory());
    server.call("GET", "/ready", &[], b"").is(200);
}

/// Who has no token makes the server compute nothing that grows faster than the message, and what may be a token is not stored.
#[test]
fn structured_data_is_bounded_and_leaves_no_token() {
    let server = start(&[("TIDEGATE_SYSLOG_NETWORKS", "10.0.0.0/8")]);
    let elements = |number: usize| (0..number).map(|i| format!("[tidegate@{i:x} a=\"b\"]")).collect::<String>();
    let message = counted(&format!("<13>1 - - - - - {} x", elements(42_000)));
    let before = server.processor_time();
    let senders: Vec<_> = (0..4).map(|_| send(&server, message.as_bytes())).collect();
    until("refused", || refused(&server, "invalid") >= 4.0);
    let spent = server.processor_time() - before;
    assert!(spent < 1_000, "{spent} hundredths of a second");
    drop(senders);
    // A sender that needs no token may send one all the same.
    let server = start(&[]);
    let lines = [
        format!("<13>1 - h a - - [tidegate@1 token=\"{PUBLIC}] one\n"),
        format!("<13>1 - h a - - [a x=\"1\"][tidegate@1 token=\"{PUBLIC}\" source=] two\n"),
        format!("<13>1 - h a - - - [tidegate@1 token=\"{PUBLIC}\"] three\n"),
        format!("<13>1 - h a - [tidegate@1 token=\"{PUBLIC}\"] four\n"),
        format!("<13>1 - h a - - [tidegate@1 token=\"{PUBLIC}\"][a x=\"1] five\n"),
    ];
    let _sender = send(&server, lines.concat().as_bytes());
    until("refused", || refused(&server, "invalid") >= 4.0);
    until_metric(&server, ACCEPTED, 1.0);
    assert_eq!(messages(&server), [json!("[a x=\"1] five")]);
    let schema = server.manage("GET", &format!("/api/sources/{SOURCE}/schema"), &Value::Null).is(200);
    assert!(!schema.body.to_string().contains("tidegate@1"), "an element with a token is stored");
}

#[test]
fn an_overloaded_server_slows_its_senders_down_and_loses_nothing() {
    // Two batches a second for the address; each connection waits for its turn.
    let server = start(&[
        ("TIDEGATE_RATE_INGEST_PER_SECOND", "2"),
        ("TIDEGATE_RATE_BURST", "1"),
        ("TIDEGATE_SYSLOG_BATCH_TIME", "1ms"),
    ]);
    let senders: Vec<_> = (0..6).map(|i| send(&server, format!("<13>message {i}\n").as_bytes())).collect();
    until_metric(&server, ACCEPTED, 6.0);
    assert_eq!(messages(&server).len(), senders.len());
    assert!(server.metric("tidegate_door_refused_events_total{door=\"syslog\"}") < 0.5);
}

/// An authority, and a certificate that it signed, in PEM: certificate and key.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn connect_tls(server: &Server, trusted: &Authority, own: Option<&(String, String)>) -> std::io::Result<Secure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.0.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    };
    let mut stream = TcpStream::connect(address(server, true))?;
    stream.set_read_timeout(Some(LONG))?;
    let mut connection =
        ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).map_err(std::io::Error::other)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(StreamOwned::new(connection, stream))
}

#[test]
fn over_tls_a_certificate_of_the_authority_lets_in() {
    let (authority, other) = (Authority::new(), Authority::new());
    let files = folder();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = authority.sign();
    let (certificate, key, ca) = (file("certificate", &certificate), file("key", &key), file("ca", &authority.0.pem()));
    let server = start(&[
        ("TIDEGATE_SYSLOG_TLS_LISTEN", "127.0.0.1:0"),
        ("TIDEGATE_SYSLOG_TLS_CERTIFICATE", &certificate),
        ("TIDEGATE_SYSLOG_TLS_KEY", &key),
        ("TIDEGATE_SYSLOG_CLIENT_CA", &ca),
        ("TIDEGATE_SYSLOG_NETWORKS", "10.0.0.0/8"),
    ]);
    let mut stream = connect_tls(&server, &authority, Some(&authority.sign())).unwrap();
    stream.write_all(counted("<13>1 - h a - - - certain").as_bytes()).unwrap();
    until_metric(&server, ACCEPTED, 1.0);
    // Without a certificate, or with that of another authority, nobody gets past the handshake, in TLS 1.3 at the first read.
    for own in [None, Some(other.sign())] {
        let ended = connect_tls(&server, &authority, own.as_ref()).and_then(|mut stream| {
            let _ = stream.write_all(b"<13>not certain\n");
            stream.read_exact(&mut [0])
        });
        assert!(ended.is_err());
    }
    // A token lets nobody in without a certificate either, and no TLS is no way in.
    let mut plain = TcpStream::connect(address(&server, true)).unwrap();
    plain.write_all(b"<13>plain text\n").unwrap();
    plain.set_read_timeout(Some(LONG)).unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    assert_eq!(messages(&server), [json!("certain")]);
    // The stop ends the stream, and the sender reads its end.
    stream.write_all(b"<13>last\n").unwrap();
    assert_eq!(server.stop("-TERM"), Some(0));
    let end = stream.read(&mut [0; 16]).map_err(|error| error.kind());
    let is_end = matches!(end, Ok(0) | Err(std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset));
    assert!(is_end, "{end:?}");
}
