//! The connections of a worker to others, whose rows its tasks read.
//!
//! One is opened when it is needed first, and kept: the other worker closes it when nothing is asked for some time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_cluster::WorkerFailure;
use tokio::sync::OnceCell;

use crate::link::Link;
use crate::messages::Peer;
use crate::transport::Connect;

/// The connection to a worker, once it is open. Who needs it while it is opened waits.
type Opening = Arc<OnceCell<Link>>;

/// Connections to other workers.
#[derive(Debug)]
pub(crate) struct PeerLinks {
    connect: Connect,
    links: Mutex<HashMap<Peer, Opening>>,
}

impl PeerLinks {
    pub(crate) fn new(connect: Connect) -> Self {
        Self { connect, links: Mutex::default() }
    }

    /// How they are opened.
    pub(crate) fn connect(&self) -> &Connect {
        &self.connect
    }

    fn opening(&self, peer: &Peer) -> Opening {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        // One that nobody opens any more, or that is closed, is forgotten.
        links.retain(|_, opening| match opening.get() {
            Some(link) => !link.is_closed(),
            None => Arc::strong_count(opening) > 1,
        });
        Arc::clone(links.entry(peer.clone()).or_default())
    }

    /// The connection to a worker, within a runtime. The certificates are those of this moment.
    ///
    /// # Errors
    /// If the worker cannot be reached, or is not whom it should be.
    pub(crate) async fn link(&self, peer: &Peer) -> Result<Link, WorkerFailure> {
        let opening = self.opening(peer);
        let opened = opening.get_or_try_init(|| Link::open(peer.address, &peer.host, &self.connect)).await;
        opened.cloned().map_err(|why| WorkerFailure::Gone(format!("{}: {why}", peer.address)))
    }
}
