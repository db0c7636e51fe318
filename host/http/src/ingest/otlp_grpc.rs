//! The door for logs as OpenTelemetry exporters send them over gRPC: one call with one message.
//!
//! A call is a `POST` over HTTP/2, which all connections speak. Its body is one message after five bytes: whether it is
//! compressed, and its length. The status of the answer stands in trailers; that of a refused call stands in the
//! headers, and there is no message. So no framework is needed beside the one that serves all routes.

use std::io::{BufRead, BufReader};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::bufread::MultiGzDecoder;
use http_body::Frame;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;
use tidegate_model::{Code, Failure};
use tidegate_service::door_options::DoorOptions;
use tidegate_service::failures::text;

use super::body::Encoding;
use super::door::{Delivered, Door, content_type};
use super::events::Events;
use super::otlp::partial_success;
use super::otlp_protobuf;
use crate::middleware::error_status::TrueStatus;

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

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

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
    fn name(&self) -> &'static str {
        "otlp_grpc"
    }

    fn paths(&self) -> &'static [&'static str] {
        &["/opentelemetry.proto.collector.logs.v1.LogsService/Export"]
    }

    fn default_source<'o>(&self, options: &'o DoorOptions) -> &'o str {
        &options.otlp_source
    }

    fn naming(&self) -> &'static str {
        "x-source-name in the metadata of the call: OTEL_EXPORTER_OTLP_HEADERS=x-api-key=TOKEN,x-source-name=NAME"
    }

    fn check(&self, head: &Parts) -> Result<Encoding, Failure> {
        match content_type(head).as_str() {
            "application/grpc" | "application/grpc+proto" => Ok(Encoding::Identity),
            other => {
                let message = format!("a call of gRPC is {GRPC}, not {other:?}; over HTTP logs are sent to /v1/logs");
                Err(Failure::new(Code::UnsupportedMediaType, message).about("content-type"))
            }
        }
    }

    /// What is in a compressed message is not known before it is read.
    fn is_long_work(&self, body: &Bytes) -> bool {
        body.first() == Some(&PACKED)
    }

    fn read(&self, head: &Parts, body: &Bytes, mut events: Events) -> Result<Events, Failure> {
        let encoding = head.headers.get("grpc-encoding").and_then(|encoding| encoding.to_str().ok());
        let message = message(encoding.unwrap_or("identity"), body, &mut events)?;
        Ok(Events { own: otlp_protobuf::parse(&message, events.own)?, ..events })
    }

    fn accepted(&self, _head: &Parts, delivered: &Delivered) -> Response {
        let answer = ExportLogsServiceResponse { partial_success: partial_success(delivered.own()) };
        let mut framed = BytesMut::new();
        framed.put_u8(0);
        framed.put_u32(u32::try_from(answer.encoded_len()).unwrap_or_default());
        framed.extend_from_slice(&answer.encode_to_vec());
        let mut response = Response::new(Body::new(Answer { message: Some(framed.freeze()), is_trailed: false }));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(GRPC));
        response
    }

    fn refused(&self, _head: &Parts, failure: Failure) -> Response {
        let code = status_code(failure.code);
        let mut told = text(&failure);
        let end = (0..=LONGEST_TEXT.min(told.len())).rev().find(|end| told.is_char_boundary(*end)).unwrap_or_default();
        told.truncate(end);
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(GRPC));
        headers.insert("grpc-status", HeaderValue::from(code));
        if let Ok(text) = HeaderValue::from_str(&utf8_percent_encode(&told, ESCAPED).to_string()) {
            headers.insert("grpc-message", text);
        }
        headers.insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip"));
        let after = failure.retry_after.or(failure.code.retry_after()).and_then(|after| i64::try_from(after).ok());
        if let Some(seconds) = after.filter(|_| code == UNAVAILABLE) {
            let retry = RetryInfo { retry_delay: Some(Seconds { seconds }) };
            let any =
                Any { type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(), value: retry.encode_to_vec() };
            let status = Status { code: code.into(), message: told, details: vec![any] };
            if let Ok(status) = HeaderValue::from_str(&BASE64_STANDARD_NO_PAD.encode(status.encode_to_vec())) {
                headers.insert("grpc-status-details-bin", status);
            }
        }
        // A call that fails has the status 200 all the same. The log and the metrics have the true one.
        let status = StatusCode::from_u16(failure.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(TrueStatus(status));
        response.extensions_mut().insert(failure.code);
        response
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

const UNAVAILABLE: u16 = 14;

/// The code of gRPC for a failure. Exporters send again after `UNAVAILABLE`, so what may pass is that.
fn status_code(code: Code) -> u16 {
    match code.status() {
        401 => 16,
        403 => 7,
        404 => 5,
        408 | 504 => 4,
        409 => 10,
        413 => 8,
        429 | 503 | 507 => UNAVAILABLE,
        415 => 12,
        _ if code == Code::Unsupported => 12,
        status if status < 500 => 3,
        _ => 13,
    }
}

/// The body of an answer: a message, then the trailers of success.
struct Answer {
    message: Option<Bytes>,
    is_trailed: bool,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = match self.message.take() {
            Some(message) => Frame::data(message),
            None if self.is_trailed => return Poll::Ready(None),
            None => {
                self.is_trailed = true;
                Frame::trailers(HeaderMap::from_iter([(
                    header::HeaderName::from_static("grpc-status"),
                    HeaderValue::from(0),
                )]))
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::super::batch::Batch;
    use super::super::body_memory::BodyMemory;
    use super::*;
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
        let (mut head, ()) = axum::http::Request::new(()).into_parts();
        head.headers.insert("grpc-encoding", HeaderValue::from_static("gzip"));
        let body = framed(1, &gzip(&request.encode_to_vec()));
        let read = |memory: &BodyMemory| {
            let batch = Batch::new(Intake::new(0, 1000, Audience::All), memory.reservation(), body.len());
            OtlpGrpc.read(&head, &body, Events::new(batch, 16 << 20, None)).and_then(Events::checked)
        };
        let failure = read(&memory).unwrap_err();
        assert_eq!((failure.code, status_code(failure.code)), (Code::TooManyRequests, UNAVAILABLE));
        drop(other);
        assert_eq!(memory.used(), 0);
        let broken = framed(1, &gzip(&request.encode_to_vec()[..1 << 20]));
        let batch = Batch::new(Intake::new(0, 1000, Audience::All), BodyMemory::new(8 << 20).reservation(), 0);
        let failure = OtlpGrpc.read(&head, &broken, Events::new(batch, 16 << 20, None)).unwrap_err();
        assert_eq!((failure.code, status_code(failure.code)), (Code::InvalidBody, 3));
    }

    #[test]
    fn a_compressed_message_counts_as_what_comes_out_of_it() {
        let (mut head, ()) = axum::http::Request::new(()).into_parts();
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
        let (head, ()) = axum::http::Request::new(()).into_parts();
        let failure = Failure::new(Code::StorageFull, "voll\u{20ac}\n");
        let response = OtlpGrpc.refused(&head, failure);
        let text = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!((response.status().as_u16(), text("grpc-status")), (200, "14".to_owned()));
        assert_eq!(text("grpc-message"), "voll%E2%82%AC%0A");
        let details = BASE64_STANDARD_NO_PAD.decode(text("grpc-status-details-bin")).unwrap();
        let status = Status::decode(&details[..]).unwrap();
        let retry = RetryInfo::decode(&status.details[0].value[..]).unwrap();
        assert_eq!((status.code, retry.retry_delay.unwrap().seconds), (14, 30));
        let refused = OtlpGrpc.refused(&head, Failure::new(Code::TooLarge, "large"));
        assert_eq!(refused.headers().get("grpc-status").unwrap(), "8");
        assert!(!refused.headers().contains_key("grpc-status-details-bin"));
    }

    #[tokio::test]
    async fn an_answer_ends_with_its_status() {
        let (head, ()) = axum::http::Request::new(()).into_parts();
        let response = OtlpGrpc.accepted(&head, &Delivered::default());
        let mut body = response.into_body();
        let mut frame = async || std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        assert_eq!(frame().await.unwrap().unwrap().into_data().unwrap(), &[0; 5][..]);
        assert_eq!(frame().await.unwrap().unwrap().into_trailers().unwrap().get("grpc-status").unwrap(), "0");
        assert!(frame().await.is_none());
    }
}
