//! Why a service does not start, and whether trying again can help.

use tidegate_model::Failure;
use tidegate_runtime::RuntimeError;
use tidegate_store::StoreError;

use crate::cluster_options::ClusterError;

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The component runtime does not start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The threads that compute cannot be started.
    #[error("the threads that compute cannot be started: {0}")]
    Threads(std::io::Error),
    /// A shipped endpoint or the engine is not usable.
    #[error("{what}: {failure}")]
    Setup {
        /// What was being set up.
        what: String,
        /// Why it failed.
        failure: Box<Failure>,
    },
    /// An endpoint of a pack that was asked for cannot be saved.
    #[error("the pack {pack}: {failure}")]
    Pack {
        /// The pack.
        pack: String,
        /// Why.
        failure: Box<Failure>,
    },
    /// One token would be both.
    #[error("the private and the public access token are the same: who sends logs would manage everything")]
    SameToken,
    /// The workers cannot be used.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A token from the environment is too weak to be one.
    #[error("the {0} access token is shorter than 16 characters; use at least 128 random bits")]
    WeakToken(&'static str),
}

impl StartError {
    /// Whether trying again cannot help, or would hide a mistake from who makes it at a terminal.
    pub fn is_final(&self) -> bool {
        match self {
            Self::WeakToken(_)
            | Self::SameToken
            | Self::Cluster(_)
            | Self::Store(
                StoreError::Locked(_)
                | StoreError::BadUrl { .. }
                | StoreError::OtherOwner { .. }
                | StoreError::Replaced { .. }
                | StoreError::NotAskedToTakeOver { .. }
                | StoreError::RecoveryRefused { .. },
            ) => true,
            // What is refused once is refused again; a full disk is not.
            Self::Pack { failure, .. } => failure.code.status() < 500,
            _ => false,
        }
    }

    pub(crate) fn setup(what: impl Into<String>) -> impl FnOnce(Failure) -> Self {
        let what = what.into();
        move |failure| Self::Setup { what, failure: Box::new(failure) }
    }

    pub(crate) fn pack(name: &str) -> impl FnOnce(Failure) -> Self + use<> {
        let pack = name.to_owned();
        move |failure| Self::Pack { pack, failure: Box::new(failure) }
    }
}
