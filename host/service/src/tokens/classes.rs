//! Tokens that may do the same, as one class. There may be ten thousand tokens of tenants, which differ in the values
//! that they pin and in nothing else: what they may read is told once for all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use uuid::Uuid;

use super::{Access, Tokens};
use crate::catalog::TokenRecord;

/// What tokens of a class have in common: their scopes, the names that they pin, and their limits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassKey {
    /// The scopes, sorted, separated by spaces.
    pub scopes: String,
    /// The names that are pinned, sorted.
    pub pinned: Vec<String>,
    /// The limits, as JSON.
    pub limits: String,
}

/// Tokens that may do the same.
#[derive(Debug, Clone)]
pub struct AccessClass {
    /// What they have in common.
    pub key: ClassKey,
    /// One of them, whose values stand for those of all.
    pub access: Arc<Access>,
    /// How many there are.
    pub tokens: usize,
}

impl Access {
    /// The access rights of a record of the catalog, whether the token counts still or not.
    pub fn of_record(record: &TokenRecord) -> Self {
        Self::of(record)
    }

    /// The class of the token.
    pub fn class(&self) -> ClassKey {
        let scopes = self.scopes();
        let mut scopes: Vec<&str> = scopes.split_whitespace().collect();
        scopes.sort_unstable();
        scopes.dedup();
        ClassKey {
            scopes: scopes.join(" "),
            pinned: self.pinned.keys().cloned().collect(),
            limits: serde_json::json!(self.limits).to_string(),
        }
    }

    /// Whether the token may send events to every source, those included that are made later.
    pub fn may_ingest_all(&self) -> bool {
        self.may_ingest("", None)
    }

    /// When the token was last used, in microseconds since 1970.
    pub fn last_used(&self) -> Option<i64> {
        self.uses.last()
    }
}

impl Tokens {
    /// The classes of the tokens that count at `now` (microseconds), sorted.
    pub fn classes(&self, now: i64) -> Vec<AccessClass> {
        let mut classes: BTreeMap<ClassKey, AccessClass> = BTreeMap::new();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for access in known.values().filter(|access| access.expires_at.is_none_or(|expiry| now < expiry)) {
            let key = access.class();
            let class = classes.entry(key).or_insert_with_key(|key| AccessClass {
                key: key.clone(),
                access: Arc::clone(access),
                tokens: 0,
            });
            class.tokens += 1;
            // Which token stands for the class does not depend on the order of a map.
            if access.pinned < class.access.pinned {
                class.access = Arc::clone(access);
            }
        }
        classes.into_values().collect()
    }

    /// The access rights of a token by its id, unless it is revoked.
    pub fn by_id(&self, id: Uuid) -> Option<Arc<Access>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().find(|access| access.id == Some(id)).cloned()
    }
}
