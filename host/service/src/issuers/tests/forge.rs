//! Makes tokens and key sets, good ones and hostile ones.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// An RSA key of 2048 bits, of which only this is left.
pub(super) const RSA_N: &str = "vezd4zi8IqXrwcmDTWNdZfLyFEAVsvPZa6HxCeJ0xyurlZvjmlKQl4xAa2ntnAXK2Vx2c8uhcIVMVMXa8D_mHd-jaoKtTAd6hMN_gGj_rEt7UyJlOumKokJ8aHGsin3ZYz0nGxaJOBY5QBFZ1VOQpW5oroGtSSd8UHIrXqd5kh-od07W4clDf30yk6uFX_CpXnK1OS8XDRxPNFSGFEOc0IfdlStDhy1_eq5R350FhIY-7cbTS-DADG3ug97rqUR3Ngv14pGI_d7jtvl5-6G1qi7l7aH2T4KAiqZh9_OYQR_yaL7SKqwR1rFECFoJybSt4uY1aMZCyJRTmP-H-F9nuQ";
/// What it signed, and how, with SHA-256.
pub(super) const RSA_SIGNED: &[u8] = b"signed by a key of this test";
pub(super) const RSA_PKCS1: &str = "WzljRszUrURbZMG5-NxVZc8MQ07adZUiD5ZhS2-zYlv9vJhATJby-7fPNQv9UTnmCOH0nc3AeXzr8_M2_mY7KPq4n39AdM3c1n4OzDJmMq4gzcrCZ9fYM6yg_6W4OC27uehFR_j8-VRQBlLUKiLLpp6T-6pvTCq5_DOSpVfeFrOrGwKjwc2UbfrvecfZ46fEByH9_eZ-6RbHpdOnLHqu8vdA7mOE1qi80GdvqDwpFdhiUwtpqILbPzSdUht5YzK6JqcMkU1NCfCHalW4hR8jgav1lwrNm8erN_Owv7us5CVnVnEdoqWL001BK0wQzgqScoTONQ3DY01A8WZomOatxg";
pub(super) const RSA_PSS: &str = "tmvqvu51MkzfEwyG5eQaK7R-fZ6tE1AC5s4wFntYxLzbNeqqAa-oEMxPAtkbvfoCo5FslYBIS3efvZVphU1-3OuBYBAUdMcLa3rtc8wIUuynMxFrFBC6ZkInftcneJz8KkfEKRYzz-BHDKuMwpGOV1aJK6w43VxtxkcIVj7Z7dXK-CmwI03ciPi4ERMqhOHT3PESZ_v12EqnLuKoFcGWgOipT7VlYygPK3_olvUkNIn8grM3iGIsfAh6WpegoKqk3i0m0NgwneSzR9lS2t1eQgU1Ajpeh0cHlH4CKt4Iq2xo5HYDg-yd14c8RKX3wZEGRs_c0DLmDLzCMeF6lt2VNg";

/// The time of these tests, in seconds since 1970.
pub(super) const NOW: i64 = 1_800_000_000;
/// The issuer of these tests.
pub(super) const ISSUER: &str = "https://id.example.com/";

pub(super) fn b64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

pub(super) fn bytes(text: &str) -> Vec<u8> {
    BASE64_URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// Somebody who signs.
pub(super) struct Signer {
    es: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

impl Signer {
    pub(super) fn new() -> Self {
        let random = SystemRandom::new();
        let es = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let es = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, es.as_ref(), &random).unwrap();
        let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        Self { es, ed: Ed25519KeyPair::from_pkcs8(ed.as_ref()).unwrap() }
    }

    /// The public key for ES256, as an entry of a key set.
    pub(super) fn es(&self, kid: &str) -> Value {
        let (x, y) = self.es.public_key().as_ref().get(1..).unwrap().split_at(32);
        json!({"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "alg": "ES256", "x": b64(x), "y": b64(y)})
    }

    /// The public key for EdDSA.
    pub(super) fn ed(&self, kid: &str) -> Value {
        json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": b64(self.ed.public_key())})
    }

    /// A token of a header and claims, which are texts so that they can be wrong. It is signed as the header says.
    pub(super) fn sign(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", b64(header), b64(claims));
        let signature = if header.contains("EdDSA") {
            self.ed.sign(signed.as_bytes()).as_ref().to_vec()
        } else {
            self.es.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec()
        };
        format!("{signed}.{}", b64(signature))
    }

    /// A token of claims, with the key `k1`.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.sign(r#"{"alg":"ES256","kid":"k1","typ":"at+jwt"}"#, &claims.to_string())
    }
}

/// A token that is signed with a secret.
pub(super) fn with_secret(header: &str, claims: &str, secret: &[u8]) -> String {
    let signed = format!("{}.{}", b64(header), b64(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", b64(signature))
}

/// Good claims.
pub(super) fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": "tidegate", "sub": "u1", "iat": NOW - 10, "exp": NOW + 600,
        "roles": ["viewer", "other"], "org": {"project": "p1"},
    })
}

/// Good claims with these instead; null takes one away.
pub(super) fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims.as_object_mut().unwrap().insert(name.clone(), value.clone());
        }
    }
    claims
}
