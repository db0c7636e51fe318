//! A running service: its parts, opened in order and shared by all requests.

use std::sync::Arc;
use std::time::Duration;

use tidegate_runtime::{ArtefactOptions, RuntimeOptions};
use tidegate_sql::EngineOptions;
use tidegate_store::{Ingested, Store, StoreError};
use tidegate_workers::RemoteWorkers;

use crate::access_report::{AccessReports, AccessRule, ReportPlanner};
use crate::admission::Admission;
use crate::alerts::{self, Alerts};
use crate::answer::TransferMemory;
use crate::blocking::blocking;
use crate::cache::{Cache, warm};
use crate::catalog::EndpointTable;
use crate::clock::Clock;
use crate::component_kinds::ComponentKinds;
use crate::compute::Compute;
use crate::endpoint_columns::ColumnPlanner;
use crate::endpoints::Endpoints;
use crate::engines::Engines;
use crate::execution::Executor;
use crate::follow::Following;
use crate::gate::Gate;
use crate::gate::recheck::{Checker, Recheck};
use crate::issuers::Issuers;
use crate::options::Options;
use crate::outcomes::ComponentOutcomes;
use crate::rate::RateLimiter;
use crate::registration::Registrar;
use crate::registry::Registry;
use crate::start_error::StartError;
use crate::tokens::{Access, NewTokens, Tokens, artefact_key, watch};
use crate::{packs, seed};

/// A service, ready to be called.
#[derive(Debug)]
pub struct Service {
    /// How it is set up.
    pub options: Options,
    /// The logs, and the catalog of endpoints and tokens.
    pub store: Arc<Store>,
    /// The time.
    pub clock: Clock,
    /// Queries that are followed.
    pub following: Arc<Following>,
    /// The endpoints that can be called.
    pub registry: Arc<Registry>,
    /// Endpoints with what a call needs of them.
    pub endpoints: Endpoints,
    /// What runs requests.
    pub executor: Arc<Executor>,
    /// Answers that may be given again.
    pub cache: Arc<Cache>,
    /// What saves and removes endpoints.
    pub registrar: Registrar,
    /// The columns of endpoints' answers.
    pub columns: ColumnPlanner,
    /// Who reads what.
    pub access: AccessReports,
    /// What the components of endpoints are.
    pub kinds: ComponentKinds,
    /// The alerts of endpoints.
    pub alerts: Arc<Alerts>,
    /// The access tokens.
    pub tokens: Arc<Tokens>,
    /// The issuers whose JWTs are access tokens.
    pub issuers: Arc<Issuers>,
    /// The rate limits of tokens.
    pub rates: RateLimiter,
    /// The threads on which requests compute.
    pub compute: Arc<Compute>,
    /// The workers, if there are any.
    pub workers: Option<Arc<RemoteWorkers>>,
    recheck: Recheck,
}

impl Service {
    /// Opens the data folder. The first start of a folder creates the standard sources and the shipped endpoints in it.
    /// Where neither the environment nor the catalog has a token, two are made and returned: only their hashes are stored.
    ///
    /// # Errors
    /// What cannot be opened, and why.
    pub async fn open(options: Options) -> Result<(Arc<Self>, Option<NewTokens>), StartError> {
        Self::open_at(options, Clock::System).await
    }

    /// As [`Service::open`], with another clock.
    ///
    /// # Errors
    /// As [`Service::open`].
    pub(crate) async fn open_at(options: Options, clock: Clock) -> Result<(Arc<Self>, Option<NewTokens>), StartError> {
        let store = Store::open(&options.data_dir, options.store.clone())?;
        let tokens = Tokens::open(store.catalog(), &options)?;
        let new = tokens.make_first(store.catalog())?;
        let runtime = RuntimeOptions {
            concurrency: options.admission.permits(),
            limits: options.limits.clone(),
            artefacts: Some(ArtefactOptions {
                folder: options.data_dir.join("compiled"),
                key: artefact_key(store.catalog())?,
            }),
            compiler: options.components.compilation(),
            prepared_bytes: options.components.code_memory,
            ..RuntimeOptions::default()
        };
        let workers = options.cluster.start()?;
        let engine = EngineOptions { footer_memory: options.footer_memory, ..EngineOptions::default() };
        let stages = workers.clone().map(|workers| (workers, options.cluster.stages()));
        let engines = Engines::start(runtime, engine, stages)?;
        let service = Self::over(options, store, tokens, &engines, workers, clock).await?;
        seed::sources(&service.store)?;
        service.registry.fill(EndpointTable(service.store.catalog()).entries()?);
        seed::endpoints(&service.registrar).await?;
        packs::install(&service.registrar, &service.options.packs).await?;
        packs::declare(&service.registrar, &service.options.pack_sources).await?;
        service.warn_of_refused_events();
        // These tasks end with the service: they hold no more than weak pointers to its parts.
        let own = Arc::downgrade(&service);
        let tell = move |new| drop(own.upgrade().map(|service| tokio::spawn(service.tell_of_tokens(new))));
        tokio::spawn(watch(Arc::downgrade(&service.tokens), Arc::downgrade(&service.store), tell));
        service.issuers.start();
        tokio::spawn(Arc::clone(&service).tell_of_rules());
        service.recheck.start();
        let (cache, executor) = (Arc::downgrade(&service.cache), Arc::downgrade(&service.executor));
        tokio::spawn(warm(cache, executor, service.clock, service.options.cache.warming_concurrency));
        if service.options.alerts.run {
            tokio::spawn(alerts::work(Arc::downgrade(&service.alerts)));
        }
        Ok((service, new))
    }

    /// A service over an open store, without endpoints and without background tasks.
    ///
    /// # Errors
    /// What does not start.
    pub(crate) async fn over(
        options: Options,
        store: Arc<Store>,
        tokens: Tokens,
        engines: &Engines,
        workers: Option<Arc<RemoteWorkers>>,
        clock: Clock,
    ) -> Result<Arc<Self>, StartError> {
        let Engines { engine, runtime, compute } = engines.clone();
        let registry = Arc::new(Registry::new(&runtime, options.limits.text).await?);
        let tokens = Arc::new(tokens);
        let endpoints = Endpoints::new(&store, &registry, &runtime);
        let cache = Arc::new(Cache::new(tidegate_model::number(options.cache.memory)));
        let kinds = ComponentKinds::new(&store);
        let executor = Arc::new(Executor {
            endpoints: endpoints.clone(),
            engine: Arc::clone(&engine),
            compute: Arc::clone(&compute),
            admission: Admission::new(&options.admission, compute.threads()),
            answers: TransferMemory::new(options.admission.answer_memory, options.admission.wait),
            outcomes: ComponentOutcomes::default(),
            limits: options.limits.clone(),
        });
        let following = Following::new(&options.follow, &executor, &tokens, clock, options.admission.permits());
        // The store must not keep the executor, which has the store.
        let busy = Arc::downgrade(&executor);
        store.give_way_to(move || busy.upgrade().is_some_and(|executor| executor.admission.is_busy()));
        let gate = Gate {
            store: Arc::clone(&store),
            registry: Arc::clone(&registry),
            engine: Arc::clone(&engine),
            clock,
            limits: options.limits.clone(),
        };
        let checker = Checker { gate: gate.clone(), endpoints: endpoints.clone(), compute: Arc::clone(&compute) };
        let access = AccessReports {
            planner: ReportPlanner {
                store: Arc::clone(&store),
                registry: Arc::clone(&registry),
                engine: Arc::clone(&engine),
            },
            kinds: kinds.clone(),
            tokens: Arc::clone(&tokens),
            rules: Arc::new(AccessRule::all(&options.issuers)),
            clock,
            limits: options.limits.clone(),
        };
        let columns = ColumnPlanner {
            store: Arc::clone(&store),
            registry: Arc::clone(&registry),
            engine,
            kinds: kinds.clone(),
            clock,
        };
        let registrar = Registrar {
            gate,
            endpoints: endpoints.clone(),
            cache: Arc::clone(&cache),
            compute: Arc::clone(&compute),
            access: access.clone(),
            most_alerts: options.alerts.most,
        };
        let alerts = Alerts::new(&options.alerts, &store, &endpoints, &executor, clock);
        Ok(Arc::new(Self {
            issuers: Issuers::new(&options.issuers, tokens.denied()),
            rates: RateLimiter::new(options.rate.clone()),
            recheck: Recheck::new(checker),
            options,
            store,
            clock,
            following,
            registry,
            endpoints,
            executor,
            cache,
            registrar,
            columns,
            access,
            kinds,
            alerts,
            tokens,
            compute,
            workers,
        }))
    }

    /// Writes to the log what tokens read that another process has made, each the first of its kind.
    async fn tell_of_tokens(self: Arc<Self>, new: Vec<Arc<Access>>) {
        for access in new {
            let what = format!("the new access token {}", access.who);
            match self.compute.run(self.access.clone().of_first_token(access)).await {
                Ok(widened) => widened.log(&what),
                Err(failure) => tracing::warn!(%failure, "what {what} reads is not known"),
            }
        }
    }

    /// Writes to the log what the rules of issuers widen, if they are others than at the last start.
    async fn tell_of_rules(self: Arc<Self>) {
        match self.compute.run(self.access.clone().of_changed_rules(self.options.issuers.clone())).await {
            Ok((widened, other)) => {
                widened.log("the rules of issuers");
                for line in other {
                    tracing::info!(change = "the rules of issuers", "{line}");
                }
            }
            Err(failure) => tracing::warn!(%failure, "what the rules of issuers widen is not known"),
        }
    }

    /// Tells the operator of settings with which events are refused: a door or syslog whose source does not exist.
    fn warn_of_refused_events(&self) {
        let Options { doors, syslog, .. } = &self.options;
        let listens = syslog.listen.or(syslog.tls_listen).is_some();
        if listens && syslog.source.is_empty() {
            tracing::warn!("[syslog] source is not set: messages that name no source are refused");
        }
        let doors = doors.sources().map(|(door, source)| (format!("[doors] {door}_source"), source.to_owned()));
        let syslog = listens.then(|| ("[syslog] source".to_owned(), syslog.source.clone()));
        for (setting, source) in doors.chain(syslog.filter(|(_, source)| !source.is_empty())) {
            if self.store.source(&source).is_none() {
                tracing::warn!(
                    setting,
                    source,
                    "there is no such source: events that name none are refused until it is made"
                );
            }
        }
    }

    /// Stores events, as if they had been posted. For the sample logs of the demonstration.
    ///
    /// # Errors
    /// The store's.
    pub async fn ingest(&self, source: &str, events: Vec<serde_json::Value>) -> Result<Ingested, StoreError> {
        self.store.ingest_at(source, events, self.clock.now()).await
    }

    /// Stops background work and closes the store. Everything that was acknowledged is kept.
    ///
    /// # Errors
    /// The store's.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.close_within(self.options.server.grace).await
    }

    /// [`Self::close`], in which flushing into an object store may take `time`.
    ///
    /// # Errors
    /// As of that.
    pub async fn close_within(&self, time: Duration) -> Result<(), StoreError> {
        self.alerts.stop();
        self.following.stop();
        self.recheck.stop().await;
        let tokens = Arc::clone(&self.tokens);
        if let Err(failure) = blocking(&self.store, move |store| tokens.write_uses(store.catalog())).await {
            tracing::warn!(%failure, "the last uses of access tokens cannot be written");
        }
        self.store.close_within(time).await
    }
}
