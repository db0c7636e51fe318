//! Why a token of an issuer is refused: in full for the log, in one word for the caller.
//!
//! Whoever tries forged tokens must not learn from the answers how far each of them came. Whoever runs the issuer needs to
//! know exactly. So the caller is told one of five words, and the log has the reason. Neither repeats the token. The metrics
//! count by these words, and by those for what is no fault of the token.

use tidegate_model::{Code, Failure};

/// The words by which refused tokens are counted.
pub(super) const REASONS: [&str; 8] =
    ["expired", "audience", "key", "signature", "denied", "rule", "pin", "unavailable"];

/// Why a token of an issuer is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is longer than 8 KiB.
    #[error("it is longer than 8 KiB")]
    TooLong,
    /// It is not three parts in Base64 for URLs.
    #[error("it is not three parts in Base64 for URLs without padding")]
    NotCompact,
    /// Its header or its claims are no JSON object, have a key twice, or nest too deeply.
    #[error("its header or its claims are no JSON object, have a key twice, or nest deeper than 16 levels")]
    NotStrict,
    /// A member of the header names a key, or is of the wrong kind.
    #[error("its header has {0}, which is refused, or which is of the wrong type")]
    Header(&'static str),
    /// The algorithm is not known or not allowed.
    #[error("its algorithm is not one that the issuer may use")]
    Algorithm,
    /// `typ` is not what the issuer's tokens have.
    #[error("its typ is not the one of the issuer's access tokens")]
    Type,
    /// No issuer of the configuration is its `iss`.
    #[error("its iss is no issuer of the configuration")]
    Issuer,
    /// No key has its `kid` and its algorithm.
    #[error("no key of the issuer has its kid and its algorithm")]
    UnknownKey,
    /// More than one key fits.
    #[error("more than one key of the issuer fits")]
    AmbiguousKey,
    /// The signature is wrong.
    #[error("its signature is wrong")]
    Signature,
    /// The audience is missing or another one.
    #[error("its aud is missing, or is another one")]
    Audience,
    /// A claim that is needed is missing or of the wrong type.
    #[error("its {0} is missing or of the wrong type")]
    Claim(&'static str),
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("its {0} is in the future")]
    NotYet(&'static str),
    /// It lives longer than the issuer's tokens may.
    #[error("it lives longer than longest_life")]
    TooLongLife,
    /// It was issued before the time from which tokens of the issuer count.
    #[error("it was issued before not_before")]
    Revoked,
    /// The deny list has its subject or its `jti`.
    #[error("the deny list has its sub or its jti")]
    Denied,
    /// No rule of the issuer matches it.
    #[error("no rule of the issuer matches it")]
    NoRule,
    /// The rule that matches pins a parameter to a claim that it does not have.
    #[error("the rule {rule} pins {parameter} to a claim that is missing, empty, or no single text or whole number")]
    Pin {
        /// The name of the rule.
        rule: String,
        /// The parameter.
        parameter: String,
    },
    /// There are no keys of the issuer with which it could be checked.
    #[error("there are no keys of the issuer")]
    NoKeys,
}

impl Refusal {
    /// The word for the caller; none where it is no fault of the token.
    fn word(&self) -> Option<&'static str> {
        match self {
            Self::TooLong | Self::NotCompact | Self::NotStrict | Self::Claim(_) | Self::Signature => Some("signature"),
            Self::Header(_) | Self::Algorithm | Self::UnknownKey | Self::AmbiguousKey => Some("key"),
            Self::Type | Self::Issuer | Self::Audience => Some("audience"),
            Self::Expired | Self::NotYet(_) | Self::TooLongLife | Self::Revoked => Some("expired"),
            Self::Denied => Some("denied"),
            Self::NoRule | Self::Pin { .. } | Self::NoKeys => None,
        }
    }

    /// The word for the metrics, one of [`REASONS`].
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoRule => "rule",
            Self::Pin { .. } => "pin",
            Self::NoKeys => "unavailable",
            other => other.word().unwrap_or("signature"),
        }
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NoRule => Self::new(Code::Forbidden, "no rule of the issuer gives this token any rights"),
            Refusal::Pin { parameter, .. } => {
                let message = format!("the token lacks the claim to which the parameter '{parameter}' is bound");
                Self::new(Code::Forbidden, message).about(parameter)
            }
            other => match other.word() {
                Some(word) => Self::new(Code::InvalidToken, format!("the access token is refused: {word}")),
                None => {
                    let message = "the keys of the token's issuer cannot be read at the moment; try again later";
                    Self::new(Code::IssuerUnavailable, message)
                }
            },
        }
    }
}
