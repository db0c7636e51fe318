//! Registration: an endpoint passes the gate, is saved in the catalog and can be called.
//!
//! Everything that can be known beforehand is checked first: the component is well formed and fits the contract, each
//! statement resolves over its granted tables, and the component can be instantiated. What fails is refused with the
//! reason, and nothing is saved.

mod draft;
mod lineage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_compiler::{compile_sql, is_generated};
use tidegate_model::{Code, Failure, Manifest, number};
use tidegate_sql::SavedQuery;
use tidegate_store::Store;
use uuid::Uuid;

use crate::access_report::{AccessReports, Version, Widened};
use crate::blocking::{blocking, to_its_end};
use crate::cache::Cache;
use crate::catalog::{AlertTable, EndpointEntry, EndpointTable, NewAlert, NewVersion};
use crate::compute::Compute;
use crate::endpoints::Endpoints;
use crate::failures::refused;
use crate::gate::examples::declare_used;
use crate::gate::{Gate, manifest_findings};
use crate::inspection::{ComponentCode, inspect};
use crate::missing_sources::{create_missing_sources, suppose_missing_sources};
use crate::registry::Endpoint;
use crate::save_request::SaveRequest;
use crate::supposed::Supposed;
use crate::tables::StoredTables;
use crate::tokens::generate_alert_secret;

pub use lineage::{Grant, Lineage};

/// What registers and removes endpoints; clones share it.
#[derive(Debug, Clone)]
pub struct Registrar {
    pub(crate) gate: Gate,
    pub(crate) endpoints: Endpoints,
    pub(crate) cache: Arc<Cache>,
    pub(crate) compute: Arc<Compute>,
    pub(crate) access: AccessReports,
    /// The most alerts of all endpoints.
    pub(crate) most_alerts: usize,
}

impl Registrar {
    /// Registers a saved query: compiles it and registers the component.
    ///
    /// # Errors
    /// What the gate refuses; a name that is taken.
    pub async fn register_query(
        &self,
        manifest: &Manifest,
        request: SaveRequest<'_>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let component = compile_sql(manifest).map_err(|error| refused(error.to_string()))?;
        self.register_component(&component, request).await
    }

    /// Registers a packed component.
    ///
    /// # Errors
    /// As [`Registrar::register_query`].
    pub async fn register_component(
        &self,
        component: &[u8],
        request: SaveRequest<'_>,
    ) -> Result<Arc<Endpoint>, Failure> {
        Ok(self.save_component(component, request).await?.endpoint)
    }

    /// Registers a packed component, and tells what that widens.
    ///
    /// # Errors
    /// As [`Registrar::register_query`].
    pub async fn save_component(&self, component: &[u8], request: SaveRequest<'_>) -> Result<Saved, Failure> {
        let (mut made, makes) = (Vec::new(), request.make_sources);
        if makes {
            // Before anything is made, with the sources as they would be.
            let supposed = self.admitted(component, &request).await?;
            self.check_name(supposed.manifest.name.as_str(), request.id, request.from)?;
            supposed.allow(&request)?;
            made = self.create_missing_sources(&supposed.manifest, &request.known).await?;
        }
        let request = SaveRequest { make_sources: false, ..request };
        let admitted = self.admitted(component, &request).await?;
        if !makes {
            admitted.allow(&request)?;
        }
        let (widened, remarks) = (admitted.widened.clone(), admitted.remarks.clone());
        let SaveRequest { id, author, from, renamed_alert, forgotten_alert, .. } = request;
        let (own, component, author) = (self.clone(), component.to_vec(), author.to_owned());
        let all = new_alerts(&admitted.manifest, renamed_alert)?;
        let alerts = SavedAlerts { all, forgotten: forgotten_alert.map(str::to_owned) };
        let save = async move { own.save(admitted, component, alerts, id, author, from).await };
        let endpoint = to_its_end(save).await?;
        widened.log(&format!("version {} of the endpoint {}", endpoint.version, endpoint.manifest.name));
        Ok(Saved { endpoint, widened, remarks, made })
    }

    /// Passes a packed component through the gate and changes nothing. Returns the warnings.
    ///
    /// # Errors
    /// As [`Registrar::register_component`].
    pub async fn try_component(&self, component: &[u8], request: SaveRequest<'_>) -> Result<Vec<Failure>, Failure> {
        let admitted = self.admitted(component, &request).await?;
        self.check_name(admitted.manifest.name.as_str(), request.id, request.from)?;
        admitted.allow(&request)?;
        let widened = admitted.widened.lines().into_iter().map(refused);
        Ok(admitted.warnings.into_iter().chain(admitted.remarks).chain(widened).collect())
    }

    /// Creates the sources that an endpoint's statements name and that do not exist. Returns their names.
    ///
    /// # Errors
    /// While the server shuts down.
    pub async fn create_missing_sources(
        &self,
        manifest: &Manifest,
        known: &BTreeMap<String, Uuid>,
    ) -> Result<Vec<String>, Failure> {
        let (gate, manifest, known) = (self.gate.clone(), manifest.clone(), known.clone());
        self.compute.run(async move { Ok(create_missing_sources(&gate, &manifest, &known)) }).await
    }

    fn store(&self) -> &Arc<Store> {
        self.endpoints.store()
    }

    /// Whether a version may be saved under a name now.
    fn check_name(&self, name: &str, id: Option<Uuid>, from: Option<i64>) -> Result<(), Failure> {
        if let (Some(id), Some(from)) = (id, from) {
            self.unchanged_since(id, from)?;
        }
        let of_source = self.store().source(name).is_some_and(|source| source.name == name);
        if of_source && from.is_none() {
            let message = format!("there is a source {name}; as tables the two could not be told apart");
            return Err(refused(message).about("name"));
        }
        if self.endpoints.registry().find(name).is_some_and(|other| Some(other.id) != id) {
            return Err(taken(name));
        }
        Ok(())
    }

    /// Puts what passed the gate into the catalog, and then into the registry, where calls find it.
    async fn save(
        &self,
        admitted: Admitted,
        component: Vec<u8>,
        alerts: SavedAlerts,
        id: Option<Uuid>,
        author: String,
        from: Option<i64>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let Admitted { manifest, saved, code, digest, tables, warnings, remarks: _, widened: _ } = admitted;
        let registry = self.endpoints.registry();
        let _one = registry.registering.lock().await;
        let name = manifest.name.to_string();
        self.check_name(&name, id, from)?;
        let id = id.unwrap_or_else(Uuid::new_v4);
        let text = serde_json::to_string(&manifest).map_err(|error| refused(error.to_string()))?;
        self.count_alerts(id, alerts.all.len()).await?;
        let digest = hex::encode(digest);
        let put = move |store: &Store| {
            let version = NewVersion {
                id,
                name: &name,
                manifest: &text,
                component: &component,
                component_digest: &digest,
                author: &author,
                sources: &tables,
                alerts: &alerts.all,
            };
            match &alerts.forgotten {
                Some(name) => EndpointTable(store.catalog()).put_forgetting(version, name),
                None => EndpointTable(store.catalog()).put(version),
            }
        };
        let record = blocking(self.store(), put).await?;
        let entry = EndpointEntry::from(&record);
        self.gate.prepare_sources(&saved, &entry.tables);
        let endpoint = Endpoint::of(record, self.gate.limits.text)?.with_saved(saved);
        let _ = endpoint.code.set(code);
        let endpoint = Arc::new(endpoint);
        registry.insert(entry, Arc::clone(&endpoint), warnings);
        self.cache.forget(id);
        Ok(endpoint)
    }

    /// Refuses more alerts than there may be, with those of the other endpoints.
    async fn count_alerts(&self, id: Uuid, new: usize) -> Result<(), Failure> {
        if new == 0 {
            return Ok(());
        }
        let others = blocking(self.store(), move |store| AlertTable(store.catalog()).count_beside(id)).await?;
        let most = self.most_alerts;
        if others.saturating_add(new) > most {
            let message = format!(
                "there are {others} alerts of other endpoints, and there may be {most} in all ([alerts] most); delete some, or \
                 raise the setting"
            );
            return Err(refused(message).about("alerts"));
        }
        Ok(())
    }

    /// Removes an endpoint; its versions stay in the catalog. Returns whether there was one.
    ///
    /// # Errors
    /// [`Code::Refused`] while another endpoint reads it.
    pub async fn unregister(&self, id: Uuid) -> Result<bool, Failure> {
        let own = self.clone();
        to_its_end(async move {
            let registry = own.endpoints.registry();
            let _one = registry.registering.lock().await;
            let readers = registry.readers(id);
            if !readers.is_empty() {
                let message = format!("the endpoint is read by {}; change or delete those first", readers.join(", "));
                return Err(refused(message).about("id"));
            }
            let there = blocking(own.store(), move |store| EndpointTable(store.catalog()).delete(id)).await?;
            registry.remove(id);
            own.cache.forget(id);
            Ok(there)
        })
        .await
    }

    /// Refuses the change of an endpoint that was deleted or changed by somebody else meanwhile.
    fn unchanged_since(&self, id: Uuid, from: i64) -> Result<(), Failure> {
        match self.endpoints.registry().by_id(id).map(|entry| entry.version) {
            Some(version) if version == from => Ok(()),
            Some(version) => {
                let message =
                    format!("the endpoint was changed meanwhile, to version {version}; read it and try again");
                Err(Failure::new(Code::Conflict, message).about("version"))
            }
            None => Err(Failure::new(Code::NotFound, "the endpoint was deleted meanwhile").about("id")),
        }
    }

    /// The gate on the compute threads, because statements are planned there and plans may be deep.
    async fn admitted(&self, component: &[u8], request: &SaveRequest<'_>) -> Result<Admitted, Failure> {
        let (own, component) = (self.clone(), component.to_vec());
        let SaveRequest { id, ref known, same_query, make_sources, for_author, .. } = *request;
        let known = known.clone();
        let request = SaveRequest { id, known, same_query, make_sources, for_author, ..SaveRequest::default() };
        self.compute.run(async move { own.admit(&component, &request).await }).await
    }

    async fn admit(&self, component: &[u8], request: &SaveRequest<'_>) -> Result<Admitted, Failure> {
        let inspection = inspect(component)?;
        let mut manifest = inspection.manifest;
        manifest_findings(&manifest).allow_saving()?;
        let limits = self.gate.limits.lowered_by(&manifest.limits);
        if inspection.initial_memory > number(limits.guest_memory) {
            let message = format!(
                "the component starts with {} bytes of memory, and its limit component_memory is {}",
                inspection.initial_memory, limits.guest_memory
            );
            return Err(refused(message).about("limits"));
        }
        let saved = Arc::new(SavedQuery::parse_within(&manifest.query, &self.gate.limits.text)?);
        let written = request.for_author.then(|| manifest.clone());
        declare_used(&mut manifest, &saved);
        manifest_findings(&manifest).allow_saving()?;
        let (store, registry) = (self.store(), self.endpoints.registry());
        let tells_rows = self.gate.clock.is_real();
        let supposed = match request.make_sources {
            true => suppose_missing_sources(&self.gate, &manifest, &request.known),
            false => Supposed::default(),
        };
        let sources = StoredTables::while_saving(store, registry, request, manifest.name.as_str(), &saved, tells_rows);
        let sources = sources.supposing(&supposed);
        let mut warnings = self.gate.statement_findings(&manifest, &saved, &sources).into_warnings()?;
        warnings.extend(self.gate.check_alerts(&manifest, &saved, &sources, is_generated(component))?);
        let remarks = written.map(|written| self.gate.explain(written, !is_generated(component)).findings);
        let remarks = remarks.map(|findings| findings.warnings_beside(&warnings)).unwrap_or_default();
        let tables = sources.named();
        let version = Version { id: request.id, manifest: &manifest, saved: &saved, tables: &tables };
        let widened = self.access.of_save(version, !is_generated(component), &supposed).unwrap_or_else(|failure| {
            tracing::warn!(endpoint = %manifest.name, %failure, "what the version widens is not known");
            Widened::unknown()
        });
        let code = ComponentCode::of(component)?;
        self.endpoints.prepare(&code).await?;
        Ok(Admitted {
            manifest,
            saved,
            code: code.digest,
            digest: inspection.digest,
            tables,
            warnings,
            remarks,
            widened,
        })
    }
}

/// The alerts of a version, and the name of one that is deleted or made anew with it.
struct SavedAlerts {
    all: Vec<NewAlert>,
    forgotten: Option<String>,
}

/// What passed the gate.
struct Admitted {
    manifest: Manifest,
    saved: Arc<SavedQuery>,
    /// The digest of its code.
    code: [u8; 32],
    /// The digest of its component, manifest included.
    digest: [u8; 32],
    tables: BTreeMap<String, Uuid>,
    warnings: Vec<Failure>,
    /// What only its author is told.
    remarks: Vec<Failure>,
    widened: Widened,
}

impl Admitted {
    /// Whether the request takes it as it is.
    ///
    /// # Errors
    /// It has warnings or widens something, and the request refuses that.
    fn allow(&self, request: &SaveRequest<'_>) -> Result<(), Failure> {
        if request.refuse_wider {
            self.widened.refuse()?;
        }
        let warnings: Vec<Failure> = self.warnings.iter().chain(&self.remarks).cloned().collect();
        if !request.strict || warnings.is_empty() {
            return Ok(());
        }
        let mut failure =
            refused("the endpoint has warnings, and the request says strict; nothing is saved".to_owned())
                .about("strict");
        failure.others = warnings;
        Err(failure)
    }
}

/// An endpoint that was saved.
#[derive(Debug)]
pub struct Saved {
    /// The version.
    pub endpoint: Arc<Endpoint>,
    /// What tokens read more through it than before.
    pub widened: Widened,
    /// What its author may have meant otherwise; only for [`SaveRequest::for_author`].
    pub remarks: Vec<Failure>,
    /// The names of the sources that were made for it.
    pub made: Vec<String>,
}

/// The alerts of a manifest for the catalog. Each gets a secret, which counts if the catalog has none of it. `renamed` is
/// the former and the new name of one that has another name now.
fn new_alerts(manifest: &Manifest, renamed: Option<(&str, &str)>) -> Result<Vec<NewAlert>, Failure> {
    let new = manifest.alerts.iter().map(|alert| {
        let definition = serde_json::to_string(alert).map_err(|error| refused(error.to_string()))?;
        let former = renamed.filter(|(_, name)| *name == alert.name).map(|(former, _)| former.to_owned());
        let secret = generate_alert_secret();
        Ok(NewAlert { name: alert.name.clone(), definition, paused: alert.paused, secret, former })
    });
    new.collect()
}

/// The refusal of a name that another endpoint has.
pub fn taken(name: &str) -> Failure {
    refused(format!("there is an endpoint {name} already; names are unique")).about("name")
}
