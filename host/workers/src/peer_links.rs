//! The connections of a worker to others, whose rows its tasks read.
//!
//! One is opened when it is needed first, and kept: the other worker closes it when nothing is asked for some time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_cluster::WorkerFailure;

use crate::link::Link;
use crate::messages::Peer;
use crate::transport::Connect;

/// Connections to other workers.
#[derive(Debug)]
pub(crate) struct PeerLinks {
    connect: Connect,
    links: Mutex<HashMap<Peer, Link>>,
}

impl PeerLinks {
    pub(crate) fn new(connect: Connect) -> Self {
        Self { connect, links: Mutex::default() }
    }

    /// How they are opened.
    pub(crate) fn connect(&self) -> &Connect {
        &self.connect
    }

    fn links(&self) -> MutexGuard<'_, HashMap<Peer, Link>> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, link| !link.is_closed());
        links
    }

    /// The connection to a worker, within a runtime. The certificates are those of this moment.
    ///
    /// # Errors
    /// If the worker cannot be reached, or is not whom it should be.
    pub(crate) async fn link(&self, peer: &Peer) -> Result<Link, WorkerFailure> {
        if let Some(link) = self.links().get(peer) {
            return Ok(link.clone());
        }
        let opened = Link::open(peer.address, &peer.host, &self.connect).await;
        let link = opened.map_err(|why| WorkerFailure::Gone(format!("{}: {why}", peer.address)))?;
        // Of two that were opened at once, the later one is kept.
        self.links().insert(peer.clone(), link.clone());
        Ok(link)
    }
}
