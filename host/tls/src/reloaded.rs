//! What is made of files, and made again when they change.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::{ClientConfig, ServerConfig};

use crate::configs::{client, server};
use crate::error::TlsError;
use crate::files::{Contents, TlsFiles};

/// How often the files are checked. A change is used only when two checks in a row see it, because files are not
/// written at once.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The certificate of a server.
pub type ServerTls = Reloaded<ServerConfig>;
/// The certificate of a client, and whom it trusts.
pub type ClientTls = Reloaded<ClientConfig>;

/// A configuration that is made again when its files change.
#[derive(Debug)]
pub struct Reloaded<C> {
    files: TlsFiles,
    make: fn(&TlsFiles, &Contents) -> Result<Arc<C>, TlsError>,
    current: RwLock<Arc<C>>,
    /// The digest of the files as they were loaded first.
    first: [u8; 32],
}

impl ServerTls {
    /// Loads the files of a server.
    ///
    /// # Errors
    /// Files that cannot be read, or that do not contain what they should.
    pub fn server(files: TlsFiles) -> Result<Self, TlsError> {
        Self::of(files, server)
    }
}

impl ClientTls {
    /// Loads the files of a client.
    ///
    /// # Errors
    /// Files that cannot be read, or that do not contain what they should.
    pub fn client(files: TlsFiles) -> Result<Self, TlsError> {
        Self::of(files, client)
    }
}

impl<C: Send + Sync> Reloaded<C> {
    fn of(files: TlsFiles, make: fn(&TlsFiles, &Contents) -> Result<Arc<C>, TlsError>) -> Result<Self, TlsError> {
        let contents = files.read()?;
        let config = make(&files, &contents)?;
        Ok(Self { files, make, current: RwLock::new(config), first: contents.digest() })
    }

    /// The configuration that is in use now.
    pub fn current(&self) -> Arc<C> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks the files for ever, and uses new content that is valid.
    pub async fn watch(self: Arc<Self>) {
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
            match read.and_then(|contents| (self.make)(&self.files, &contents)) {
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
}
