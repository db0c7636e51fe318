//! What connections between coordinators and workers run over: TCP, where both ends are on one machine.

use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;

use tokio::net::TcpStream;

/// How a worker accepts connections.
#[derive(Debug, Clone)]
pub enum Accept {
    /// Without TLS, from this machine only.
    Loopback,
}

/// How a coordinator connects to workers.
#[derive(Debug, Clone)]
pub enum Connect {
    /// Without TLS, to this machine only.
    Loopback,
}

/// Whether an address is one of this machine that others cannot reach.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn denied<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::PermissionDenied, message))
}

impl Accept {
    /// The connection, when it may be used.
    ///
    /// # Errors
    /// If the peer may not connect.
    pub(crate) async fn accept(&self, stream: TcpStream, peer: SocketAddr) -> Result<TcpStream> {
        match self {
            Self::Loopback if is_loopback(peer) => Ok(stream),
            Self::Loopback => denied("without TLS, connections come from this machine only"),
        }
    }
}

impl Connect {
    /// The connection to an address, when it may be used. `host` is the name under which the address is known.
    ///
    /// # Errors
    /// If the worker is not whom it should be.
    pub(crate) async fn connect(&self, stream: TcpStream, address: SocketAddr, _host: &str) -> Result<TcpStream> {
        match self {
            Self::Loopback if is_loopback(address) => Ok(stream),
            Self::Loopback => denied("without TLS, workers are on this machine only"),
        }
    }
}
