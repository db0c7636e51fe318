//! Tokens on the deny list, and the counts of what is checked.

use super::*;
use crate::tokens::{DeniedClaim, NewDenial};

fn deny(issuers: &Issuers, entries: &[(DeniedClaim, &str, &str, i64)]) {
    let record = |(claim, issuer, value, until): &(DeniedClaim, &str, &str, i64)| {
        let (issuer, value) = ((*issuer).to_owned(), (*value).to_owned());
        let until = (NOW + until) * 1_000_000;
        NewDenial { issuer, claim: *claim, value, until, reason: String::new() }.record(NOW)
    };
    issuers.denied.replace(&entries.iter().map(record).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_denied_token_is_refused_though_its_rights_are_kept() {
    let signer = Signer::new();
    let issuers = issuers(options(), vec![signer.es("k1")]).await;
    let (one, other) =
        (signer.token(&forge::with(json!({"jti": "t1"}))), signer.token(&forge::with(json!({"jti": "t2"}))));
    let stranger = signer.token(&forge::with(json!({"sub": "u2"})));
    let words = |seconds: i64| [&one, &other, &stranger].map(|token| word(ask_at(&issuers, token, seconds)));
    assert_eq!(words(0), ["good", "good", "good"]);
    deny(&issuers, &[(DeniedClaim::TokenId, ISSUER, "t1", 60)]);
    assert_eq!(words(0), ["denied", "good", "good"]);
    // Until its end.
    assert_eq!(
        (words(59), words(60)),
        (["denied", "good", "good"].map(str::to_owned), ["good", "good", "good"].map(str::to_owned))
    );
    deny(&issuers, &[(DeniedClaim::Subject, ISSUER, "u1", 60)]);
    assert_eq!(words(0), ["denied", "denied", "good"]);
    // A subject is none of another issuer, and no token.
    deny(
        &issuers,
        &[(DeniedClaim::Subject, "https://other.example.com/", "u1", 60), (DeniedClaim::TokenId, ISSUER, "u1", 60)],
    );
    assert_eq!(words(0), ["good", "good", "good"]);
    // A jti that is no text is none.
    let number = signer.token(&forge::with(json!({"jti": 1})));
    deny(&issuers, &[(DeniedClaim::TokenId, ISSUER, "1", 60)]);
    assert_eq!(word(ask(&issuers, &number)), "good");
}

#[tokio::test]
async fn only_who_has_a_token_learns_that_it_is_denied() {
    let (signer, forger) = (Signer::new(), Signer::new());
    let issuers = issuers(options(), vec![signer.es("k1")]).await;
    deny(&issuers, &[(DeniedClaim::Subject, ISSUER, "u1", 60)]);
    assert_eq!(word(ask(&issuers, &forger.token(&claims()))), "signature");
    assert_eq!(word(ask(&issuers, &signer.token(&claims()))), "denied");
}

#[tokio::test]
async fn checks_and_fetches_are_counted() {
    let (signer, forger) = (Signer::new(), Signer::new());
    let issuers = issuers(options(), vec![signer.es("k1")]).await;
    let good = signer.token(&claims());
    for token in [
        &good,
        &good,
        &forger.token(&claims()),
        &signer.token(&forge::with(json!({"roles": []}))),
        &signer.token(&forge::with(json!({"org": {}}))),
        &signer.token(&forge::with(json!({"iss": "https://other.example.com/"}))),
        "eyJ.a.b",
    ] {
        let _ = ask(&issuers, token);
    }
    let numbers: Vec<_> = issuers.numbers().collect();
    let counted = |of: &[(&'static str, u64)]| of.iter().filter(|(_, count)| *count > 0).copied().collect::<Vec<_>>();
    assert_eq!((numbers[0].name, numbers[0].accepted), ("main", 2));
    assert_eq!(counted(&numbers[0].refused), [("signature", 1), ("rule", 1), ("pin", 1)]);
    assert_eq!(counted(&numbers[0].fetches), [("read", 1)]);
    assert!(numbers[0].keys_age.is_some_and(|age| age < Duration::from_secs(60)));
    assert_eq!((numbers[1].name, counted(&numbers[1].refused)), ("", vec![("audience", 1), ("signature", 1)]));
    assert!(numbers[1].keys_age.is_none() && numbers[1].fetches.is_empty());
}
