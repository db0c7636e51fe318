//! Issuers whose JWTs are access tokens: `[[issuer]]` and `[[issuer.rule]]` of the configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_model::LimitSet;

use crate::networks::Network;
use crate::signature_algorithm::Algorithm;

/// An issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerOptions {
    /// What it is called here: in log lines, and as the author of versions.
    pub name: String,
    /// What its tokens have as `iss`, byte for byte.
    pub issuer: String,
    /// Where its keys are. Without any, no token could be checked, so it is refused.
    pub keys: Option<KeysFrom>,
    /// What its tokens have one of as `aud`.
    pub audience: Vec<String>,
    /// The algorithms that its signatures may have.
    pub algorithms: Vec<Algorithm>,
    /// What its tokens have as `typ`, if they must have one. `at+jwt` keeps out ID tokens, which are for somebody else.
    pub typ: Option<String>,
    /// How far its clock may differ from that of this server.
    pub leeway: Duration,
    /// The longest time from `iat` to `exp`.
    pub longest_life: Duration,
    /// Tokens that were issued before this are refused: seconds since 1970.
    pub not_before: Option<i64>,
    /// Whether a rule may give the scope `private`.
    pub allow_private: bool,
    /// The networks that its keys may be in though they are not of the public internet.
    pub allow_networks: Vec<Network>,
    /// The least time between two requests for its keys.
    pub fetch_pause: Duration,
    /// What its tokens may do. The first rule that matches a token applies, and no other.
    pub rules: Vec<RuleOptions>,
}

impl Default for IssuerOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            issuer: String::new(),
            keys: None,
            audience: Vec::new(),
            algorithms: vec![Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256, Algorithm::Ps256],
            typ: None,
            leeway: Duration::from_secs(30),
            longest_life: Duration::from_secs(24 * 60 * 60),
            not_before: None,
            allow_private: false,
            allow_networks: Vec::new(),
            fetch_pause: Duration::from_secs(30),
            rules: Vec::new(),
        }
    }
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysFrom {
    /// A key set at an address.
    Url(String),
    /// A key set in a file, which is read again when it changes.
    File(PathBuf),
    /// The address that the issuer's discovery document names.
    Discovery {
        /// The host that the address must have; none is the host of the issuer.
        host: Option<String>,
    },
}

/// What tokens of an issuer may do, if their claims are these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleOptions {
    /// What it is called in log lines and reports; its number unless set.
    pub name: String,
    /// JSON pointers into the claims, and what must stand there. A list of values means any of them.
    pub when: BTreeMap<String, Vec<ClaimValue>>,
    /// The scopes, separated by spaces.
    pub scopes: String,
    /// Parameters, and JSON pointers to the claims that they are pinned to.
    pub pin: BTreeMap<String, String>,
    /// The limits of a request, where they are lower than the server's limits.
    pub limits: LimitSet,
    /// Whether personal data is masked in every answer.
    pub redact: bool,
}

/// A value that a claim is compared with. It equals a claim of the same JSON type only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClaimValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Flag(bool),
}
