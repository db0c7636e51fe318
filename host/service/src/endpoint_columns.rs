//! The columns of an endpoint's answer, planned without running it.

use std::sync::Arc;

use tidegate_model::{Audience, Failure};
use tidegate_sql::{Binding, Engine, Type};
use tidegate_store::Store;

use crate::clock::Clock;
use crate::component_kinds::{ComponentKind, ComponentKinds};
use crate::gate::examples::example_arguments;
use crate::registry::{Endpoint, Registry, with_parameters_of};
use crate::tables::StoredTables;

/// What plans the columns of endpoints; clones share it.
#[derive(Debug, Clone)]
pub struct ColumnPlanner {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) kinds: ComponentKinds,
    pub(crate) clock: Clock,
}

impl ColumnPlanner {
    /// Whether the endpoint answers the rows of its saved query. Otherwise its code decides what it answers. Blocks.
    pub fn answers_rows(&self, endpoint: &Endpoint) -> bool {
        self.kinds.read(&endpoint.component).is_ok_and(|kind| kind == ComponentKind::Sql)
    }

    /// The columns of the saved query, as they are with the logs that are stored now. Plans may be deep: to be called on
    /// the compute threads.
    ///
    /// # Errors
    /// The query does not resolve any more; an endpoint that it reads cannot be read.
    pub fn columns(&self, endpoint: &Endpoint) -> Result<Vec<(String, Type)>, Failure> {
        let reads = self.registry.load_reads(&self.store, &endpoint.tables)?;
        let manifest = with_parameters_of(&endpoint.manifest, &reads);
        let arguments = example_arguments(&manifest);
        let tables = StoredTables::of(&self.store, &self.registry, endpoint, true, &Audience::All);
        let binding = Binding::new(&tables, &arguments, self.clock.now());
        let plan = self.engine.plan_saved(endpoint.saved()?, binding)?;
        Ok(plan.columns().to_vec())
    }
}
