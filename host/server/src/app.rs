//! The parts of a running service, opened in order and shared by all requests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tidegate_model::Failure;
use tidegate_runtime::{ArtefactOptions, Runtime, RuntimeError, RuntimeOptions};
use tidegate_sql::{Engine, EngineOptions};
use tidegate_store::{Ingested, Store, StoreError};

use crate::admission::Admission;
use crate::answer::AnswerRoom;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::compute::Compute;
use crate::doors::BodyRoom;
use crate::manage::components::Kinds;
use crate::metrics::Metrics;
use crate::openapi::Described;
use crate::rate::Rates;
use crate::recheck::Recheck;
use crate::registry::Registry;
use crate::tokens::{NewTokens, Tokens};

pub use crate::options::Options;

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The component runtime does not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The threads that compute cannot be started.
    #[error("the threads that compute cannot be started: {0}")]
    Threads(std::io::Error),
    /// A shipped endpoint or the engine is not usable.
    #[error("{what}: {failure}")]
    Setup {
        /// What was being set up.
        what: String,
        /// Why it failed.
        failure: Box<Failure>,
    },
    /// An endpoint of a pack that was asked for cannot be saved.
    #[error("the pack {pack}: {failure}")]
    Pack {
        /// The pack.
        pack: String,
        /// Why.
        failure: Box<Failure>,
    },
    /// One token would be both.
    #[error("the private and the public access token are the same: who sends logs would manage everything")]
    SameToken,
    /// A token from the environment is too weak to be one.
    #[error("the {0} access token is shorter than 16 characters; use at least 128 random bits")]
    WeakToken(&'static str),
}

impl StartError {
    /// Whether trying again cannot help, or would hide a mistake from who makes it at a terminal.
    pub fn is_final(&self) -> bool {
        match self {
            Self::WeakToken(_) | Self::SameToken | Self::Store(StoreError::Locked(_)) => true,
            // What is refused once is refused again; a full disk is not.
            Self::Pack { failure, .. } => failure.code.status() < 500,
            _ => false,
        }
    }

    pub(crate) fn setup(what: impl Into<String>) -> impl FnOnce(Failure) -> Self {
        let what = what.into();
        move |failure| Self::Setup { what, failure: Box::new(failure) }
    }

    pub(crate) fn pack(name: &str) -> impl FnOnce(Failure) -> Self + use<> {
        let pack = name.to_owned();
        move |failure| Self::Pack { pack, failure: Box::new(failure) }
    }
}

/// What answers requests and keeps nothing of a service's data: services may share it.
#[derive(Debug)]
pub(crate) struct Machinery {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) compute: Arc<Compute>,
}

impl Machinery {
    /// The query engine with so many partitions and the component runtime, under the same limits, and
    /// the threads for both.
    pub(crate) fn start(runtime: RuntimeOptions, partitions: usize) -> Result<Self, StartError> {
        let limits = &runtime.limits;
        let engine = Engine::new(&EngineOptions {
            partitions,
            statement_memory: limits.statement_memory,
            total_memory: limits.total_memory,
            text: limits.text,
            narrow: tidegate_store::narrowed,
        })
        .map_err(StartError::setup("the query engine"))?;
        // What guests hold and what statements hold is one sum.
        let runtime = Runtime::new(RuntimeOptions { memory: Some(engine.memory()), ..runtime })?;
        let compute = Compute::start().map_err(StartError::Threads)?;
        Ok(Self { engine: Arc::new(engine), runtime, compute: Arc::new(compute) })
    }
}

/// A service, ready to answer.
#[derive(Debug)]
pub struct App {
    pub(crate) options: Options,
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) compute: Arc<Compute>,
    pub(crate) clock: Clock,
    pub(crate) registry: Registry,
    pub(crate) cache: Cache,
    pub(crate) tokens: Tokens,
    pub(crate) bodies: BodyRoom,
    pub(crate) answers: AnswerRoom,
    /// What endpoints answer, for the OpenAPI document.
    pub(crate) described: Described,
    /// What components are, for management.
    pub(crate) kinds: Kinds,
    pub(crate) rates: Rates,
    pub(crate) admission: Admission,
    pub(crate) metrics: Metrics,
    /// A stop was asked for.
    pub(crate) draining: AtomicBool,
    recheck: Recheck,
}

impl App {
    /// Opens the data folder and makes everything ready. On the first start of a folder the nine
    /// sources and the endpoints of the specification are put there, and where the environment
    /// names no tokens two are made; those are returned, because they are not kept in clear.
    ///
    /// # Errors
    /// What cannot be opened, and why.
    pub async fn open(options: Options) -> Result<(Arc<Self>, Option<NewTokens>), StartError> {
        let store = Store::open(&options.data_dir, options.store.clone())?;
        let tokens = Tokens::open(store.catalog(), &options)?;
        let new = tokens.make_first(store.catalog())?;
        let runtime = RuntimeOptions {
            concurrency: options.admission.places(),
            limits: options.limits.clone(),
            artefacts: Some(ArtefactOptions {
                folder: options.data_dir.join("compiled"),
                key: crate::tokens::artefact_key(store.catalog())?,
            }),
            compiler: options.components.compilation(),
            prepared_bytes: options.components.code_memory,
            ..RuntimeOptions::default()
        };
        let machinery = Machinery::start(runtime, EngineOptions::default().partitions)?;
        let app = Self::over(options, store, tokens, &machinery, Clock::System).await?;
        crate::seed::sources(&app)?;
        app.registry.fill(app.store.catalog().endpoint_entries()?);
        crate::seed::endpoints(&app).await?;
        crate::packs::install(&app).await?;
        // They end with the service: they hold no more than a weak pointer to it.
        tokio::spawn(crate::tokens::watch(Arc::downgrade(&app)));
        app.recheck.start(&app);
        tokio::spawn(crate::cache::warm(Arc::downgrade(&app), app.options.cache.warming_concurrency));
        Ok((app, new))
    }

    /// A service over an open store, with no endpoints yet.
    pub(crate) async fn over(
        options: Options,
        store: Arc<Store>,
        tokens: Tokens,
        machinery: &Machinery,
        clock: Clock,
    ) -> Result<Arc<Self>, StartError> {
        let Machinery { engine, runtime, compute } = machinery;
        let registry = Registry::new(runtime, options.limits.text).await?;
        Ok(Arc::new(Self {
            cache: Cache::new(tidegate_model::number(options.cache.memory)),
            bodies: BodyRoom::new(options.ingest.body_memory),
            answers: AnswerRoom::new(options.admission.answer_memory, options.admission.wait),
            rates: Rates::new(options.rate.clone()),
            admission: Admission::new(&options.admission, compute.threads()),
            metrics: Metrics::new(),
            described: Described::default(),
            kinds: Kinds::new(100_000),
            draining: AtomicBool::new(false),
            recheck: Recheck::default(),
            options,
            store,
            engine: Arc::clone(engine),
            runtime: Arc::clone(runtime),
            compute: Arc::clone(compute),
            clock,
            registry,
            tokens,
        }))
    }

    /// Stores events, as if they had been posted. For the sample logs of the demonstration.
    ///
    /// # Errors
    /// As the store's.
    pub async fn ingest(&self, source: &str, events: Vec<serde_json::Value>) -> Result<Ingested, StoreError> {
        self.store.ingest_at(source, events, self.clock.now()).await
    }

    /// Stops background work; everything acknowledged stays.
    ///
    /// # Errors
    /// As the store's.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.recheck.stop().await;
        self.store.close().await
    }
}
