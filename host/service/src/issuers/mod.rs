//! Issuers whose JWTs are access tokens, and what their tokens may do.
//!
//! Behind this module such a token is an [`Access`] like that of a stored token. What is checked, and in which order, stands
//! in [`Issuers::access`]; the claims that grant nothing and refuse nothing are not looked at.
//!
//! Checking a signature takes ten times as long as a kept answer. So what was found out about a token is kept under the
//! SHA-256 of the whole token, for five minutes, or until the token expires, the keys of its issuer change, or the token is
//! denied. Refusals are not kept: anybody can make as many different ones as they like.

mod address;
mod check;
mod claims;
mod compact;
mod counts;
mod key;
mod key_set;
mod keyring;
mod refusal;
mod rule;
mod source;
mod strict_json;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use moka::sync::Cache;
use sha2::{Digest, Sha256};
use tidegate_model::Failure;

use crate::issuer_options::IssuerOptions;
use crate::tokens::{Access, DenyList, IssuedAccess, subject_digest};
pub(crate) use check::check;
use compact::{Compact, looks_like_one};
use counts::CheckCounts;
pub use counts::IssuerNumbers;
use keyring::Keyring;
use refusal::Refusal;

/// How long the rights of a token are kept.
const KEPT_FOR: i64 = 5 * 60 * 1_000_000;
/// The memory for rights that are kept, in bytes: about 64 Ki tokens.
const KEPT_BYTES: u64 = 64 << 20;
/// How long it is slept before it is looked whether keys are due.
const SHORTEST_SLEEP: Duration = Duration::from_millis(500);
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// What a token's rights take beside what they hold: themselves, their key and their place in the cache.
const KEPT_BASE: usize = 768;

/// All issuers of a service.
#[derive(Debug)]
pub struct Issuers {
    list: Vec<Issuer>,
    kept: Cache<[u8; 32], Kept>,
    denied: Arc<DenyList>,
    /// Checks of tokens of no issuer of the configuration.
    others: CheckCounts,
}

/// An issuer with its keys.
#[derive(Debug)]
struct Issuer {
    options: IssuerOptions,
    keyring: Arc<Keyring>,
    counts: CheckCounts,
}

/// The rights of a token that was checked.
#[derive(Debug, Clone)]
struct Kept {
    access: Arc<Access>,
    /// Microseconds since 1970.
    until: i64,
    /// Its issuer, and the keys with which it was checked.
    issuer: usize,
    generation: u64,
}

impl Issuers {
    /// The issuers of a configuration that was checked. Their keys are not read yet.
    pub(crate) fn new(options: &[IssuerOptions], denied: Arc<DenyList>) -> Arc<Self> {
        let issuer = |options: &IssuerOptions| Issuer::new(options.clone(), Keyring::new(options));
        Arc::new(Self::of(options.iter().map(issuer).collect(), denied))
    }

    fn of(list: Vec<Issuer>, denied: Arc<DenyList>) -> Self {
        let weight = |_: &[u8; 32], kept: &Kept| u32::try_from(kept.access.bytes() + KEPT_BASE).unwrap_or(u32::MAX);
        let kept = Cache::builder().max_capacity(KEPT_BYTES).weigher(weight).build();
        Self { list, kept, denied, others: CheckCounts::default() }
    }

    /// Issuers with one issuer, whose keys are those of this set and are never read again. For the fuzz target.
    ///
    /// None if the set cannot be used.
    pub fn with_keys(options: &IssuerOptions, set: &[u8]) -> Option<Self> {
        let keys = key_set::KeySet::read(set, &options.algorithms, &options.name).ok()?;
        Some(Self::of(vec![Issuer::new(options.clone(), Keyring::fixed(options, keys))], Arc::default()))
    }

    /// Reads the keys of all issuers, now and whenever they are due, until the issuers are dropped.
    pub(crate) fn start(self: &Arc<Self>) {
        for place in 0..self.list.len() {
            tokio::spawn(keep(Arc::downgrade(self), place));
        }
    }

    /// The number of issuers, and of those whose keys could not be read the last time.
    pub fn failing(&self) -> (usize, usize) {
        (self.list.len(), self.list.iter().filter(|issuer| issuer.keyring.is_failing()).count())
    }

    /// The issuer with this name in the configuration, or this `iss`.
    pub fn named(&self, name: &str) -> Option<&IssuerOptions> {
        let all = || self.list.iter().map(|issuer| &issuer.options);
        all().find(|options| options.name == name).or_else(|| all().find(|options| options.issuer == name))
    }

    /// The names of all issuers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|issuer| issuer.options.name.as_str())
    }

    /// What was checked and read since the start: by issuer, and under an empty name of tokens of no issuer.
    pub fn numbers(&self) -> impl Iterator<Item = IssuerNumbers<'_>> {
        let own = self.list.iter().map(|issuer| IssuerNumbers {
            name: &issuer.options.name,
            accepted: issuer.counts.accepted(),
            refused: issuer.counts.refused(),
            fetches: issuer.keyring.fetches(),
            keys_age: issuer.keyring.age(),
        });
        let others = (!self.list.is_empty()).then(|| IssuerNumbers {
            name: "",
            accepted: self.others.accepted(),
            refused: self.others.refused(),
            fetches: Vec::new(),
            keys_age: None,
        });
        own.chain(others)
    }

    /// The access rights of a token at `now` (microseconds since 1970). None if it is no JWT, or there are no issuers.
    ///
    /// # Errors
    /// [`tidegate_model::Code::InvalidToken`] with one word that says what about the token is refused;
    /// [`tidegate_model::Code::Forbidden`] if no rule gives it rights, or a claim is missing to which a parameter is pinned;
    /// [`tidegate_model::Code::IssuerUnavailable`] if there are no keys of its issuer. The log has the reason.
    pub fn access(&self, token: &str, now: i64) -> Option<Result<Arc<Access>, Failure>> {
        if self.list.is_empty() || !looks_like_one(token) {
            return None;
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some((issuer, access)) = self.kept(&digest, now) {
            issuer.counts.accept();
            return Some(Ok(access));
        }
        let compact = match Compact::read(token) {
            Ok(compact) => compact,
            Err(refusal) => return Some(Err(self.refused(&refusal, None, None))),
        };
        let Some((place, issuer)) = self.issuer_of(&compact) else {
            return Some(Err(self.refused(&Refusal::Issuer, None, Some(&compact))));
        };
        // Read before the keys: keys that come in between only make the entry useless.
        let generation = issuer.keyring.generation();
        let checked = issuer.check(&compact, now).and_then(|access| {
            if self.denied.refuses(&access, now) {
                return Err(Refusal::Denied);
            }
            let access = Arc::new(access);
            let until = access.expires_at().unwrap_or(now).min(now.saturating_add(KEPT_FOR));
            if until > now {
                self.kept.insert(digest, Kept { access: Arc::clone(&access), until, issuer: place, generation });
            }
            issuer.counts.accept();
            Ok(access)
        });
        Some(checked.map_err(|refusal| self.refused(&refusal, Some(issuer), Some(&compact))))
    }

    /// Waits until the keys are read again for which this token asks, if it asks for any, and if that may be done now. Whoever
    /// calls this before [`Issuers::access`] finds a key that the issuer has only begun to use.
    pub async fn prepare(&self, token: &str, now: i64) {
        if self.list.is_empty() || !looks_like_one(token) {
            return;
        }
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if self.kept(&digest, now).is_some() {
            return;
        }
        let Ok(compact) = Compact::read(token) else { return };
        let Some((_, issuer)) = self.issuer_of(&compact) else { return };
        let is_missing = match issuer.keyring.keys() {
            Ok(keys) => keys.find(compact.kid.as_deref(), compact.algorithm).err() == Some(Refusal::UnknownKey),
            Err(_) => true,
        };
        if is_missing && issuer.options.algorithms.contains(&compact.algorithm) {
            issuer.keyring.refresh().await;
        }
    }

    fn kept(&self, digest: &[u8; 32], now: i64) -> Option<(&Issuer, Arc<Access>)> {
        let kept = self.kept.get(digest)?;
        let issuer = self.list.get(kept.issuer)?;
        let is_good = now < kept.until
            && issuer.keyring.generation() == kept.generation
            && !self.denied.refuses(&kept.access, now);
        is_good.then_some((issuer, kept.access))
    }

    fn issuer_of(&self, compact: &Compact<'_>) -> Option<(usize, &Issuer)> {
        let named = compact.issuer()?;
        self.list.iter().enumerate().find(|(_, issuer)| issuer.options.issuer == named)
    }

    /// The failure of a refused token, which is counted, and a line in the log. Whoever sent it chose every text in it, so none
    /// is written but the name of the key.
    fn refused(&self, refusal: &Refusal, issuer: Option<&Issuer>, compact: Option<&Compact<'_>>) -> Failure {
        issuer.map_or(&self.others, |issuer| &issuer.counts).refuse(refusal.reason());
        match (issuer, compact) {
            (Some(issuer), Some(compact)) => {
                let subject = compact.claims.get("sub").and_then(serde_json::Value::as_str).map(subject_digest);
                let (kid, subject) = (compact.kid.as_deref().unwrap_or_default(), subject.unwrap_or_default());
                tracing::info!(issuer = issuer.options.name, ?kid, subject, reason = %refusal, "a token is refused");
            }
            _ => tracing::debug!(reason = %refusal, "a token is refused"),
        }
        refusal.into()
    }
}

impl Issuer {
    fn new(options: IssuerOptions, keyring: Keyring) -> Self {
        Self { options, keyring: Arc::new(keyring), counts: CheckCounts::default() }
    }

    /// The rights of a token at `now` (microseconds since 1970). The signature comes before every claim, so that what is
    /// told about claims is told only to those who have a token.
    fn check(&self, compact: &Compact<'_>, now: i64) -> Result<Access, Refusal> {
        let Compact { algorithm, kid, typ, claims, signed, signature } = compact;
        if !self.options.algorithms.contains(algorithm) {
            return Err(Refusal::Algorithm);
        }
        let keys = self.keyring.keys()?;
        if !keys.find(kid.as_deref(), *algorithm)?.verifies(*algorithm, signed, signature) {
            return Err(Refusal::Signature);
        }
        if let Some(wanted) = &self.options.typ
            && !typ.as_deref().is_some_and(|typ| media_type(typ).eq_ignore_ascii_case(media_type(wanted)))
        {
            return Err(Refusal::Type);
        }
        let checked = claims::check(claims, &self.options, now.div_euclid(1_000_000))?;
        let (rule, pinned) = rule::apply(&self.options.rules, claims)?;
        let issued = IssuedAccess {
            name: &self.options.name,
            issuer: &self.options.issuer,
            subject: &checked.subject,
            id: claims.get("jti").and_then(serde_json::Value::as_str),
            scopes: &rule.scopes,
            pinned,
            limits: rule.limits.clone(),
            redact: rule.redact,
            expires_at: checked.expires_at.saturating_mul(1_000_000),
        };
        Ok(issued.access())
    }
}

/// `typ` is a media type, of which `application/` may be left out.
fn media_type(typ: &str) -> &str {
    match typ.split_at_checked("application/".len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case("application/") => rest,
        _ => typ,
    }
}

/// Reads the keys of an issuer whenever they are due.
async fn keep(issuers: Weak<Issuers>, place: usize) {
    loop {
        let Some(keyring) = issuers.upgrade().and_then(|all| Some(Arc::clone(&all.list.get(place)?.keyring))) else {
            return;
        };
        if keyring.until_due().is_zero() {
            keyring.refresh().await;
        }
        // Not until they are due: a token may have them read, and then they are due at another time.
        let pause = keyring.until_due().clamp(SHORTEST_SLEEP, LONGEST_SLEEP);
        drop(keyring);
        tokio::time::sleep(pause).await;
    }
}
