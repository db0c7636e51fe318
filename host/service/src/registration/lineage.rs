//! What an endpoint would read: its granted tables of the sources, and its statements of the granted tables.
//!
//! Who saves an endpoint sees from it what its callers can reach, before it is saved.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_compiler::is_generated;
use tidegate_model::{Failure, Manifest};
use tidegate_sql::{Reads, SavedQuery};

use super::Registrar;

/// What an endpoint reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The granted tables, in the order of the query.
    pub grants: Vec<Grant>,
    /// What each statement reads of the granted tables; the body of the query first, as `default`.
    pub statements: Vec<(String, Reads)>,
}

/// A granted table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CheckedGrant")]
pub struct Grant {
    /// Its name.
    pub table: String,
    /// The parameters that it uses, itself or through the CTEs that it reads. Without any, whoever may call the endpoint may
    /// read all of it.
    pub parameters: Vec<String>,
    /// The columns that it reads, by source.
    pub reads: Reads,
}

impl Registrar {
    /// What an endpoint reads whose component and manifest passed the gate. A piece that cannot be resolved by itself is
    /// left out.
    ///
    /// # Errors
    /// The query cannot be parsed.
    pub async fn lineage(&self, manifest: &Manifest, component: &[u8]) -> Result<Lineage, Failure> {
        let computed = !is_generated(component);
        let saved = SavedQuery::parse_within(&manifest.query, &self.gate.limits.text)?;
        let (gate, manifest) = (self.gate.clone(), manifest.clone());
        // Planning may recurse deeply, and the compute threads have a large stack.
        self.compute
            .run(async move {
                let explanation = gate.explain(manifest, computed);
                let grant = |(table, reads): (String, Reads)| {
                    let parameters = saved.parameters_of(&table);
                    Grant { table, parameters, reads }
                };
                let grants = explanation.grants.into_iter().map(grant).collect();
                Ok(Lineage { grants, statements: explanation.statements })
            })
            .await
    }
}
