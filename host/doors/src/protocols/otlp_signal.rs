//! `POST /v1/traces` and `/v1/metrics`: what an SDK sends, too, to the one address that it is given for all signals.
//!
//! Nothing of it is stored, and the answer says so in the words of the protocol, with how much there was: an error would be logged
//! with every export, as if the server were down.

use crate::answer::Answer;
use crate::body::{self, IncomingBody};
use crate::service::DoorService;
use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::request::Parts;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tidegate_model::Failure;

use super::otlp::{Encoding, encoding, refusal, told};
use crate::intake::{Sender, cut};
use crate::wire::each;

/// What is counted of an export.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Signal {
    Spans,
    DataPoints,
}

/// Answers an export of spans or metrics.
pub(crate) async fn other_signal(service: &dyn DoorService, head: &Parts, mut body: impl IncomingBody) -> Answer {
    let encoding = encoding(head).unwrap_or(Encoding::Json);
    let sender = match Sender::of(service, head, &[], &[]) {
        Ok(sender) => sender,
        Err(failure) => return refusal(encoding, failure),
    };
    let (signal, rejected) = match head.uri.path() {
        "/v1/traces" => (Signal::Spans, "rejectedSpans"),
        _ => (Signal::DataPoints, "rejectedDataPoints"),
    };
    // What cannot be read, or not now, is not counted: nothing of it would be stored anyway.
    let count = count(service, head, &mut body, &sender, (signal, encoding)).await.unwrap_or(0);
    body::drain(&mut body).await;
    let error_message = "only logs are stored here, and nothing of this; send it elsewhere with \
                         OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or not at all with \
                         OTEL_TRACES_EXPORTER=none and OTEL_METRICS_EXPORTER=none"
        .to_owned();
    let rejected_log_records = i64::try_from(count).unwrap_or(i64::MAX);
    told(encoding, Some(ExportLogsPartialSuccess { rejected_log_records, error_message }), rejected)
}

async fn count(
    service: &dyn DoorService,
    head: &Parts,
    body: &mut impl IncomingBody,
    sender: &Sender,
    (signal, encoding): (Signal, Encoding),
) -> Result<usize, Failure> {
    if let Some(limited) = &sender.limited {
        return Err(limited.clone());
    }
    let memory = service.bodies().of(sender.access.share());
    let limit = service.options().ingest.max_body;
    let received = body::read(&memory, &head.headers, body, limit, body::Encoding::Identity).await?;
    let length = received.bytes.len();
    let work = move || match encoding {
        Encoding::Protobuf => in_protobuf(&received.bytes, signal),
        Encoding::Json => Ok(in_json(&received.bytes)),
    };
    cut(&memory, length, work).await
}

/// The fields on the way to what is counted; the last ones are counted.
fn in_protobuf(body: &Bytes, signal: Signal) -> Result<usize, Failure> {
    const WHAT: &str = "export";
    let mut count = 0;
    // Resources, their scopes, and the spans or metrics of these.
    each(WHAT, body, 1, &mut |resource| {
        each(WHAT, &resource, 2, &mut |scope| {
            each(WHAT, &scope, 2, &mut |item| {
                if signal == Signal::Spans {
                    count += 1;
                    return Ok(());
                }
                // Gauge, sum, histogram, exponential histogram, summary: of each, the points have the number 1.
                [5, 7, 9, 10, 11].into_iter().try_for_each(|kind| {
                    each(WHAT, &item, kind, &mut |data| {
                        each(WHAT, &data, 1, &mut |_| {
                            count += 1;
                            Ok(())
                        })
                    })
                })
            })
        })
    })?;
    Ok(count)
}

/// How many spans or data points an export in JSON has. Nothing of it is kept.
#[derive(Default)]
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::default())
    }
}

impl<'de> Visitor<'de> for Count {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Self, A::Error> {
        while let Some(Self(count)) = elements.next_element()? {
            self.0 += count;
        }
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self, A::Error> {
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            match &*name {
                "spans" | "dataPoints" => self.0 += fields.next_value::<Vec<IgnoredAny>>()?.len(),
                "resourceSpans"
                | "scopeSpans"
                | "resourceMetrics"
                | "scopeMetrics"
                | "metrics"
                | "gauge"
                | "sum"
                | "histogram"
                | "exponentialHistogram"
                | "summary" => self.0 += fields.next_value::<Self>()?.0,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(self)
    }
}

fn in_json(body: &[u8]) -> usize {
    serde_json::from_slice::<Count>(body).unwrap_or_default().0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of Protocol Buffers.
    fn field(number: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        let content = parts.concat();
        [vec![number << 3 | 2, content.len() as u8], content].concat()
    }

    #[test]
    fn spans_and_data_points_are_counted_in_both_encodings() {
        let span = field(2, &[field(5, &[b"name".to_vec()])]);
        let scope = |count| field(2, &vec![span.clone(); count]);
        let resource = field(1, &[field(1, &[]), scope(2), scope(1)]);
        let body = Bytes::from([resource.clone(), resource].concat());
        assert_eq!(in_protobuf(&body, Signal::Spans), Ok(6));
        let metric = |kind| field(2, &[field(1, &[b"name".to_vec()]), field(kind, &[field(1, &[]), field(1, &[])])]);
        let all = field(1, &[field(2, &[5, 7, 9, 10, 11].map(metric))]);
        assert_eq!(in_protobuf(&Bytes::from(all), Signal::DataPoints), Ok(10));
        assert!(in_protobuf(&Bytes::from_static(b"\x0a\xff"), Signal::Spans).is_err());
        for (body, expected) in [
            (r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}, {}]}, {"scope": {}}]}]}"#, 2),
            (
                r#"{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"sum": {"dataPoints": [{}, {}]}}, {"name": "n"}]}]}]}"#,
                2,
            ),
            ("{}", 0),
            ("{\"resourceSpans\": 5}", 0),
            ("", 0),
        ] {
            assert_eq!(in_json(body.as_bytes()), expected, "{body}");
        }
    }
}
