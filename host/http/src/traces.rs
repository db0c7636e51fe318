//! Sends traces over OTLP/HTTP or HTTPS. Each request is a span. If its caller has a token and has begun a trace (W3C
//! `traceparent`), the span is a part of that trace.
//!
//! A span is made when its request has ended: only then is it known whether the caller is to be trusted.
//!
//! A thread of its own sends the spans in batches, with a small blocking HTTP client. When the receiver is slow or
//! unreachable, spans are dropped, the log says so once, and requests are not delayed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::extract::Request;
use axum::http::header::USER_AGENT;
use axum::http::{HeaderMap, HeaderName, Version};
use bytes::Bytes;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span, SpanKind, Status, Tracer, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError, Request as Sent, Response as Received};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tidegate_service::options::TraceOptions;
use ureq::tls::{RootCerts, TlsConfig};

use crate::connection::Peer;

/// How long the receiver may take to answer.
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of what a caller sent that an attribute has.
const LONGEST_ATTRIBUTE: usize = 1 << 10;

/// What sends the spans of this process.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

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
        // A second one of a process would be that of a test.
        let _ = PROVIDER.set(provider.clone());
        Ok(Some(Self { provider }))
    }

    /// Sends the remaining spans, and stops.
    pub fn stop(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// A request that began, as its span will tell of it.
#[derive(Debug)]
pub(crate) struct BegunSpan {
    at: SystemTime,
    /// The span of the caller, if it sent one.
    parent: Context,
    attributes: Vec<KeyValue>,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) struct EndedSpan<'e> {
    pub(crate) method: &'e str,
    /// The pattern of its path; none if there is no such route.
    pub(crate) route: Option<&'e str>,
    pub(crate) status: u16,
    /// The code of the error that it was answered with.
    pub(crate) code: Option<&'e str>,
    pub(crate) endpoint: Option<&'e str>,
    /// Whether it had a valid token. The trace of a caller without one is not continued: it would decide what is sampled.
    pub(crate) is_known: bool,
}

impl BegunSpan {
    /// None if no traces are sent.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        PROVIDER.get()?;
        let header = |name: HeaderName| {
            let value = request.headers().get(name)?.to_str().ok()?;
            Some(value.get(..LONGEST_ATTRIBUTE).unwrap_or(value).to_owned())
        };
        let version = match request.version() {
            Version::HTTP_2 => "2",
            Version::HTTP_10 => "1.0",
            _ => "1.1",
        };
        let mut attributes = vec![KeyValue::new("network.protocol.version", version)];
        let path = request.uri().path();
        attributes.push(KeyValue::new("url.path", path.get(..LONGEST_ATTRIBUTE).unwrap_or(path).to_owned()));
        if let Some(peer) = request.extensions().get::<Peer>() {
            attributes.push(KeyValue::new("url.scheme", if peer.uses_tls { "https" } else { "http" }));
            attributes.push(KeyValue::new("client.address", peer.address.ip().to_string()));
        }
        attributes.extend(header(USER_AGENT).map(|agent| KeyValue::new("user_agent.original", agent)));
        let parent = TraceContextPropagator::new().extract(&Headers(request.headers()));
        Some(Self { at: SystemTime::now(), parent, attributes })
    }

    /// Sends the span, named and with attributes as the conventions of OpenTelemetry for HTTP servers have it.
    pub(crate) fn end(self, ended: &EndedSpan<'_>) {
        let Self { at, parent, mut attributes } = self;
        let Some(provider) = PROVIDER.get() else { return };
        let method = if ended.method == "OTHER" { "_OTHER" } else { ended.method };
        let name = match ended.route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        };
        attributes.push(KeyValue::new("http.request.method", method.to_owned()));
        attributes.extend(ended.route.map(|route| KeyValue::new("http.route", route.to_owned())));
        attributes.push(KeyValue::new("http.response.status_code", i64::from(ended.status)));
        attributes.extend(ended.endpoint.map(|endpoint| KeyValue::new("tidegate.endpoint", endpoint.to_owned())));
        let status = ended.status.to_string();
        if ended.status >= 400 {
            attributes.push(KeyValue::new("error.type", ended.code.unwrap_or(&status).to_owned()));
        }
        let tracer = provider.tracer("tidegate");
        let parent = if ended.is_known { parent } else { Context::new() };
        let span =
            tracer.span_builder(name).with_kind(SpanKind::Server).with_start_time(at).with_attributes(attributes);
        let mut span = span.start_with_context(&tracer, &parent);
        if ended.status >= 500 {
            span.set_status(Status::error(""));
        }
        span.end();
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
