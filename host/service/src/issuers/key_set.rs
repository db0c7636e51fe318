//! The keys that an issuer has at a time: a JSON Web Key Set.

use serde_json::{Map, Value};

use super::key::Key;
use super::refusal::Refusal;
use super::strict_json::object;
use crate::signature_algorithm::Algorithm;

/// The longest key set in bytes.
pub(super) const MOST_BYTES: usize = 256 << 10;
/// The most keys of a set.
const MOST_KEYS: usize = 64;

/// The keys of an issuer.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

/// Why a text is no key set that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoKeySet {
    #[error("it is no JSON object with a list \"keys\", or has a key of an object twice")]
    Malformed,
    #[error("it has more than 64 keys")]
    TooMany,
    #[error("none of its keys can be used")]
    Empty,
}

impl KeySet {
    /// The keys of a set that are for one of the algorithms. Others are left out, and noted in the log of `issuer`.
    ///
    /// # Errors
    /// The text is no key set, has more than 64 keys, or none that can be used.
    pub(super) fn read(text: &[u8], allowed: &[Algorithm], issuer: &str) -> Result<Self, NoKeySet> {
        let set = object(text).map_err(|_| NoKeySet::Malformed)?;
        let entries = set.get("keys").and_then(Value::as_array).ok_or(NoKeySet::Malformed)?;
        if entries.len() > MOST_KEYS {
            return Err(NoKeySet::TooMany);
        }
        let mut keys = Vec::new();
        for entry in entries {
            let entry: &Map<String, Value> = entry.as_object().ok_or(NoKeySet::Malformed)?;
            match Key::read(entry, allowed) {
                Ok(key) => keys.push(key),
                Err(reason) => {
                    let kid = entry.get("kid").and_then(Value::as_str).unwrap_or_default();
                    tracing::debug!(issuer, kid, %reason, "a key of the issuer is left out");
                }
            }
        }
        if keys.is_empty() { Err(NoKeySet::Empty) } else { Ok(Self(keys)) }
    }

    /// The only key that a token can mean by this name and algorithm.
    ///
    /// # Errors
    /// None fits, or several do. A token without the name of a key has one only where there is no choice.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<&Key, Refusal> {
        let is_meant =
            |key: &&Key| key.algorithms.contains(&algorithm) && kid.is_none_or(|kid| key.kid.as_deref() == Some(kid));
        let mut fitting = self.0.iter().filter(is_meant);
        match (fitting.next(), fitting.next()) {
            (None, _) => Err(Refusal::UnknownKey),
            (Some(key), None) => Ok(key),
            (Some(_), Some(_)) => Err(Refusal::AmbiguousKey),
        }
    }
}
