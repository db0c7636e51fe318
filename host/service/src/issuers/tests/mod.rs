//! Each trap of tokens, keys and rules, and what is done about it.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]

mod configuration;
mod denied;
mod forge;
mod rules;
mod traps;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_model::{Code, Failure};

use super::key_set::KeySet;
use super::source::{Fetched, SourceError};
use super::*;
use crate::issuer_options::{ClaimValue, KeysFrom, RuleOptions};
use forge::{ISSUER, NOW, Signer, claims};

/// An issuer with a rule for viewers, who are pinned to their project.
fn options() -> IssuerOptions {
    IssuerOptions {
        name: "main".to_owned(),
        issuer: ISSUER.to_owned(),
        keys: Some(KeysFrom::Url("https://id.example.com/jwks".to_owned())),
        audience: vec!["tidegate".to_owned(), "other".to_owned()],
        rules: vec![viewers()],
        ..IssuerOptions::default()
    }
}

fn viewers() -> RuleOptions {
    RuleOptions {
        name: "viewers".to_owned(),
        when: [("/roles".to_owned(), vec![ClaimValue::Text("viewer".to_owned())])].into(),
        scopes: "query:endpoint:logs.all".to_owned(),
        pin: [("project".to_owned(), "/org/project".to_owned())].into(),
        ..RuleOptions::default()
    }
}

/// An issuer whose key set a test changes. `None` is an issuer that is down.
#[derive(Clone, Default)]
struct Published {
    set: Arc<Mutex<Option<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl Published {
    fn set(&self, keys: Option<Vec<Value>>) {
        *self.set.lock().unwrap() = keys.map(|keys| json!({"keys": keys}));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn keyring(&self, options: &IssuerOptions, pause: Duration) -> Arc<Keyring> {
        let (own, algorithms) = (self.clone(), options.algorithms.clone());
        let reading = move || {
            own.asked.fetch_add(1, Ordering::Relaxed);
            let set = own.set.lock().unwrap().clone().ok_or(SourceError::Status(503))?;
            let keys = KeySet::read(set.to_string().as_bytes(), &algorithms, "main")?;
            Ok(Fetched { keys: Some(keys), age: Duration::from_secs(600) })
        };
        Arc::new(Keyring::reading("main", pause, Box::new(reading)))
    }
}

/// Issuers with one issuer, whose keys are read.
async fn issuers(options: IssuerOptions, keys: Vec<Value>) -> Issuers {
    let (issuers, _) = issuers_of(options, keys, Duration::from_secs(30)).await;
    issuers
}

async fn issuers_of(options: IssuerOptions, keys: Vec<Value>, pause: Duration) -> (Issuers, Published) {
    let published = Published::default();
    published.set(Some(keys));
    let keyring = published.keyring(&options, pause);
    keyring.refresh().await;
    let issuers = Issuers::of(vec![Issuer { options, keyring, counts: CheckCounts::default() }], Arc::default());
    (issuers, published)
}

/// What a token is answered at a time, in seconds since [`NOW`].
fn ask_at(issuers: &Issuers, token: &str, seconds: i64) -> Result<Arc<Access>, Failure> {
    issuers.access(token, (NOW + seconds) * 1_000_000).unwrap()
}

fn ask(issuers: &Issuers, token: &str) -> Result<Arc<Access>, Failure> {
    ask_at(issuers, token, 0)
}

/// The word with which a token is refused.
fn word(answer: Result<Arc<Access>, Failure>) -> String {
    match answer {
        Ok(_) => "good".to_owned(),
        Err(Failure { code: Code::InvalidToken, message, .. }) => {
            message.strip_prefix("the access token is refused: ").unwrap().to_owned()
        }
        Err(failure) => failure.code.name().to_owned(),
    }
}

#[tokio::test]
async fn a_token_has_what_its_rule_gives_until_it_ends() {
    let signer = Signer::new();
    let issuers = issuers(options(), vec![signer.es("k1")]).await;
    let token = signer.token(&claims());
    let access = ask(&issuers, &token).unwrap();
    assert_eq!((access.who.as_str(), access.scopes().as_str()), ("main:u1", "query:endpoint:logs.all"));
    assert_eq!(access.pinned, [("project".to_owned(), "p1".to_owned())].into());
    assert_eq!(access.expires_at(), Some((NOW + 600) * 1_000_000));
    assert!(access.id.is_none() && !access.is_private() && !access.is_redacted());
    // The same one again is not checked again.
    assert!(Arc::ptr_eq(&access, &ask(&issuers, &token).unwrap()));
    // Its end, and the clock of its issuer, are looked at each time.
    assert_eq!(word(ask_at(&issuers, &token, 629)), "good");
    assert_eq!(word(ask_at(&issuers, &token, 630)), "expired");
    // Another one of the same subject is counted with it.
    let again = ask(&issuers, &signer.token(&forge::with(json!({"iat": NOW})))).unwrap();
    assert_eq!((again.identity, again.account()), (access.identity, access.account()));
}

#[tokio::test]
async fn keys_are_rotated_and_taken_back() {
    let (old, new) = (Signer::new(), Signer::new());
    let (issuers, published) = issuers_of(options(), vec![old.es("k1")], Duration::ZERO).await;
    let token = old.token(&claims());
    assert_eq!(word(ask(&issuers, &token)), "good");
    // The issuer begins to sign with a key that is not known yet.
    published.set(Some(vec![old.es("k1"), new.es("k2")]));
    let later = new.sign(r#"{"alg":"ES256","kid":"k2"}"#, &claims().to_string());
    assert_eq!(word(ask(&issuers, &later)), "key");
    issuers.prepare(&later, NOW * 1_000_000).await;
    assert_eq!((word(ask(&issuers, &later)).as_str(), word(ask(&issuers, &token)).as_str()), ("good", "good"));
    // It takes back the old key: tokens that are kept are not good any more.
    published.set(Some(vec![new.es("k2")]));
    issuers.list[0].keyring.refresh().await;
    assert_eq!((word(ask(&issuers, &later)).as_str(), word(ask(&issuers, &token)).as_str()), ("good", "key"));
    // Another key takes the old name.
    published.set(Some(vec![new.es("k1")]));
    issuers.list[0].keyring.refresh().await;
    assert_eq!(word(ask(&issuers, &token)), "signature");
}

#[tokio::test]
async fn an_issuer_that_is_down_ends_no_good_session() {
    let signer = Signer::new();
    let (issuers, published) = issuers_of(options(), vec![signer.es("k1")], Duration::ZERO).await;
    for set in [None, Some(vec![]), Some(vec![json!({"kty": "unknown"})]), Some(vec![json!(5)])] {
        published.set(set);
        issuers.list[0].keyring.refresh().await;
        assert_eq!(issuers.failing(), (1, 1));
        assert_eq!(word(ask(&issuers, &signer.token(&claims()))), "good");
    }
    published.set(Some(vec![signer.es("k1")]));
    issuers.list[0].keyring.refresh().await;
    assert_eq!(issuers.failing(), (1, 0));
}

#[tokio::test]
async fn without_any_keys_it_is_the_issuer_s_fault() {
    let options = options();
    let published = Published::default();
    let keyring = published.keyring(&options, Duration::from_secs(30));
    let issuers = Issuers::of(vec![Issuer { options, keyring, counts: CheckCounts::default() }], Arc::default());
    let token = Signer::new().token(&claims());
    issuers.prepare(&token, NOW * 1_000_000).await;
    let failure = ask(&issuers, &token).unwrap_err();
    assert_eq!((failure.code, failure.code.status()), (Code::IssuerUnavailable, 503));
    assert_eq!((issuers.failing(), published.asked()), ((1, 1), 1));
}

#[tokio::test]
async fn a_flood_of_unknown_keys_asks_once_and_others_are_served() {
    let signer = Signer::new();
    let (issuers, published) = issuers_of(options(), vec![signer.es("k1")], Duration::from_secs(30)).await;
    let good = signer.token(&claims());
    let before = published.asked();
    for n in 0..2_000 {
        let header = format!(r#"{{"alg":"ES256","kid":"unknown {n}"}}"#);
        let token = format!("{}.{}.AAAA", forge::b64(header), forge::b64(claims().to_string()));
        issuers.prepare(&token, NOW * 1_000_000).await;
        assert_eq!(word(ask(&issuers, &token)), "key");
        assert_eq!(word(ask(&issuers, &good)), "good");
    }
    assert_eq!(published.asked(), before, "it was just asked");
    assert_eq!(issuers.kept.entry_count().max(1), 1, "refusals are not kept");
}

#[tokio::test]
async fn what_is_no_jwt_is_none_of_ours() {
    let signer = Signer::new();
    let issuers = issuers(options(), vec![signer.es("k1")]).await;
    for token in ["", "tg_0123456789abcdef", "a.b.c", "eyJ", "eyJ.a", "eyJ.a.b.c.d"] {
        assert!(issuers.access(token, 0).is_none(), "{token}");
    }
    let none = Issuers::of(Vec::new(), Arc::default());
    assert!(none.access(&signer.token(&claims()), 0).is_none());
}
