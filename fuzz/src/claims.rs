//! What must hold for any header, any claims and any key set of an issuer.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_service::issuer_options::{ClaimValue, IssuerOptions, KeysFrom, RuleOptions};
use tidegate_service::issuers::Issuers;
use tidegate_service::tokens::Access;

/// The time of the checks, in seconds since 1970.
const NOW: i64 = 1_800_000_000;
const MICROS: i64 = 1_000_000;
const ISSUER: &str = "https://id.example.com/";
const VIEWERS: &str = "query:endpoint:logs.all";
const LEEWAY: i64 = 30;

/// A key that is always the same: its signatures are, too.
static SIGNER: LazyLock<Option<Ed25519KeyPair>> = LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).ok());

static OPTIONS: LazyLock<IssuerOptions> = LazyLock::new(|| IssuerOptions {
    name: "main".to_owned(),
    issuer: ISSUER.to_owned(),
    keys: Some(KeysFrom::Url("https://id.example.com/jwks".to_owned())),
    audience: vec!["tidegate".to_owned()],
    rules: vec![
        RuleOptions {
            name: "viewers".to_owned(),
            when: [("/roles".to_owned(), vec![ClaimValue::Text("viewer".to_owned())])].into(),
            scopes: VIEWERS.to_owned(),
            pin: [("project".to_owned(), "/org/project".to_owned())].into(),
            ..RuleOptions::default()
        },
        RuleOptions {
            name: "staff".to_owned(),
            when: [("/staff".to_owned(), vec![ClaimValue::Flag(true), ClaimValue::Number(1)])].into(),
            scopes: "query".to_owned(),
            redact: true,
            ..RuleOptions::default()
        },
    ],
    ..IssuerOptions::default()
});

/// The first line is a header, the second one claims, what follows a key set. A token is made of header and claims and signed
/// with a key that the set may have or not. Whoever is accepted, by these keys or by the right ones, has what a plain
/// reading of the same bytes says; all others are refused in words that are none of theirs.
pub fn claims(input: &[u8]) {
    let Some(signer) = &*SIGNER else { return };
    let (header, rest) = line(input);
    let (claims, set) = line(rest);
    let own = BASE64_URL_SAFE_NO_PAD.encode(signer.public_key());
    let right = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"k1","x":"{own}"}}]}}"#);
    let signed = format!("{}.{}", BASE64_URL_SAFE_NO_PAD.encode(header), BASE64_URL_SAFE_NO_PAD.encode(claims));
    let token = |signature: &[u8]| format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
    let good = token(signer.sign(signed.as_bytes()).as_ref());
    for set in [set, right.as_bytes()] {
        let Some(issuers) = Issuers::with_keys(&OPTIONS, set) else { continue };
        for forged in [token(&[]), token(&[0; 64]), token(&[0xff; 64]), format!("{good}A")] {
            let answer = issuers.access(&forged, NOW * MICROS);
            assert!(!matches!(answer, Some(Ok(_))), "a forged token is accepted");
        }
        let Some(answer) = issuers.access(&good, NOW * MICROS) else { continue };
        let again = issuers.access(&good, NOW * MICROS);
        assert_eq!(Some(answer.is_ok()), again.map(|again| again.is_ok()), "a token is good, and then it is not");
        match answer {
            Ok(access) => accepted(header, claims, set, &own, &access),
            Err(failure) => refused(&failure),
        }
        // At its end nothing of it is left.
        assert!(!matches!(issuers.access(&good, i64::MAX), Some(Ok(_))), "a token never ends");
    }
}

/// The bytes up to the end of the line, and those after it.
fn line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, rest) = input.split_at_checked(end).unwrap_or((input, &[]));
    (line, rest.get(1..).unwrap_or_default())
}

fn read(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn has(claim: Option<&Value>, wanted: &str) -> bool {
    match claim {
        Some(Value::Array(list)) => list.iter().any(|item| item == wanted),
        Some(claim) => claim == wanted,
        None => false,
    }
}

fn accepted(header: &[u8], claims: &[u8], set: &[u8], key: &str, access: &Access) {
    let (header, claims, set) = (read(header), read(claims), read(set));
    assert_eq!(header.get("alg").and_then(Value::as_str), Some("EdDSA"), "{header}");
    for name in ["jku", "x5u", "jwk", "x5c", "crit", "b64", "enc", "zip"] {
        assert!(header.get(name).is_none(), "{header}");
    }
    let keys = set.get("keys").and_then(Value::as_array);
    let is_meant = |entry: &&Value| {
        let named = header.get("kid").is_none_or(|kid| entry.get("kid") == Some(kid));
        named && entry.get("x").and_then(Value::as_str) == Some(key)
    };
    assert!(keys.is_some_and(|keys| keys.iter().any(|entry| is_meant(&entry))), "no key of {set} signed it");
    assert!(has(claims.get("aud"), "tidegate") && claims.get("iss").is_some_and(|iss| iss == ISSUER), "{claims}");
    let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    assert!(!subject.is_empty() && access.who == format!("main:{subject}"), "{claims}: {}", access.who);
    let time = |name: &str| claims.get(name).and_then(Value::as_f64);
    let now = |seconds: i64| f64::from(i32::try_from(NOW + seconds).unwrap_or_default());
    assert!(time("exp").is_some_and(|exp| exp > now(-LEEWAY) - 1.0 && exp <= now(86_400 + LEEWAY) + 1.0), "{claims}");
    for name in ["nbf", "iat"] {
        assert!(claims.get(name).is_none() || time(name).is_some_and(|time| time < now(LEEWAY + 1)), "{claims}");
    }
    let is_viewer = has(claims.get("roles"), "viewer");
    let pinned = access.pinned.get("project").map(String::as_str);
    if is_viewer {
        assert!(access.scopes() == VIEWERS && !access.is_redacted(), "{claims}: {}", access.scopes());
        let project = claims.pointer("/org/project");
        let project = project.and_then(|claim| claim.as_array().and_then(|list| list.first()).or(Some(claim)));
        let text = project.map(|project| project.as_str().map_or_else(|| project.to_string(), str::to_owned));
        assert!(pinned.is_some_and(|pinned| !pinned.trim().is_empty()), "{claims}");
        assert_eq!(pinned, text.as_deref(), "{claims}");
    } else {
        assert!(access.scopes() == "query" && access.is_redacted() && access.pinned.is_empty(), "{claims}");
    }
    assert!(!access.is_private() && access.id.is_none(), "{claims}");
}

fn refused(failure: &Failure) {
    assert!(matches!(failure.code, Code::InvalidToken | Code::Forbidden), "{failure:?}");
    const WORDS: [&str; 6] = [
        "the access token is refused: expired",
        "the access token is refused: audience",
        "the access token is refused: key",
        "the access token is refused: signature",
        "no rule of the issuer gives this token any rights",
        "the token lacks the claim to which the parameter 'project' is bound",
    ];
    assert!(WORDS.contains(&failure.message.as_str()), "{failure:?}");
}
