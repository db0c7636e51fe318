//! A request for a new token: its validation, and its record in the catalog.

use std::collections::BTreeMap;

use tidegate_model::{Errors, Failure, LimitSet, MOST_PARAMETERS};
use tidegate_store::{Catalog, StoreError};
use uuid::Uuid;

use super::scopes::Scopes;
use super::secret::{generate_token, hash};
use crate::catalog::{EndpointTable, TokenRecord, TokenTable};
use crate::failures::of_store;

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewToken {
    /// The purpose of the token.
    pub description: String,
    /// The scopes, separated by spaces; see [`Scopes`].
    pub scopes: String,
    /// Parameter values that the token pins.
    pub pinned: BTreeMap<String, String>,
    /// The limits of a request with the token, where they are lower than the server's limits.
    pub limits: LimitSet,
    /// The HTTP status of failed queries. If it is absent, the setting of the endpoint or the server holds.
    pub errors: Option<Errors>,
    /// The expiry time, in microseconds since 1970, UTC.
    pub expires_at: Option<i64>,
}

impl NewToken {
    /// A token with scopes only.
    pub fn new(scopes: impl Into<String>) -> Self {
        let scopes = scopes.into();
        Self {
            description: String::new(),
            scopes,
            pinned: BTreeMap::new(),
            limits: LimitSet::new(),
            errors: None,
            expires_at: None,
        }
    }

    /// Checks the token against the current time (microseconds).
    ///
    /// # Errors
    /// [`tidegate_model::Code::Refused`], with every field that is invalid.
    pub fn validate(&self, now: i64) -> Result<(), Failure> {
        let refused = |field: &str, message: String| Failure::new(tidegate_model::Code::Refused, message).about(field);
        let mut failures = Vec::new();
        if let Err(message) = Scopes::parse(&self.scopes) {
            failures.push(refused("scopes", message));
        }
        if !self.pinned.is_empty() && Scopes::stored(&self.scopes).is_private() {
            let message = "a private token manages everything, so a parameter that it fixes would protect nothing; \
                           give it the scope query";
            failures.push(refused("pinned", message.to_owned()));
        }
        if !self.limits.is_empty() && !Scopes::stored(&self.scopes).is_of_queries() {
            let message = "limits bind queries, and the token may not query; give it the scope query, or no limits";
            failures.push(refused("limits", message.to_owned()));
        }
        if self.errors.is_some() && !Scopes::stored(&self.scopes).is_of_queries() {
            let message = "errors is of queries, and the token may not query; give it the scope query, or no errors";
            failures.push(refused("errors", message.to_owned()));
        }
        if self.pinned.len() > MOST_PARAMETERS {
            let message =
                format!("a token fixes at most {MOST_PARAMETERS} parameters; there are {}", self.pinned.len());
            failures.push(refused("pinned", message));
        }
        for (name, value) in self.pinned.iter().take(MOST_PARAMETERS) {
            let legal = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !legal {
                failures.push(refused("pinned", format!("'{name}' is no name of a parameter")));
            } else if matches!(name.as_str(), "sql" | "lql") {
                failures.push(refused("pinned", format!("{name} carries ad-hoc queries and cannot be fixed")));
            } else if value.is_empty() {
                // Many queries treat an empty text as "no filter", which is the opposite of what a pin is for.
                failures.push(refused("pinned", format!("the value of {name} is empty")));
            }
        }
        if self.expires_at.is_some_and(|expiry| expiry <= now) {
            failures.push(refused("expires_at", "expires_at is in the past".to_owned()));
        }
        Failure::of_all(failures).map_or(Ok(()), Err)
    }

    /// Whether it manages everything.
    pub(crate) fn is_private(&self) -> bool {
        Scopes::stored(&self.scopes).is_private()
    }

    /// Whether it may send events to at least one source.
    pub(crate) fn is_of_ingest(&self) -> bool {
        Scopes::stored(&self.scopes).is_of_ingest()
    }

    /// Warnings: endpoints that the scopes name and that do not exist. They may be created later.
    ///
    /// # Errors
    /// A failure of the catalog.
    pub fn warnings(&self, catalog: &Catalog) -> Result<Vec<String>, StoreError> {
        let scopes = Scopes::stored(&self.scopes);
        if scopes.endpoints().next().is_none() {
            return Ok(Vec::new());
        }
        let entries = EndpointTable(catalog).entries()?;
        let is_there = |named: &str| {
            let id = Uuid::try_parse(named).ok();
            entries.iter().any(|entry| entry.name == named || Some(entry.id) == id)
        };
        let unknown = scopes.endpoints().filter(|named| !is_there(named)).map(|named| {
            let near = tidegate_model::nearest(named, entries.iter().map(|entry| entry.name.as_str()));
            let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            format!("there is no endpoint {named} so far{near}")
        });
        Ok(unknown.collect())
    }

    /// Creates the token in a catalog, and returns the token and its record. The token itself is stored nowhere.
    ///
    /// # Errors
    /// The token is invalid; a failure of the catalog.
    pub fn make(&self, catalog: &Catalog) -> Result<(String, TokenRecord), Failure> {
        self.validate(chrono::Utc::now().timestamp_micros())?;
        let token = generate_token();
        let record = self.record(&token);
        TokenTable(catalog).put(&record).map_err(of_store)?;
        Ok((token, record))
    }

    /// The record of the token for the catalog. It contains the hash of `token`, never `token` itself.
    pub fn record(&self, token: &str) -> TokenRecord {
        TokenRecord {
            id: Uuid::new_v4(),
            hash: hash(token).to_vec(),
            description: self.description.clone(),
            scopes: self.scopes.split_whitespace().collect::<Vec<_>>().join(" "),
            pinned: serde_json::json!(self.pinned).to_string(),
            limits: serde_json::json!(self.limits).to_string(),
            errors: self.errors.map(|errors| errors.name().to_owned()),
            created_at: chrono::Utc::now().timestamp_micros(),
            expires_at: self.expires_at,
            revoked_at: None,
            last_used: None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn what_protects_nothing_is_refused() {
        let pinned = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let mut rows = LimitSet::new();
        rows.set("rows", "5").unwrap();
        for (token, field) in [
            (NewToken::new(""), "scopes"),
            (NewToken::new("query admin"), "scopes"),
            (NewToken { pinned: pinned("project", "a"), ..NewToken::new("private") }, "pinned"),
            (NewToken { pinned: pinned("project", ""), ..NewToken::new("query") }, "pinned"),
            (NewToken { pinned: pinned("sql", "a"), ..NewToken::new("query") }, "pinned"),
            (NewToken { pinned: pinned("a b", "a"), ..NewToken::new("query") }, "pinned"),
            (NewToken { expires_at: Some(5), ..NewToken::new("query") }, "expires_at"),
            (NewToken { limits: rows.clone(), ..NewToken::new("ingest") }, "limits"),
            (NewToken { errors: Some(Errors::Ok), ..NewToken::new("ingest") }, "errors"),
        ] {
            assert_eq!(token.validate(5).unwrap_err().location.as_deref(), Some(field), "{token:?}");
        }
        let fine = NewToken { pinned: pinned("project", "a"), expires_at: Some(6), ..NewToken::new("query") };
        assert_eq!(fine.validate(5), Ok(()));
        for scopes in ["ingest", "ingest:source:app.logs", "ingest query"] {
            assert_eq!(
                NewToken { pinned: pinned("project", "a"), ..NewToken::new(scopes) }.validate(5),
                Ok(()),
                "{scopes}"
            );
        }
        for scopes in ["query", "query:endpoint:logs.all ingest", "private"] {
            assert_eq!(NewToken { limits: rows.clone(), ..NewToken::new(scopes) }.validate(5), Ok(()), "{scopes}");
        }
    }
}
