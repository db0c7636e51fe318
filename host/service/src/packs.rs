//! Installs the endpoints of packs that the operator asked for, when the service starts, and has sources say whose their
//! rows are where packs declare it.
//!
//! An endpoint is saved once for each content that its pack gives it. An entry in the catalog records the digest of
//! that content. So a restart does not overwrite later work: an endpoint that was changed, rolled back or deleted stays
//! so until the content of the pack changes, for example after an update of this program.

use tidegate_compiler::Inspection;
use tidegate_model::Failure;
use tidegate_store::Store;

use crate::access_report::TenancyChange;
use crate::blocking::blocking;
use crate::failures::of_store;
use crate::inspection::inspect;
use crate::missing_sources::meanings;
use crate::options::{PackEndpoint, PackSource};
use crate::registration::Registrar;
use crate::save_request::SaveRequest;
use crate::start_error::StartError;

/// Saves the endpoints of the packs whose content has changed.
///
/// # Errors
/// The gate refuses an endpoint; a failure of the store.
pub(crate) async fn install(registrar: &Registrar, packs: &[PackEndpoint]) -> Result<(), StartError> {
    let inspected = packs.iter().map(|own| match inspect(&own.component) {
        Ok(inspection) => Ok((own, inspection)),
        Err(failure) => Err(StartError::pack(&own.pack)(failure)),
    });
    let inspected = inspected.collect::<Result<Vec<_>, _>>()?;
    for (own, inspection) in &inspected {
        install_endpoint(registrar, own, inspection).await.map_err(StartError::pack(&own.pack))?;
    }
    Ok(())
}

async fn install_endpoint(registrar: &Registrar, own: &PackEndpoint, inspection: &Inspection) -> Result<(), Failure> {
    let PackEndpoint { pack, component } = own;
    let (store, registry) = (registrar.endpoints.store(), registrar.endpoints.registry());
    let (name, digest) = (inspection.manifest.name.as_str(), hex::encode(inspection.digest));
    let mark = format!("pack {pack}: {name}");
    let catalog = store.catalog();
    if catalog.meta(&mark).map_err(of_store)?.as_deref() == Some(digest.as_str()) {
        return Ok(());
    }
    let old = registry.find(name);
    if old.as_ref().is_none_or(|old| old.component != digest) {
        let author = format!("the pack {pack}");
        let tables = old.as_ref().map(|old| old.tables.clone()).unwrap_or_default();
        let request = SaveRequest {
            id: old.as_ref().map(|old| old.id),
            author: &author,
            known: meanings(store, registry, &tables),
            same_query: false,
            from: old.as_ref().map(|old| old.version),
            ..SaveRequest::default()
        };
        for source in registrar.create_missing_sources(&inspection.manifest, &request.known).await? {
            tracing::info!(pack, source, "a source is made for the pack");
        }
        let saved = registrar.register_component(component, request).await?;
        tracing::info!(pack, endpoint = name, version = saved.version, "an endpoint of the pack is saved");
    }
    // The entry is written last. If the start is interrupted before this line, the next start repeats the installation
    // and finds what is already saved.
    catalog.set_meta(&mark, &digest).map_err(of_store)
}

/// Has sources say whose their rows are, as packs declare it: those that are there and do not say it. Each declaration is made
/// once, so what is taken back afterwards stays so.
///
/// # Errors
/// A failure of the store.
pub(crate) async fn declare(registrar: &Registrar, sources: &[PackSource]) -> Result<(), StartError> {
    for own in sources {
        declare_source(registrar, own).await.map_err(StartError::pack(&own.pack))?;
    }
    Ok(())
}

async fn declare_source(registrar: &Registrar, own: &PackSource) -> Result<(), Failure> {
    let PackSource { pack, name, tenant } = own;
    let store = registrar.endpoints.store();
    let (mark, declared) = (format!("pack {pack}: the source {name}"), tenant.to_string());
    if store.catalog().meta(&mark).map_err(of_store)?.as_deref() == Some(declared.as_str()) {
        return Ok(());
    }
    // One that has another name by now is its owner's.
    let Some(source) = store.source(name).filter(|source| source.name == *name) else {
        tracing::warn!(pack, source = name, "the pack says whose the rows of a source are that does not exist");
        return Ok(());
    };
    match &source.tenant {
        Some(there) if there == tenant => {}
        Some(there) => {
            tracing::warn!(
                pack,
                source = name,
                "the source says {there}; that the pack says {declared} changes nothing"
            );
        }
        None => {
            let change = TenancyChange::of(source.id, None, Some(tenant.clone()));
            let widened = registrar.compute.run(registrar.access.clone().of_tenancy(change)).await?;
            let becomes = tenant.clone();
            blocking(store, move |store: &Store| store.set_tenant(source.id, Some(becomes))).await?;
            tracing::info!(pack, source = name, "the source says whose its rows are: {declared}");
            widened.log(&format!("the tenant keys of the source {name}, by the pack {pack}"));
        }
    }
    store.catalog().set_meta(&mark, &declared).map_err(of_store)
}
