//! What the TLS library is given.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, Error, RootCertStore, ServerConfig};

use crate::error::TlsError;
use crate::files::{Contents, TlsFiles};

/// The configuration of a server.
///
/// # Errors
/// If the certificate, its key or the certificates that sign those of clients cannot be used.
pub(crate) fn server(files: &TlsFiles, contents: &Contents) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, private) = own(files, contents)?;
    let provider = Arc::new(default_provider());
    let verifier = match (&files.authority, &contents.authority) {
        (Some(path), Some(contents)) => Some(client_verifier(path, contents, &provider)?),
        _ => None,
    };
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let built = builder.and_then(|builder| {
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        builder.with_single_cert(chain, private)
    });
    let mut config = built.map_err(unusable(files))?;
    config.alpn_protocols = protocols(files);
    // Senders of syslog read nothing, and take a connection for open while something is there to be read.
    config.send_tls13_tickets = files.tickets;
    Ok(Arc::new(config))
}

/// The configuration of a client that has a certificate and trusts those that the authority signed, and no others.
///
/// # Errors
/// If the certificate, its key or the authority cannot be used.
pub(crate) fn client(files: &TlsFiles, contents: &Contents) -> Result<Arc<ClientConfig>, TlsError> {
    let (chain, private) = own(files, contents)?;
    let trusted = match (&files.authority, &contents.authority) {
        (Some(path), Some(contents)) => roots(path, contents)?,
        _ => RootCertStore::empty(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let built = builder
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_root_certificates(trusted).with_client_auth_cert(chain, private));
    let mut config = built.map_err(unusable(files))?;
    config.alpn_protocols = protocols(files);
    Ok(Arc::new(config))
}

fn own(
    files: &TlsFiles,
    contents: &Contents,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(&contents.certificate, &files.certificate)?;
    let private = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|_| TlsError::NoKey(files.key.clone()))?;
    Ok((chain, private))
}

fn unusable(files: &TlsFiles) -> impl FnOnce(Error) -> TlsError {
    let (certificate, key) = (files.certificate.clone(), files.key.clone());
    move |error| match error {
        Error::InconsistentKeys(_) => TlsError::OfAnother { certificate, key },
        source => TlsError::Unusable { certificate, source },
    }
}

fn protocols(files: &TlsFiles) -> Vec<Vec<u8>> {
    files.protocols.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// The certificates in the contents of a file.
fn certificates(contents: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(contents).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| TlsError::NoCertificate(path.to_owned()))
}

fn unusable_authority(path: &Path, reason: &str) -> TlsError {
    TlsError::UnusableAuthority { path: path.to_owned(), reason: reason.to_owned() }
}

fn roots(path: &Path, contents: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(contents, path)? {
        roots.add(certificate).map_err(|error| unusable_authority(path, &error.to_string()))?;
    }
    Ok(roots)
}

/// Checks the certificates of clients against those that sign them.
fn client_verifier(
    path: &Path,
    contents: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(roots(path, contents)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    builder.build().map_err(|error| unusable_authority(path, &error.to_string()))
}
