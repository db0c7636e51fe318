//! `POST /v1/traces` and `/v1/metrics`: what an SDK sends, too, to the one address that it is given for all signals.
//!
//! Nothing of it is stored, and the answer says so in the words of the protocol, with how much there was: an error would be logged
//! with every export, as if the server were down.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsPartialSuccess;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use tidegate_model::Failure;

use super::body;
use super::intake::{Sender, cut};
use super::otlp::{Encoding, encoding, refusal, told};
use super::wire::each;
use crate::app::App;

/// What is counted of an export.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Signal {
    Spans,
    DataPoints,
}

/// Answers an export of spans or metrics.
pub(super) async fn other_signal(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let encoding = encoding(&head).unwrap_or(Encoding::Json);
    let sender = match Sender::of(&app, &head, &[], &[]) {
        Ok(sender) => sender,
        Err(failure) => return refusal(encoding, failure),
    };
    let (signal, rejected) = match head.uri.path() {
        "/v1/traces" => (Signal::Spans, "rejectedSpans"),
        _ => (Signal::DataPoints, "rejectedDataPoints"),
    };
    // What cannot be read, or not now, is not counted: nothing of it would be stored anyway.
    let count = count(&app, &head, &mut body, &sender, (signal, encoding)).await.unwrap_or(0);
    body::drain(&mut body).await;
    let error_message = "only logs are stored here, and nothing of this; send it elsewhere with \
                         OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, or not at all with \
                         OTEL_TRACES_EXPORTER=none and OTEL_METRICS_EXPORTER=none"
        .to_owned();
    let rejected_log_records = i64::try_from(count).unwrap_or(i64::MAX);
    told(encoding, Some(ExportLogsPartialSuccess { rejected_log_records, error_message }), rejected)
}

async fn count(
    app: &App,
    head: &Parts,
    body: &mut Body,
    sender: &Sender,
    (signal, encoding): (Signal, Encoding),
) -> Result<usize, Failure> {
    if let Some(limited) = &sender.limited {
        return Err(limited.clone());
    }
    let memory = app.bodies.of(sender.access.share());
    let limit = app.service.options.ingest.max_body;
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

/// The sum of what the elements of a list count. None of them is kept.
struct Sum<T>(usize, PhantomData<T>);

impl<T> Default for Sum<T> {
    fn default() -> Self {
        Self(0, PhantomData)
    }
}

impl<'de, T: Deserialize<'de> + Counts> Deserialize<'de> for Sum<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de, T: Deserialize<'de> + Counts> Visitor<'de> for Sum<T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Self, A::Error> {
        while let Some(element) = elements.next_element::<T>()? {
            self.0 += element.count();
        }
        Ok(self)
    }
}

trait Counts {
    fn count(&self) -> usize;
}

/// A span or a data point.
impl Counts for IgnoredAny {
    fn count(&self) -> usize {
        1
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Export {
    resource_spans: Sum<Resource>,
    resource_metrics: Sum<Resource>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    scope_spans: Sum<Scope>,
    scope_metrics: Sum<Scope>,
}

impl Counts for Resource {
    fn count(&self) -> usize {
        self.scope_spans.0 + self.scope_metrics.0
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Scope {
    spans: Sum<IgnoredAny>,
    metrics: Sum<Metric>,
}

impl Counts for Scope {
    fn count(&self) -> usize {
        self.spans.0 + self.metrics.0
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metric {
    gauge: Points,
    sum: Points,
    histogram: Points,
    exponential_histogram: Points,
    summary: Points,
}

impl Counts for Metric {
    fn count(&self) -> usize {
        let Self { gauge, sum, histogram, exponential_histogram, summary } = self;
        [gauge, sum, histogram, exponential_histogram, summary].iter().map(|points| points.data_points.0).sum()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Points {
    data_points: Sum<IgnoredAny>,
}

fn in_json(body: &[u8]) -> usize {
    let export: Export = serde_json::from_slice(body).unwrap_or_default();
    export.resource_spans.0 + export.resource_metrics.0
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
