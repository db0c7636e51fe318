//! Endpoints as the management routes show them, whether they can be called or not.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tidegate_model::{Code, Failure, Manifest};
use tidegate_service::registry::{CheckResult, Endpoint};
use tidegate_service::{ComponentKind, Service, blocking};
use tidegate_store::EndpointRecord;
use uuid::Uuid;

use super::precondition::{Precondition, tag_of_version};
use super::time;

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
    fn of(endpoint: &Endpoint, found: Option<&CheckResult>) -> Self {
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
        let at = time(self.updated_at);
        format!("it is version {} now, saved{by} at {}", self.version, at.as_str().unwrap_or_default())
    }

    fn shown(&self, kind: ComponentKind) -> Value {
        let mut value = self.manifest.as_ref().map_or_else(|| json!({"name": self.name}), described);
        if let Value::Object(fields) = &mut value {
            fields.insert("id".to_owned(), self.id.to_string().into());
            fields.insert("version".to_owned(), self.version.into());
            fields.insert("author".to_owned(), self.author.clone().into());
            fields.insert("inserted_at".to_owned(), time(self.created_at));
            fields.insert("updated_at".to_owned(), time(self.updated_at));
            fields.insert("warnings".to_owned(), self.warnings.clone().into());
            fields.insert("kind".to_owned(), kind.name().into());
            fields.insert("digest".to_owned(), self.digest.clone().into());
        }
        value
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
        Some(id) => blocking(&service.store, move |store| store.catalog().endpoint_by_id(id)).await?,
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
    let id = endpoint.id;
    let wanted = match version.parse() {
        Ok(number) => blocking(&service.store, move |store| store.catalog().endpoint_version(id, number)).await?,
        Err(_) => None,
    };
    wanted.ok_or_else(|| {
        let message =
            format!("the endpoint {} has no version {version}; its newest is {}", endpoint.name, endpoint.version);
        Failure::new(Code::NotFound, message).about("version")
    })
}

/// The JSON of these endpoints.
pub(super) async fn all_shown(service: &Service, known: &[EndpointView]) -> Result<Vec<Value>, Failure> {
    let kinds = service.kinds.of(known.iter().map(|one| one.digest.clone()).collect()).await?;
    Ok(known.iter().zip(kinds).map(|(one, kind)| one.shown(kind)).collect())
}

pub(super) async fn shown(service: &Service, known: EndpointView) -> Result<Value, Failure> {
    Ok(all_shown(service, &[known]).await?.pop().unwrap_or_default())
}

/// The JSON of an endpoint that was just saved.
pub(super) async fn saved_shown(service: &Service, endpoint: &Endpoint) -> Result<Value, Failure> {
    shown(service, EndpointView::of(endpoint, service.registry.check_result(endpoint.id).as_deref())).await
}

/// The JSON of a definition, with the field names of the HTTP interface.
fn described(manifest: &Manifest) -> Value {
    let Manifest { name, description, query, statements, parameters, settings, limits, alerts } = manifest;
    json!({
        "name": name,
        "description": description,
        "query": query,
        "statements": statements,
        "parameters": parameters,
        "max_limit": settings.max_limit,
        "cache_duration_seconds": settings.cache_duration_seconds,
        "proactive_requerying_seconds": settings.proactive_requerying_seconds,
        "sandboxable": settings.sandboxable,
        "redact_pii": settings.redact_pii,
        "errors": settings.errors,
        "enable_auth": settings.enable_auth,
        "labels": settings.labels,
        "limits": limits,
        "alerts": alerts,
    })
}

/// The JSON of a stored version.
pub(super) fn version_shown(record: &EndpointRecord, kind: ComponentKind) -> Value {
    let mut value = match serde_json::from_str::<Manifest>(&record.manifest) {
        Ok(manifest) => described(&manifest),
        // Another release with other fields wrote the definition, so only its name and what the record itself holds are
        // shown.
        Err(_) => json!({"name": record.name}),
    };
    if let Value::Object(fields) = &mut value {
        fields.insert("id".to_owned(), record.id.to_string().into());
        fields.insert("version".to_owned(), record.version.into());
        fields.insert("author".to_owned(), record.author.clone().into());
        fields.insert("kind".to_owned(), kind.name().into());
        fields.insert("digest".to_owned(), record.component.clone().into());
        fields.insert("inserted_at".to_owned(), time(record.updated_at));
    }
    value
}
