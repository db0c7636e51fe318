//! Endpoints as the management routes show them, whether they can be called or not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_model::{Alert, Code, Errors, Failure, LimitSet, MOST_ALERTS, Manifest, Parameter};
use tidegate_service::catalog::EndpointRecord;
use tidegate_service::registry::{self, CheckResult};
use tidegate_service::{ComponentKind, SaveRequest, Service};
use uuid::Uuid;

use super::component_view::Component;
use super::fields::definition;
use super::precondition::{Precondition, tag_of_version};
use super::{ALERTS_ARE, ERRORS_ARE, LIMITS_ARE};
use crate::shown::{Id, Time};

definition! {
    /// What may be said of an endpoint, with the names of the compatible API.
    pub(crate) struct EndpointFields and NewEndpoint needs ["name", "query"] {
        #[schemars(length(min = 1, max = 128))]
        name: String,
        description: String,
        /// The saved query, with parameters as @name. Its top-level CTEs are the tables of ad-hoc queries.
        #[schemars(length(min = 1))]
        query: String,
        parameters: Vec<Parameter> = "a list of parameters (name, kind, required, default, enum, format, description)",
        #[schemars(range(min = 1, max = 10_000), extend("default" = 1000))]
        max_limit: u64,
        #[schemars(range(max = 86_400), extend("default" = 0))]
        cache_duration_seconds: u64,
        #[schemars(range(min = 1, max = 86_400), extend("default" = null))]
        proactive_requerying_seconds: Option<u64>,
        #[schemars(extend("default" = false))]
        sandboxable: bool,
        #[schemars(extend("default" = false))]
        redact_pii: bool,
        /// Errors of queries have their own status, or 200 with `"result": null` and `error` as a text, where the answer would
        /// be JSON; the true status is then in x-tidegate-status. The server's choice, if null.
        #[schemars(extend("default" = null))]
        errors: Option<Errors> = ERRORS_ARE,
        #[schemars(extend("const" = true, "default" = true))]
        enable_auth: bool,
        labels: String,
        limits: Option<LimitSet> = LIMITS_ARE,
        #[schemars(length(max = MOST_ALERTS))]
        alerts: Vec<Alert> = ALERTS_ARE,
        #[schemars(skip_serializing, extend("const" = "bq_sql"))]
        language: String,
    }
}

impl From<Manifest> for EndpointFields {
    fn from(manifest: Manifest) -> Self {
        let Manifest { name, description, query, statements: _, parameters, settings, limits, alerts } = manifest;
        Self {
            name: Some(name.to_string()),
            description: Some(description),
            query: Some(query),
            parameters: Some(parameters),
            max_limit: Some(settings.max_limit),
            cache_duration_seconds: Some(settings.cache_duration_seconds),
            proactive_requerying_seconds: Some(settings.proactive_requerying_seconds),
            sandboxable: Some(settings.sandboxable),
            redact_pii: Some(settings.redact_pii),
            errors: Some(settings.errors),
            enable_auth: Some(settings.enable_auth),
            labels: Some(settings.labels),
            limits: Some(Some(limits)),
            alerts: Some(alerts),
            language: None,
        }
    }
}

/// A version of an endpoint.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["id", "name", "version"]))]
pub(crate) struct EndpointVersion {
    #[serde(flatten)]
    fields: EndpointFields,
    /// Statements of the component beside the query, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, String>")]
    statements: Option<BTreeMap<String, String>>,
    id: Id,
    #[schemars(range(min = 1))]
    version: i64,
    /// Who saved this version.
    author: String,
    /// A saved query, or code.
    pub(super) kind: ComponentKind,
    /// The SHA-256 of the component.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    digest: String,
    inserted_at: Time,
}

/// An endpoint: its newest version, with the time of the first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("required" = ["id", "name", "query", "version"]))]
pub(crate) struct Endpoint {
    #[serde(flatten)]
    pub(super) version: EndpointVersion,
    updated_at: Time,
    /// What may not be meant as it is written, such as names that no log has had so far; after a change, also what tokens read
    /// more than before.
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Component")]
    pub(super) component: Option<Component>,
    /// Sources that were made because the request asked for it (`make_sources`); absent where none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) made_sources: Vec<String>,
}

/// An endpoint as the management routes see it, whether it can be called or no longer passes the gate.
pub(super) struct EndpointView {
    pub(super) id: Uuid,
    pub(super) version: i64,
    /// None if it cannot be parsed.
    pub(super) manifest: Option<Manifest>,
    pub(super) name: String,
    /// The digest of its component.
    pub(super) digest: String,
    pub(super) tables: BTreeMap<String, Uuid>,
    author: String,
    created_at: i64,
    updated_at: i64,
    warnings: Vec<String>,
}

impl EndpointView {
    fn of(endpoint: &registry::Endpoint, found: Option<&CheckResult>) -> Self {
        Self {
            id: endpoint.id,
            version: endpoint.version,
            manifest: Some(endpoint.manifest.clone()),
            name: endpoint.manifest.name.to_string(),
            digest: endpoint.component.clone(),
            tables: endpoint.tables.clone(),
            author: endpoint.author.clone(),
            created_at: endpoint.created_at,
            updated_at: endpoint.updated_at,
            warnings: warnings(endpoint.version, found),
        }
    }

    pub(super) fn of_record(record: EndpointRecord, found: Option<&CheckResult>) -> Self {
        Self {
            id: record.id,
            version: record.version,
            // A definition that cannot be parsed is shown by its name only.
            manifest: serde_json::from_str(&record.manifest).ok(),
            name: record.name,
            digest: record.component,
            tables: record.sources,
            author: record.author,
            created_at: record.created_at,
            updated_at: record.updated_at,
            warnings: warnings(record.version, found),
        }
    }

    /// The entity tag of its version.
    pub(super) fn tag(&self) -> String {
        tag_of_version(self.id, self.version)
    }

    /// Checks that it is the version that a request wants to change.
    ///
    /// # Errors
    /// Those of [`Precondition::check`].
    pub(super) fn allow(&self, wanted: &Precondition) -> Result<(), Failure> {
        wanted.check(&self.tag(), || format!("the endpoint {} was changed meanwhile: {}", self.name, self.newest()))
    }

    /// Its version, who saved that, and when.
    pub(super) fn newest(&self) -> String {
        let by = if self.author.is_empty() { String::new() } else { format!(" by {}", self.author) };
        format!("it is version {} now, saved{by} at {}", self.version, Time(self.updated_at))
    }

    /// How it is saved again, by this author: as the version behind this one.
    pub(super) fn saving<'a>(&self, author: &'a str) -> SaveRequest<'a> {
        let (id, from) = (Some(self.id), Some(self.version));
        SaveRequest { id, author, known: self.tables.clone(), from, ..SaveRequest::default() }
    }

    /// Whether it passes the gate, as far as is known.
    pub(super) fn is_usable(&self, service: &Service) -> bool {
        service.registry.check_result(self.id).is_none_or(|found| found.broken.is_none())
    }

    fn shown(&self, kind: ComponentKind) -> Endpoint {
        let (fields, statements) = described(self.manifest.as_ref(), &self.name);
        let version = EndpointVersion {
            fields,
            statements,
            id: Id(self.id),
            version: self.version,
            author: self.author.clone(),
            kind,
            digest: self.digest.clone(),
            inserted_at: Time(self.created_at),
        };
        let (updated_at, warnings) = (Time(self.updated_at), self.warnings.clone());
        Endpoint { version, updated_at, warnings, component: None, made_sources: Vec::new() }
    }
}

/// The warnings of the gate, or of the check after the start, for a version.
fn warnings(version: i64, found: Option<&CheckResult>) -> Vec<String> {
    let Some(found) = found.filter(|found| found.version == version) else { return Vec::new() };
    let broken = found.broken.iter().map(|failure| format!("it cannot be used: {failure}"));
    broken.chain(found.warnings.iter().map(ToString::to_string)).collect()
}

/// Finds an endpoint by its name or id, and reads its record from the catalog.
///
/// # Errors
/// [`Code::NotFound`]; those of the store.
pub(super) async fn known(service: &Service, id_or_name: &str) -> Result<EndpointView, Failure> {
    let entry = service.registry.find(id_or_name);
    let record = match entry.map(|entry| entry.id) {
        Some(id) => service.endpoint_record(id).await?,
        None => None,
    };
    let unknown = || Failure::new(Code::NotFound, format!("there is no endpoint {id_or_name}")).about(id_or_name);
    let record = record.ok_or_else(unknown)?;
    let found = service.registry.check_result(record.id);
    Ok(EndpointView::of_record(record, found.as_deref()))
}

/// A version of an endpoint, by its number.
///
/// # Errors
/// [`Code::NotFound`].
pub(super) async fn version_of(
    service: &Service,
    endpoint: &EndpointView,
    version: &str,
) -> Result<EndpointRecord, Failure> {
    let wanted = match version.parse() {
        Ok(number) => service.endpoint_version(endpoint.id, number).await?,
        Err(_) => None,
    };
    wanted.ok_or_else(|| {
        let message =
            format!("the endpoint {} has no version {version}; its newest is {}", endpoint.name, endpoint.version);
        Failure::new(Code::NotFound, message).about("version")
    })
}

/// These endpoints as answers show them.
pub(super) async fn all_shown(service: &Service, known: &[EndpointView]) -> Result<Vec<Endpoint>, Failure> {
    let kinds = service.kinds.of(known.iter().map(|one| one.digest.clone()).collect()).await?;
    Ok(known.iter().zip(kinds).map(|(one, kind)| one.shown(kind)).collect())
}

pub(super) async fn shown(service: &Service, known: EndpointView) -> Result<Endpoint, Failure> {
    let kind = service.kinds.of(vec![known.digest.clone()]).await?.pop();
    Ok(known.shown(kind.unwrap_or(ComponentKind::Wasm)))
}

/// An endpoint that was just saved, as answers show it.
pub(super) async fn saved_shown(service: &Service, endpoint: &registry::Endpoint) -> Result<Endpoint, Failure> {
    shown(service, EndpointView::of(endpoint, service.registry.check_result(endpoint.id).as_deref())).await
}

/// The fields of a definition, and its statements. Of one that another release wrote with other fields, only the name is known.
fn described(manifest: Option<&Manifest>, name: &str) -> (EndpointFields, Option<BTreeMap<String, String>>) {
    match manifest {
        Some(manifest) => (manifest.clone().into(), Some(manifest.statements.clone())),
        None => (EndpointFields { name: Some(name.to_owned()), ..EndpointFields::default() }, None),
    }
}

/// A stored version, as answers show it.
pub(super) fn version_shown(record: EndpointRecord, kind: ComponentKind) -> EndpointVersion {
    let manifest = serde_json::from_str::<Manifest>(&record.manifest).ok();
    let (fields, statements) = described(manifest.as_ref(), &record.name);
    EndpointVersion {
        fields,
        statements,
        id: Id(record.id),
        version: record.version,
        author: record.author,
        kind,
        digest: record.component,
        inserted_at: Time(record.updated_at),
    }
}
