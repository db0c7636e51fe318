//! The stream of a connection, and how its sender is told of its end.
//!
//! Most senders never read. So the end is told in the two ways that they see: some look at the socket before they send,
//! others find out when a message cannot be written.

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A stream of messages, with TLS or without.
pub(super) trait SenderStream: AsyncRead + AsyncWrite + Unpin + Send {
    /// Tells the sender that nothing more is read soon: by the end of the stream of TCP.
    ///
    /// With TLS this is without the alert that belongs before it. rsyslog looks at the socket before it sends, and takes it
    /// for open while any byte is there, be it the alert: it would go on sending and lose what it sent. The alert would
    /// protect what we send, which is nothing.
    fn end(&mut self) -> impl Future<Output = std::io::Result<()>> + Send;

    /// Makes the sender's next message fail once the stream is dropped. Otherwise a sender that does not look learns of the
    /// end only from its answer to that message, which is then lost.
    fn reset(&self) -> std::io::Result<()>;
}

impl SenderStream for TcpStream {
    async fn end(&mut self) -> std::io::Result<()> {
        self.shutdown().await
    }

    fn reset(&self) -> std::io::Result<()> {
        self.set_zero_linger()
    }
}

impl SenderStream for TlsStream<TcpStream> {
    async fn end(&mut self) -> std::io::Result<()> {
        self.get_mut().0.shutdown().await
    }

    fn reset(&self) -> std::io::Result<()> {
        self.get_ref().0.set_zero_linger()
    }
}
