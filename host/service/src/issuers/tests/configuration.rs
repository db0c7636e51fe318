//! What a configuration of issuers is refused for.

use super::*;
use crate::signature_algorithm::Algorithm;

type Change = fn(&mut IssuerOptions);

#[test]
fn what_would_let_anybody_in_is_refused() {
    assert_eq!(check(&[options()]), Ok(()));
    let rows: Vec<(Change, &str)> = vec![
        (|o| o.name = String::new(), "name is a short name"),
        (|o| o.name = "a:b".to_owned(), "name is a short name"),
        (|o| o.issuer = String::new(), "issuer is missing"),
        (|o| o.audience = Vec::new(), "audience is missing"),
        (|o| o.algorithms = Vec::new(), "algorithms is empty"),
        (|o| o.algorithms = vec![Algorithm::Es256, Algorithm::Hs256], "beside those of public keys"),
        (|o| o.algorithms = vec![Algorithm::Hs256], "need keys = { file"),
        (|o| o.keys = None, "keys is missing"),
        (|o| o.keys = Some(KeysFrom::Url("http://id.example.com/jwks".to_owned())), "no address with https"),
        (|o| o.keys = Some(KeysFrom::Url("file:///etc/passwd".to_owned())), "no address with https"),
        (
            |o| {
                o.keys = Some(KeysFrom::Discovery { host: None });
                o.issuer = "accounts.example.com".to_owned();
            },
            "where keys are discovered",
        ),
        (|o| o.rules = Vec::new(), "no [[issuer.rule]]"),
        (|o| o.rules.push(viewers()), "two rules with the name viewers"),
        (|o| o.rules[0].scopes = "quer".to_owned(), "there is no scope 'quer'"),
        (|o| o.rules[0].scopes = String::new(), "a token needs scopes"),
        (|o| o.rules[0].pin.values_mut().for_each(|pointer| *pointer = "org".to_owned()), "no JSON pointer"),
        (|o| o.rules[0].pin.values_mut().for_each(|pointer| *pointer = "/".to_owned()), "no JSON pointer"),
        (|o| o.rules[0].pin.values_mut().for_each(|pointer| *pointer = "/a~2".to_owned()), "no JSON pointer"),
        (|o| o.rules[0].pin = [("sql".to_owned(), "/x".to_owned())].into(), "carries ad-hoc queries"),
        (|o| o.rules[0].when = [("roles".to_owned(), Vec::new())].into(), "no JSON pointer"),
        (|o| o.rules[0].when = [("/roles".to_owned(), Vec::new())].into(), "never matches"),
        (
            |o| {
                o.rules[0].scopes = "private".to_owned();
                o.rules[0].pin.clear();
            },
            "allow_private = true",
        ),
        (|o| o.rules[0].scopes = "private".to_owned(), "would protect nothing"),
        (
            |o| {
                o.allow_private = true;
                o.rules[0].scopes = "private".to_owned();
                o.rules[0].pin.clear();
                o.rules[0].redact = true;
            },
            "redact protects nothing",
        ),
        (
            |o| {
                o.rules[0].scopes = "ingest".to_owned();
                o.rules[0].pin.clear();
            },
            "logs of every tenant",
        ),
    ];
    for (change, words) in rows {
        let mut changed = options();
        change(&mut changed);
        let message = check(&[changed]).unwrap_err();
        assert!(message.starts_with("[[issuer]] ") && message.contains(words), "{words}: {message}");
    }
    for (name, issuer, words) in [("main", "https://other.example.com/", "this name"), ("other", ISSUER, "issuer = ")] {
        let other = IssuerOptions { name: name.to_owned(), issuer: issuer.to_owned(), ..options() };
        assert!(check(&[options(), other]).unwrap_err().contains(words), "{words}");
    }
    let mut private = options();
    private.allow_private = true;
    private.rules[0].scopes = "private".to_owned();
    private.rules[0].pin.clear();
    assert_eq!(check(&[private]), Ok(()));
}
