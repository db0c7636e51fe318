//! Access tokens: what they are made of, what they may do, how they are found.
//!
//! A token is random, so it is looked up by its SHA-256 and nothing else is kept of it. The
//! lookup is a map in memory, filled from the catalog at start and again when another process (the
//! command line) has changed the tokens there.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use rand::TryRng;
use sha2::{Digest, Sha256};
use tidegate_model::{Errors, LimitSet};
use tidegate_store::{Catalog, StoreError, TokenRecord};
use uuid::Uuid;

use crate::app::{App, Options, StartError};
use crate::new_token::NewToken;
use crate::rate::Identity;
use crate::scopes::Scopes;

/// The shortest token that is taken from the environment, in characters.
const MIN_LENGTH: usize = 16;
/// How often it is looked whether another process changed the tokens. The command line waits
/// [`NOTICED`] before it says that a token is revoked.
const LOOK: Duration = Duration::from_millis(200);
/// After this time a running server has noticed what another process did to its tokens.
pub const NOTICED: Duration = Duration::from_millis(1000);

/// The tokens made on the first start of a data folder; shown once.
#[derive(Debug, Clone)]
pub struct NewTokens {
    /// May do everything.
    pub private: String,
    /// May send events.
    pub public: String,
}

/// What the holder of a token may do.
#[derive(Debug, Default)]
pub(crate) struct Access {
    /// Identity of the token; nothing for those of the environment.
    pub(crate) id: Option<Uuid>,
    /// Who it is, for records of what was done: the token's description, or its id.
    pub(crate) who: String,
    /// The token's SHA-256.
    pub(crate) identity: Identity,
    scopes: Scopes,
    /// Parameter values that the holder cannot choose.
    pub(crate) pinned: BTreeMap<String, String>,
    /// What a request of the holder may use, where that is less than the server's limits.
    pub(crate) limits: LimitSet,
    /// With which status errors of its queries are answered, if it says so.
    pub(crate) errors: Option<Errors>,
    expires_at: Option<i64>,
}

impl Access {
    fn of(record: &TokenRecord) -> Self {
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

    /// Access to everything, for who has the service to himself.
    pub(crate) fn to_all(who: &str) -> Self {
        Self { who: who.to_owned(), scopes: Scopes::stored("private"), ..Self::default() }
    }

    /// Everything, management included.
    pub(crate) fn is_private(&self) -> bool {
        self.scopes.is_private()
    }

    /// Whether an endpoint may be called; its scope names it by name or identity.
    pub(crate) fn may_query(&self, endpoint: &str, id: Option<Uuid>) -> bool {
        self.scopes.may_query(endpoint, id)
    }

    /// Whether a source may be sent events; its scope names it by name or identity.
    pub(crate) fn may_ingest(&self, source: &str, id: Option<Uuid>) -> bool {
        self.scopes.may_ingest(source, id)
    }
}

type Known = HashMap<[u8; 32], Arc<Access>>;

/// All tokens of a service.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Those of the environment.
    fixed: Known,
    known: RwLock<Known>,
    /// The catalog's count of changes that `known` was read at. Held while anything changes, so that
    /// an older state never replaces a newer one.
    generation: Mutex<u64>,
}

impl Tokens {
    pub(crate) fn open(catalog: &Catalog, options: &Options) -> Result<Self, StartError> {
        let mut fixed = Known::new();
        for (token, scopes, what) in
            [(&options.public_token, "ingest", "public"), (&options.private_token, "private", "private")]
        {
            if let Some(token) = token {
                if token.chars().count() < MIN_LENGTH {
                    return Err(StartError::WeakToken(what));
                }
                if fixed.contains_key(&hash(token)) {
                    return Err(StartError::SameToken);
                }
                let who = format!("the {what} token of the environment");
                let identity = hash(token);
                let access = Access { who, identity, scopes: Scopes::stored(scopes), ..Access::default() };
                fixed.insert(identity, Arc::new(access));
            }
        }
        let tokens = Self { fixed, known: RwLock::default(), generation: Mutex::new(0) };
        tokens.read(catalog, &mut tokens.generation.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(tokens)
    }

    /// Reads all tokens of the catalog.
    fn read(&self, catalog: &Catalog, generation: &mut u64) -> Result<(), StoreError> {
        // The count first, so that a change in between is noticed at the next look; noted last, so that a
        // reading that fails is tried again.
        let counted = catalog.tokens_generation()?;
        let mut known = self.fixed.clone();
        for record in catalog.tokens()? {
            if record.revoked_at.is_none()
                && let Ok(hash) = <[u8; 32]>::try_from(record.hash.as_slice())
            {
                known.insert(hash, Arc::new(Access { identity: hash, ..Access::of(&record) }));
            }
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        *generation = counted;
        Ok(())
    }

    /// Changes the tokens in the catalog; the change holds from here on.
    ///
    /// # Errors
    /// The change's own; then nothing has changed.
    pub(crate) fn change<T>(
        &self,
        catalog: &Catalog,
        change: impl FnOnce(&Catalog) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut generation = self.generation.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(catalog)?;
        self.read(catalog, &mut generation)?;
        Ok(changed)
    }

    /// Makes the first two tokens, if there are none at all.
    pub(crate) fn make_first(&self, catalog: &Catalog) -> Result<Option<NewTokens>, StoreError> {
        if !self.known.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(None);
        }
        let tokens = NewTokens { private: generate_token(), public: generate_token() };
        for (token, scopes) in [(&tokens.private, "private"), (&tokens.public, "ingest")] {
            let new = NewToken { description: "made on the first start".to_owned(), ..NewToken::new(scopes) };
            self.change(catalog, |catalog| catalog.put_token(&new.record(token)))?;
        }
        Ok(Some(tokens))
    }

    /// Whether a token fixes a parameter.
    pub(crate) fn fix(&self, parameter: &str) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|access| access.pinned.keys().any(|name| name.eq_ignore_ascii_case(parameter)))
    }

    /// What a token may do; nothing if it is unknown or expired at `now` (microseconds).
    pub(crate) fn access(&self, token: &str, now: i64) -> Option<Arc<Access>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let access = known.get(&hash(token))?;
        access.expires_at.is_none_or(|expiry| now < expiry).then(|| Arc::clone(access))
    }
}

/// Notices what another process does to the tokens, until the service is gone.
pub(crate) async fn watch(app: Weak<App>) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(app) = app.upgrade() else { return };
        let look = move || {
            let catalog = app.store.catalog();
            let mut generation = app.tokens.generation.lock().unwrap_or_else(PoisonError::into_inner);
            if catalog.tokens_generation()? != *generation {
                app.tokens.read(catalog, &mut generation)?;
            }
            Ok::<_, StoreError>(())
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(look).await {
            tracing::warn!(%error, "the tokens cannot be read again; those known before hold");
        }
    }
}

pub(crate) fn hash(token: &str) -> Identity {
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
    fn tokens_are_long_and_differ() {
        assert_eq!(generate_token().len(), 3 + 48);
        assert_ne!(generate_token(), generate_token());
    }
}
