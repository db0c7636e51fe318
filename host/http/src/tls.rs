//! TLS in the service itself, for operators who have no proxy in front of it.
//!
//! Certificates are replaced every few weeks, by programs that know nothing of the service. So the service checks their
//! files periodically, and uses changed ones for new connections; open connections keep the certificate that they
//! started with. Files that cannot be used change nothing: the log says why, and the previous certificate stays in use.
//! Files are compared by content, because not all file systems and programs update modification times and links
//! reliably.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::document;
use tidegate_service::options::{Options, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connection::TimedStream;

/// How often the files are checked. A change is used only when two checks in a row see it, because files are not
/// written at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The longest file that is read, in bytes. A chain of certificates takes some kilobytes.
const MAX_FILE: u64 = 1 << 20;
/// How many bytes of a request without TLS are read and discarded at most, so that its sender can read the response.
const MAX_DISCARDED: u64 = 1 << 20;
/// The error message for a request without TLS.
const NO_TLS: &str = "this port speaks TLS: the address begins with https://";

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
    /// The certificates that sign those of clients cannot be used.
    #[error("the certificates in {} cannot be used: {reason}", path.display())]
    UnusableAuthority {
        /// The file.
        path: PathBuf,
        /// What the library says.
        reason: String,
    },
}

/// The certificate of the service, which is reloaded when its files change.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    current: RwLock<Arc<ServerConfig>>,
    /// The digest of the files as they were loaded first.
    first: [u8; 32],
}

/// The paths of the files, and what they are for.
#[derive(Debug, Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    /// The certificates that sign those of clients. If it is set, each client must have one.
    client_ca: Option<PathBuf>,
    /// The protocols above TLS that are negotiated.
    protocols: &'static [&'static str],
    /// How many tickets for shorter handshakes are sent at the beginning of a connection (TLS 1.3).
    tickets: usize,
}

impl Tls {
    /// Loads the files that the settings name. None if the settings do not name them.
    ///
    /// # Errors
    /// Files that cannot be read, or that do not contain a certificate and the key that belongs to it.
    pub fn load(options: &ServerOptions) -> Result<Option<Self>, TlsError> {
        let (Some(certificate), Some(key)) = (options.tls_certificate.clone(), options.tls_key.clone()) else {
            return Ok(None);
        };
        Self::of(Files { certificate, key, client_ca: None, protocols: &["h2", "http/1.1"], tickets: 2 }).map(Some)
    }

    /// Loads the files for syslog: its own certificate, or that of the HTTP interface. None if the settings name neither.
    ///
    /// # Errors
    /// Those of [`Self::load`]; certificates of clients that cannot be used.
    pub(crate) fn load_for_syslog(options: &Options) -> Result<Option<Self>, TlsError> {
        let (syslog, server) = (&options.syslog, &options.server);
        let own = syslog.tls_certificate.clone().zip(syslog.tls_key.clone());
        let Some((certificate, key)) = own.or_else(|| server.tls_certificate.clone().zip(server.tls_key.clone()))
        else {
            return Ok(None);
        };
        Self::of(Files { certificate, key, client_ca: syslog.client_ca.clone(), protocols: &[], tickets: 0 }).map(Some)
    }

    fn of(files: Files) -> Result<Self, TlsError> {
        let contents = files.read()?;
        let config = files.config(&contents)?;
        Ok(Self { files, current: RwLock::new(config), first: contents.digest() })
    }

    /// Performs handshakes with the certificate that is in use now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Checks the files for ever, and uses new content that is valid.
    pub(crate) async fn watch(self: Arc<Self>) {
        tracing::info!(certificate = %self.files.certificate.display(), "TLS is spoken");
        // `used` is the content that was handled last, `before` that of the previous check: the digest of the files, or
        // the reason why they could not be read.
        let mut used: Result<[u8; 32], String> = Ok(self.first);
        let mut before = used.clone();
        let mut tick = tokio::time::interval(CHECK_INTERVAL);
        loop {
            tick.tick().await;
            let files = self.files.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || files.read()).await else { continue };
            let now = read.as_ref().map(Contents::digest).map_err(ToString::to_string);
            if now == used || now != before {
                before = now;
                continue;
            }
            used = now;
            match read.and_then(|contents| self.files.config(&contents)) {
                Ok(config) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
                    tracing::info!(certificate = %self.files.certificate.display(), "the new certificate is in use");
                }
                Err(error) => {
                    tracing::error!(%error, "the new certificate cannot be used; the one before stays in use");
                }
            }
        }
    }

    /// Performs the TLS handshake of a connection. A client that sends HTTP without TLS gets a response that says so.
    ///
    /// # Errors
    /// The reason why there will be no request, as text.
    pub(crate) async fn accept(
        &self,
        mut stream: TimedStream<TcpStream>,
    ) -> Result<TlsStream<TimedStream<TcpStream>>, String> {
        let mut first = [0];
        match stream.stream.peek(&mut first).await {
            // An upper-case letter begins the name of an HTTP method. TLS begins with the byte 22.
            Ok(_) if first.iter().all(u8::is_ascii_uppercase) => {
                let body = document(&Failure::new(Code::Unsupported, NO_TLS)).to_string();
                let answer = format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                // Closing a socket with unread bytes resets the connection, and the client might lose the response.
                let _ = tokio::io::copy(&mut stream.take(MAX_DISCARDED), &mut tokio::io::sink()).await;
                return Err("it came without TLS".to_owned());
            }
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.acceptor().accept(stream).await.map_err(|error| error.to_string())
    }
}

/// The contents of the files.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Contents {
    fn digest(&self) -> [u8; 32] {
        let (certificate, key) = (Sha256::digest(&self.certificate), Sha256::digest(&self.key));
        let client_ca = self.client_ca.as_deref().unwrap_or_default();
        Sha256::new().chain_update(certificate).chain_update(key).chain_update(client_ca).finalize().into()
    }
}

impl Files {
    fn read(&self) -> Result<Contents, TlsError> {
        let client_ca = self.client_ca.as_deref().map(read).transpose()?;
        Ok(Contents { certificate: read(&self.certificate)?, key: read(&self.key)?, client_ca })
    }

    fn config(&self, contents: &Contents) -> Result<Arc<ServerConfig>, TlsError> {
        let Self { certificate, key, .. } = self;
        let chain = certificates(&contents.certificate, certificate)?;
        let private = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|_| TlsError::NoKey(key.clone()))?;
        let provider = Arc::new(default_provider());
        let verifier = match (&self.client_ca, &contents.client_ca) {
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
        let mut config = built.map_err(|error| match error {
            Error::InconsistentKeys(_) => TlsError::OfAnother { certificate: certificate.clone(), key: key.clone() },
            source => TlsError::Unusable { certificate: certificate.clone(), source },
        })?;
        config.alpn_protocols = self.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        // Senders of syslog read nothing, and take a connection for open while something is there to be read.
        config.send_tls13_tickets = self.tickets;
        Ok(Arc::new(config))
    }
}

/// The certificates in the contents of a file.
fn certificates(contents: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(contents).collect();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| TlsError::NoCertificate(path.to_owned()))
}

/// Checks the certificates of clients against those that sign them.
fn client_verifier(
    path: &Path,
    contents: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let unusable = |reason: String| TlsError::UnusableAuthority { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(contents, path)? {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    builder.build().map_err(|error| unusable(error.to_string()))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    // Reading something that is not a file, such as a named pipe, could block for ever.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::Error::other("it is no file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if tidegate_model::number(bytes.len()) > MAX_FILE {
        return Err(unreadable(std::io::Error::other("it is too long for a certificate or a key")));
    }
    Ok(bytes)
}
