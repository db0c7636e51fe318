//! A JWT as it is sent: three parts in Base64, of which nothing is believed yet.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::refusal::Refusal;
use super::strict_json::object;
use crate::signature_algorithm::Algorithm;

/// The longest token in bytes.
const MOST_BYTES: usize = 8 << 10;
/// The longest name of a key in bytes.
const MOST_KID: usize = 256;
/// Members of a header with which a token brings its own key, or that must be understood to check it. None of them is.
const REFUSED: [&str; 8] = ["jku", "x5u", "jwk", "x5c", "crit", "b64", "enc", "zip"];

/// The parts of a token. Until the signature is checked, anybody may have written them.
#[derive(Debug)]
pub(super) struct Compact<'a> {
    pub(super) algorithm: Algorithm,
    /// The name of the key.
    pub(super) kid: Option<String>,
    /// The kind of the token.
    pub(super) typ: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// What is signed.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// Whether a text has the form of a JWT: an object in Base64, and two dots. Tokens of the catalog have not.
pub(super) fn looks_like_one(text: &str) -> bool {
    text.starts_with("ey") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl<'a> Compact<'a> {
    /// Reads a token.
    ///
    /// # Errors
    /// It is longer than 8 KiB or does not have the form; its header names a key or something that is not understood; its
    /// algorithm is none of [`Algorithm`].
    pub(super) fn read(token: &'a str) -> Result<Self, Refusal> {
        if token.len() > MOST_BYTES {
            return Err(Refusal::TooLong);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(Refusal::NotCompact)?;
        let (header, claims) = signed.split_once('.').ok_or(Refusal::NotCompact)?;
        let decoded = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::NotCompact);
        let (header, claims, signature) = (decoded(header)?, decoded(claims)?, decoded(signature)?);
        let header = object(&header).map_err(|_| Refusal::NotStrict)?;
        if let Some(name) = REFUSED.into_iter().find(|name| header.contains_key(*name)) {
            return Err(Refusal::Header(name));
        }
        let algorithm = header.get("alg").and_then(Value::as_str).and_then(Algorithm::named);
        let algorithm = algorithm.ok_or(Refusal::Algorithm)?;
        let text = |name: &'static str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= MOST_KID => Ok(Some(text.clone())),
            Some(_) => Err(Refusal::Header(name)),
        };
        let (kid, typ) = (text("kid")?, text("typ")?);
        let claims = object(&claims).map_err(|_| Refusal::NotStrict)?;
        Ok(Self { algorithm, kid, typ, claims, signed: signed.as_bytes(), signature })
    }

    /// The issuer that the token names.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }
}
