//! The listeners of syslog: accepts connections within the limits, with TLS and without.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_service::{AddressLimits, AnonymousConnection, Options};
use tidegate_tls::{ServerTls, TlsError, TlsFiles};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::connection::{Connection, Shared};
use super::refusal::DOOR;
use super::sender::Sender;
use crate::service::{Counted, DoorService};

/// The pause after a connection that cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why syslog cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum SyslogError {
    /// The address cannot be listened on.
    #[error("cannot listen for syslog on {address}: {source}; choose another in [syslog]")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The certificate, its key or the certificates of senders cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The listeners of syslog.
#[derive(Debug)]
pub struct Syslog {
    plain: Option<TcpListener>,
    secure: Option<(TcpListener, Arc<ServerTls>)>,
}

/// What a connection counts among until it is dropped.
#[derive(Debug)]
struct Place {
    _all: OwnedSemaphorePermit,
    _address: Arc<AnonymousConnection>,
    _open: Box<dyn Any + Send + Sync>,
}

impl Syslog {
    /// Listens on the addresses of the settings. None if there are none. Connections are served by
    /// [`Self::run`] when the service is open.
    ///
    /// # Errors
    /// An address that is taken; files of TLS that cannot be used.
    pub async fn bind(options: &Options) -> Result<Option<Self>, SyslogError> {
        let syslog = &options.syslog;
        let secure = match syslog.tls_listen {
            None => None,
            Some(address) => match certificate(options)? {
                Some(tls) => Some((listen(address, true).await?, Arc::new(tls))),
                None => None,
            },
        };
        let plain = match syslog.listen {
            None => None,
            Some(address) => Some(listen(address, false).await?),
        };
        Ok((plain.is_some() || secure.is_some()).then_some(Self { plain, secure }))
    }

    /// Serves until `stopping` is true, then until what the connections have sent is stored.
    pub async fn run(self, service: Arc<dyn DoorService>, mut stopping: watch::Receiver<bool>) {
        let shared = Arc::new(Shared::new(service));
        let options = shared.options();
        let places = Arc::new(Semaphore::new(options.syslog.max_connections));
        let addresses = AddressLimits::new(options.syslog.connections_per_address);
        let strangers = AddressLimits::new(options.server.connections_without_token);
        let mut connections = JoinSet::new();
        let Self { plain, secure } = self;
        let (secure, tls) = secure.unzip();
        if let Some(tls) = &tls {
            let (tls, mut stopping) = (Arc::clone(tls), stopping.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = tls.watch() => {}
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                }
            });
        }
        loop {
            let (accepted, tls) = tokio::select! {
                accepted = accept(plain.as_ref()) => (accepted, None),
                accepted = accept(secure.as_ref()) => (accepted, tls.clone()),
                Some(_) = connections.join_next() => continue,
                _ = stopping.wait_for(|stopping| *stopping) => break,
            };
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => (stream, peer.ip().to_canonical()),
                Err(error) => {
                    tracing::warn!(%error, "a connection of syslog cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let has_certificate = tls.is_some() && options.syslog.client_ca.is_some();
            let is_trusted = has_certificate || options.syslog.is_trusted(peer);
            // Without a handshake nobody has a certificate yet.
            let is_known = is_trusted && !has_certificate;
            let stranger = if is_known { None } else { strangers.enter(peer) };
            let place = (is_known || stranger.is_some()).then(|| {
                let all = Arc::clone(&places).try_acquire_owned().ok()?;
                let address = addresses.enter(peer)?;
                Some(Place { _all: all, _address: address, _open: shared.service.count_connection() })
            });
            let Some(place) = place.flatten() else {
                shared.service.count(DOOR, Counted::RefusedConnection);
                continue;
            };
            let sender = Sender { peer, is_trusted };
            let (shared, stopping) = (Arc::clone(&shared), stopping.clone());
            connections.spawn(async move {
                let _place = place;
                match tls {
                    None => Connection::new(shared, sender, stranger).run(stream, stopping).await,
                    Some(tls) => secured(shared, sender, stranger, stream, &tls, stopping).await,
                }
            });
        }
        drop((plain, secure));
        while connections.join_next().await.is_some() {}
    }
}

/// Serves a connection with TLS. The handshake has the time of that of a request.
async fn secured(
    shared: Arc<Shared>,
    sender: Sender,
    stranger: Option<Arc<AnonymousConnection>>,
    stream: TcpStream,
    tls: &ServerTls,
    mut stopping: watch::Receiver<bool>,
) {
    let peer = sender.peer;
    let handshake = tokio::select! {
        handshake = timeout(shared.options().server.head_timeout, TlsAcceptor::from(tls.current()).accept(stream)) => handshake,
        _ = stopping.wait_for(|stopping| *stopping) => return,
    };
    match handshake {
        Ok(Ok(stream)) => {
            // With a certificate it is no stranger any more.
            let stranger = if sender.is_trusted { None } else { stranger };
            Connection::new(shared, sender, stranger).run(stream, stopping).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, %peer, "a connection of syslog ended in its handshake"),
        Err(_) => tracing::debug!(%peer, "the handshake of a connection of syslog takes too long"),
    }
}

/// The certificate for syslog: its own, or that of the HTTP interface. None if the settings name neither.
fn certificate(options: &Options) -> Result<Option<ServerTls>, TlsError> {
    let (syslog, server) = (&options.syslog, &options.server);
    let own = syslog.tls_certificate.clone().zip(syslog.tls_key.clone());
    let named = own.or_else(|| server.tls_certificate.clone().zip(server.tls_key.clone()));
    let Some((certificate, key)) = named else { return Ok(None) };
    let authority = syslog.client_ca.clone();
    ServerTls::server(TlsFiles { certificate, key, authority, protocols: &[], tickets: 0 }).map(Some)
}

async fn listen(address: SocketAddr, tls: bool) -> Result<TcpListener, SyslogError> {
    let told = |source| SyslogError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(told)?;
    let at = listener.local_addr().map_err(told)?;
    tracing::info!(%at, tls, "taking syslog");
    if !tls && !at.ip().to_canonical().is_loopback() {
        tracing::warn!(%at, "syslog without TLS beyond this machine: others on the way can read the logs and their tokens");
    }
    Ok(listener)
}

/// The next connection; none ever comes without a listener.
async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}
