//! What the host keeps for one request, and the functions of the contract that a guest calls.
//!
//! [`State`] is here; its implementations of the generated traits are in the modules below, one for each interface of
//! the contract. Every function begins with [`State::enter`], which counts the call. A failure that a guest may handle
//! is returned to it and remembered, because the guest may name it as the reason of its own failure.

mod exchange;
mod results;
mod statements;

use std::sync::Arc;

use tidegate_model::{Arguments, Failure};
use wasmtime::component::{Resource, ResourceTable, ResourceTableError};

use crate::bindings::tidegate::endpoint::types as wit;
use crate::budget::Budget;
use crate::hard_limit::HardLimit;
use crate::rows::Statements;
use crate::wit_convert::failure_out;

/// The most entries of the resource table: open result sets, requests and responses together.
const MAX_RESOURCES: usize = 64;

/// The state of one request, which is the data of its store.
pub(crate) struct State {
    pub(crate) table: ResourceTable,
    pub(crate) budget: Budget,
    /// The checked parameters of the request.
    pub(crate) arguments: Arguments,
    pub(crate) statements: Arc<dyn Statements>,
    /// The last failure that a host function returned.
    pub(crate) last_failure: Option<Failure>,
    pub(crate) saw_time: bool,
    /// The number of entries of the table, to check that none is lost or taken twice.
    open: usize,
}

impl State {
    pub(crate) fn new(budget: Budget, arguments: Arguments, statements: Arc<dyn Statements>) -> Self {
        Self { table: resource_table(), budget, arguments, statements, last_failure: None, saw_time: false, open: 0 }
    }

    /// Called first by every host function; counts the call.
    pub(crate) fn enter(&mut self) -> wasmtime::Result<()> {
        Ok(self.budget.enter()?)
    }

    /// Remembers a failure and returns it in the type of the contract.
    pub(crate) fn fail(&mut self, failure: Failure) -> wit::Failure {
        let words = failure_out(&failure);
        self.last_failure = Some(failure);
        words
    }

    /// Adds an entry to the table and returns its handle.
    pub(crate) fn push<T: Send + 'static>(&mut self, entry: T) -> wasmtime::Result<Resource<T>> {
        let handle = self.table.push(entry).map_err(|error| match error {
            ResourceTableError::Full => HardLimit::Handles.into(),
            error => wasmtime::Error::from(error),
        })?;
        self.open += 1;
        Ok(handle)
    }

    /// Removes an entry from the table.
    pub(crate) fn take<T: Send + 'static>(&mut self, handle: Resource<T>) -> wasmtime::Result<T> {
        let entry = self.table.delete(handle)?;
        self.open = self.open.saturating_sub(1);
        Ok(entry)
    }

    /// The number of handles that the guest did not drop by the end of the request. They are dropped with the store.
    pub(crate) fn left_open(&self) -> usize {
        debug_assert_eq!(self.table.is_empty(), self.open == 0, "an entry was lost, or taken twice");
        self.open
    }
}

/// A table that refuses more than [`MAX_RESOURCES`] entries.
fn resource_table() -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_RESOURCES);
    table
}
