//! The gate: everything that can be known of an endpoint before anyone calls it.

pub(crate) mod examples;
pub(crate) mod recheck;
mod statements;
pub(crate) mod warnings;

use std::sync::Arc;

use tidegate_model::Limits;
use tidegate_sql::Engine;
use tidegate_store::Store;

use crate::clock::Clock;
use crate::registry::Registry;
use crate::tokens::Tokens;

/// What the gate checks endpoints against; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) clock: Clock,
    /// The server's limits of one request.
    pub(crate) limits: Limits,
}
