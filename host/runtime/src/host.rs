//! What the host keeps for one request, and the functions that start statements and write logs.
//!
//! Every function of the contract begins with [`State::enter`], so that no call is free. A failure
//! that a guest may handle is returned to it and remembered: it may name it as its reason.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use tidegate_model::{Arguments, Code, Failure, Value};
use tokio::task::JoinHandle;
use tracing::Instrument;
use wasmtime::component::{Resource, ResourceTable, ResourceTableError};

use crate::bindings::tidegate::endpoint::{adhoc, log, statements, types as wit};
use crate::ended::HardLimit;
use crate::limits::{Budget, resource_table};
use crate::result_set::ResultSet;
use crate::words::{exhausted, failure_out, shorten, value_in};
use crate::{Statement, Statements};

/// The longest line that a guest may log.
const MAX_LOG_LINE: usize = 2048;

/// The state of one request, in its store.
pub(crate) struct State {
    pub(crate) table: ResourceTable,
    pub(crate) budget: Budget,
    /// The checked parameters of the request.
    pub(crate) arguments: Arguments,
    pub(crate) statements: Arc<dyn Statements>,
    /// The failure that a host function returned last.
    pub(crate) last_failure: Option<Failure>,
    pub(crate) saw_time: bool,
    /// Entries of the table: a check that none is lost or taken twice.
    open: usize,
}

impl State {
    pub(crate) fn new(budget: Budget, arguments: Arguments, statements: Arc<dyn Statements>) -> Self {
        Self { table: resource_table(), budget, arguments, statements, last_failure: None, saw_time: false, open: 0 }
    }

    /// The door of every host function.
    pub(crate) fn enter(&mut self) -> wasmtime::Result<()> {
        Ok(self.budget.enter()?)
    }

    /// Remembers a failure, and words it for the guest.
    pub(crate) fn fail(&mut self, failure: Failure) -> wit::Failure {
        let words = failure_out(&failure);
        self.last_failure = Some(failure);
        words
    }

    /// A new handle.
    pub(crate) fn push<T: Send + 'static>(&mut self, entry: T) -> wasmtime::Result<Resource<T>> {
        let handle = self.table.push(entry).map_err(|error| match error {
            ResourceTableError::Full => HardLimit::Handles.into(),
            error => wasmtime::Error::from(error),
        })?;
        self.open += 1;
        Ok(handle)
    }

    /// What a handle stands for, which ends with it.
    pub(crate) fn take<T: Send + 'static>(&mut self, handle: Resource<T>) -> wasmtime::Result<T> {
        let entry = self.table.delete(handle)?;
        self.open = self.open.saturating_sub(1);
        Ok(entry)
    }

    /// Handles that the guest did not give back, at the end of a request. They end with the store.
    pub(crate) fn left_open(&self) -> usize {
        debug_assert_eq!(self.table.is_empty(), self.open == 0, "an entry was lost, or taken twice");
        self.open
    }

    /// The arguments that a guest gives to a statement, if they are additions. A grant may filter by
    /// a parameter of the request (the tenant's), so no guest may put another value in its place.
    ///
    /// Names are compared as `@name` finds them: without regard to case.
    fn additional(&self, arguments: Vec<(String, wit::Value)>) -> Result<Vec<(String, Value)>, Failure> {
        if arguments.is_empty() {
            return Ok(Vec::new());
        }
        let of_request: HashSet<String> = self.arguments.keys().map(|name| name.to_ascii_lowercase()).collect();
        let mut given = HashSet::new();
        let mut added: Vec<(String, Value)> = Vec::with_capacity(arguments.len());
        for (name, value) in arguments {
            let folded = name.to_ascii_lowercase();
            let reason = if of_request.contains(&folded) {
                "is a parameter of the request, which a component cannot replace"
            } else if given.insert(folded) {
                added.push((name, value_in(value)));
                continue;
            } else {
                "is given twice"
            };
            return Err(Failure::new(Code::InvalidParameter, format!("argument '{name}' {reason}")).about(name));
        }
        Ok(added)
    }

    async fn run(
        &mut self,
        statement: Statement,
        arguments: Vec<(String, wit::Value)>,
    ) -> wasmtime::Result<Result<Resource<ResultSet>, wit::Failure>> {
        self.enter()?;
        if !self.budget.statement() {
            let most = self.budget.limits().statements;
            let failure = exhausted("statements", format!("one request may run at most {most} statements"));
            return Ok(Err(self.fail(failure)));
        }
        let arguments = match self.additional(arguments) {
            Ok(arguments) => arguments,
            Err(failure) => return Ok(Err(self.fail(failure))),
        };
        let statements = Arc::clone(&self.statements);
        match apart(async move { statements.run(statement, arguments).await }).await {
            Ok(rows) => Ok(Ok(self.push(ResultSet::new(rows))?)),
            Err(failure) => Ok(Err(self.fail(failure))),
        }
    }
}

/// Does work of the engine in a task of its own: host functions are polled on the guest's small
/// stack, and planning a statement may recurse deeply. Dropping the wait aborts the task.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    struct Aborting<T>(JoinHandle<T>);
    impl<T> Drop for Aborting<T> {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let mut task = Aborting(tokio::spawn(work.in_current_span()));
    (&mut task.0).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a statement's task did not end");
        Err(Failure::new(Code::Internal, "the statement failed; the server's log has the reason"))
    })
}

impl wit::Host for State {}

impl statements::Host for State {
    async fn run(
        &mut self,
        name: String,
        arguments: Vec<(String, wit::Value)>,
    ) -> wasmtime::Result<Result<Resource<ResultSet>, wit::Failure>> {
        self.run(Statement::Named(name), arguments).await
    }
}

impl adhoc::Host for State {
    async fn run(
        &mut self,
        sql: String,
        arguments: Vec<(String, wit::Value)>,
    ) -> wasmtime::Result<Result<Resource<ResultSet>, wit::Failure>> {
        self.run(Statement::Text(sql), arguments).await
    }
}

impl log::Host for State {
    fn record_line(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.enter()?;
        if !self.budget.log_line() {
            return Ok(());
        }
        let line = shorten(&message, MAX_LOG_LINE);
        match level {
            log::Level::Debug => tracing::debug!(target: "tidegate::guest", line),
            log::Level::Info => tracing::info!(target: "tidegate::guest", line),
            log::Level::Warn => tracing::warn!(target: "tidegate::guest", line),
            log::Level::Error => tracing::error!(target: "tidegate::guest", line),
        }
        Ok(())
    }
}
