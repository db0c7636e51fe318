//! What the holder of an access token may do.

use std::collections::BTreeMap;

use tidegate_model::{Errors, LimitSet};
use tidegate_store::TokenRecord;
use uuid::Uuid;

use super::scopes::Scopes;
use crate::tenant::Identity;

/// What the holder of a token may do.
#[derive(Debug, Default)]
pub struct Access {
    /// The id of the token in the catalog; none for those of the environment.
    pub id: Option<Uuid>,
    /// Who holds it, for the author of endpoint versions: the token's description, or its id.
    pub who: String,
    /// The token's SHA-256.
    pub identity: Identity,
    pub(super) scopes: Scopes,
    /// Parameter values that the token fixes; its holder cannot choose others.
    pub pinned: BTreeMap<String, String>,
    /// What a request of the holder may use, where that is less than the server's limits.
    pub limits: LimitSet,
    /// With which status errors of its queries are answered, if it says so.
    pub errors: Option<Errors>,
    pub(super) expires_at: Option<i64>,
}

impl Access {
    pub(super) fn of(record: &TokenRecord) -> Self {
        let id = Some(record.id);
        // What cannot be read pins and limits nothing, and must therefore allow nothing.
        let (Ok(pinned), Ok(limits)) = (serde_json::from_str(&record.pinned), serde_json::from_str(&record.limits))
        else {
            tracing::error!(token = %record.id, "what the access token fixes or may use cannot be read; it allows nothing");
            return Self { id, ..Self::default() };
        };
        let who = if record.description.is_empty() { record.id.to_string() } else { record.description.clone() };
        let scopes = Scopes::stored(&record.scopes);
        let errors = record.errors.as_deref().and_then(Errors::named);
        Self { id, who, scopes, pinned, limits, errors, expires_at: record.expires_at, ..Self::default() }
    }

    /// Access to everything, for code that has the service to itself: the workbench, tests.
    pub fn to_all(who: &str) -> Self {
        Self { who: who.to_owned(), scopes: Scopes::stored("private"), ..Self::default() }
    }

    /// Everything, management included.
    pub fn is_private(&self) -> bool {
        self.scopes.is_private()
    }

    /// Whether an endpoint may be called; its scope names it by name or identity.
    pub fn may_query(&self, endpoint: &str, id: Option<Uuid>) -> bool {
        self.scopes.may_query(endpoint, id)
    }

    /// Whether a source may be sent events; its scope names it by name or identity.
    pub fn may_ingest(&self, source: &str, id: Option<Uuid>) -> bool {
        self.scopes.may_ingest(source, id)
    }
}
