//! What a call needs of an endpoint, made ready when it is first wanted.

use std::sync::Arc;

use tidegate_compiler::{inspect, is_generated_code};
use tidegate_model::{Code, Failure};
use tidegate_runtime::Endpoint as Prepared;

use crate::admit::{code, refused};
use crate::app::App;
use crate::registry::{Endpoint, Entry};

impl App {
    /// The endpoint behind an entry.
    ///
    /// # Errors
    /// It cannot be used any more, or cannot be read now.
    pub(crate) async fn endpoint(self: &Arc<Self>, entry: Arc<Entry>) -> Result<Arc<Endpoint>, Failure> {
        if let Some(found) = self.registry.found(entry.id)
            && let Some(failure) = &found.broken
            && found.version == entry.version
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
            None => self.waiting(move |app| app.registry.load(&app.store, &entry)).await,
        }
    }

    /// The endpoints that one reads as tables, as they are now.
    ///
    /// # Errors
    /// As [`App::endpoint`].
    pub(crate) async fn reads(self: &Arc<Self>, endpoint: &Endpoint) -> Result<Vec<Arc<Endpoint>>, Failure> {
        let entries = self.registry.reads(&endpoint.tables);
        let loaded: Option<Vec<_>> = entries.iter().map(|entry| self.registry.loaded(entry)).collect();
        match loaded {
            Some(loaded) => Ok(loaded),
            None => {
                let load = move |app: &Self| entries.iter().map(|entry| app.registry.load(&app.store, entry)).collect();
                self.waiting(load).await
            }
        }
    }

    /// The component of an endpoint, ready to run.
    ///
    /// # Errors
    /// It is not fit to run any more, or cannot be read.
    pub(crate) async fn prepared(self: &Arc<Self>, endpoint: &Arc<Endpoint>) -> Result<Arc<Prepared>, Failure> {
        let ready = || endpoint.code.get().and_then(|digest| self.runtime.ready(digest));
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        // A component may have many megabytes: it is read once, however many ask for it.
        let _alone = endpoint.preparing.lock().await;
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        let own = Arc::clone(endpoint);
        let (digest, code) = self.waiting(move |app| app.code(&own)).await?;
        Ok(if is_generated_code(&digest) {
            self.runtime.prepare_own(&code, digest).await
        } else {
            self.runtime.prepare_again(&code, digest).await
        }?)
    }

    /// The same in the gate, for code that nobody has seen yet. That of saved queries is our own,
    /// whatever the queries are, and is compiled here; that of authors is compiled in a process apart,
    /// and tried.
    ///
    /// # Errors
    /// It is not fit to run.
    pub(crate) async fn prepare(&self, code: &[u8], digest: [u8; 32]) -> Result<(), Failure> {
        if is_generated_code(&digest) {
            self.runtime.prepare_own(code, digest).await?;
        } else {
            self.runtime.prepare(code, digest).await?;
        }
        Ok(())
    }

    /// The code of an endpoint's component, with its digest. It passed the gate when it was saved,
    /// and passes the part of it that reads it again: the rules may be others by now.
    ///
    /// # Errors
    /// As [`App::prepared`].
    fn code(&self, endpoint: &Endpoint) -> Result<([u8; 32], Vec<u8>), Failure> {
        let component = self.stored_component(&endpoint.component)?;
        inspect(&component).map_err(|error| refused(error.to_string()))?;
        let (digest, code) = code(&component)?;
        let _ = endpoint.code.set(digest);
        Ok((digest, code))
    }

    /// Does work that waits for the catalog, away from those who serve connections.
    async fn waiting<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let app = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&app)).await.unwrap_or_else(|error| {
            tracing::error!(%error, "an endpoint could not be read");
            Err(Failure::new(Code::Internal, "the request failed; the server's log has the details"))
        })
    }
}
