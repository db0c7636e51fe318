//! The state that handlers share: the service, and what only HTTP has.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tidegate_doors::BodyMemory;
use tidegate_model::Failure;
use tidegate_service::answer::TransferMemory;
use tidegate_service::rate::RequestClass;
use tidegate_service::{Identity, Service};

use crate::call_statistics::CallStatistics;
use crate::metrics::Metrics;
use crate::request_context::note;
use crate::slow_queries::SlowQueries;

/// The memory for answers to callers without a token, in bytes; half of it for answers to all of them, as for one token.
const TOKENLESS_BYTES: usize = 16 << 20;

/// The state that handlers share.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) service: Arc<Service>,
    /// The memory budget for answers to callers without a token.
    pub(crate) tokenless_answers: TransferMemory,
    /// The memory budget for bodies of ingest requests.
    pub(crate) bodies: BodyMemory,
    pub(crate) metrics: Metrics,
    /// How endpoints were called in the last hour.
    pub(crate) calls: CallStatistics,
    /// The slowest queries of the last hour.
    pub(crate) slow_queries: SlowQueries,
    /// Held while a source is changed by a request that names the state that it changes.
    pub(crate) changing_sources: tokio::sync::Mutex<()>,
    /// Whether the shutdown has begun.
    pub(crate) draining: AtomicBool,
}

impl App {
    pub(crate) fn new(service: Arc<Service>) -> Arc<Self> {
        Arc::new(Self {
            tokenless_answers: TransferMemory::new(TOKENLESS_BYTES, Duration::ZERO),
            bodies: BodyMemory::new(service.options.ingest.body_memory),
            metrics: Metrics::new(),
            calls: CallStatistics::new(),
            slow_queries: SlowQueries::default(),
            changing_sources: tokio::sync::Mutex::default(),
            draining: AtomicBool::new(false),
            service,
        })
    }

    /// Counts this request against the rate limit of its token.
    ///
    /// # Errors
    /// [`tidegate_model::Code::TooManyRequests`].
    pub(crate) fn limit_rate(&self, class: RequestClass, identity: Identity) -> Result<(), Failure> {
        let (taken, status) = self.service.rates.take(class, identity, Instant::now());
        note(|context| context.rate = status);
        taken
    }
}
