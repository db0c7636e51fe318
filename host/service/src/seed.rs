//! What a new data folder gets: the standard log sources and the shipped endpoints.
//!
//! The endpoints are folders in `guest-endpoints/`, compiled and registered like any other.

use tidegate_compiler::manifest_of_texts;
use tidegate_model::{Code, Failure};
use tidegate_store::Store;

use crate::registration::Registrar;
use crate::save_request::SaveRequest;
use crate::standard_sources;
use crate::start_error::StartError;

/// `endpoint.toml` and `query.sql` of each shipped endpoint.
const ENDPOINTS: [(&str, &str); 2] = [
    (
        include_str!("../../../guest-endpoints/logs.all/endpoint.toml"),
        include_str!("../../../guest-endpoints/logs.all/query.sql"),
    ),
    (
        include_str!("../../../guest-endpoints/usage.api-counts/endpoint.toml"),
        include_str!("../../../guest-endpoints/usage.api-counts/query.sql"),
    ),
];

/// The entry in the catalog of a folder that was seeded. What its owner deletes afterwards is not created again.
const MARK: &str = "seeded";

/// Creates the standard sources in a folder that was never seeded, and brings those of older folders up to date.
///
/// # Errors
/// The store's.
pub(crate) fn sources(store: &Store) -> Result<(), StartError> {
    if store.catalog().meta(MARK)?.is_none() {
        for name in standard_sources::names() {
            standard_sources::ensure(store, name)?;
        }
    }
    Ok(standard_sources::bring_up_to_date(store)?)
}

/// Saves the shipped endpoints in a folder that was never seeded, and marks the folder as seeded.
///
/// # Errors
/// The store's; an endpoint that the gate refuses.
pub(crate) async fn endpoints(registrar: &Registrar) -> Result<(), StartError> {
    let (store, registry) = (registrar.endpoints.store(), registrar.endpoints.registry());
    if store.catalog().meta(MARK)?.is_some() {
        return Ok(());
    }
    for (toml, query) in ENDPOINTS {
        let unreadable = |error: tidegate_compiler::FolderError| Failure::new(Code::Internal, error.to_string());
        let manifest =
            manifest_of_texts(toml, query).map_err(unreadable).map_err(StartError::setup("a shipped endpoint"))?;
        if registry.find(manifest.name.as_str()).is_none() {
            let what = format!("the endpoint {}", manifest.name);
            let request = SaveRequest { author: "the first start", ..SaveRequest::default() };
            registrar.register_query(&manifest, request).await.map_err(StartError::setup(what))?;
        }
    }
    store.catalog().set_meta(MARK, "1")?;
    Ok(())
}
