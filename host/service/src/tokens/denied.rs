//! The deny list: tokens of issuers that are refused before they end.
//!
//! A JWT is good until its `exp`, whatever its issuer thinks of it later. Whoever must be stopped at once is put on this
//! list, by subject or by a token's `jti`. It is in the catalog and, as a map, in memory. Each use of a token looks it up,
//! also where the token's rights are kept from before.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tidegate_model::{Code, Failure};
use uuid::Uuid;

use super::access::Access;
use super::digest::digest;
use crate::account::Identity;
use crate::catalog::DeniedRecord;

/// The most entries at a time. All of them are in memory, and are read again after each change of a token.
pub const MOST_DENIED: usize = 10_000;
/// The longest time for which tokens are denied, in microseconds: 366 days.
const LONGEST: i64 = 366 * 86_400 * 1_000_000;
/// The longest subject and the longest `jti`, in bytes. Tokens with a longer subject are refused anyway.
const MOST_SUBJECT: usize = 255;
const MOST_ID: usize = 1 << 10;
/// The longest reason in bytes.
const MOST_REASON: usize = 512;

/// The claim that says which tokens of an issuer are denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeniedClaim {
    /// `sub`: all tokens of a subject.
    Subject,
    /// `jti`: one token.
    TokenId,
}

impl DeniedClaim {
    /// Its name in a token and in the catalog.
    pub fn name(self) -> &'static str {
        match self {
            Self::Subject => "sub",
            Self::TokenId => "jti",
        }
    }

    /// The claim of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Subject, Self::TokenId].into_iter().find(|claim| claim.name() == name)
    }
}

/// What stands for the tokens of an issuer with a claim of this value. That of a subject is the subject's identity.
pub(super) fn denied_as(claim: DeniedClaim, issuer: &str, value: &str) -> Identity {
    let purpose = match claim {
        DeniedClaim::Subject => "subject",
        DeniedClaim::TokenId => "token",
    };
    digest(purpose, [issuer, value])
}

/// Tokens to deny.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDenial {
    /// The `iss` of the tokens, byte for byte.
    pub issuer: String,
    /// The claim that says which tokens.
    pub claim: DeniedClaim,
    /// The value of that claim.
    pub value: String,
    /// When they are no longer refused: microseconds since 1970, UTC.
    pub until: i64,
    /// Why, for people.
    pub reason: String,
}

impl NewDenial {
    /// Checks the entry at `now` (microseconds since 1970). Fields are named as in the management API.
    ///
    /// # Errors
    /// [`Code::Refused`] with every field that is wrong: a subject of more than 255 bytes or a `jti` of more than 1 KiB; an end
    /// that is over, or more than 366 days ahead; a reason of more than 512 bytes.
    pub fn validate(&self, now: i64) -> Result<(), Failure> {
        let refused = |field: &str, message: String| Failure::new(Code::Refused, message).about(field);
        let mut failures = Vec::new();
        let (field, most) = match self.claim {
            DeniedClaim::Subject => ("subject", MOST_SUBJECT),
            DeniedClaim::TokenId => ("jti", MOST_ID),
        };
        if self.value.is_empty() || self.value.len() > most {
            failures.push(refused(
                field,
                format!("{field} has 1 to {most} bytes: the {} of the tokens", self.claim.name()),
            ));
        }
        if self.until <= now {
            failures.push(refused("until", "until is in the past".to_owned()));
        } else if self.until > now.saturating_add(LONGEST) {
            let message =
                "until is at most 366 days ahead: an issuer must stop giving tokens to whom it does not trust";
            failures.push(refused("until", message.to_owned()));
        }
        if self.reason.len() > MOST_REASON {
            failures.push(refused("reason", format!("reason has at most {MOST_REASON} bytes")));
        }
        Failure::of_all(failures).map_or(Ok(()), Err)
    }

    /// The record for the catalog.
    pub fn record(&self, now: i64) -> DeniedRecord {
        DeniedRecord {
            id: Uuid::new_v4(),
            issuer: self.issuer.clone(),
            claim: self.claim.name().to_owned(),
            value: self.value.clone(),
            until: self.until,
            reason: self.reason.clone(),
            created_at: now,
        }
    }
}

/// What is denied, by what stands for the tokens.
#[derive(Debug, Default)]
pub(crate) struct DenyList {
    ends: RwLock<HashMap<Identity, i64>>,
}

impl DenyList {
    /// Puts these entries in the place of all that were there.
    pub(crate) fn replace(&self, records: &[DeniedRecord]) {
        let entry = |record: &DeniedRecord| {
            let claim = DeniedClaim::named(&record.claim)?;
            Some((denied_as(claim, &record.issuer, &record.value), record.until))
        };
        *self.ends.write().unwrap_or_else(PoisonError::into_inner) = records.iter().filter_map(entry).collect();
    }

    /// Whether a token is refused at `now` (microseconds since 1970).
    pub(crate) fn refuses(&self, access: &Access, now: i64) -> bool {
        let Some(issued) = &access.issued else { return false };
        let ends = self.ends.read().unwrap_or_else(PoisonError::into_inner);
        let holds = |identity: &Identity| ends.get(identity).is_some_and(|end| now < *end);
        !ends.is_empty() && (holds(&access.identity) || issued.token.as_ref().is_some_and(holds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_deny_nothing_or_for_ever_is_refused() {
        let fine = NewDenial {
            issuer: "i".to_owned(),
            claim: DeniedClaim::Subject,
            value: "u1".to_owned(),
            until: 10,
            reason: String::new(),
        };
        assert_eq!(fine.validate(9), Ok(()));
        let long = |bytes: usize| "x".repeat(bytes);
        for (denial, field) in [
            (NewDenial { value: String::new(), ..fine.clone() }, "subject"),
            (NewDenial { value: long(256), ..fine.clone() }, "subject"),
            (NewDenial { value: long(1025), claim: DeniedClaim::TokenId, ..fine.clone() }, "jti"),
            (NewDenial { until: 9, ..fine.clone() }, "until"),
            (NewDenial { until: i64::MAX, ..fine.clone() }, "until"),
            (NewDenial { until: 10 + LONGEST, ..fine.clone() }, "until"),
            (NewDenial { reason: long(513), ..fine.clone() }, "reason"),
        ] {
            let failure = denial.validate(9).err();
            assert_eq!(failure.as_ref().and_then(|failure| failure.location.as_deref()), Some(field), "{denial:?}");
        }
        for claim in [DeniedClaim::Subject, DeniedClaim::TokenId] {
            assert_eq!(DeniedClaim::named(claim.name()), Some(claim));
        }
    }
}
