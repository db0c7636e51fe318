//! TLS of the service's own, for those who have no proxy before it.
//!
//! Certificates are replaced every few weeks, by programs that know nothing of the service. So their files are
//! looked at again and again, and what changed is used for new connections; those that are open keep what
//! they began with. Files that cannot be used change nothing: the log says why, and the certificate before stays.
//! They are compared by content. Times and links of files are no sign that all file systems and programs keep.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, ServerConfig};
use sha2::{Digest, Sha256};
use tidegate_model::{Code, Failure};
use tidegate_service::failures::document;
use tidegate_service::options::ServerOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connection::TimedStream;

/// How often the files are looked at. A change counts when it is seen twice: files are not written at once.
const EVERY: Duration = Duration::from_secs(1);
/// The longest file that is read, in bytes: a chain of certificates is some kilobytes.
const LONGEST: u64 = 1 << 20;
/// What is read of a request that came without TLS, in bytes, so that its sender reads the answer.
const WASTE: u64 = 1 << 20;
/// What is said to such a request.
const PLAIN: &str = "this port speaks TLS: the address begins with https://";

/// Why a certificate cannot be used. The texts name the file, and never what is in it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of the certificate has none.
    #[error("{} has no certificate in PEM (-----BEGIN CERTIFICATE-----)", .0.display())]
    NoCertificate(PathBuf),
    /// The file of the key has none.
    #[error("{} has no private key in PEM that is not encrypted (-----BEGIN PRIVATE KEY-----)", .0.display())]
    NoKey(PathBuf),
    /// The two do not belong together.
    #[error("the private key in {} is not that of the first certificate in {}", key.display(), certificate.display())]
    OfAnother {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The library does not take them.
    #[error("the certificate in {} cannot be used: {source}", certificate.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// What the library says.
        source: Error,
    },
}

/// The certificate of the service, as its files have it.
#[derive(Debug)]
pub struct Tls {
    files: Files,
    current: RwLock<Arc<ServerConfig>>,
    /// The digest of what is in use.
    first: [u8; 32],
}

/// The two files.
#[derive(Debug, Clone)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Tls {
    /// Reads the files that the settings name; nothing where they name none.
    ///
    /// # Errors
    /// Files that cannot be read, or have no certificate and key that belong together.
    pub fn load(options: &ServerOptions) -> Result<Option<Self>, TlsError> {
        let (Some(certificate), Some(key)) = (options.tls_certificate.clone(), options.tls_key.clone()) else {
            return Ok(None);
        };
        let files = Files { certificate, key };
        let contents = files.read()?;
        let config = files.config(&contents)?;
        Ok(Some(Self { files, current: RwLock::new(config), first: contents.digest() }))
    }

    /// Looks at the files for ever, and uses what is new and good.
    pub(crate) async fn watch(self: Arc<Self>) {
        tracing::info!(certificate = %self.files.certificate.display(), "only TLS is spoken");
        // A digest, or why there is none.
        let mut used: Result<[u8; 32], String> = Ok(self.first);
        let mut before = used.clone();
        let mut tick = tokio::time::interval(EVERY);
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

    /// The handshake of a connection. Who speaks HTTP without TLS is told so.
    ///
    /// # Errors
    /// Why there will be no request, in words.
    pub(crate) async fn accept(
        &self,
        mut stream: TimedStream<TcpStream>,
    ) -> Result<TlsStream<TimedStream<TcpStream>>, String> {
        let mut first = [0];
        match stream.stream.peek(&mut first).await {
            // A method's name; TLS begins with the number 22.
            Ok(_) if first.iter().all(u8::is_ascii_uppercase) => {
                let body = document(&Failure::new(Code::Unsupported, PLAIN)).to_string();
                let answer = format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
                // Unread bytes would take the answer from its reader.
                let _ = tokio::io::copy(&mut stream.take(WASTE), &mut tokio::io::sink()).await;
                return Err("it came without TLS".to_owned());
            }
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let config = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        TlsAcceptor::from(config).accept(stream).await.map_err(|error| error.to_string())
    }
}

/// What the two files have.
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Contents {
    fn digest(&self) -> [u8; 32] {
        let each = Sha256::digest(&self.certificate);
        Sha256::new().chain_update(each).chain_update(&self.key).finalize().into()
    }
}

impl Files {
    fn read(&self) -> Result<Contents, TlsError> {
        Ok(Contents { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }

    fn config(&self, contents: &Contents) -> Result<Arc<ServerConfig>, TlsError> {
        let Self { certificate, key } = self;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| TlsError::NoCertificate(certificate.clone()))?;
        let private = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|_| TlsError::NoKey(key.clone()))?;
        let made = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
        let mut config = made.map_err(|error| match error {
            Error::InconsistentKeys(_) => TlsError::OfAnother { certificate: certificate.clone(), key: key.clone() },
            source => TlsError::Unusable { certificate: certificate.clone(), source },
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    // Whatever is no file could be waited for without end.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(std::io::Error::other("it is no file")));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if tidegate_model::number(bytes.len()) > LONGEST {
        return Err(unreadable(std::io::Error::other("it is too long for a certificate or a key")));
    }
    Ok(bytes)
}
