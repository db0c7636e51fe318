//! The access rights of a token of an issuer.
//!
//! Such tokens are many and live for minutes. What is counted is therefore counted for whom they are of: rates for the
//! subject, shares of the machine for the tenant (the issuer and the pinned values) before the subject. Else a tenant with a
//! hundred users would have the shares of a hundred.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use tidegate_model::LimitSet;

use super::access::{Access, Issued};
use super::denied::{DeniedClaim, denied_as};
use super::digest::digest;
use super::scopes::Scopes;
use crate::account::{Account, Identity};

/// What the rule of an issuer gives to a token.
#[derive(Debug)]
pub(crate) struct IssuedAccess<'a> {
    /// The name of the issuer in the configuration.
    pub(crate) name: &'a str,
    /// Its `iss`.
    pub(crate) issuer: &'a str,
    /// The token's `sub`.
    pub(crate) subject: &'a str,
    /// The token's `jti`, if that is a text.
    pub(crate) id: Option<&'a str>,
    pub(crate) scopes: &'a str,
    pub(crate) pinned: BTreeMap<String, String>,
    pub(crate) limits: LimitSet,
    /// Whether personal data is masked in every answer.
    pub(crate) redact: bool,
    /// Microseconds since 1970.
    pub(crate) expires_at: i64,
}

impl IssuedAccess<'_> {
    /// The access rights.
    pub(crate) fn access(self) -> Access {
        let pins = self.pinned.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let group = digest("tenant", [self.issuer].into_iter().chain(pins));
        let subject = subject_digest(self.subject);
        let token = self.id.map(|id| denied_as(DeniedClaim::TokenId, self.issuer, id));
        let label = format!("{}:{subject}", self.name);
        Access {
            who: format!("{}:{}", self.name, self.subject),
            identity: denied_as(DeniedClaim::Subject, self.issuer, self.subject),
            scopes: Scopes::stored(self.scopes),
            pinned: self.pinned,
            limits: self.limits,
            expires_at: Some(self.expires_at),
            issued: Some(Issued { group, token, label, redact: self.redact }),
            ..Access::default()
        }
    }
}

/// What stands for a subject in the log.
pub(crate) fn subject_digest(subject: &str) -> String {
    hex::encode(Sha256::digest(subject.as_bytes()).get(..8).unwrap_or_default())
}

impl Access {
    /// For whom the holder's queries run.
    pub fn account(&self) -> Account {
        match &self.issued {
            Some(issued) => Account::Subject { group: issued.group, subject: self.identity },
            None => Account::Token(self.identity),
        }
    }

    /// Whose share of what requests hold it counts in: that of the token, or of all subjects of its tenant.
    pub fn share(&self) -> Identity {
        self.issued.as_ref().map_or(self.identity, |issued| issued.group)
    }

    /// What stands for the token in log lines, if it is no token of the catalog: the issuer and a digest of the subject, or
    /// the beginning of the token's own digest.
    pub fn label(&self) -> String {
        match &self.issued {
            Some(issued) => issued.label.clone(),
            None => hex::encode(self.identity.get(..6).unwrap_or_default()),
        }
    }

    /// Whether personal data is masked in every answer.
    pub fn is_redacted(&self) -> bool {
        self.issued.as_ref().is_some_and(|issued| issued.redact)
    }

    /// Whether the token is of an issuer. Then its end takes its rights away, or the deny list.
    pub(super) fn is_issued(&self) -> bool {
        self.issued.is_some()
    }

    /// Roughly the bytes of what it holds beside itself, rounded up: each text with what its allocation takes.
    pub(crate) fn bytes(&self) -> usize {
        let pinned: usize = self.pinned.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        let label = self.issued.as_ref().map_or(0, |issued| issued.label.len());
        self.who.len() + label + pinned + self.scopes.bytes() + self.limits.iter().count() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(issuer: &str, subject: &str, project: &str) -> Access {
        let pinned = BTreeMap::from([("project".to_owned(), project.to_owned())]);
        let limits = LimitSet::new();
        IssuedAccess {
            name: "n",
            issuer,
            subject,
            id: None,
            scopes: "query",
            pinned,
            limits,
            redact: false,
            expires_at: 1,
        }
        .access()
    }

    #[test]
    fn subjects_have_rates_and_tenants_have_shares() {
        let (one, again) = (access("i", "a", "p"), access("i", "a", "p"));
        assert_eq!((one.identity, one.account()), (again.identity, again.account()));
        let colleague = access("i", "b", "p");
        assert_ne!(one.identity, colleague.identity);
        assert_eq!(one.account().group(), colleague.account().group());
        for other in [access("i", "a", "q"), access("j", "a", "p"), access("ia", "", "p")] {
            assert_ne!(one.account().group(), other.account().group());
        }
        assert_ne!(access("i", "a", "p").identity, access("ia", "", "p").identity);
        assert_eq!((one.who.as_str(), one.label().as_str()), ("n:a", "n:ca978112ca1bbdca"));
    }
}
