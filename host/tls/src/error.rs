//! Why a certificate cannot be used.

use std::path::PathBuf;

use rustls::Error;

/// Why a certificate cannot be used. The messages name the file, and never show its content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The certificate file contains no certificate.
    #[error("{} has no certificate in PEM (-----BEGIN CERTIFICATE-----)", .0.display())]
    NoCertificate(PathBuf),
    /// The key file contains no unencrypted private key.
    #[error("{} has no private key in PEM that is not encrypted (-----BEGIN PRIVATE KEY-----)", .0.display())]
    NoKey(PathBuf),
    /// The key and the certificate do not belong together.
    #[error("the private key in {} is not that of the first certificate in {}", key.display(), certificate.display())]
    OfAnother {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
    },
    /// The TLS library refuses the certificate or the key.
    #[error("the certificate in {} cannot be used: {source}", certificate.display())]
    Unusable {
        /// The certificate file.
        certificate: PathBuf,
        /// The error of the library.
        source: Error,
    },
    /// The certificates that sign those of the other side cannot be used.
    #[error("the certificates in {} cannot be used: {reason}", path.display())]
    UnusableAuthority {
        /// The file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
}
