//! Access tokens: what they may do, and how they are found.
//!
//! A token is random, so it is looked up by its SHA-256, and nothing else of it is stored. The lookup is a map in memory.
//! It is filled from the catalog at the start, and again when another process (the command line) has changed the tokens.

mod access;
mod new_token;
mod scopes;
mod secret;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use tidegate_store::{Catalog, Store, StoreError};

use crate::options::Options;
use crate::start_error::StartError;
use crate::tenant::Identity;
use scopes::Scopes;
use secret::hash;

pub use access::Access;
pub use new_token::NewToken;
pub(crate) use secret::artefact_key;
pub use secret::generate_token;

/// The shortest token that is taken from the environment, in characters.
const MIN_LENGTH: usize = 16;
/// How often the catalog is asked whether another process changed the tokens. The command line waits [`NOTICED`] before
/// it says that a token is revoked.
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

/// What each token may do, by its identity.
type TokenMap = HashMap<Identity, Arc<Access>>;

/// All tokens of a service.
#[derive(Debug)]
pub struct Tokens {
    /// Those of the environment.
    fixed: TokenMap,
    known: RwLock<TokenMap>,
    /// The catalog's count of changes that `known` was read at. Held while anything changes, so that
    /// an older state never replaces a newer one.
    generation: Mutex<u64>,
}

impl Tokens {
    /// The tokens of a catalog, and those of the environment.
    ///
    /// # Errors
    /// A token of the environment that is too weak, or the same for both; the catalog's.
    pub(crate) fn open(catalog: &Catalog, options: &Options) -> Result<Self, StartError> {
        let mut fixed = TokenMap::new();
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
    pub fn change<T>(
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
    pub fn access(&self, token: &str, now: i64) -> Option<Arc<Access>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let access = known.get(&hash(token))?;
        access.expires_at.is_none_or(|expiry| now < expiry).then(|| Arc::clone(access))
    }
}

/// Reads the tokens again whenever another process has changed them, until the service is gone.
pub(crate) async fn watch(tokens: Weak<Tokens>, store: Weak<Store>) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let (Some(tokens), Some(store)) = (tokens.upgrade(), store.upgrade()) else { return };
        let look = move || {
            let catalog = store.catalog();
            let mut generation = tokens.generation.lock().unwrap_or_else(PoisonError::into_inner);
            if catalog.tokens_generation()? != *generation {
                tokens.read(catalog, &mut generation)?;
            }
            Ok::<_, StoreError>(())
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(look).await {
            tracing::warn!(%error, "the tokens cannot be read again; those known before hold");
        }
    }
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
