//! What comes in: the source that a sender means, and its events on their way there.

use tidegate_model::{Audience, Code, Failure};
use tidegate_store::{Ingested, Intake, RequestKey, StoreError};

use crate::failures::{of_store, unknown_source};
use crate::service::Service;
use crate::tokens::Access;

impl Service {
    /// The name of the source that a sender means by its name or UUID.
    ///
    /// # Errors
    /// [`Code::NotFound`] for a token that may see all sources. For other tokens, a source that does
    /// not exist and one that they may not send to are not distinguished: [`Code::Unauthorized`]. [`Code::Forbidden`] if the token
    /// sends logs of one tenant only, and the source cannot hold them.
    pub fn source_for(&self, access: &Access, asked: &str) -> Result<String, Failure> {
        let source = self.store.source(asked);
        if access.is_private() {
            return source.map(|source| source.name).ok_or_else(|| {
                let names: Vec<String> = self.store.sources().into_iter().map(|source| source.name).collect();
                unknown_source(asked, &names)
            });
        }
        let allowed = source.filter(|source| access.may_ingest(&source.name, Some(source.id)));
        let source = allowed.map(|source| source.name).ok_or_else(|| {
            let message = "there is no source of this name that the access token may send events to; it needs the scope ingest, or ingest:source:NAME";
            Failure::new(Code::Unauthorized, message).about(asked)
        })?;
        // What is sent is held to it in the store. Here it is told before anything is read.
        self.store.sender_policy(&source, &access.audience()).map_err(of_store)?;
        Ok(source)
    }

    /// An empty intake for events of this audience, which come now, are about so many bytes, and go to this source as far as is
    /// known.
    pub fn intake(&self, source: Option<&str>, bytes: usize, audience: Audience) -> Intake {
        match source {
            Some(source) => self.store.intake_of(source, self.clock.now(), bytes, audience),
            None => self.store.intake(self.clock.now(), audience),
        }
    }

    /// Stores the events of an intake durably; those of a key only once.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn ingest_once(
        &self,
        source: &str,
        intake: Intake,
        key: Option<RequestKey>,
    ) -> Result<Ingested, StoreError> {
        self.store.ingest_once(source, intake, key).await
    }
}
