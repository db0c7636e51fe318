//! The functions of the contract that start statements and write logs.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate_model::{Code, Failure, Quota, Value};
use wasmtime::component::Resource;

use crate::bindings::tidegate::endpoint::{adhoc, log, statements, types as wit};
use crate::host::State;
use crate::result_set::ResultSet;
use crate::rows::Statement;
use crate::statement_task::run_in_task;
use crate::wit_convert::{exhausted, shorten, value_in};

/// The longest line that a guest may log, in bytes.
const MAX_LOG_LINE: usize = 2048;

impl State {
    /// The arguments that a guest adds to a statement. It cannot replace a parameter of the request: a grant may filter
    /// by one (that of the tenant).
    ///
    /// Names are compared as `@name` resolves them: case-insensitively.
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
            let failure = exhausted(Quota::Statements, format!("one request may run at most {most} statements"));
            return Ok(Err(self.fail(failure)));
        }
        let arguments = match self.additional(arguments) {
            Ok(arguments) => arguments,
            Err(failure) => return Ok(Err(self.fail(failure))),
        };
        let statements = Arc::clone(&self.statements);
        match run_in_task(async move { statements.run(statement, arguments).await }).await {
            Ok(rows) => Ok(Ok(self.push(ResultSet::new(rows))?)),
            Err(failure) => Ok(Err(self.fail(failure))),
        }
    }
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
