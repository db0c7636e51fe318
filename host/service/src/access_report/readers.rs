//! Who reads without a stored token: the tokens of an issuer to which a rule applies, and alerts, whose rows go to a receiver.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_model::{Alert, Manifest};
use uuid::Uuid;

use crate::issuer_options::{IssuerOptions, RuleOptions};
use crate::tokens::{Access, ClassKey, IssuedAccess};

/// What stands for the value that a token of a rule pins: it is in the token.
const OWN: &str = "own";

/// A rule of an issuer.
#[derive(Debug, Clone)]
pub struct AccessRule {
    /// The names of the issuer and of the rule, with a slash between them.
    pub name: String,
    /// The pinned names, with JSON pointers to the claims that have the values.
    pub pin: BTreeMap<String, String>,
    /// What a token of the rule may do.
    pub access: Arc<Access>,
}

impl AccessRule {
    /// All rules, in the order of the configuration.
    pub(crate) fn all(issuers: &[IssuerOptions]) -> Vec<Self> {
        issuers.iter().flat_map(|issuer| issuer.rules.iter().map(|rule| Self::of(issuer, rule))).collect()
    }

    pub(super) fn of(issuer: &IssuerOptions, rule: &RuleOptions) -> Self {
        let pinned = rule.pin.keys().map(|name| (name.clone(), OWN.to_owned())).collect();
        let issued = IssuedAccess {
            name: &issuer.name,
            issuer: &issuer.issuer,
            subject: "",
            id: None,
            scopes: &rule.scopes,
            pinned,
            limits: rule.limits.clone(),
            redact: rule.redact,
            expires_at: i64::MAX,
        };
        let name = format!("{}/{}", issuer.name, rule.name);
        Self { name, pin: rule.pin.clone(), access: Arc::new(issued.access()) }
    }
}

/// An alert of an endpoint.
#[derive(Debug, Clone)]
pub struct AlertReader {
    /// Its name.
    pub name: String,
    /// Its endpoint.
    pub endpoint: String,
    /// The tenant for which it asks; without any, it reads the rows of all.
    pub tenant: BTreeMap<String, String>,
    /// The scheme and the host of its receiver. Its address may have secrets in it, and is not told.
    pub receiver: String,
    /// Whether it is paused.
    pub paused: bool,
    /// As what it asks.
    pub(crate) access: Arc<Access>,
    /// Where its rows go. Another address is another reader.
    url: String,
}

impl AlertReader {
    fn of(alert: &Alert, endpoint: &str, id: Uuid) -> Self {
        Self {
            name: alert.name.clone(),
            endpoint: endpoint.to_owned(),
            tenant: alert.tenant.clone(),
            receiver: receiver(&alert.url),
            paused: alert.paused,
            access: Arc::new(Access::to_endpoint(id, "an alert", alert.tenant.clone())),
            url: alert.url.clone(),
        }
    }

    /// Whether another version of an endpoint has this alert, with the same receiver.
    pub(super) fn is(&self, other: &Self) -> bool {
        (&self.name, &self.url) == (&other.name, &other.url)
    }

    /// What it is called in what a change widens.
    pub(super) fn who(&self) -> String {
        format!("the receiver of the alert {} of {}", self.name, self.endpoint)
    }

    /// Its class: alone with those that ask for the same tenant, since plans have the value.
    pub(super) fn key(&self) -> ClassKey {
        let pinned = self.tenant.iter().map(|(name, value)| format!("{name}={value}")).collect();
        ClassKey { scopes: self.access.scopes(), pinned, limits: String::new() }
    }
}

/// The alerts of a version of an endpoint. One that is new has no id yet.
pub(super) fn alerts_of(manifest: &Manifest, id: Option<Uuid>) -> impl Iterator<Item = AlertReader> {
    let id = id.unwrap_or_default();
    manifest.alerts.iter().map(move |alert| AlertReader::of(alert, manifest.name.as_str(), id))
}

/// The scheme, host and port of an address.
fn receiver(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_without_what_may_be_secret() {
        for (url, told) in [
            ("https://hooks.example.com/T0/B0/secret", "https://hooks.example.com"),
            ("http://u:p@[::1]:9000?key=x", "http://[::1]:9000"),
            ("odd", ""),
        ] {
            assert_eq!(receiver(url), told);
        }
    }

    #[test]
    fn a_rule_is_named_by_its_issuer_and_pins_names() {
        let rule = RuleOptions {
            name: "0".to_owned(),
            scopes: "query".to_owned(),
            pin: BTreeMap::from([("project".to_owned(), "/org/project".to_owned())]),
            redact: true,
            ..RuleOptions::default()
        };
        let issuer = IssuerOptions { name: "main".to_owned(), rules: vec![rule], ..IssuerOptions::default() };
        let rules = AccessRule::all(&[issuer]);
        let told: Vec<_> = rules.iter().map(|rule| (rule.name.as_str(), rule.access.class().pinned)).collect();
        assert_eq!(told, [("main/0", vec!["project".to_owned()])]);
        assert!(rules.iter().all(|rule| rule.access.is_redacted()));
    }
}
