//! What the component of an endpoint is: its world, what it imports, its size, and the tools that made it.

use serde_json::{Value, json};
use tidegate_compiler::{inspect, tools};
use tidegate_model::Failure;
use tidegate_service::Service;

use super::components::stored;
use tidegate_service::off_connections;

/// A stored component as the management routes show it. It is read each time: only one that is asked for.
///
/// # Errors
/// Those of the store.
pub(super) async fn component_shown(service: &Service, digest: &str) -> Result<Value, Failure> {
    let component = stored(service, digest.to_owned()).await?;
    off_connections(component.len(), move || {
        let tools = tools(&component).into_iter().map(|tool| json!({"name": tool.name, "version": tool.version}));
        let mut shown = json!({"bytes": component.len(), "tools": tools.collect::<Vec<_>>()});
        // One that the gate of another release let in shows its size and tools only.
        if let (Ok(inspected), Value::Object(fields)) = (inspect(&component), &mut shown) {
            fields.insert("world".to_owned(), inspected.world.name().into());
            fields.insert("imports".to_owned(), inspected.imports.into());
            fields.insert("initial_memory".to_owned(), inspected.initial_memory.into());
        }
        Ok(shown)
    })
    .await
}
