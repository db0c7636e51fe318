//! The addresses of workers in plans: numbers in the list of workers of a statement.

use datafusion::error::{DataFusionError, Result};
use url::Url;

/// The address of the worker at a place of the list of a statement. It is no address of a network: a plan cannot name
/// a machine.
pub(crate) fn url_of(place: usize) -> Result<Url> {
    Url::parse(&format!("worker://{place}")).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// The place of a worker in the list of a statement.
pub fn place_of(url: &Url) -> Option<usize> {
    url.host_str().and_then(|place| place.parse().ok())
}
