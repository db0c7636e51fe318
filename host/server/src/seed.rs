//! What a fresh data folder gets: the nine log sources and the endpoints of the specification.
//!
//! The endpoints are the folders in `guest-endpoints/`, compiled and admitted like any other.

use std::sync::Arc;

use tidegate_compiler::manifest_of_texts;
use tidegate_model::{Code, Failure};

use crate::admit::Saving;
use crate::app::{App, StartError};

/// The sources that log shippers post to.
pub(crate) const SOURCES: [&str; 9] = [
    "cloudflare.logs.prod",
    "postgres.logs",
    "deno-relay-logs",
    "deno-subhosting-events",
    "gotrue.logs.prod",
    "realtime.logs.prod",
    "storage.logs.prod.2",
    "postgREST.logs.prod",
    "pgbouncer.logs.prod",
];

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

/// The mark in the catalog of a folder that was seeded: what its owner then deletes stays deleted.
const MARK: &str = "seeded";

pub(crate) fn sources(app: &App) -> Result<(), StartError> {
    if app.store.catalog().meta(MARK)?.is_none() {
        for name in SOURCES {
            app.store.ensure_source(name)?;
        }
    }
    Ok(())
}

pub(crate) async fn endpoints(app: &Arc<App>) -> Result<(), StartError> {
    if app.store.catalog().meta(MARK)?.is_some() {
        return Ok(());
    }
    for (toml, query) in ENDPOINTS {
        let unreadable = |error: tidegate_compiler::FolderError| Failure::new(Code::Internal, error.to_string());
        let manifest =
            manifest_of_texts(toml, query).map_err(unreadable).map_err(StartError::setup("a shipped endpoint"))?;
        if app.registry.find(manifest.name.as_str()).is_none() {
            let what = format!("the endpoint {}", manifest.name);
            app.register_query(&manifest, Saving { author: "the first start", ..Saving::default() })
                .await
                .map_err(StartError::setup(what))?;
        }
    }
    app.store.catalog().set_meta(MARK, "1")?;
    Ok(())
}
