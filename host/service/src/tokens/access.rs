//! The access rights of a token.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Audience, Errors, LimitSet};
use uuid::Uuid;

use super::last_use::LastUse;
use super::scopes::Scopes;
use crate::account::Identity;
use crate::catalog::TokenRecord;

/// The access rights of a token.
#[derive(Debug, Default)]
pub struct Access {
    /// The id of the token in the catalog; `None` for tokens of the environment.
    pub id: Option<Uuid>,
    /// The name that is recorded as the author of endpoint versions: the token's description, or its id.
    pub who: String,
    /// The SHA-256 of the token; of a token of an issuer that of the issuer and the subject.
    pub identity: Identity,
    pub(super) scopes: Scopes,
    /// Parameter values that the token pins. A caller with this token cannot choose others; of tenant keys it reads and
    /// sends no others.
    pub pinned: BTreeMap<String, String>,
    /// The limits of a request with this token, where they are lower than the server's limits.
    pub limits: LimitSet,
    /// The HTTP status of failed queries, if the token sets it.
    pub errors: Option<Errors>,
    pub(super) expires_at: Option<i64>,
    /// When the token was last used.
    pub(super) uses: Arc<LastUse>,
    /// What only a token of an issuer has.
    pub(super) issued: Option<Issued>,
}

/// What only a token of an issuer has.
#[derive(Debug)]
pub(super) struct Issued {
    /// The issuer and the pinned values.
    pub(super) group: Identity,
    /// The issuer and the token's `jti`, if it has one.
    pub(super) token: Option<Identity>,
    /// The issuer's name, and what stands for the subject in log lines.
    pub(super) label: String,
    /// Whether personal data is masked in every answer.
    pub(super) redact: bool,
}

impl Access {
    pub(super) fn of(record: &TokenRecord) -> Self {
        let id = Some(record.id);
        // If pins or limits could not be read, the token would have none. So it must not allow anything.
        let (Ok(pinned), Ok(limits)) = (serde_json::from_str(&record.pinned), serde_json::from_str(&record.limits))
        else {
            tracing::error!(token = %record.id, "what the access token fixes or may use cannot be read; it allows nothing");
            return Self { id, ..Self::default() };
        };
        let who = if record.description.is_empty() { record.id.to_string() } else { record.description.clone() };
        let scopes = Scopes::stored(&record.scopes);
        let errors = record.errors.as_deref().and_then(Errors::named);
        let uses = Arc::new(LastUse::of(record.last_used));
        Self { id, who, scopes, pinned, limits, errors, expires_at: record.expires_at, uses, ..Self::default() }
    }

    /// Whether a request means the same with both.
    pub(super) fn allows_as(&self, other: &Self) -> bool {
        self.scopes.to_string() == other.scopes.to_string()
            && self.pinned == other.pinned
            && self.limits == other.limits
    }

    /// Access to everything, for code inside the service: the workbench and tests.
    pub fn to_all(who: &str) -> Self {
        Self { who: who.to_owned(), scopes: Scopes::stored("private"), ..Self::default() }
    }

    /// Access to queries of one endpoint and to nothing else, for work that nobody asked for with a token. Rows are read for
    /// the tenant that `pinned` says.
    pub(crate) fn to_endpoint(id: Uuid, who: &str, pinned: BTreeMap<String, String>) -> Self {
        let scopes = Scopes::stored(&format!("query:endpoint:{id}"));
        Self { who: who.to_owned(), scopes, pinned, ..Self::default() }
    }

    /// Access of a tenant to queries of one endpoint, in the shares and with the limits of this token: to see what the tenant
    /// would be answered.
    pub fn as_tenant(&self, endpoint: Uuid, pinned: BTreeMap<String, String>) -> Self {
        let limits = self.limits.clone();
        Self { identity: self.identity, limits, ..Self::to_endpoint(endpoint, &self.who, pinned) }
    }

    /// For whom rows are read, and logs are sent, with this token.
    pub fn audience(&self) -> Audience {
        Audience::of_pins(self.pinned.clone())
    }

    /// The scopes of the token, separated by spaces.
    pub fn scopes(&self) -> String {
        self.scopes.to_string()
    }

    /// When the token expires, in microseconds since 1970. None if it does not.
    pub fn expires_at(&self) -> Option<i64> {
        self.expires_at
    }

    /// Whether the token allows everything, including management.
    pub fn is_private(&self) -> bool {
        self.scopes.is_private()
    }

    /// Whether the token may query an endpoint. Its scope names the endpoint by name or id.
    pub fn may_query(&self, endpoint: &str, id: Option<Uuid>) -> bool {
        self.scopes.may_query(endpoint, id)
    }

    /// Whether the token may send events to a source. Its scope names the source by name or id.
    pub fn may_ingest(&self, source: &str, id: Option<Uuid>) -> bool {
        self.scopes.may_ingest(source, id)
    }
}
