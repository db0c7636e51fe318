//! Issuers whose JWTs are access tokens, and what their tokens may do.
//!
//! Behind this module such a token is an [`Access`] like that of a stored token. What is checked, and in which order, stands
//! in [`Issuers::access`]; the claims that grant nothing and refuse nothing are not looked at.
//!
//! Checking a signature takes ten times as long as a kept answer. So what was found out about a token is kept under the
//! SHA-256 of the whole token, for five minutes, or until the token expires or the keys of its issuer change. Refusals are not
//! kept: anybody can make as many different ones as they like.

mod address;
pub(crate) mod algorithm;
mod check;
mod claims;
mod compact;
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
use crate::tokens::{Access, IssuedAccess};
pub use algorithm::Algorithm;
pub(crate) use check::check;
use compact::{Compact, looks_like_one};
use keyring::Keyring;
use refusal::Refusal;

/// How long the rights of a token are kept.
const KEPT_FOR: i64 = 5 * 60 * 1_000_000;
/// The memory for rights that are kept, in bytes: about 64 Ki tokens.
const KEPT_BYTES: u64 = 64 << 20;
/// How long it is slept before it is looked whether keys are due.
const SHORTEST_SLEEP: Duration = Duration::from_millis(500);
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// What a token's rights take beside their texts.
const KEPT_BASE: usize = 768;

/// All issuers of a service.
#[derive(Debug)]
pub struct Issuers {
    list: Vec<Issuer>,
    kept: Cache<[u8; 32], Kept>,
}

/// An issuer with its keys.
#[derive(Debug)]
struct Issuer {
    options: IssuerOptions,
    keyring: Arc<Keyring>,
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
    pub(crate) fn new(options: &[IssuerOptions]) -> Arc<Self> {
        let issuer =
            |options: &IssuerOptions| Issuer { options: options.clone(), keyring: Arc::new(Keyring::new(options)) };
        let weight = |_: &[u8; 32], kept: &Kept| u32::try_from(kept.access.bytes() + KEPT_BASE).unwrap_or(u32::MAX);
        let kept = Cache::builder().max_capacity(KEPT_BYTES).weigher(weight).build();
        Arc::new(Self { list: options.iter().map(issuer).collect(), kept })
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
        if let Some(access) = self.kept(&digest, now) {
            return Some(Ok(access));
        }
        let compact = match Compact::read(token) {
            Ok(compact) => compact,
            Err(refusal) => return Some(Err(refused(&refusal, None, None))),
        };
        let Some((place, issuer)) = self.issuer_of(&compact) else {
            return Some(Err(refused(&Refusal::Issuer, None, Some(&compact))));
        };
        // Read before the keys: keys that come in between only make the entry useless.
        let generation = issuer.keyring.generation();
        let checked = issuer.check(&compact, now).map(|access| {
            let access = Arc::new(access);
            let until = access.expires_at().unwrap_or(now).min(now.saturating_add(KEPT_FOR));
            if until > now {
                self.kept.insert(digest, Kept { access: Arc::clone(&access), until, issuer: place, generation });
            }
            access
        });
        Some(checked.map_err(|refusal| refused(&refusal, Some(issuer), Some(&compact))))
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

    fn kept(&self, digest: &[u8; 32], now: i64) -> Option<Arc<Access>> {
        let kept = self.kept.get(digest)?;
        let generation = self.list.get(kept.issuer)?.keyring.generation();
        (now < kept.until && generation == kept.generation).then_some(kept.access)
    }

    fn issuer_of(&self, compact: &Compact<'_>) -> Option<(usize, &Issuer)> {
        let named = compact.issuer()?;
        self.list.iter().enumerate().find(|(_, issuer)| issuer.options.issuer == named)
    }
}

impl Issuer {
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

/// The failure of a refused token, and a line in the log. Whoever sent it chose every text in it, so none is written but the
/// name of the key.
fn refused(refusal: &Refusal, issuer: Option<&Issuer>, compact: Option<&Compact<'_>>) -> Failure {
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

/// What stands for a subject in the log.
fn subject_digest(subject: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(subject.as_bytes()).into();
    hex::encode(digest.get(..8).unwrap_or_default())
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
