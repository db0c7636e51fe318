//! TLS in the service itself, for operators who have no proxy in front of it. Certificates and their files are those of
//! `tidegate-tls`.

use std::sync::Arc;

pub use tidegate_tls::TlsError;

use tidegate_model::{Code, Failure};
use tidegate_service::failures::document;
use tidegate_service::options::ServerOptions;
use tidegate_tls::{ServerTls, TlsFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connection::TimedStream;

/// How many bytes of a request without TLS are read and discarded at most, so that its sender can read the response.
const MAX_DISCARDED: u64 = 1 << 20;
/// The error message for a request without TLS.
const NO_TLS: &str = "this port speaks TLS: the address begins with https://";

/// The certificate of the service, which is reloaded when its files change.
#[derive(Debug)]
pub struct Tls(Arc<ServerTls>);

impl Tls {
    /// Loads the files that the settings name. None if the settings do not name them.
    ///
    /// # Errors
    /// Files that cannot be read, or that do not contain a certificate and the key that belongs to it.
    pub fn load(options: &ServerOptions) -> Result<Option<Self>, TlsError> {
        let (Some(certificate), Some(key)) = (options.tls_certificate.clone(), options.tls_key.clone()) else {
            return Ok(None);
        };
        Self::of(TlsFiles { certificate, key, authority: None, protocols: &["h2", "http/1.1"], tickets: 2 }).map(Some)
    }

    fn of(files: TlsFiles) -> Result<Self, TlsError> {
        ServerTls::server(files).map(|tls| Self(Arc::new(tls)))
    }

    /// Performs handshakes with the certificate that is in use now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.current())
    }

    /// Checks the files for ever, and uses new content that is valid.
    pub(crate) async fn watch(self: Arc<Self>) {
        Arc::clone(&self.0).watch().await;
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
