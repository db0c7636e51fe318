//! Endpoints of packs that whoever starts the service asked for.
//!
//! Each is saved once for each content that the pack gives it: a mark in the catalog says which that was. So a
//! restart undoes nothing. What is changed, rolled back or deleted afterwards stays so until the pack has another
//! content, as after an update of this program.

use std::sync::Arc;

use tidegate_compiler::{Inspection, inspect};
use tidegate_model::Failure;

use crate::admit::{Saving, refused};
use crate::app::{App, StartError};
use crate::demand;
use crate::failure::of_store;
use crate::tokens::hex;

/// An endpoint of a pack, to be saved when the service starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackEndpoint {
    /// The name of the pack.
    pub pack: String,
    /// The endpoint's component, manifest included.
    pub component: Vec<u8>,
}

/// Saves what is new of the packs that were asked for.
///
/// # Errors
/// What the gate refuses; the store's.
pub(crate) async fn install(app: &Arc<App>) -> Result<(), StartError> {
    let packs = &app.options.packs;
    let inspected = packs.iter().map(|own| match inspect(&own.component) {
        Ok(inspection) => Ok((own, inspection)),
        Err(error) => Err(StartError::pack(&own.pack)(refused(error.to_string()))),
    });
    let inspected = inspected.collect::<Result<Vec<_>, _>>()?;
    for (own, inspection) in &inspected {
        one(app, own, inspection).await.map_err(StartError::pack(&own.pack))?;
    }
    Ok(())
}

async fn one(app: &Arc<App>, own: &PackEndpoint, inspection: &Inspection) -> Result<(), Failure> {
    let PackEndpoint { pack, component } = own;
    let (name, digest) = (inspection.manifest.name.as_str(), hex(&inspection.digest));
    let mark = format!("pack {pack}: {name}");
    let catalog = app.store.catalog();
    if catalog.meta(&mark).map_err(of_store)?.as_deref() == Some(digest.as_str()) {
        return Ok(());
    }
    let old = app.registry.find(name);
    if old.as_ref().is_none_or(|old| old.component != digest) {
        let author = format!("the pack {pack}");
        let tables = old.as_ref().map(|old| old.tables.clone()).unwrap_or_default();
        let saving = Saving {
            id: old.as_ref().map(|old| old.id),
            author: &author,
            known: demand::meant(app, &tables),
            same_query: false,
            from: old.as_ref().map(|old| old.version),
        };
        for source in demand::make(app, &inspection.manifest, &saving.known).await? {
            tracing::info!(pack, source, "a source is made for the pack");
        }
        let saved = app.register_component(component, saving).await?;
        tracing::info!(pack, endpoint = name, version = saved.version, "an endpoint of the pack is saved");
    }
    // Last: what is stopped before it is done again, and finds what is there already.
    catalog.set_meta(&mark, &digest).map_err(of_store)
}
