//! What the component of an endpoint is: its world, what it imports, its size, and the tools that made it.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_compiler::{Tool, inspect, tools};
use tidegate_model::Failure;
use tidegate_service::Service;

use tidegate_service::off_connections;

/// The component of an endpoint with code; only where one endpoint is asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Component {
    bytes: usize,
    #[serde(flatten)]
    inspected: Option<Inspected>,
    /// What it says made it.
    tools: Vec<Tool>,
}

/// What the gate found. A component that the gate of another release let in may not have it.
#[derive(Debug, Serialize, JsonSchema)]
struct Inspected {
    /// The smallest world of the contract that it fits.
    #[schemars(extend("enum" = ["endpoint", "endpoint-adhoc"]))]
    world: &'static str,
    /// The interfaces that it imports: what it can do.
    imports: Vec<String>,
    /// Bytes of linear memory at the start.
    initial_memory: u64,
}

/// A stored component as the management routes show it. It is read each time: only one that is asked for.
///
/// # Errors
/// Those of the store.
pub(super) async fn component_shown(service: &Service, digest: &str) -> Result<Component, Failure> {
    let component = service.component(digest.to_owned()).await?;
    off_connections(component.len(), move || {
        let inspected = inspect(&component).ok().map(|inspected| Inspected {
            world: inspected.world.name(),
            imports: inspected.imports,
            initial_memory: inspected.initial_memory,
        });
        Ok(Component { bytes: component.len(), inspected, tools: tools(&component) })
    })
    .await
}
