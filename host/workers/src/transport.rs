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

impl Accept {
    /// The connection, when it may be used.
    ///
    /// # Errors
    /// If the peer may not connect.
    pub(crate) async fn accept(&self, stream: TcpStream, peer: SocketAddr) -> Result<TcpStream> {
        match self {
            Self::Loopback if peer.ip().to_canonical().is_loopback() => Ok(stream),
            Self::Loopback => {
                let message = "without TLS, connections come from this machine only";
                Err(Error::new(ErrorKind::PermissionDenied, message))
            }
        }
    }
}
