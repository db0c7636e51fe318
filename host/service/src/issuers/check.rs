//! Checks the issuers of a configuration when the service starts, so that none of their tokens is refused for a mistake of
//! the file, or may do more than was meant.

use std::collections::{BTreeMap, HashSet};

use super::address::Address;
use crate::issuer_options::{IssuerOptions, KeysFrom, RuleOptions};
use crate::tokens::NewToken;

/// The longest name of an issuer or a rule.
const MOST_NAME: usize = 64;

/// Checks all issuers.
///
/// # Errors
/// What is missing or contradicts something, where, and how to mend it.
pub(crate) fn check(issuers: &[IssuerOptions]) -> Result<(), String> {
    let (mut names, mut urls) = (HashSet::new(), HashSet::new());
    for (place, issuer) in issuers.iter().enumerate() {
        let named = if is_name(&issuer.name) { issuer.name.clone() } else { (place + 1).to_string() };
        let checked = check_issuer(issuer);
        checked.map_err(|message| format!("[[issuer]] {named}: {message}"))?;
        if !names.insert(&issuer.name) {
            return Err(format!("[[issuer]] {named}: there are two issuers of this name"));
        }
        if !urls.insert(&issuer.issuer) {
            return Err(format!("[[issuer]] {named}: there are two issuers with issuer = {:?}", issuer.issuer));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty() && name.len() <= MOST_NAME && name.chars().all(legal)
}

fn check_issuer(issuer: &IssuerOptions) -> Result<(), String> {
    let fail = |message: &str| Err(message.to_owned());
    if !is_name(&issuer.name) {
        return fail("name is a short name for log lines: letters, digits, -, _ and .");
    }
    if issuer.issuer.is_empty() {
        return fail("issuer is missing: what tokens have as iss, byte for byte");
    }
    if issuer.audience.is_empty() {
        return fail("audience is missing: without it, tokens for other services would be taken");
    }
    let secrets = issuer.algorithms.iter().filter(|algorithm| algorithm.is_secret()).count();
    if issuer.algorithms.is_empty() {
        return fail("algorithms is empty: no token could be checked");
    }
    if secrets > 0 && secrets < issuer.algorithms.len() {
        return fail(
            "algorithms has HS256, HS384 or HS512 beside those of public keys: a public key would be a secret",
        );
    }
    let cannot = |what: &str, error: &dyn std::fmt::Display| format!("{what} cannot be used: {error}");
    match &issuer.keys {
        None => return fail("keys is missing: { url = \"https://...\" }, { file = \"...\" } or { discover = true }"),
        Some(KeysFrom::File(_)) => {}
        Some(_) if secrets > 0 => {
            return fail("HS256, HS384 and HS512 need keys = { file = \"...\" }: a secret at an address is none");
        }
        Some(KeysFrom::Url(url)) => {
            Address::read(url).map_err(|error| cannot("the url of keys", &error))?;
        }
        Some(KeysFrom::Discovery { .. }) => {
            Address::read(&issuer.issuer).map_err(|error| cannot("issuer, where keys are discovered,", &error))?;
        }
    }
    if issuer.rules.is_empty() {
        return fail("it has no [[issuer.rule]]: none of its tokens could do anything");
    }
    let mut names = HashSet::new();
    for rule in &issuer.rules {
        check_rule(issuer, rule).map_err(|message| format!("rule {}: {message}", rule.name))?;
        if !names.insert(&rule.name) {
            return Err(format!("there are two rules with the name {}", rule.name));
        }
    }
    Ok(())
}

fn check_rule(issuer: &IssuerOptions, rule: &RuleOptions) -> Result<(), String> {
    if !is_name(&rule.name) {
        return Err("name is a short name: letters, digits, -, _ and .".to_owned());
    }
    for pointer in rule.when.keys().chain(rule.pin.values()) {
        if !is_pointer(pointer) {
            return Err(format!("{pointer:?} is no JSON pointer to a claim; write e.g. \"/org/project\""));
        }
    }
    if let Some((pointer, _)) = rule.when.iter().find(|(_, values)| values.is_empty()) {
        return Err(format!("when has no value for {pointer}, so the rule never matches"));
    }
    // What holds for a stored token holds for these. The value of a pin is not known before there is a token.
    let pinned: BTreeMap<String, String> = rule.pin.keys().map(|name| (name.clone(), "x".to_owned())).collect();
    let token = NewToken { pinned, limits: rule.limits.clone(), ..NewToken::new(&rule.scopes) };
    token.validate(0).map_err(|failure| failure.message)?;
    if token.is_private() && !issuer.allow_private {
        return Err(
            "it gives the scope private, which manages everything: allow_private = true at the issuer allows that"
                .to_owned(),
        );
    }
    if token.is_private() && rule.redact {
        return Err("redact protects nothing from a private token, which may change endpoints".to_owned());
    }
    if token.is_of_ingest() && rule.pin.is_empty() {
        return Err("it lets tokens send logs, and pins nothing: they could write logs of every tenant".to_owned());
    }
    Ok(())
}

/// Whether a text is a JSON pointer (RFC 6901) of at least one part.
fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    text.starts_with('/') && text.len() > 1 && escapes
}
