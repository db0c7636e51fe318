//! Logs of OpenTelemetry over gRPC. What is seen here goes over HTTP/1.1; the SDK's own client, which has HTTP/2 and
//! reads the trailers, is tried by `cargo xtask clients`.

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;
use serde_json::json;
use tidegate_tests::{PUBLIC, Raw, Server};

use crate::doors::{SOURCE, gzip, rows};

pub(crate) const PATH: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

fn export(messages: &[&str]) -> Vec<u8> {
    let record = |message: &&str| LogRecord {
        time_unix_nano: 1_763_633_702_123_456_789,
        body: Some(AnyValue { value: Some(Any::StringValue((*message).to_owned())) }),
        ..LogRecord::default()
    };
    let scope_logs = vec![ScopeLogs { log_records: messages.iter().map(record).collect(), ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

pub(crate) fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat()
}

fn call(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> Raw {
    let mut all = vec![("content-type", "application/grpc"), ("te", "trailers")];
    for own in [("x-api-key", PUBLIC), ("x-source-name", SOURCE)] {
        if !headers.iter().any(|(name, _)| *name == own.0) {
            all.push(own);
        }
    }
    all.extend_from_slice(headers);
    let answer = server.fetch("POST", PATH, &all, body);
    assert_eq!((answer.status, answer.header("content-type").as_deref()), (200, Some("application/grpc")));
    answer
}

#[test]
fn a_call_is_stored_before_it_is_answered() {
    let server = Server::start();
    let answer = call(&server, &[], &framed(0, &export(&["a"])));
    assert_eq!((answer.body.as_slice(), answer.header("grpc-status")), (&[0; 5][..], None));
    let packed = framed(1, &gzip(&export(&["b"])));
    assert_eq!(call(&server, &[("grpc-encoding", "gzip")], &packed).body, [0; 5]);
    // A record that is too long is refused alone.
    let long = "x".repeat(1 << 20);
    let part = call(&server, &[], &framed(0, &export(&["c", &long])));
    let told = ExportLogsServiceResponse::decode(&part.body[5..]).unwrap().partial_success.unwrap();
    assert_eq!(told.rejected_log_records, 1);
    assert!(told.error_message.contains("log record 1"), "{}", told.error_message);
    let row =
        |message: &str| json!({"event_message": message, "timestamp": 1_763_633_702_123_456_i64, "type": "otel_log"});
    assert_eq!(rows(&server, "event_message, timestamp, m.type as type"), ["a", "b", "c"].map(row));
}

#[test]
fn a_refused_call_has_its_status_in_the_headers() {
    let server = Server::start();
    let good = framed(0, &export(&["m"]));
    let bomb = framed(1, &gzip(&vec![0; 64 << 20]));
    for (headers, body, status, word) in [
        (vec![("x-api-key", "wrong")], &good, "16", "token"),
        (vec![("x-source-name", "")], &good, "3", "OTEL_EXPORTER_OTLP_HEADERS"),
        (vec![("x-source-name", "nothing")], &good, "16", "source"),
        (vec![("grpc-encoding", "gzip")], &bomb, "8", "smaller batches"),
        (vec![("grpc-encoding", "snappy")], &framed(1, b"x"), "12", "snappy"),
        (vec![], &good[..9].to_vec(), "3", "as long as it says"),
        (vec![], &framed(0, b"\x0a\x7f"), "3", "Protocol Buffers"),
        (vec![], &vec![], "3", "no message"),
    ] {
        let answer = call(&server, &headers, body);
        assert_eq!(answer.header("grpc-status").as_deref(), Some(status), "{word}");
        let message = answer.header("grpc-message").unwrap();
        assert!(message.contains(word), "{message:?} lacks {word:?}");
    }
    let text = format!("tidegate_failures_total{{route=\"{PATH}\",code=\"unauthorized\"}}");
    assert!((server.metric(&text) - 2.0).abs() < 0.1);
    assert!(rows(&server, "event_message").is_empty());
}

#[test]
fn overload_is_unavailable_for_a_time() {
    let server = Server::start_set(&[("TIDEGATE_RATE_INGEST_PER_SECOND", "1"), ("TIDEGATE_RATE_BURST", "1")]);
    let send = || call(&server, &[], &framed(0, &export(&["m"])));
    let refused = (0..3).map(|_| send()).find(|answer| answer.header("grpc-status").is_some()).unwrap();
    assert_eq!(refused.header("grpc-status").as_deref(), Some("14"));
    assert!(refused.header("grpc-status-details-bin").is_some());
}
