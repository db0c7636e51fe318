//! Sends traces over OTLP/HTTP or HTTPS. Each request is a span. If its caller has begun a trace (W3C `traceparent`),
//! the span is a part of that trace.
//!
//! A thread of its own sends the spans in batches, with a small blocking HTTP client. When the receiver is slow or
//! unreachable, spans are dropped, the log says so once, and requests are not delayed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::HeaderMap;
use bytes::Bytes;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry_http::{HttpClient, HttpError, Request as Sent, Response as Received};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tidegate_service::options::TraceOptions;
use tracing::Span;
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt};
use tracing_subscriber::registry::LookupSpan;
use ureq::tls::{RootCerts, TlsConfig};

/// How long the receiver may take to answer.
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The exporter of spans. Stopping it sends the last spans before the process ends.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Starts the exporter. None if no receiver is configured.
    ///
    /// # Errors
    /// If the exporter refuses its settings.
    pub fn start(options: &TraceOptions) -> Result<Option<Self>, String> {
        if options.endpoint.is_empty() {
            return Ok(None);
        }
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", options.endpoint))
            .with_timeout(RECEIVER_TIMEOUT)
            .with_http_client(Client::new())
            .build()
            .map_err(|error| error.to_string())?;
        let resource = Resource::builder().with_service_name(options.service_name.clone()).build();
        // The sampling decision of a caller is kept. The configured ratio applies to requests without one.
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(options.sample)));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource)
            .with_sampler(sampler)
            .build();
        Ok(Some(Self { provider }))
    }

    /// The layer of the `tracing` subscriber that turns the spans of requests into spans that are sent.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer("tidegate")).with_location(false)
    }

    /// Sends the remaining spans, and stops.
    pub fn stop(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Sets the attributes of a request's span, and makes it a part of its caller's trace.
pub(crate) fn begin(span: &Span, request: &Request, route: &str) {
    let parent = TraceContextPropagator::new().extract(&Headers(request.headers()));
    if span.set_parent(parent).is_err() {
        // No layer of the subscriber collects spans.
        return;
    }
    let method = request.method().as_str().to_owned();
    span.set_attribute("otel.name", format!("{method} {route}"));
    span.set_attribute("http.request.method", method);
    span.set_attribute("http.route", route.to_owned());
}

/// Records in a request's span how the request ended.
pub(crate) fn end(span: &Span, status: u16) {
    span.set_attribute("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.set_status(Status::error(""));
    }
}

/// The headers of a request, for the propagator.
struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(axum::http::HeaderName::as_str).collect()
    }
}

/// The HTTP client of the thread that sends spans.
#[derive(Debug)]
struct Client {
    agent: ureq::Agent,
    /// Whether the last batch could not be delivered.
    failing: AtomicBool,
}

impl Client {
    fn new() -> Self {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(RECEIVER_TIMEOUT))
            // The same trust as that of the command line's clients: the system's roots, or those in SSL_CERT_FILE.
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .build();
        Self { agent: agent.new_agent(), failing: AtomicBool::new(false) }
    }

    /// Logs once that traces do not arrive and why, and once that they arrive again. Nothing else reports this.
    fn log_delivery(&self, failure: Option<&str>) {
        let failed_before = self.failing.swap(failure.is_some(), Ordering::Relaxed);
        match failure {
            Some(why) if !failed_before => {
                tracing::warn!(why, "traces do not reach their receiver; they are dropped until they do");
            }
            None if failed_before => tracing::info!("traces reach their receiver again"),
            _ => {}
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Sent<Bytes>) -> Result<Received<Bytes>, HttpError> {
        let result = self.agent.run(request.map(|body| body.to_vec()));
        match &result {
            Ok(response) if response.status().is_success() => self.log_delivery(None),
            Ok(response) => self.log_delivery(Some(&format!("it answers {}", response.status()))),
            Err(error) => self.log_delivery(Some(&error.to_string())),
        }
        let (head, mut body) = result?.into_parts();
        Ok(Received::from_parts(head, body.with_config().limit(64 << 10).read_to_vec()?.into()))
    }
}
