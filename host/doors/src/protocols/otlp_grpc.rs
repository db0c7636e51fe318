//! The door for logs as OpenTelemetry exporters send them over gRPC: one call with one message.
//!
//! A call is a `POST` over HTTP/2, which all connections speak. Its body is one message after five bytes: whether it is
//! compressed, and its length. The status of the answer stands in trailers; that of a refused call stands in the
//! headers, and there is no message. So no framework is needed beside the one that serves all routes.

use crate::answer::Answer;
use crate::door::{Delivered, Door, Profile, content_type, plain_if};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::io::{BufRead, BufReader};

use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use http::request::Parts;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;
use tidegate_model::{Code, Failure};
use tidegate_service::failures::text;

use super::otlp::{Any, Status, partial_success, rpc_code};
use super::otlp_protobuf;
use crate::body::Encoding;
use crate::events::Events;

const GRPC: &str = "application/grpc";
/// The first byte of a message that is compressed.
const PACKED: u8 = 1;
/// What is escaped in a text of a header.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
/// The longest text of a status, in bytes.
const LONGEST_TEXT: usize = 1 << 10;

/// Logs of OpenTelemetry over gRPC.
#[derive(Debug)]
pub(super) struct OtlpGrpc;

/// `google.rpc.RetryInfo`, with the seconds of its duration.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Seconds>,
}

/// `google.protobuf.Duration` in whole seconds.
#[derive(Clone, PartialEq, Message)]
struct Seconds {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl Door for OtlpGrpc {
    fn profile(&self) -> &Profile {
        &Profile {
            name: "otlp_grpc",
            paths: &["/opentelemetry.proto.collector.logs.v1.LogsService/Export"],
            naming: "x-source-name in the metadata of the call: OTEL_EXPORTER_OTLP_HEADERS=x-api-key=TOKEN,x-source-name=NAME",
            source_setting: Some("otlp"),
            ..Profile::USUAL
        }
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        let kind = content_type(head);
        let is_read = ["application/grpc", "application/grpc+proto"].contains(&kind.as_str());
        plain_if(is_read, format!("a call of gRPC is {GRPC}, not {kind:?}; over HTTP logs are sent to /v1/logs"))
    }

    /// What is in a compressed message is not known before it is read.
    fn is_long_work(&self, body: &Bytes) -> bool {
        body.first() == Some(&PACKED)
    }

    fn read(&self, head: &Parts, body: &Bytes, events: &mut Events) -> Result<(), Failure> {
        let encoding = head.headers.get("grpc-encoding").and_then(|encoding| encoding.to_str().ok());
        let message = message(encoding.unwrap_or("identity"), body, events)?;
        otlp_protobuf::parse(&message, &mut events.own)
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Answer {
        let answer = ExportLogsServiceResponse { partial_success: partial_success(delivered.own()) };
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(u32::try_from(answer.encoded_len()).unwrap_or_default());
        framed.extend_from_slice(&answer.encode_to_vec());
        let status = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), HeaderValue::from(0))]);
        Answer { trailers: Some(status), ..Answer::with(StatusCode::OK, GRPC, framed) }
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Answer {
        let code = status_code(failure.code);
        let mut told = text(&failure);
        let end = (0..=LONGEST_TEXT.min(told.len())).rev().find(|end| told.is_char_boundary(*end)).unwrap_or_default();
        told.truncate(end);
        // A call that fails has the status 200 all the same. The log and the metrics have the true one.
        let mut answer = Answer::with(StatusCode::OK, GRPC, "")
            .header("grpc-status", code)
            .header("grpc-message", utf8_percent_encode(&told, ESCAPED).to_string())
            .header("grpc-accept-encoding", "identity,gzip");
        let after = failure.retry_after.or(failure.code.retry_after()).and_then(|after| i64::try_from(after).ok());
        if let Some(seconds) = after.filter(|_| code == UNAVAILABLE) {
            let retry = RetryInfo { retry_delay: Some(Seconds { seconds }) };
            let any =
                Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(), value: retry.encode_to_vec() };
            let status = Status { code, message: told, details: vec![any] };
            let status = BASE64_STANDARD_NO_PAD.encode(status.encode_to_vec());
            answer = answer.header("grpc-status-details-bin", status);
        }
        Answer { failure: Some(failure), ..answer }
    }
}

/// The message of a call, decompressed.
fn message(encoding: &str, body: &Bytes, events: &mut Events) -> Result<Bytes, Failure> {
    let bad = |reason: &str| Failure::new(Code::InvalidBody, format!("the call cannot be read: {reason}"));
    let mut rest = body.clone();
    let flag = rest.try_get_u8().map_err(|_| bad("it has no message"))?;
    let length = rest.try_get_u32().map_err(|_| bad("it breaks off"))?;
    if usize::try_from(length).ok() != Some(rest.len()) {
        return Err(bad("its message is not as long as it says"));
    }
    match (flag, encoding) {
        (0, _) => Ok(rest),
        (PACKED, "gzip") => unpack(&rest, events),
        (PACKED, other) => {
            let message = format!("the encoding {other} of messages is not read here; send gzip, or none");
            Err(Failure::new(Code::Unsupported, message).about("grpc-encoding"))
        }
        _ => Err(bad("the first byte of a message is 0 or 1")),
    }
}

/// Decompresses a message, of at most as many bytes as a body may have. What comes out counts in the memory of bodies. If
/// that has no place for it, the message is empty, and the failure is that of the events: what came out until then breaks
/// off, and its reader would say that the sender is at fault.
fn unpack(packed: &[u8], events: &mut Events) -> Result<Bytes, Failure> {
    let mut reader = BufReader::with_capacity(64 << 10, MultiGzDecoder::new(packed));
    let mut message = BytesMut::new();
    loop {
        let chunk = reader
            .fill_buf()
            .map_err(|error| Failure::new(Code::InvalidBody, format!("the message cannot be read as gzip: {error}")))?;
        let count = chunk.len();
        if count == 0 {
            events.unpacked = Some(message.len());
            return Ok(message.freeze());
        }
        if message.len() + count > events.longest_body {
            let longest = events.longest_body;
            let message = format!("the message is larger than {longest} bytes, decompressed; send smaller batches");
            return Err(Failure::new(Code::TooLarge, message));
        }
        events.own.hold_more(count);
        if events.has_failed() {
            return Ok(Bytes::new());
        }
        message.extend_from_slice(chunk);
        reader.consume(count);
    }
}

const UNAVAILABLE: i32 = 14;

/// The code of gRPC for a failure. Exporters send again after `UNAVAILABLE`, so what may pass is that.
fn status_code(code: Code) -> i32 {
    match code.status() {
        409 => 10,
        429 | 507 => UNAVAILABLE,
        415 => 12,
        _ if code == Code::Unsupported => 12,
        _ => rpc_code(code),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::body_memory::BodyMemory;
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;
    use std::io::Write;
    use tidegate_model::Audience;
    use tidegate_store::Intake;

    fn framed(flag: u8, message: &[u8]) -> Bytes {
        [&[flag][..], &u32::try_from(message.len()).unwrap().to_be_bytes(), message].concat().into()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    fn read(encoding: &str, body: &Bytes) -> Result<Vec<u8>, Code> {
        let mut events = Events::for_tests(1000);
        message(encoding, body, &mut events).map(|message| message.to_vec()).map_err(|failure| failure.code)
    }

    #[test]
    fn a_message_is_taken_out_of_its_frame() {
        assert_eq!(read("gzip", &framed(0, b"abc")), Ok(b"abc".to_vec()));
        assert_eq!(read("gzip", &framed(1, &gzip(b"abc"))), Ok(b"abc".to_vec()));
        let bomb = gzip(&vec![0; 32 << 20]);
        assert_eq!(read("gzip", &framed(1, &bomb)), Err(Code::TooLarge));
        assert_eq!(read("gzip", &framed(1, &bomb[..100])), Err(Code::InvalidBody));
        assert_eq!(read("zstd", &framed(1, b"abc")), Err(Code::Unsupported));
        let two = [framed(0, b"abc"), framed(0, b"abc")].concat().into();
        for body in [Bytes::new(), Bytes::from_static(b"\0\0"), framed(0, b"abc").slice(..6), framed(2, b""), two] {
            assert_eq!(read("identity", &body), Err(Code::InvalidBody), "{body:?}");
        }
    }

    #[test]
    fn a_message_that_finds_no_memory_is_told_to_be_sent_again() {
        let memory = BodyMemory::new(2 << 20);
        let mut other = memory.reservation();
        other.hold(1 << 20).unwrap();
        // One field with a text of 3 MiB: broken off anywhere, it is no message.
        let request = ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                error_message: "x".repeat(3 << 20),
                rejected_log_records: 0,
            }),
        };
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        let body = framed(1, &gzip(&request.encode_to_vec()));
        let read = |memory: &BodyMemory, body: &Bytes| {
            let batch = Batch::new(Intake::new(0, 1000, Audience::All), memory.reservation(), body.len());
            let mut events = Events::new(batch, 16 << 20, None);
            OtlpGrpc.read(&head, body, &mut events).and_then(|()| events.checked())
        };
        let failure = read(&memory, &body).unwrap_err();
        assert_eq!((failure.code, status_code(failure.code)), (Code::TooManyRequests, UNAVAILABLE));
        drop(other);
        assert_eq!(memory.used(), 0);
        let broken = framed(1, &gzip(&request.encode_to_vec()[..1 << 20]));
        let failure = read(&BodyMemory::new(8 << 20), &broken).unwrap_err();
        assert_eq!((failure.code, status_code(failure.code)), (Code::InvalidBody, 3));
    }

    #[test]
    fn a_compressed_message_counts_as_what_comes_out_of_it() {
        let (mut head, ()) = http::Request::new(()).into_parts();
        head.headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        let (packed, plain) = (framed(1, &gzip(&[0x7a; 0])), framed(0, b""));
        assert!(OtlpGrpc.is_long_work(&packed) && !OtlpGrpc.is_long_work(&plain));
        let message = ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                error_message: "x".repeat(50_000),
                rejected_log_records: 0,
            }),
        };
        let message = message.encode_to_vec();
        let mut events = Events::for_tests(1000);
        let body = framed(1, &gzip(&message));
        assert_eq!(super::message("gzip", &body, &mut events).unwrap(), message);
        assert_eq!((events.unpacked, body.len() < 1_000), (Some(message.len()), true));
    }

    #[test]
    fn what_may_pass_is_told_to_be_sent_again() {
        let (head, ()) = http::Request::new(()).into_parts();
        let failure = Failure::new(Code::StorageFull, "voll\u{20ac}\n");
        let response = OtlpGrpc.refused(&head, failure);
        let text = |name: &str| response.headers.get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!((response.status.as_u16(), text("grpc-status")), (200, "14".to_owned()));
        assert_eq!(text("grpc-message"), "voll%E2%82%AC%0A");
        let details = BASE64_STANDARD_NO_PAD.decode(text("grpc-status-details-bin")).unwrap();
        let status = Status::decode(&details[..]).unwrap();
        let retry = RetryInfo::decode(&status.details[0].value[..]).unwrap();
        assert_eq!((status.code, retry.retry_delay.unwrap().seconds), (14, 30));
        let refused = OtlpGrpc.refused(&head, Failure::new(Code::TooLarge, "large"));
        assert_eq!(refused.headers.get("grpc-status").unwrap(), "8");
        assert!(!refused.headers.contains_key("grpc-status-details-bin"));
    }

    #[test]
    fn an_answer_ends_with_its_status() {
        let (head, ()) = http::Request::new(()).into_parts();
        let answer = OtlpGrpc.accepted(&head, &Delivered::default());
        assert_eq!((&answer.body[..], &answer.trailers.unwrap()["grpc-status"]), (&[0; 5][..], &HeaderValue::from(0)));
    }
}
