//! Access tokens: their rights, and how they are looked up.
//!
//! A token is random, so its SHA-256 is sufficient to look it up, and only the hash is stored. The lookup table is a
//! map in memory. It is read from the catalog at the start, and again when another process (the command line) has
//! changed the tokens.

mod access;
mod classes;
mod denied;
mod digest;
mod issued;
mod last_use;
mod new_token;
mod scopes;
mod secret;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use tidegate_store::{Catalog, Store, StoreError};

use crate::account::Identity;
use crate::catalog::{DenialTable, TokenRecord, TokenTable};
use crate::options::Options;
use crate::start_error::StartError;
use scopes::Scopes;
use secret::hash;

pub use access::Access;
pub use classes::{AccessClass, ClassKey};
pub(crate) use denied::DenyList;
pub use denied::{DeniedClaim, MOST_DENIED, NewDenial};
pub(crate) use issued::{IssuedAccess, subject_digest};
pub use new_token::NewToken;
pub(crate) use secret::artefact_key;
pub use secret::{generate_alert_secret, generate_token};

/// The minimum length of a token from the environment, in characters.
const MIN_LENGTH: usize = 16;
/// The interval at which the catalog is checked for changes by another process. The command line waits [`NOTICED`]
/// before it reports that a token is revoked.
const LOOK: Duration = Duration::from_millis(200);
/// The time after which a running server is sure to have noticed a change by another process.
pub const NOTICED: Duration = Duration::from_millis(1000);

/// How often the last uses of tokens are written.
const WRITE_USES: Duration = Duration::from_secs(60);

/// The tokens that are created at the first start of a data folder. They are shown once.
#[derive(Debug, Clone)]
pub struct NewTokens {
    /// Allows everything.
    pub private: String,
    /// Allows ingest.
    pub public: String,
}

/// The access rights of each token, by its hash.
type TokenMap = HashMap<Identity, Arc<Access>>;

/// All tokens of a service.
#[derive(Debug)]
pub struct Tokens {
    /// The tokens of the environment.
    fixed: TokenMap,
    known: RwLock<TokenMap>,
    /// Tokens of issuers that are refused.
    denied: Arc<DenyList>,
    /// The change counter of the catalog at the time when `known` and `denied` were read. The lock is held during each change, so
    /// that an older state never replaces a newer one.
    generation: Mutex<u64>,
}

impl Tokens {
    /// The tokens of a catalog and of the environment.
    ///
    /// # Errors
    /// A token of the environment that is too short, or the same token for both purposes; a failure of the catalog.
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
        let tokens = Self { fixed, known: RwLock::default(), denied: Arc::default(), generation: Mutex::new(0) };
        tokens.read(catalog, &mut tokens.generation.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(tokens)
    }

    /// Reads all tokens of the catalog, and what is denied. Returns the tokens that are the first of their class, one of
    /// each.
    fn read(&self, catalog: &Catalog, generation: &mut u64) -> Result<Vec<Arc<Access>>, StoreError> {
        // The counter is read before the tokens, so that a change in between is noticed at the next check. It is stored
        // after them, so that a failed read is repeated.
        let counted = TokenTable(catalog).generation()?;
        let mut known = self.fixed.clone();
        let before = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        for record in TokenTable(catalog).all()? {
            if record.revoked_at.is_none()
                && let Ok(hash) = <[u8; 32]>::try_from(record.hash.as_slice())
            {
                let mut access = Access { identity: hash, ..Access::of(&record) };
                if let Some(before) = before.get(&hash) {
                    access.uses = Arc::clone(&before.uses);
                }
                known.insert(hash, Arc::new(access));
            }
        }
        let mut classes: HashSet<ClassKey> = before.values().map(|access| access.class()).collect();
        let added = known.iter().filter(|(hash, _)| !before.contains_key(*hash)).map(|(_, access)| access);
        let first = added.filter(|access| classes.insert(access.class())).cloned().collect();
        self.denied.replace(&DenialTable(catalog).at(0)?);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        *generation = counted;
        Ok(first)
    }

    /// Changes the tokens in the catalog. The change is in effect when this returns.
    ///
    /// # Errors
    /// The failure of the change itself, in which case nothing has changed.
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

    /// Creates the first two tokens, if there are no tokens at all.
    pub(crate) fn make_first(&self, catalog: &Catalog) -> Result<Option<NewTokens>, StoreError> {
        if !self.known.read().unwrap_or_else(PoisonError::into_inner).is_empty() {
            return Ok(None);
        }
        let tokens = NewTokens { private: generate_token(), public: generate_token() };
        for (token, scopes) in [(&tokens.private, "private"), (&tokens.public, "ingest")] {
            let new = NewToken { description: "made on the first start".to_owned(), ..NewToken::new(scopes) };
            self.change(catalog, |catalog| TokenTable(catalog).put(&new.record(token)))?;
        }
        Ok(Some(tokens))
    }

    /// Tokens of issuers that are refused before they end, as the catalog has them.
    pub(crate) fn denied(&self) -> Arc<DenyList> {
        Arc::clone(&self.denied)
    }

    /// Whether the rights of a token are still these at `now` (microseconds).
    pub(crate) fn holds(&self, access: &Access, now: i64) -> bool {
        if access.is_issued() {
            return access.expires_at.is_some_and(|expiry| now < expiry) && !self.denied.refuses(access, now);
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_in_time = |known: &&Arc<Access>| known.expires_at.is_none_or(|expiry| now < expiry);
        known.get(&access.identity).filter(is_in_time).is_some_and(|known| known.allows_as(access))
    }

    /// All tokens of the catalog, oldest first, with their last uses as this process knows them.
    ///
    /// # Errors
    /// A failure of the catalog.
    pub fn records(&self, catalog: &Catalog) -> Result<Vec<TokenRecord>, StoreError> {
        let mut records = TokenTable(catalog).all()?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        for record in &mut records {
            let hash = <[u8; 32]>::try_from(record.hash.as_slice()).ok();
            let noted = hash.and_then(|hash| known.get(&hash)).and_then(|access| access.uses.last());
            record.last_used = record.last_used.max(noted);
        }
        Ok(records)
    }

    /// Writes the last uses that are not written.
    ///
    /// # Errors
    /// A failure of the catalog; they are written the next time.
    pub(crate) fn write_uses(&self, catalog: &Catalog) -> Result<(), StoreError> {
        let known: Vec<_> = self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let unwritten = |access: &Arc<Access>| Some((access.id?, access.uses.unwritten()?));
        let unwritten: Vec<_> = known.iter().filter_map(|access| Some((access, unwritten(access)?))).collect();
        if unwritten.is_empty() {
            return Ok(());
        }
        let uses: Vec<_> = unwritten.iter().map(|(_, used)| *used).collect();
        TokenTable(catalog).record_uses(&uses)?;
        for (access, (_, used)) in unwritten {
            access.uses.note_written(used);
        }
        Ok(())
    }

    /// The access rights of a token, which is used with that; `None` if the token is unknown, or expired at `now` (microseconds).
    pub fn access(&self, token: &str, now: i64) -> Option<Arc<Access>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let access = known.get(&hash(token)).filter(|access| access.expires_at.is_none_or(|expiry| now < expiry))?;
        access.uses.note(now);
        Some(Arc::clone(access))
    }
}

/// Reads the tokens again whenever another process has changed them, writes their last uses, and deletes what is no longer
/// denied, until the service is dropped. `tell` is called with tokens that another process has made, of each class that
/// there was not before one.
pub(crate) async fn watch(tokens: Weak<Tokens>, store: Weak<Store>, tell: impl Fn(Vec<Arc<Access>>) + Send) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut written = Instant::now();
    loop {
        tick.tick().await;
        let (Some(tokens), Some(store)) = (tokens.upgrade(), store.upgrade()) else { return };
        let is_time = written.elapsed() >= WRITE_USES;
        if is_time {
            written = Instant::now();
        }
        let look = move || {
            let catalog = store.catalog();
            if is_time {
                tokens.write_uses(catalog)?;
                DenialTable(catalog).drop_ended(chrono::Utc::now().timestamp_micros())?;
            }
            let mut generation = tokens.generation.lock().unwrap_or_else(PoisonError::into_inner);
            if TokenTable(catalog).generation()? == *generation {
                return Ok(Vec::new());
            }
            tokens.read(catalog, &mut generation)
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok(first)) if !first.is_empty() => tell(first),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the tokens cannot be read again, or their uses not be written; those known before hold");
            }
            Ok(Ok(_)) | Err(_) => {}
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
