//! What a reader may do with each endpoint: its plans, and beside them what the endpoint and the token say of ad-hoc text,
//! redaction and limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{Code, Failure, LimitSet, Limits};
use tidegate_sql::Stop;
use uuid::Uuid;

use super::plans::{Change, PlannedEndpoint, ReportPlanner, Version, says_nothing};
use super::readers::{AccessRule, AlertReader, alerts_of};
use crate::catalog::EndpointEntry;
use crate::clock::Clock;
use crate::component_kinds::{ComponentKind, ComponentKinds};
use crate::execution::{limits_of, redaction};
use crate::failures::{of_store, unknown_source};
use crate::registry::Endpoint;
use crate::tokens::{Access, AccessClass, Tokens};

/// The most endpoints that one report tells of, over all classes.
const MOST_ENDPOINTS: usize = 20_000;

/// What a reader may ask in ad-hoc text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdhocText {
    /// Nothing.
    Nothing,
    /// The granted tables of the endpoint.
    Tables,
    /// All sources.
    Sources,
}

/// When personal data in an answer is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redaction {
    /// In each answer.
    Always,
    /// Unless the request turns it off.
    UnlessTurnedOff,
    /// If the request asks for it.
    OnRequest,
}

/// What a reader may do with an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointAccess {
    /// The endpoint's id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Whether code of an author chooses what is read, and may write statements of its own over the granted tables.
    pub is_code: bool,
    /// What may be asked in ad-hoc text.
    pub adhoc: AdhocText,
    /// When personal data is masked.
    pub redaction: Redaction,
    /// The limits of a request.
    pub limits: LimitSet,
    /// What its parts read.
    pub planned: Arc<PlannedEndpoint>,
}

/// What the tokens of a class may do.
#[derive(Debug)]
pub struct ClassAccess {
    /// The class.
    pub class: AccessClass,
    /// The endpoints that they may ask, by name.
    pub endpoints: Vec<EndpointAccess>,
}

/// What the tokens of an issuer may do to which a rule applies.
#[derive(Debug)]
pub struct RuleAccess {
    /// The rule.
    pub rule: AccessRule,
    /// The endpoints that they may ask, by name.
    pub endpoints: Vec<EndpointAccess>,
}

/// What an alert reads, and sends to its receiver.
#[derive(Debug)]
pub struct AlertAccess {
    /// The alert.
    pub alert: AlertReader,
    /// Its endpoint.
    pub endpoints: Vec<EndpointAccess>,
}

/// What reports who reads what; clones share it.
#[derive(Debug, Clone)]
pub struct AccessReports {
    pub(crate) planner: ReportPlanner,
    pub(crate) kinds: ComponentKinds,
    pub(crate) tokens: Arc<Tokens>,
    /// The rules of the issuers.
    pub(crate) rules: Arc<Vec<AccessRule>>,
    pub(crate) clock: Clock,
    /// The server's limits of one request.
    pub(crate) limits: Limits,
}

impl AccessReports {
    /// What a reader may do, by endpoint. For the compute threads; it ends when its time is over or nobody waits for it.
    ///
    /// # Errors
    /// The time of a request.
    pub async fn of_reader(self, access: Arc<Access>, source: Option<Uuid>) -> Result<Vec<EndpointAccess>, Failure> {
        let key = access.class();
        let class = AccessClass { key, access, tokens: 1 };
        Ok(self.of(vec![class], source).await?.into_iter().flat_map(|class| class.endpoints).collect())
    }

    /// What the tokens of each class may do; with a source, by the endpoints that read it. As [`Self::of_reader`].
    ///
    /// # Errors
    /// As [`Self::of_reader`]; [`Code::LimitExceeded`] if there is too much to tell.
    pub async fn of_classes(self, source: Option<Uuid>) -> Result<Vec<ClassAccess>, Failure> {
        let classes = self.tokens.classes(self.clock.now());
        self.of(classes, source).await
    }

    /// What the tokens of each rule of an issuer may do, or of one of them; with a source, as [`Self::of_classes`].
    ///
    /// # Errors
    /// As [`Self::of_classes`]; there is no such rule.
    pub async fn of_rules(self, only: Option<&str>, source: Option<Uuid>) -> Result<Vec<RuleAccess>, Failure> {
        let rules = self.rules_named(only)?;
        let classes = rules.iter().map(|rule| AccessClass {
            key: rule.access.class(),
            access: Arc::clone(&rule.access),
            tokens: 0,
        });
        let classes = classes.collect();
        let told = self.of(classes, source).await?.into_iter().map(|class| class.endpoints);
        Ok(rules.into_iter().zip(told).map(|(rule, endpoints)| RuleAccess { rule, endpoints }).collect())
    }

    /// What each alert reads; with a source, as [`Self::of_classes`].
    ///
    /// # Errors
    /// As [`Self::of_classes`].
    pub async fn of_alerts(self, source: Option<Uuid>) -> Result<Vec<AlertAccess>, Failure> {
        let mut alerts = Vec::new();
        for entry in self.planner.registry.all() {
            // One that cannot be read runs no alert.
            if let Ok(endpoint) = self.planner.registry.peek(&self.planner.store, &entry) {
                alerts.extend(alerts_of(&endpoint.manifest, Some(entry.id)));
            }
        }
        let classes =
            alerts.iter().map(|alert| AccessClass { key: alert.key(), access: Arc::clone(&alert.access), tokens: 0 });
        let classes = classes.collect();
        let told = self.of(classes, source).await?;
        let told = alerts.into_iter().zip(told).map(|(alert, class)| {
            // Its request has no text of a caller.
            let asked = |own| EndpointAccess { adhoc: AdhocText::Nothing, ..own };
            AlertAccess { alert, endpoints: class.endpoints.into_iter().map(asked).collect() }
        });
        Ok(told.filter(|told| source.is_none() || !told.endpoints.is_empty()).collect())
    }

    async fn of(self, classes: Vec<AccessClass>, source: Option<Uuid>) -> Result<Vec<ClassAccess>, Failure> {
        let limit = self.limits.wall_clock;
        // A little before the caller is told that it took too long, so that the plan at hand ends, too.
        let stop = Stop::after(limit.saturating_sub(Duration::from_millis(50)));
        stop.cover(self.all(classes, source)).await
    }

    async fn all(self, classes: Vec<AccessClass>, source: Option<Uuid>) -> Result<Vec<ClassAccess>, Failure> {
        let of_class = |class| ClassAccess { class, endpoints: Vec::new() };
        let mut classes: Vec<ClassAccess> = classes.into_iter().map(of_class).collect();
        let mut told = 0_usize;
        for entry in self.planner.registry.all() {
            if source.is_some_and(|source| !self.reads(&entry, source)) {
                continue;
            }
            let may_query = |class: &&mut ClassAccess| class.class.access.may_query(&entry.name, Some(entry.id));
            let mut askers = classes.iter_mut().filter(may_query).peekable();
            if askers.peek().is_none() {
                continue;
            }
            let endpoint = self.planner.registry.peek(&self.planner.store, &entry);
            let kind = endpoint.as_ref().map(|endpoint| self.kinds.read(&endpoint.component).map_err(of_store));
            let is_code = matches!(kind, Ok(Ok(ComponentKind::Wasm)));
            // What is planned depends on the names that are pinned, not on scopes and limits.
            let mut planned: HashMap<Vec<String>, Arc<PlannedEndpoint>> = HashMap::new();
            for asker in askers {
                told += 1;
                if told > MOST_ENDPOINTS {
                    let message = format!(
                        "the report would tell of more than {MOST_ENDPOINTS} endpoints; ask for one token, or for one source"
                    );
                    return Err(Failure::new(Code::LimitExceeded, message));
                }
                let AccessClass { key, access, .. } = &asker.class;
                let endpoint = match &endpoint {
                    Ok(endpoint) => endpoint,
                    Err(failure) => {
                        asker.endpoints.push(self.unreadable(&entry, failure));
                        continue;
                    }
                };
                let planned = match planned.get(&key.pinned) {
                    Some(planned) => Arc::clone(planned),
                    None => {
                        // Others get their turn, and work that nobody waits for ends.
                        tokio::task::yield_now().await;
                        let made = Arc::new(self.planned(&entry, endpoint, access)?);
                        planned.insert(key.pinned.clone(), Arc::clone(&made));
                        made
                    }
                };
                asker.endpoints.push(self.access(endpoint, is_code, access, planned));
            }
        }
        Ok(classes)
    }

    fn planned(&self, entry: &EndpointEntry, endpoint: &Endpoint, access: &Access) -> Result<PlannedEndpoint, Failure> {
        let broken = self.planner.registry.check_result(entry.id).filter(|result| result.version == entry.version);
        if let Some(failure) = broken.and_then(|result| result.broken.clone()) {
            return Ok(PlannedEndpoint { refused: Some(failure), pieces: Vec::new() });
        }
        let plan = |version| self.planner.plan(version, access, self.clock.now(), Change::default());
        match Version::of(endpoint).and_then(plan) {
            Err(failure) if !says_nothing(&failure) => {
                Ok(PlannedEndpoint { refused: Some(failure), pieces: Vec::new() })
            }
            planned => planned,
        }
    }

    fn access(
        &self,
        endpoint: &Endpoint,
        is_code: bool,
        access: &Access,
        planned: Arc<PlannedEndpoint>,
    ) -> EndpointAccess {
        let settings = &endpoint.manifest.settings;
        let adhoc = match (settings.sandboxable, access.is_private()) {
            (true, _) => AdhocText::Tables,
            (false, true) => AdhocText::Sources,
            (false, false) => AdhocText::Nothing,
        };
        let redaction = match (settings.redact_pii, redaction(endpoint, access, Some(false))) {
            (false, _) => Redaction::OnRequest,
            (true, Ok(_)) => Redaction::UnlessTurnedOff,
            (true, Err(_)) => Redaction::Always,
        };
        let mut lowered = limits_of(&self.limits, endpoint, access);
        lowered.rows = lowered.rows.min(usize::try_from(settings.max_limit).unwrap_or(usize::MAX));
        let limits = LimitSet::of(&lowered);
        let name = endpoint.manifest.name.to_string();
        EndpointAccess { id: endpoint.id, name, is_code, adhoc, redaction, limits, planned }
    }

    /// An endpoint of which the catalog has what this program cannot read: nobody reads anything through it.
    fn unreadable(&self, entry: &EndpointEntry, failure: &Failure) -> EndpointAccess {
        EndpointAccess {
            id: entry.id,
            name: entry.name.clone(),
            is_code: false,
            adhoc: AdhocText::Nothing,
            redaction: Redaction::OnRequest,
            limits: LimitSet::of(&self.limits),
            planned: Arc::new(PlannedEndpoint { refused: Some(failure.clone()), pieces: Vec::new() }),
        }
    }

    /// Whether an endpoint reads a source, itself or through others.
    pub(super) fn reads(&self, entry: &EndpointEntry, source: Uuid) -> bool {
        let has = |entry: &EndpointEntry| entry.tables.values().any(|read| *read == source);
        has(entry) || self.planner.registry.reads(&entry.tables).iter().any(|entry| has(entry))
    }

    /// The sources that a token may send events to, by name; `None` for all.
    pub fn writes(&self, access: &Access) -> Option<Vec<String>> {
        if access.may_ingest_all() {
            return None;
        }
        let sources = self.planner.store.sources().into_iter();
        Some(sources.filter(|own| access.may_ingest(&own.name, Some(own.id))).map(|own| own.name).collect())
    }

    /// A source by its name or id: its id, and the name that it has now.
    ///
    /// # Errors
    /// There is none.
    pub fn source(&self, name_or_id: &str) -> Result<(Uuid, String), Failure> {
        match self.planner.store.source(name_or_id) {
            Some(source) => Ok((source.id, source.name)),
            None => {
                let names: Vec<String> = self.planner.store.sources().into_iter().map(|source| source.name).collect();
                Err(unknown_source(name_or_id, &names))
            }
        }
    }
}
