//! What can be known of an endpoint before it is on a server: its mistakes, and what each of its statements reads.

use tidegate_model::Manifest;
use tidegate_sql::Reads;

use super::{Scene, TrialError, Workbench};
use crate::gate::{Explanation, Finding, Findings};

/// What is known of an endpoint.
#[derive(Debug, Default)]
pub struct Checked {
    /// Why a server would refuse it.
    pub errors: Vec<Finding>,
    /// Texts that may not mean what the author believes.
    pub warnings: Vec<Finding>,
    /// What each granted table reads of the sources, in the order of the query.
    pub grants: Vec<(String, Reads)>,
    /// What each statement reads of the granted tables; the body of the query first, as `default`.
    pub statements: Vec<(String, Reads)>,
    /// Sources that the endpoint names and that exist nowhere.
    pub unknown_sources: Vec<String>,
}

impl Workbench {
    /// Checks an endpoint over the logs of a scene, which decide which columns there are. `computed` says that code runs
    /// instead of the body of the query, and may use parameters by itself.
    ///
    /// # Errors
    /// Logs that cannot be read; a temporary folder that cannot be used. Mistakes of the endpoint are no errors: they are
    /// in the result.
    pub async fn check(&self, manifest: &Manifest, computed: bool, scene: Scene) -> Result<Checked, TrialError> {
        let stage = self.stage(manifest, scene).await?;
        let (gate, manifest) = (stage.service.registrar.gate.clone(), manifest.clone());
        // On the compute threads, because plans may be deep.
        let work = stage.service.compute.run(async move { Ok(gate.explain(manifest, computed)) });
        let Explanation { findings, grants, statements } = work.await.map_err(TrialError::Refused)?;
        let Findings { errors, warnings } = findings;
        let unknown_sources = stage.unknown.clone();
        stage.close().await?;
        Ok(Checked { errors, warnings, grants, statements, unknown_sources })
    }
}
