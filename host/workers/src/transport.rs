//! What connections between servers and workers run over: TLS with certificates on both sides, or TCP where both ends are
//! on one machine.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tidegate_tls::{ClientTls, ServerTls};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The protocols that are negotiated. Probes speak the other one.
pub const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

/// How a worker accepts connections.
#[derive(Debug, Clone)]
pub enum Accept {
    /// Without TLS, from this machine only.
    Loopback,
    /// With TLS. The files name an authority: whoever has no certificate of it gets no connection.
    Tls(Arc<ServerTls>),
}

/// How a server connects to workers.
#[derive(Debug, Clone)]
pub enum Connect {
    /// Without TLS, to this machine only.
    Loopback,
    /// With TLS, and a certificate of its own.
    Tls(Arc<ClientTls>),
}

/// A connection.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Whether an address is one of this machine that others cannot reach.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn denied<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::PermissionDenied, message))
}

impl Accept {
    /// Follows changes of certificates, for ever.
    pub(crate) async fn watch(self) {
        match self {
            Self::Loopback => std::future::pending().await,
            Self::Tls(tls) => tls.watch().await,
        }
    }

    /// The connection, when it may be used.
    ///
    /// # Errors
    /// If the peer may not connect.
    pub(crate) async fn accept(&self, stream: TcpStream, peer: SocketAddr) -> Result<Box<dyn Connection>> {
        match self {
            Self::Loopback if is_loopback(peer) => Ok(Box::new(stream)),
            Self::Loopback => denied("without TLS, connections come from this machine only"),
            Self::Tls(tls) => Ok(Box::new(TlsAcceptor::from(tls.current()).accept(stream).await?)),
        }
    }
}

impl Connect {
    /// Follows changes of certificates, for ever.
    pub(crate) async fn watch(self) {
        match self {
            Self::Loopback => std::future::pending().await,
            Self::Tls(tls) => tls.watch().await,
        }
    }

    /// The connection to an address, when it may be used. `host` is the name under which the address is known, and which
    /// the certificate of the worker must have.
    ///
    /// # Errors
    /// If the worker is not whom it should be.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        host: &str,
    ) -> Result<Box<dyn Connection>> {
        match self {
            Self::Loopback if is_loopback(address) => Ok(Box::new(stream)),
            Self::Loopback => denied("without TLS, workers are on this machine only"),
            Self::Tls(tls) => {
                let name = ServerName::try_from(host.to_owned()).map_err(Error::other)?;
                Ok(Box::new(TlsConnector::from(tls.current()).connect(name, stream).await?))
            }
        }
    }
}
