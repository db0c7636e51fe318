//! Checks of an endpoint before it is on a server: its errors, its warnings, and what each of its statements reads.

use tidegate_model::Manifest;
use tidegate_sql::Reads;

use super::{Scene, TrialError, Workbench};
use crate::gate::{Explanation, Finding, Findings};

/// The result of checking an endpoint.
#[derive(Debug, Default)]
pub struct Checked {
    /// The reasons for which a server would refuse the endpoint.
    pub errors: Vec<Finding>,
    /// Texts whose meaning may differ from what the author expects.
    pub warnings: Vec<Finding>,
    /// What each granted table reads from the sources, in the order of the query.
    pub grants: Vec<(String, Reads)>,
    /// What each statement reads from the granted tables. The body of the query comes first, under the name `default`.
    pub statements: Vec<(String, Reads)>,
    /// Sources that the endpoint names, that the scene has no logs for, and that a new server does not have.
    pub unknown_sources: Vec<String>,
}

impl Workbench {
    /// Checks an endpoint against the logs of a scene. The logs decide which columns exist. `computed` means that code
    /// runs instead of the body of the query; such code may use parameters by itself.
    ///
    /// # Errors
    /// Logs that cannot be read; a temporary folder that cannot be used. Errors of the endpoint are part of the result
    /// instead.
    pub async fn check(&self, manifest: &Manifest, computed: bool, scene: Scene) -> Result<Checked, TrialError> {
        let stage = self.stage(manifest, scene).await?;
        let (gate, manifest) = (stage.service.registrar.gate.clone(), manifest.clone());
        // Planning may recurse deeply, and the compute threads have a large stack.
        let work = stage.service.compute.run(async move { Ok(gate.explain(manifest, computed)) });
        let Explanation { findings, grants, statements } = work.await.map_err(TrialError::Refused)?;
        let Findings { errors, warnings } = findings;
        let unknown_sources = stage.unknown.clone();
        stage.close().await?;
        Ok(Checked { errors, warnings, grants, statements, unknown_sources })
    }
}
