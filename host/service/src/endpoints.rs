//! Endpoints by name, with what a call needs of them: loaded from the catalog and prepared when they are first called.

use std::sync::Arc;

use tidegate_compiler::is_generated_code;
use tidegate_model::{Code, Failure};
use tidegate_runtime::{Endpoint as Prepared, PoolUse, Runtime};
use tidegate_store::Store;

use crate::catalog::{EndpointEntry, EndpointTable};
use crate::failures::of_store;
use crate::inspection::{ComponentCode, inspect};
use crate::registry::{Endpoint, Registry};
use crate::tokens::Access;

/// The most endpoints that an error message lists.
const MOST_NAMES: usize = 50;

/// The endpoints of a service; clones share them.
#[derive(Debug, Clone)]
pub struct Endpoints {
    store: Arc<Store>,
    registry: Arc<Registry>,
    runtime: Arc<Runtime>,
}

impl Endpoints {
    pub(crate) fn new(store: &Arc<Store>, registry: &Arc<Registry>, runtime: &Arc<Runtime>) -> Self {
        Self { store: Arc::clone(store), registry: Arc::clone(registry), runtime: Arc::clone(runtime) }
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// What the runtime's pool of instances holds now.
    pub fn pool_use(&self) -> PoolUse {
        self.runtime.pool_use()
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The endpoint of a name or id, if the token may call it. Whether it exists is told only to tokens that may know.
    ///
    /// # Errors
    /// [`Code::Forbidden`]; [`Code::NotFound`]; an endpoint that cannot be used any more, or not be read now.
    pub async fn find(&self, access: &Access, id_or_name: &str) -> Result<Arc<Endpoint>, Failure> {
        let entry = self.registry.find(id_or_name);
        let (name, id) = match &entry {
            Some(entry) => (entry.name.as_str(), Some(entry.id)),
            None => (id_or_name, None),
        };
        if !access.may_query(name, id) {
            let message = "the access token may not query this endpoint; it needs the scope query, query:endpoint:NAME or private";
            return Err(Failure::new(Code::Forbidden, message));
        }
        match entry {
            Some(entry) => self.endpoint(entry).await,
            None => Err(self.unknown(access, id_or_name)),
        }
    }

    fn unknown(&self, access: &Access, id_or_name: &str) -> Failure {
        let entries = self.registry.all();
        let names = entries.iter().map(|entry| entry.name.as_str()).filter(|name| access.may_query(name, None));
        let names: Vec<&str> = names.collect();
        let mut message = format!("there is no endpoint {id_or_name}");
        match tidegate_model::nearest(id_or_name, names.iter().copied()) {
            Some(near) => message.push_str(&format!("; did you mean {near}?")),
            None if access.is_private() && names.len() <= MOST_NAMES => {
                message.push_str(&format!("; there are {}", names.join(", ")));
            }
            None => {}
        }
        Failure::new(Code::NotFound, message).about(id_or_name)
    }

    /// The endpoint of an entry.
    ///
    /// # Errors
    /// It cannot be used any more, or cannot be read now.
    async fn endpoint(&self, entry: Arc<EndpointEntry>) -> Result<Arc<Endpoint>, Failure> {
        if let Some(result) = self.registry.check_result(entry.id)
            && let Some(failure) = &result.broken
            && result.version == entry.version
        {
            tracing::warn!(endpoint = entry.name, %failure, "an endpoint that cannot be used was called");
            let message = format!(
                "the endpoint {} cannot be used any more; its owner sees the reason in the list of endpoints",
                entry.name
            );
            return Err(Failure::new(Code::Internal, message));
        }
        match self.registry.loaded(&entry) {
            Some(endpoint) => Ok(endpoint),
            None => self.waiting(move |own| own.registry.load(&own.store, &entry)).await,
        }
    }

    /// The endpoints that one reads as tables, as they are now.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub async fn reads(&self, endpoint: &Endpoint) -> Result<Vec<Arc<Endpoint>>, Failure> {
        let entries = self.registry.reads(&endpoint.tables);
        let loaded: Option<Vec<_>> = entries.iter().map(|entry| self.registry.loaded(entry)).collect();
        match loaded {
            Some(loaded) => Ok(loaded),
            None => {
                let load = move |own: &Self| entries.iter().map(|entry| own.registry.load(&own.store, entry)).collect();
                self.waiting(load).await
            }
        }
    }

    /// The component of a version in the catalog, by its digest in hex. Blocks.
    ///
    /// # Errors
    /// The catalog's; that it has no such component.
    pub fn stored_component(&self, digest: &str) -> Result<Vec<u8>, Failure> {
        let component = EndpointTable(self.store.catalog()).component(digest).map_err(of_store)?;
        component.ok_or_else(|| Failure::new(Code::Internal, "the component of the endpoint is missing"))
    }

    /// The component of an endpoint, ready to run.
    ///
    /// # Errors
    /// It is not fit to run any more, or cannot be read.
    pub(crate) async fn prepared(&self, endpoint: &Arc<Endpoint>) -> Result<Arc<Prepared>, Failure> {
        let ready = || endpoint.code.get().and_then(|digest| self.runtime.ready(digest));
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        // A component may have many megabytes: it is read once, however many ask for it.
        let _alone = endpoint.preparing.lock().await;
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        let endpoint = Arc::clone(endpoint);
        let ComponentCode { bytes, digest } = self.waiting(move |own| own.code(&endpoint)).await?;
        Ok(if is_generated_code(&digest) {
            self.runtime.prepare_own(&bytes, digest).await
        } else {
            self.runtime.prepare_again(&bytes, digest).await
        }?)
    }

    /// Prepares code that is registered. The code of saved queries is generated by Tidegate, whatever the queries are, and
    /// is compiled in this process. The code of authors is compiled in a separate process, and instantiated once.
    ///
    /// # Errors
    /// It is not fit to run.
    pub(crate) async fn prepare(&self, code: &ComponentCode) -> Result<(), Failure> {
        let ComponentCode { bytes, digest } = code;
        if is_generated_code(digest) {
            self.runtime.prepare_own(bytes, *digest).await?;
        } else {
            self.runtime.prepare(bytes, *digest).await?;
        }
        Ok(())
    }

    /// The code of an endpoint's component with its digest. The component is inspected again, as when it was saved: this
    /// program may have other rules by now.
    ///
    /// # Errors
    /// As [`Endpoints::prepared`].
    fn code(&self, endpoint: &Endpoint) -> Result<ComponentCode, Failure> {
        let component = self.stored_component(&endpoint.component)?;
        inspect(&component)?;
        let code = ComponentCode::of(&component)?;
        let _ = endpoint.code.set(code.digest);
        Ok(code)
    }

    /// Runs work that waits for the catalog, away from the threads that serve connections.
    async fn waiting<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let own = self.clone();
        tokio::task::spawn_blocking(move || work(&own)).await.unwrap_or_else(|error| {
            tracing::error!(%error, "an endpoint could not be read");
            Err(Failure::new(Code::Internal, "the request failed; the server's log has the details"))
        })
    }
}
