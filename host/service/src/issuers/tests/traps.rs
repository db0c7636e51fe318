//! Hostile tokens, one row a trap; and hostile keys.

use serde_json::json;

use super::super::key::{Key, UnusableKey};
use super::super::key_set::{KeySet, NoKeySet};
use super::super::refusal::Refusal;
use super::forge::{ISSUER, NOW, RSA_N, RSA_PKCS1, RSA_PSS, RSA_SIGNED, Signer, b64, bytes, claims, with, with_secret};
use super::*;
use crate::signature_algorithm::Algorithm;

const HEADER: &str = r#"{"alg":"ES256","kid":"k1"}"#;

#[tokio::test]
async fn every_trap_is_refused_with_one_word() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let keys = vec![signer.es("k1"), signer.ed("k2"), json!({"kty": "RSA", "kid": "rsa", "n": RSA_N, "e": "AQAB"})];
    let issuers = issuers(options(), keys).await;
    let good = claims().to_string();
    let header = |header: &str| signer.sign(header, &good);
    let claim = |changes: serde_json::Value| signer.sign(HEADER, &with(changes).to_string());
    let unsigned = |header: &str, signature: &str| format!("{}.{}.{signature}", b64(header), b64(&good));
    let public = bytes(signer.es("k1")["x"].as_str().unwrap());
    let twice = good.replacen('{', &format!("{{\"sub\":\"admin\",\"iss\":\"{ISSUER}\","), 1);
    let nested =
        format!("{},\"deep\":{}{}}}", good.trim_end_matches('}').to_owned() + "}", "[".repeat(17), "]".repeat(17));
    let rows: Vec<(&str, String, &str)> = vec![
        ("good", header(HEADER), "good"),
        ("good: another algorithm, by its key", header(r#"{"alg":"EdDSA","kid":"k2"}"#), "good"),
        ("good: no kid, and one key of the algorithm", header(r#"{"alg":"ES256"}"#), "good"),
        // The algorithm.
        ("none", unsigned(r#"{"alg":"none"}"#, ""), "key"),
        ("none, with the name of a key", unsigned(r#"{"alg":"none","kid":"k1"}"#, ""), "key"),
        ("None, nOnE", unsigned(r#"{"alg":"nOnE","kid":"k1"}"#, ""), "key"),
        ("no alg", header(r#"{"kid":"k1"}"#), "key"),
        ("alg is a list", header(r#"{"alg":["ES256"],"kid":"k1"}"#), "key"),
        ("alg in small letters", header(r#"{"alg":"es256","kid":"k1"}"#), "key"),
        ("HS256 over a public key", with_secret(r#"{"alg":"HS256","kid":"k1"}"#, &good, &public), "key"),
        ("HS256 over a modulus", with_secret(r#"{"alg":"HS256","kid":"rsa"}"#, &good, RSA_N.as_bytes()), "key"),
        ("HS256 without a kid", with_secret(r#"{"alg":"HS256"}"#, &good, &public), "key"),
        ("the algorithm of another key", header(r#"{"alg":"EdDSA","kid":"k1"}"#), "key"),
        ("an algorithm that is not allowed", header(r#"{"alg":"ES384","kid":"k1"}"#), "key"),
        (
            "a known one that is not allowed, of a key that could",
            unsigned(r#"{"alg":"RS512","kid":"rsa"}"#, "AAAA"),
            "key",
        ),
        // Keys in the header.
        ("jku", header(r#"{"alg":"ES256","kid":"k1","jku":"https://evil.example.com/"}"#), "key"),
        ("x5u", header(r#"{"alg":"ES256","kid":"k1","x5u":"https://evil.example.com/"}"#), "key"),
        (
            "jwk",
            stranger.sign(&json!({"alg": "ES256", "kid": "k1", "jwk": stranger.es("k1")}).to_string(), &good),
            "key",
        ),
        ("x5c", header(r#"{"alg":"ES256","kid":"k1","x5c":["AAAA"]}"#), "key"),
        ("crit", header(r#"{"alg":"ES256","kid":"k1","crit":["exp"]}"#), "key"),
        ("crit, empty", header(r#"{"alg":"ES256","kid":"k1","crit":[]}"#), "key"),
        ("b64", header(r#"{"alg":"ES256","kid":"k1","b64":false}"#), "key"),
        ("zip", header(r#"{"alg":"ES256","kid":"k1","zip":"DEF"}"#), "key"),
        // The name of the key.
        ("an unknown kid", header(r#"{"alg":"ES256","kid":"k9"}"#), "key"),
        ("a kid that is a path", header(r#"{"alg":"ES256","kid":"../../../dev/null"}"#), "key"),
        ("a kid that is SQL", header(r#"{"alg":"ES256","kid":"' OR 1=1 --"}"#), "key"),
        ("a kid that is a number", header(r#"{"alg":"ES256","kid":1}"#), "key"),
        ("a kid of 257 bytes", header(&format!(r#"{{"alg":"ES256","kid":"{}"}}"#, "k".repeat(257))), "key"),
        // The signature.
        ("of somebody else", stranger.sign(HEADER, &good), "signature"),
        ("empty", unsigned(HEADER, ""), "signature"),
        ("zeros", unsigned(HEADER, &b64([0; 64])), "signature"),
        ("in DER", unsigned(HEADER, &b64([0x30, 6, 2, 1, 1, 2, 1, 1])), "signature"),
        (
            "claims of another token",
            {
                let (one, other) = (header(HEADER), claim(json!({"sub": "admin"})));
                let (a, b): (Vec<_>, Vec<_>) = (one.split('.').collect(), other.split('.').collect());
                format!("{}.{}.{}", a[0], b[1], a[2])
            },
            "signature",
        ),
        // The form.
        ("longer than 8 KiB", claim(json!({"x": "x".repeat(8 << 10)})), "signature"),
        ("padding", header(HEADER) + "=", "signature"),
        ("standard Base64", format!("{}+/.a.b", header(HEADER).split('.').next().unwrap()), "signature"),
        ("a space", header(HEADER).replacen('.', " .", 1), "signature"),
        ("a header that is cut", header(r#"{"alg":"ES256""#), "signature"),
        ("a header and more", header(r#"{"alg":"ES256","kid":"k1"}{}"#), "signature"),
        ("a key of the header twice", header(r#"{"alg":"none","alg":"ES256","kid":"k1"}"#), "signature"),
        ("a key of the header twice, escaped", header(r#"{"alg":"ES256","kid":"k1","\u0061lg":"none"}"#), "signature"),
        ("a claim twice", signer.sign(HEADER, &twice), "signature"),
        (
            "a claim within a claim twice",
            signer.sign(HEADER, &good.replace("\"p1\"", "\"p1\",\"project\":\"p2\"")),
            "signature",
        ),
        ("nesting", signer.sign(HEADER, &nested), "signature"),
        ("claims that are a list", signer.sign(HEADER, "[]"), "signature"),
        // The issuer.
        ("no iss", claim(json!({"iss": null})), "audience"),
        ("another iss", claim(json!({"iss": "https://evil.example.com/"})), "audience"),
        ("iss without its slash", claim(json!({"iss": ISSUER.trim_end_matches('/')})), "audience"),
        ("iss is a list", claim(json!({"iss": [ISSUER]})), "audience"),
        // The audience.
        ("no aud", claim(json!({"aud": null})), "audience"),
        ("another aud", claim(json!({"aud": "tidegate.example.com"})), "audience"),
        ("empty aud", claim(json!({"aud": []})), "audience"),
        ("aud is a number", claim(json!({"aud": 5})), "audience"),
        ("aud has a number", claim(json!({"aud": ["tidegate", 5]})), "audience"),
        ("good: one of several aud", claim(json!({"aud": ["x", "other"]})), "good"),
        // The subject.
        ("no sub", claim(json!({"sub": null})), "signature"),
        ("empty sub", claim(json!({"sub": ""})), "signature"),
        ("sub is a number", claim(json!({"sub": 5})), "signature"),
        ("sub with a line break", claim(json!({"sub": "a\nb"})), "signature"),
        ("sub of 256 bytes", claim(json!({"sub": "s".repeat(256)})), "signature"),
        // Times.
        ("no exp", claim(json!({"exp": null})), "signature"),
        ("exp is null", signer.sign(HEADER, &good.replace(&(NOW + 600).to_string(), "null")), "signature"),
        ("exp is a text", claim(json!({"exp": (NOW + 600).to_string()})), "signature"),
        ("exp is a list", claim(json!({"exp": [NOW + 600]})), "signature"),
        ("exp is negative", claim(json!({"exp": -1})), "signature"),
        ("exp beyond all years", claim(json!({"exp": u64::MAX})), "signature"),
        ("exp is huge", claim(json!({"exp": 1e300})), "signature"),
        ("exp in milliseconds", claim(json!({"exp": NOW * 1_000})), "signature"),
        ("good: exp with a fraction", claim(json!({"exp": 1_800_000_600.75})), "good"),
        ("expired", claim(json!({"exp": NOW - 30})), "expired"),
        ("good: expired within the leeway", claim(json!({"exp": NOW - 29, "iat": NOW - 60})), "good"),
        ("nbf in the future", claim(json!({"nbf": NOW + 31})), "expired"),
        ("good: nbf within the leeway", claim(json!({"nbf": NOW + 30})), "good"),
        ("nbf is a text", claim(json!({"nbf": "1"})), "signature"),
        ("iat in the future", claim(json!({"iat": NOW + 31})), "expired"),
        ("iat is a text", claim(json!({"iat": "1"})), "signature"),
        ("a life of more than a day", claim(json!({"iat": NOW - 10, "exp": NOW + 86_400})), "expired"),
        ("good: a life of a day", claim(json!({"iat": NOW - 10, "exp": NOW + 86_390})), "good"),
        ("good: no iat, and less than a day left", claim(json!({"iat": null, "exp": NOW + 86_400})), "good"),
        ("no iat, and more than a day left", claim(json!({"iat": null, "exp": NOW + 86_401})), "expired"),
        // Rights.
        ("no rule", claim(json!({"roles": ["visitor"]})), "forbidden"),
        ("the claim of the pin is missing", claim(json!({"org": null})), "forbidden"),
        ("it is empty", claim(json!({"org": {"project": ""}})), "forbidden"),
    ];
    for (what, token, expected) in rows {
        assert!(what.starts_with("good") == (expected == "good"), "{what}");
        assert_eq!(word(ask(&issuers, &token)), expected, "{what}");
        // The second time nothing else is known of it.
        assert_eq!(word(ask(&issuers, &token)), expected, "{what}, again");
    }
}

#[tokio::test]
async fn what_is_told_of_a_refused_token_is_one_word() {
    let signer = Signer::new();
    let issuers = issuers(options(), vec![signer.es("k1")]).await;
    let token = signer.token(&with(json!({"aud": "somebody-else", "sub": "a-subject"})));
    let failure = ask(&issuers, &token).unwrap_err();
    assert_eq!(failure, Failure::new(Code::InvalidToken, "the access token is refused: audience"));
}

#[tokio::test]
async fn an_id_token_is_no_access_token_where_the_type_is_known() {
    let signer = Signer::new();
    let typed = IssuerOptions { typ: Some("at+jwt".to_owned()), ..options() };
    let issuers = issuers(typed, vec![signer.es("k1")]).await;
    let of = |typ: &str| signer.sign(&format!(r#"{{"alg":"ES256","kid":"k1"{typ}}}"#), &claims().to_string());
    for typ in [r#","typ":"at+jwt""#, r#","typ":"AT+JWT""#, r#","typ":"application/at+jwt""#] {
        assert_eq!(word(ask(&issuers, &of(typ))), "good", "{typ}");
    }
    for typ in ["", r#","typ":"JWT""#, r#","typ":"""#] {
        assert_eq!(word(ask(&issuers, &of(typ))), "audience", "{typ}");
    }
    assert_eq!(word(ask(&issuers, &of(r#","typ":5"#))), "key");
}

#[tokio::test]
async fn not_before_ends_all_older_tokens() {
    let signer = Signer::new();
    let issuers = issuers(IssuerOptions { not_before: Some(NOW - 5), ..options() }, vec![signer.es("k1")]).await;
    for (iat, expected) in [(json!(NOW - 6), "expired"), (json!(null), "expired"), (json!(NOW - 5), "good")] {
        assert_eq!(word(ask(&issuers, &signer.token(&with(json!({"iat": iat}))))), expected, "{iat}");
    }
}

#[tokio::test]
async fn without_a_kid_there_must_be_no_choice() {
    let (signer, other) = (Signer::new(), Signer::new());
    let token = signer.sign(r#"{"alg":"ES256"}"#, &claims().to_string());
    let one = issuers(options(), vec![signer.es("k1"), signer.ed("k2")]).await;
    assert_eq!(word(ask(&one, &token)), "good");
    let two = issuers(options(), vec![signer.es("k1"), other.es("k2")]).await;
    assert_eq!(word(ask(&two, &token)), "key");
    // Nor with one that two keys have.
    let same = issuers(options(), vec![signer.es("k1"), other.es("k1")]).await;
    assert_eq!(word(ask(&same, &signer.token(&claims()))), "key");
}

#[tokio::test]
async fn secrets_are_for_secrets() {
    let secret = json!({"kty": "oct", "kid": "s", "alg": "HS256", "k": b64([7; 32])});
    let header = r#"{"alg":"HS256","kid":"s"}"#;
    let token = with_secret(header, &claims().to_string(), &[7; 32]);
    let hs = IssuerOptions { algorithms: vec![Algorithm::Hs256], ..options() };
    assert_eq!(word(ask(&issuers(hs.clone(), vec![secret.clone()]).await, &token)), "good");
    let wrong = with_secret(header, &claims().to_string(), &[8; 32]);
    assert_eq!(word(ask(&issuers(hs, vec![secret.clone()]).await, &wrong)), "signature");
    // A secret that stands among public keys is left out.
    let signer = Signer::new();
    let public = issuers(options(), vec![signer.es("k1"), secret]).await;
    assert_eq!(word(ask(&public, &token)), "key");
}

fn read(entry: &Value, allowed: &[Algorithm]) -> Result<Key, UnusableKey> {
    Key::read(entry.as_object().unwrap(), allowed)
}

#[test]
fn rsa_keys_check_what_rsa_keys_sign() {
    let all = &Algorithm::ALL;
    let key = read(&json!({"kty": "RSA", "n": RSA_N, "e": "AQAB"}), all).unwrap();
    for (algorithm, signature, good) in [
        (Algorithm::Rs256, RSA_PKCS1, true),
        (Algorithm::Ps256, RSA_PSS, true),
        (Algorithm::Rs256, RSA_PSS, false),
        (Algorithm::Ps256, RSA_PKCS1, false),
        (Algorithm::Rs384, RSA_PKCS1, false),
        (Algorithm::Es256, RSA_PKCS1, false),
        (Algorithm::Hs256, RSA_PKCS1, false),
    ] {
        assert_eq!(key.verifies(algorithm, RSA_SIGNED, &bytes(signature)), good, "{algorithm:?}");
        assert!(!key.verifies(algorithm, b"something else", &bytes(signature)), "{algorithm:?}");
    }
    // A key that names its algorithm is for no other one.
    let named = read(&json!({"kty": "RSA", "alg": "PS256", "n": RSA_N, "e": "AQAB"}), all).unwrap();
    assert!(named.verifies(Algorithm::Ps256, RSA_SIGNED, &bytes(RSA_PSS)));
    assert!(!named.verifies(Algorithm::Rs256, RSA_SIGNED, &bytes(RSA_PKCS1)));
    // Some issuers write a zero before the number.
    let padded = json!({"kty": "RSA", "n": b64([vec![0], bytes(RSA_N)].concat()), "e": "AAEAAQ"});
    assert!(read(&padded, all).unwrap().verifies(Algorithm::Rs256, RSA_SIGNED, &bytes(RSA_PKCS1)));
}

#[test]
fn keys_that_are_of_no_use_are_left_out() {
    let public = [Algorithm::Es256, Algorithm::EdDsa, Algorithm::Rs256];
    let signer = Signer::new();
    let changed = |name: &str, value: Value| {
        let mut key = signer.es("k1");
        key[name] = value;
        key
    };
    let rsa = |bytes: usize| json!({"kty": "RSA", "n": b64(vec![255; bytes]), "e": "AQAB"});
    for (what, key, expected) in [
        ("a secret", json!({"kty": "oct", "k": b64([7; 64])}), UnusableKey::OtherAlgorithm),
        ("RSA of 1024 bits", rsa(128), UnusableKey::Size),
        ("RSA of 2040 bits", rsa(255), UnusableKey::Size),
        ("RSA of 16384 bits", rsa(2048), UnusableKey::Size),
        (
            "RSA with leading zeros",
            json!({"kty": "RSA", "n": b64([vec![0; 255], vec![255]].concat()), "e": "AQAB"}),
            UnusableKey::Size,
        ),
        ("RSA without an exponent", json!({"kty": "RSA", "n": RSA_N, "e": ""}), UnusableKey::Size),
        ("RSA with a long exponent", json!({"kty": "RSA", "n": RSA_N, "e": b64([255; 6])}), UnusableKey::Size),
        ("for encryption", changed("use", json!("enc")), UnusableKey::OtherUse),
        ("for signing", changed("key_ops", json!(["sign"])), UnusableKey::OtherUse),
        ("key_ops is a text", changed("key_ops", json!("verify")), UnusableKey::OtherUse),
        ("private", changed("d", json!("AAAA")), UnusableKey::Private),
        ("another curve", changed("crv", json!("secp256k1")), UnusableKey::OtherAlgorithm),
        ("a curve that is not allowed", changed("crv", json!("P-384")), UnusableKey::OtherAlgorithm),
        ("an algorithm of another kind", changed("alg", json!("RS256")), UnusableKey::OtherAlgorithm),
        ("none", changed("alg", json!("none")), UnusableKey::OtherAlgorithm),
        ("a short coordinate", changed("x", json!("AAAA")), UnusableKey::Malformed),
        ("a coordinate with padding", changed("x", json!("AAA=")), UnusableKey::Malformed),
        ("kid is a number", changed("kid", json!(5)), UnusableKey::Malformed),
        ("no kind", json!({}), UnusableKey::Malformed),
    ] {
        assert_eq!(read(&key, &public).unwrap_err(), expected, "{what}");
    }
    let short = json!({"kty": "oct", "k": b64([7; 31])});
    assert_eq!(read(&short, &[Algorithm::Hs256]).unwrap_err(), UnusableKey::Size);
    // A secret of 32 bytes is none for a longer hash.
    let secret = read(&json!({"kty": "oct", "k": b64([7; 32])}), &[Algorithm::Hs256, Algorithm::Hs512]).unwrap();
    assert_eq!(secret.algorithms, [Algorithm::Hs256]);
}

#[test]
fn key_sets_are_bounded_and_have_one_meaning() {
    let key = Signer::new().es("k1");
    let set = |keys: &[Value]| json!({"keys": keys}).to_string();
    let read = |text: &str| KeySet::read(text.as_bytes(), &[Algorithm::Es256], "test").map(|_| ());
    assert_eq!(read(&set(&vec![key.clone(); 64])), Ok(()));
    assert_eq!(read(&set(&vec![key.clone(); 65])), Err(NoKeySet::TooMany));
    assert_eq!(read(&set(&[])), Err(NoKeySet::Empty));
    assert_eq!(read(&set(&[json!({"kty": "new"}), key.clone()])), Ok(()), "a new kind breaks nothing");
    let twice = set(&[key]).replacen("\"kty\"", "\"kty\":\"oct\",\"kty\"", 1);
    for text in ["", "{}", "[]", r#"{"keys":{}}"#, r#"{"keys":[1]}"#, &twice] {
        assert_eq!(read(text), Err(NoKeySet::Malformed), "{text}");
    }
    let none = KeySet::default();
    assert_eq!(none.find(None, Algorithm::Es256).err(), Some(Refusal::UnknownKey));
}
