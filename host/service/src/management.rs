//! What those who manage a service read and change of its endpoints and tokens. Where these lie is nobody's business above.
//! Failures are those of the store, beside what a function names.

use std::sync::Arc;

use tidegate_model::{Code, Failure};
use tidegate_store::Store;
use uuid::Uuid;

use crate::blocking::blocking;
use crate::catalog::{DenialTable, DeniedRecord, EndpointRecord, EndpointTable, TokenRecord, TokenTable};
use crate::service::Service;
use crate::tokens::{MOST_DENIED, NewDenial, NewToken};

impl Service {
    /// The newest versions of all endpoints.
    pub async fn endpoint_records(&self) -> Result<Vec<EndpointRecord>, Failure> {
        blocking(&self.store, |store| EndpointTable(store.catalog()).all()).await
    }

    /// The newest version of an endpoint.
    pub async fn endpoint_record(&self, id: Uuid) -> Result<Option<EndpointRecord>, Failure> {
        blocking(&self.store, move |store| EndpointTable(store.catalog()).by_id(id)).await
    }

    /// All versions of an endpoint, the newest first.
    pub async fn endpoint_versions(&self, id: Uuid) -> Result<Vec<EndpointRecord>, Failure> {
        blocking(&self.store, move |store| EndpointTable(store.catalog()).versions(id)).await
    }

    /// One version of an endpoint.
    pub async fn endpoint_version(&self, id: Uuid, version: i64) -> Result<Option<EndpointRecord>, Failure> {
        blocking(&self.store, move |store| EndpointTable(store.catalog()).version(id, version)).await
    }

    /// The bytes of the component that an endpoint has, by their digest in hexadecimal.
    ///
    /// # Errors
    /// [`Code::Internal`] if it is not there.
    pub async fn component(&self, digest: String) -> Result<Vec<u8>, Failure> {
        let component = blocking(&self.store, move |store| EndpointTable(store.catalog()).component(&digest)).await?;
        component.ok_or_else(|| Failure::new(Code::Internal, "the component of the endpoint is missing"))
    }

    /// All access tokens, oldest first, with their last uses as this process knows them.
    pub async fn token_records(&self) -> Result<Vec<TokenRecord>, Failure> {
        let tokens = Arc::clone(&self.tokens);
        blocking(&self.store, move |store| tokens.records(store.catalog())).await
    }

    /// Stores a new access token, which is in effect then. Returns the warnings of [`NewToken::warnings`].
    pub async fn store_token(&self, new: NewToken, record: TokenRecord) -> Result<Vec<String>, Failure> {
        let tokens = Arc::clone(&self.tokens);
        let put = move |store: &Store| {
            // The warnings are made first: if that failed after the token was stored, the token would never be shown.
            let warnings = new.warnings(store.catalog())?;
            tokens.change(store.catalog(), |catalog| TokenTable(catalog).put(&record))?;
            Ok(warnings)
        };
        blocking(&self.store, put).await
    }

    /// Revokes an access token, at once and for good.
    pub async fn revoke_token(&self, id: Uuid) -> Result<(), Failure> {
        let tokens = Arc::clone(&self.tokens);
        let revoke = move |store: &Store| tokens.change(store.catalog(), |catalog| TokenTable(catalog).revoke(id));
        blocking(&self.store, revoke).await.map(drop)
    }

    /// The tokens of issuers that are denied now, oldest first.
    pub async fn denied_tokens(&self) -> Result<Vec<DeniedRecord>, Failure> {
        let now = self.clock.now();
        blocking(&self.store, move |store| DenialTable(store.catalog()).at(now)).await
    }

    /// Denies tokens of an issuer. It is in effect when this returns: the entry as it is stored, or none if there are
    /// [`MOST_DENIED`].
    pub async fn deny_tokens(&self, new: &NewDenial) -> Result<Option<DeniedRecord>, Failure> {
        let (tokens, record) = (Arc::clone(&self.tokens), new.record(self.clock.now()));
        let put = move |store: &Store| {
            tokens.change(store.catalog(), |catalog| DenialTable(catalog).deny(&record, MOST_DENIED))
        };
        blocking(&self.store, put).await
    }

    /// Takes an entry off the deny list. Returns false if there is none.
    pub async fn allow_tokens(&self, id: Uuid) -> Result<bool, Failure> {
        let tokens = Arc::clone(&self.tokens);
        let delete = move |store: &Store| tokens.change(store.catalog(), |catalog| DenialTable(catalog).allow(id));
        blocking(&self.store, delete).await
    }

    /// Whether the catalog of endpoints and tokens can be read. Blocks the thread.
    pub fn can_read_catalog(&self) -> bool {
        let read = self.store.catalog().meta("seeded");
        read.inspect_err(|error| tracing::error!(%error, "the catalog cannot be read")).is_ok()
    }
}
