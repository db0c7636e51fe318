//! The gate: everything that can be known of an endpoint before anyone calls it.
//!
//! Three callers check endpoints: registration, before a version is saved; `recheck`, for all saved endpoints after a
//! start; and the workbench, for an author. All of them take the same steps, which are here:
//!
//! 1. [`inspect`](crate::inspection::inspect): the component is well formed and fits the contract;
//! 2. [`manifest_findings`]: the manifest breaks no rule;
//! 3. [`Gate::statement_findings`]: each statement resolves over its granted tables. For an author,
//!    [`Gate::explain`] resolves them piece by piece, so that every mistake is found and not only the first.
//!
//! The result are [`Findings`]. Each caller decides what follows from them.

mod alerts;
pub(crate) mod examples;
mod explain;
mod findings;
pub(crate) mod recheck;
mod statements;
mod warnings;

use std::sync::Arc;

use tidegate_model::{Failure, Limits, Manifest};
use tidegate_sql::Engine;
use tidegate_store::Store;

use crate::clock::Clock;
use crate::failures::of_manifest;
use crate::registry::Registry;

pub(crate) use explain::Explanation;
pub(crate) use findings::Findings;
pub use findings::{Finding, Part};

/// What the gate checks endpoints against; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Clock,
    /// The server's limits of one request.
    pub(crate) limits: Limits,
}

/// The rules that a manifest breaks.
#[derive(Debug, Default)]
pub(crate) struct ManifestFindings {
    /// Rules that hold for every endpoint, in the order of the fields.
    lasting: Vec<Failure>,
    /// Rules that hold only for what is saved now; endpoints that were saved before may break them.
    of_saving: Vec<Failure>,
    /// All of them, in the order of the fields.
    all: Vec<Failure>,
}

/// Checks a manifest against its rules.
pub(crate) fn manifest_findings(manifest: &Manifest) -> ManifestFindings {
    let mut findings = ManifestFindings::default();
    for problem in manifest.problems() {
        let failure = of_manifest(&problem);
        let kind = if problem.is_of_saving() { &mut findings.of_saving } else { &mut findings.lasting };
        kind.push(failure.clone());
        findings.all.push(failure);
    }
    findings
}

impl ManifestFindings {
    /// Whether the manifest may be saved.
    ///
    /// # Errors
    /// All rules that it breaks, in one failure.
    pub(crate) fn allow_saving(self) -> Result<(), Failure> {
        Failure::of_all(self.all).map_or(Ok(()), Err)
    }

    /// Whether an endpoint that was saved before may be used, and the warnings about it.
    ///
    /// # Errors
    /// The lasting rules that it breaks, in one failure.
    pub(crate) fn allow_use(self) -> Result<Vec<Failure>, Failure> {
        Failure::of_all(self.lasting).map_or(Ok(self.of_saving), Err)
    }
}
