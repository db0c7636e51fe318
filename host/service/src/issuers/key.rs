//! A key of an issuer, with the algorithms that its signatures may have.
//!
//! A key is kept with what it is for. The header of a token only chooses among that: so an RSA key never becomes a secret
//! for HMAC, whatever a token says.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};

use crate::signature_algorithm::Algorithm;

/// The bits that an RSA modulus may have.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// The longest exponent of an RSA key in bytes, which is what `ring` takes.
const MOST_EXPONENT: usize = 5;

/// A key of an issuer.
#[derive(Debug)]
pub(super) struct Key {
    /// Its name.
    pub(super) kid: Option<String>,
    /// What its signatures may be; never empty.
    pub(super) algorithms: Vec<Algorithm>,
    material: Material,
}

enum Material {
    /// An uncompressed point of an elliptic curve, or a key of Ed25519.
    Point(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Secret(Vec<u8>),
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Point(_) => "Point",
            Self::Rsa { .. } => "Rsa",
            Self::Secret(_) => "Secret",
        })
    }
}

/// Why an entry of a key set is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnusableKey {
    #[error("it is not for checking signatures")]
    OtherUse,
    #[error("no algorithm that the issuer may use fits it")]
    OtherAlgorithm,
    #[error("it is not written as RFC 7517 has it")]
    Malformed,
    #[error("its size is not allowed: RSA has 2048 to 8192 bits, a secret as many as its hash at least")]
    Size,
    #[error("it is a private key, so anybody who reads it can sign")]
    Private,
}

impl Key {
    /// The key of an entry of a key set (RFC 7517), for the algorithms in `allowed` that fit it. If the entry names an
    /// algorithm, only for that one.
    ///
    /// # Errors
    /// Why the entry is of no use here.
    pub(super) fn read(entry: &Map<String, Value>, allowed: &[Algorithm]) -> Result<Self, UnusableKey> {
        let text = |name: &str| match entry.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(UnusableKey::Malformed),
        };
        if text("use")?.is_some_and(|of| of != "sig") {
            return Err(UnusableKey::OtherUse);
        }
        let verifies = |operations: &Value| {
            let mut operations = operations.as_array().into_iter().flatten();
            operations.any(|operation| operation.as_str() == Some("verify"))
        };
        if entry.get("key_ops").is_some_and(|operations| !verifies(operations)) {
            return Err(UnusableKey::OtherUse);
        }
        let kind = text("kty")?.ok_or(UnusableKey::Malformed)?;
        if kind != "oct" && entry.contains_key("d") {
            return Err(UnusableKey::Private);
        }
        let fits = fitting(kind, text("crv")?);
        let named = text("alg")?;
        let is_meant = |algorithm: &Algorithm| named.is_none_or(|name| name == algorithm.name());
        let algorithms = fits.iter().copied().filter(|own| allowed.contains(own)).filter(is_meant);
        let mut algorithms: Vec<_> = algorithms.collect();
        let bytes = |name: &str| {
            let text = text(name)?.ok_or(UnusableKey::Malformed)?;
            BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| UnusableKey::Malformed)
        };
        if algorithms.is_empty() {
            return Err(UnusableKey::OtherAlgorithm);
        }
        let material = match kind {
            "EC" => {
                let length = if fits == [Algorithm::Es256] { 32 } else { 48 };
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != length || y.len() != length {
                    return Err(UnusableKey::Malformed);
                }
                Material::Point([vec![4], x, y].concat())
            }
            "OKP" => match bytes("x")? {
                x if x.len() == 32 => Material::Point(x),
                _ => return Err(UnusableKey::Malformed),
            },
            "RSA" => {
                let (n, e) = (without_zeros(bytes("n")?), without_zeros(bytes("e")?));
                let bits = n.first().map_or(0, |first| n.len() * 8 - first.leading_zeros() as usize);
                if !RSA_BITS.contains(&bits) || e.is_empty() || e.len() > MOST_EXPONENT {
                    return Err(UnusableKey::Size);
                }
                Material::Rsa { n, e }
            }
            _ => {
                let secret = bytes("k")?;
                algorithms.retain(|algorithm| secret.len() >= hmac_of(*algorithm).digest_algorithm().output_len());
                if algorithms.is_empty() {
                    return Err(UnusableKey::Size);
                }
                Material::Secret(secret)
            }
        };
        Ok(Self { kid: text("kid")?.map(str::to_owned), algorithms, material })
    }

    /// Whether the key made this signature of these bytes. Never for an algorithm that is none of its own.
    pub(super) fn verifies(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        if !self.algorithms.contains(&algorithm) {
            return false;
        }
        match &self.material {
            Material::Point(point) => curve_of(algorithm)
                .is_some_and(|curve| UnparsedPublicKey::new(curve, point).verify(signed, signature).is_ok()),
            Material::Rsa { n, e } => {
                let key = RsaPublicKeyComponents { n, e };
                rsa_of(algorithm).is_some_and(|rsa| key.verify(rsa, signed, signature).is_ok())
            }
            Material::Secret(secret) => {
                let key = hmac::Key::new(hmac_of(algorithm), secret);
                algorithm.is_secret() && hmac::verify(&key, signed, signature).is_ok()
            }
        }
    }
}

/// The algorithms that a kind of key can have.
fn fitting(kind: &str, curve: Option<&str>) -> &'static [Algorithm] {
    match (kind, curve) {
        ("EC", Some("P-256")) => &[Algorithm::Es256],
        ("EC", Some("P-384")) => &[Algorithm::Es384],
        ("OKP", Some("Ed25519")) => &[Algorithm::EdDsa],
        ("RSA", _) => &[
            Algorithm::Rs256,
            Algorithm::Rs384,
            Algorithm::Rs512,
            Algorithm::Ps256,
            Algorithm::Ps384,
            Algorithm::Ps512,
        ],
        ("oct", _) => &[Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512],
        _ => &[],
    }
}

fn curve_of(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    match algorithm {
        Algorithm::Es256 => Some(&ECDSA_P256_SHA256_FIXED),
        Algorithm::Es384 => Some(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDsa => Some(&ED25519),
        _ => None,
    }
}

fn rsa_of(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}

fn hmac_of(algorithm: Algorithm) -> hmac::Algorithm {
    match algorithm {
        Algorithm::Hs384 => hmac::HMAC_SHA384,
        Algorithm::Hs512 => hmac::HMAC_SHA512,
        _ => hmac::HMAC_SHA256,
    }
}

/// Some issuers write a zero before a number whose first bit is set, which `ring` refuses.
fn without_zeros(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|byte| *byte == 0).collect()
}
