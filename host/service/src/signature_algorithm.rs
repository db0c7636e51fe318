//! The signature algorithms that an issuer may use. `none` is no algorithm: it has no name here, so nothing can allow it.

/// A signature algorithm of JWTs, by its name in RFC 7518 and RFC 8037.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// RSA, PKCS #1 v1.5, with SHA-256.
    Rs256,
    /// RSA, PKCS #1 v1.5, with SHA-384.
    Rs384,
    /// RSA, PKCS #1 v1.5, with SHA-512.
    Rs512,
    /// RSA, PSS, with SHA-256.
    Ps256,
    /// RSA, PSS, with SHA-384.
    Ps384,
    /// RSA, PSS, with SHA-512.
    Ps512,
    /// HMAC with SHA-256: whoever can check a signature can also make one.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
}

impl Algorithm {
    /// All of them.
    pub(crate) const ALL: [Self; 12] = [
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
    ];

    /// The name in headers and keys.
    pub fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
        }
    }

    /// The algorithm of a name, in exactly this spelling.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether its keys are shared secrets.
    pub fn is_secret(self) -> bool {
        matches!(self, Self::Hs256 | Self::Hs384 | Self::Hs512)
    }
}
