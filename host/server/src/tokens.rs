//! Access tokens: what they are made of, what they may do, how they are found.
//!
//! A token is random, so it is looked up by its SHA-256 and nothing else is kept of it. The
//! lookup is a map in memory, filled from the catalog at start.

use std::collections::{BTreeMap, HashMap};
use std::sync::{PoisonError, RwLock};

use rand::TryRng;
use sha2::{Digest, Sha256};
use tidegate_store::{Catalog, StoreError, TokenRecord};
use uuid::Uuid;

use crate::app::{Options, StartError};

/// The shortest token that is taken from the environment, in characters.
const MIN_LENGTH: usize = 16;

/// The tokens made on the first start of a data folder; shown once.
#[derive(Debug, Clone)]
pub struct NewTokens {
    /// May do everything.
    pub private: String,
    /// May send events.
    pub public: String,
}

/// What the holder of a token may do.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Access {
    scopes: Vec<String>,
    /// Parameter values that the holder cannot choose.
    pub(crate) pinned: BTreeMap<String, String>,
    expires_at: Option<i64>,
}

impl Access {
    fn new(scopes: &str) -> Self {
        Self { scopes: scopes.split_whitespace().map(str::to_owned).collect(), ..Self::default() }
    }

    fn of(record: &TokenRecord) -> Self {
        // What cannot be read pins nothing and must therefore allow nothing.
        let Ok(pinned) = serde_json::from_str(&record.pinned) else { return Self::default() };
        Self { pinned, expires_at: record.expires_at, ..Self::new(&record.scopes) }
    }

    fn has(&self, scope: &str) -> bool {
        self.scopes.iter().any(|own| own == scope)
    }

    /// Everything, management included.
    pub(crate) fn is_private(&self) -> bool {
        self.has("private")
    }

    pub(crate) fn may_query(&self, endpoint: &str) -> bool {
        self.is_private() || self.has("query") || self.has(&format!("query:endpoint:{endpoint}"))
    }

    pub(crate) fn may_ingest(&self, source: &str) -> bool {
        self.is_private() || self.has("ingest") || self.has("public") || self.has(&format!("ingest:source:{source}"))
    }
}

/// All tokens of a service.
#[derive(Debug)]
pub(crate) struct Tokens {
    known: RwLock<HashMap<[u8; 32], Access>>,
}

impl Tokens {
    pub(crate) fn open(catalog: &Catalog, options: &Options) -> Result<Self, StartError> {
        let mut known = HashMap::new();
        for record in catalog.tokens()? {
            if record.revoked_at.is_none()
                && let Ok(hash) = <[u8; 32]>::try_from(record.hash.as_slice())
            {
                known.insert(hash, Access::of(&record));
            }
        }
        for (token, scopes, what) in
            [(&options.public_token, "ingest", "public"), (&options.private_token, "private", "private")]
        {
            if let Some(token) = token {
                if token.chars().count() < MIN_LENGTH {
                    return Err(StartError::WeakToken(what));
                }
                known.insert(hash(token), Access::new(scopes));
            }
        }
        Ok(Self { known: RwLock::new(known) })
    }

    /// Makes the first two tokens, if there are none at all.
    pub(crate) fn make_first(&self, catalog: &Catalog) -> Result<Option<NewTokens>, StoreError> {
        if !self.known.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(None);
        }
        let tokens = NewTokens { private: generate_token(), public: generate_token() };
        for (token, scopes, description) in [
            (&tokens.private, "private", "made on the first start"),
            (&tokens.public, "ingest", "made on the first start"),
        ] {
            let record = TokenRecord {
                id: Uuid::new_v4(),
                hash: hash(token).to_vec(),
                description: description.to_owned(),
                scopes: scopes.to_owned(),
                pinned: "{}".to_owned(),
                created_at: chrono::Utc::now().timestamp_micros(),
                expires_at: None,
                revoked_at: None,
            };
            catalog.put_token(&record)?;
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(hash(token), Access::of(&record));
        }
        Ok(Some(tokens))
    }

    /// What a token may do; nothing if it is unknown or expired at `now` (microseconds).
    pub(crate) fn access(&self, token: &str, now: i64) -> Option<Access> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let access = known.get(&hash(token))?;
        access.expires_at.is_none_or(|expiry| now < expiry).then(|| access.clone())
    }
}

pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The operating system's generator does not fail on the systems that are supported; if it
    // ever did, a UUID from the same source is all that could be asked.
    if rand::rngs::SysRng.try_fill_bytes(&mut bytes).is_err() {
        for chunk in bytes.chunks_mut(16) {
            let random = Uuid::new_v4();
            for (to, from) in chunk.iter_mut().zip(random.as_bytes()) {
                *to = *from;
            }
        }
    }
    bytes
}

/// Bytes as lower-case hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new token: `tg_` and 192 random bits.
pub fn generate_token() -> String {
    format!("tg_{}", hex(&random::<24>()))
}

/// The secret that authenticates compiled code on disk, made on the first start.
pub(crate) fn artefact_key(catalog: &Catalog) -> Result<[u8; 32], StoreError> {
    const NAME: &str = "artefact_key";
    if let Some(text) = catalog.meta(NAME)? {
        let bytes: Vec<u8> = text
            .as_bytes()
            .chunks(2)
            .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        if let Ok(key) = <[u8; 32]>::try_from(bytes) {
            return Ok(key);
        }
    }
    let key = random::<32>();
    catalog.set_meta(NAME, &hex(&key))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_allow_what_they_say_and_no_more() {
        let ingest = Access::new("ingest");
        assert!(ingest.may_ingest("a") && !ingest.may_query("a") && !ingest.is_private());
        let one = Access::new("query:endpoint:logs.all ingest:source:a");
        assert!(one.may_query("logs.all") && !one.may_query("logs.all2"));
        assert!(one.may_ingest("a") && !one.may_ingest("b"));
        assert!(Access::new("private").may_query("x"));
        assert!(!Access::new("").may_ingest("x"));
    }

    #[test]
    fn tokens_are_long_and_differ() {
        assert_eq!(generate_token().len(), 3 + 48);
        assert_ne!(generate_token(), generate_token());
    }
}
