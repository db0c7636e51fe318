//! Running a request: the endpoint's component over its granted tables, under the request's limits.
//!
//! - `parameters`: what a caller sent;
//! - `request`: that, checked against manifest and token;
//! - `statements`: the statements of a running component, planned and executed;
//! - `lql`: ad-hoc queries in LQL as SQL;
//! - `explanation`: what a request would do, without running it;
//! - `recent`: the newest rows of a source.

mod explanation;
mod lql;
mod parameters;
mod recent;
mod request;
#[cfg(test)]
mod request_tests;
mod statements;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_compiler::SQL_ARGUMENT;
use tidegate_model::{Arguments, Code, Failure, Limits, Value};
use tidegate_runtime::{Answer, CallError, Class, Request as Call, Usage};
use tidegate_sql::{CostCounter, Engine, StatementCost, Stop};
use tracing::Instrument;

use crate::account::Account;
use crate::admission::{Admission, Permit};
use crate::answer::{Encoded, EncodingOptions, Streamed, TransferMemory, encode, stream};
use crate::compute::Compute;
use crate::deadline::{GRACE, late};
use crate::endpoints::Endpoints;
use crate::outcomes::ComponentOutcomes;
use statements::{Warnings, warn};

pub(crate) use request::unbound_pin;
pub(crate) use statements::{Language, RequestStatements};

pub use explanation::{Explanation, code_is_not_explained};
pub use parameters::{AdhocQuery, ParameterCollector, SentParameters};
pub use request::{QueryRequest, UsedParameters, limits_of, redaction};

/// How a component ran.
#[derive(Debug, Default)]
pub struct RunReport {
    /// The class in which it ended, if it ended without an answer.
    pub ended: Option<Class>,
    /// What it used, also where it failed.
    pub usage: Usage,
}

/// Where a run is reported.
#[derive(Debug, Default)]
pub struct RunRecord {
    report: OnceLock<RunReport>,
    cost: Arc<CostCounter>,
}

impl RunRecord {
    /// How the component ran: there before the answer is, if it ran.
    pub fn report(&self) -> Option<&RunReport> {
        self.report.get()
    }

    /// What its statements cost that have ended; complete when the whole answer is encoded or streamed.
    pub fn cost(&self) -> StatementCost {
        self.cost.cost()
    }

    /// What of its statements ran on workers, each a JSON object; none on a server without workers.
    pub fn workers(&self) -> Vec<Arc<str>> {
        self.cost.reports()
    }
}

/// How much later than a request's time its [`Stop`] ends the work. It is later than [`GRACE`], so that another part,
/// which knows what took so long, writes the failure.
const STOP_DELAY: Duration = Duration::from_millis(1100);

/// Stops planning when it is dropped, because nobody waits for the request any more.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// What runs requests.
#[derive(Debug)]
pub struct Executor {
    pub(crate) endpoints: Endpoints,
    pub(crate) engine: Arc<Engine>,
    pub(crate) compute: Arc<Compute>,
    pub(crate) admission: Admission,
    pub(crate) answers: TransferMemory,
    pub(crate) outcomes: ComponentOutcomes,
    /// The server's limits of one request.
    pub(crate) limits: Limits,
}

impl Executor {
    /// The permits for queries, and the line for them.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The memory budget for answers that are not read yet.
    pub fn answers(&self) -> &TransferMemory {
        &self.answers
    }

    /// The bytes of footers that are kept, of `footer_memory`.
    pub fn footers_kept(&self) -> usize {
        self.engine.footers_kept()
    }

    /// The bytes that running statements and components have reserved of `total_memory`.
    pub fn statement_memory(&self) -> usize {
        self.engine.memory_held()
    }

    /// How components ended since the start.
    pub fn outcomes(&self) -> &ComponentOutcomes {
        &self.outcomes
    }

    /// The server's limits of one request.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Runs the request with one of the account's permits and encodes the answer. Dropping the future stops the work.
    ///
    /// `arrived` is the time at which the request arrived, in microseconds since 1970. It is the only time that the
    /// component and its statements see, so that the answer does not depend on how long the request waited for its permit.
    /// How the component ran is written to `record`.
    ///
    /// # Errors
    /// Those of the component, its statements and the limits.
    pub async fn execute(
        self: Arc<Self>,
        request: Arc<QueryRequest>,
        arrived: i64,
        account: Account,
        record: Arc<RunRecord>,
    ) -> Result<Encoded, Failure> {
        let permit = Arc::new(self.admission.enter(account).await?);
        let limit = request.limits.wall_clock;
        let stopping = StopOnDrop(Stop::after(limit + STOP_DELAY));
        let options = options(&request);
        let made = Arc::clone(&self).run(request, arrived, stopping.0.clone(), record, Arc::clone(&permit));
        let memory = self.answers.of(account);
        // The work holds the permit: while it has not stopped, it still uses threads and memory.
        let work = self.compute.run_in(permit, encode(made, options, memory));
        tokio::time::timeout(limit + GRACE, work).await.unwrap_or_else(|_| Err(late(limit)))
    }

    /// Runs the request and returns as soon as its first rows are encoded; the others follow in the body.
    ///
    /// # Errors
    /// As [`Executor::execute`], until the first rows.
    pub async fn execute_streamed(
        self: Arc<Self>,
        request: Arc<QueryRequest>,
        arrived: i64,
        record: Arc<RunRecord>,
    ) -> Result<Streamed, Failure> {
        let permit = Arc::new(self.admission.enter(request.account).await?);
        let limit = request.limits.wall_clock;
        let stopping = StopOnDrop(Stop::after(limit + STOP_DELAY));
        let (options, memory) = (options(&request), self.answers.of(request.account));
        let made = Arc::clone(&self).run(request, arrived, stopping.0.clone(), record, Arc::clone(&permit));
        stream(&self.compute, made, options, memory, stopping, permit, limit).await
    }

    /// Runs work of a request beside its statements that may take long, such as compiling a regular expression: with one of
    /// the account's permits, in its turns on the compute threads, and in so much time. Work that does not stop keeps its
    /// permit and its turn until it ends.
    ///
    /// # Errors
    /// The work's; no permit is free in time; [`Code::Timeout`].
    pub async fn run_with_permit<T: Send + 'static>(
        &self,
        account: Account,
        limit: Duration,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let permit = Arc::new(self.admission.enter(account).await?);
        let work = self.compute.run_in(permit, work);
        tokio::time::timeout(limit + GRACE, work).await.unwrap_or_else(|_| Err(late(limit)))
    }

    /// Runs the component.
    async fn run(
        self: Arc<Self>,
        request: Arc<QueryRequest>,
        arrived: i64,
        stop: Stop,
        record: Arc<RunRecord>,
        permit: Arc<Permit>,
    ) -> Result<Answer, Failure> {
        let endpoint = Arc::clone(&request.endpoint);
        let mut passed = request.arguments.clone();
        let component = if let Some(AdhocQuery::Sql(text) | AdhocQuery::Lql(text)) = &request.adhoc {
            passed = Arguments::from([(SQL_ARGUMENT.to_owned(), Value::Text(text.clone()))]);
            Arc::clone(&self.endpoints.registry().adhoc)
        } else {
            let prepared = self.endpoints.prepared(&endpoint).await;
            prepared.map_err(|failure| not_ready(endpoint.manifest.name.as_str(), failure))?
        };
        let warnings = Warnings::default();
        let call = Call { arguments: passed, received_at: arrived, limits: request.limits.clone() };
        let statements = RequestStatements {
            warnings: Arc::clone(&warnings),
            cost: Arc::clone(&record.cost),
            ..self.statements(request, arrived, stop, permit)
        };
        // Log lines of a guest have the name of its endpoint, and the request's id where there is a request.
        let (name, mut span) = (endpoint.manifest.name.as_str(), tracing::Span::current());
        if span.is_disabled() {
            span = tracing::error_span!("endpoint", endpoint = name);
        } else {
            span.record("endpoint", name);
        }
        let made = self.endpoints.runtime().handle(&component, call, Arc::new(statements)).instrument(span).await;
        let (made, report) = match made {
            Ok(mut answer) => {
                let usage = answer.usage;
                warn(&mut answer.notes, &warnings);
                (Ok(answer), RunReport { ended: None, usage })
            }
            Err(end) => {
                let CallError { class, failure, usage, detail: _ } = *end;
                (Err(failure), RunReport { ended: Some(class), usage })
            }
        };
        self.outcomes.count(report.ended);
        let _ = record.report.set(report);
        made
    }
}

impl Executor {
    /// The context of the statements of a request that arrived at `now`.
    fn statements(&self, request: Arc<QueryRequest>, now: i64, stop: Stop, permit: Arc<Permit>) -> RequestStatements {
        let language = match request.adhoc {
            Some(AdhocQuery::Lql(_)) => Language::Lql,
            Some(AdhocQuery::Sql(_)) | None => Language::Sql,
        };
        RequestStatements {
            store: Arc::clone(self.endpoints.store()),
            registry: Arc::clone(self.endpoints.registry()),
            engine: Arc::clone(&self.engine),
            request,
            language,
            now,
            stop,
            permit,
            warnings: Warnings::default(),
            cost: Arc::default(),
        }
    }
}

fn options(request: &QueryRequest) -> EncodingOptions {
    let rows = answer_rows(request);
    EncodingOptions { format: request.format, rows, bytes: request.limits.answer_bytes, redact: request.redact }
}

/// The most rows of an answer.
pub(crate) fn answer_rows(request: &QueryRequest) -> usize {
    let most = request.endpoint.manifest.settings.max_limit;
    usize::try_from(most).unwrap_or(usize::MAX).min(request.limits.rows)
}

/// The failure that a caller sees for a component that cannot be prepared. It passed the gate when it was saved, so the
/// reason is for the operator and goes to the log.
fn not_ready(endpoint: &str, failure: Failure) -> Failure {
    if failure.code == Code::Overloaded {
        return failure;
    }
    tracing::error!(endpoint, %failure, "a component cannot be made ready");
    Failure::new(Code::Internal, "the endpoint cannot be used now; the server's log has the reason")
}
