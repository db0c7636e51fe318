//! A draft of an endpoint: it passes the gate as a version does that is saved, and is called without being saved, so that its
//! author sees rows before anybody else gets them.

use std::sync::Arc;

use tidegate_model::Failure;
use uuid::Uuid;

use super::{Admitted, Registrar};
use crate::catalog::EndpointRecord;
use crate::failures::refused;
use crate::registry::Endpoint;
use crate::save_request::SaveRequest;

impl Registrar {
    /// The endpoint that a packed component would be. It is in no registry and in no catalog. `kept` is the digest of the
    /// component of the version before, if there is one: its code is that of the draft.
    ///
    /// # Errors
    /// As [`Registrar::save_component`].
    pub async fn draft(
        &self,
        component: &[u8],
        kept: Option<String>,
        request: SaveRequest<'_>,
    ) -> Result<Arc<Endpoint>, Failure> {
        let admitted = self.admitted(component, &request).await?;
        let Admitted { manifest, saved, code, digest, tables, .. } = admitted;
        let record = EndpointRecord {
            id: request.id.unwrap_or_else(Uuid::new_v4),
            name: manifest.name.to_string(),
            version: request.from.unwrap_or_default(),
            manifest: serde_json::to_string(&manifest).map_err(|error| refused(error.to_string()))?,
            component: kept.unwrap_or_else(|| hex::encode(digest)),
            author: request.author.to_owned(),
            sources: tables,
            created_at: 0,
            updated_at: 0,
        };
        let endpoint = Endpoint::of(record, self.gate.limits.text)?.with_saved(saved);
        // Its code was made ready by the gate.
        let _ = endpoint.code.set(code);
        Ok(Arc::new(endpoint))
    }
}
