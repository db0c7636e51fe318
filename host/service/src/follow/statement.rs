//! What is followed: the statement of a request, planned as any statement of that request is, and run over rows in the
//! order of their places: new ones, or stored ones.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Array, AsArray, PrimitiveArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::catalog::TableProvider;
use futures::StreamExt;
use tidegate_model::{Code, Failure};
use tidegate_runtime::Statement;
use tidegate_sql::{Plan, PreparedPlan, Stop};
use tidegate_store::{ColumnsVersion, FollowedTable};

use super::position::Position;
use crate::admission::Permit;
use crate::answer::LineWriter;
use crate::execution::{AdhocQuery, Executor, Language, QueryRequest, RequestStatements};
use crate::registry::Endpoint;

/// How long one look at new rows may take for one query.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// Two times that are far apart, to find out whether a statement depends on the time.
const OTHER_TIME: i64 = 1_234_567_890_123_457;

/// The query of a follower who sends none: all rows of the first granted table.
///
/// # Errors
/// The endpoint grants no table, or takes no ad-hoc queries.
pub fn whole_table(endpoint: &Endpoint) -> Result<AdhocQuery, Failure> {
    let tables = endpoint.saved()?.tables();
    match tables.first().filter(|_| endpoint.manifest.settings.sandboxable) {
        Some(table) => Ok(AdhocQuery::Sql(format!("SELECT * FROM `{}`", table.replace('`', "\\`")))),
        None => {
            let message = "what is followed is a query over a granted table: send it as lql or sql";
            Err(Failure::new(Code::InvalidParameter, message).about("lql"))
        }
    }
}

/// A statement with a snapshot of its source.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) table: FollowedTable,
}

/// Plans the ad-hoc statement of a request at the time `now`.
///
/// # Errors
/// What is wrong with the statement; [`Code::Unsupported`] where it is more than a filter over one table.
pub(super) fn planned(
    executor: &Executor,
    request: &Arc<QueryRequest>,
    now: i64,
    permit: &Arc<Permit>,
) -> Result<Planned, Failure> {
    let (language, text) = match &request.adhoc {
        Some(AdhocQuery::Sql(text)) => (Language::Sql, text),
        Some(AdhocQuery::Lql(text)) => (Language::Lql, text),
        None => return Err(Failure::new(Code::InvalidParameter, "a query is followed: send it as lql or sql")),
    };
    let statements = RequestStatements {
        store: Arc::clone(executor.endpoints.store()),
        registry: Arc::clone(executor.endpoints.registry()),
        engine: Arc::clone(&executor.engine),
        request: Arc::clone(request),
        language,
        now,
        stop: Stop::after(LOOK_TIME),
        permit: Arc::clone(permit),
        warnings: Arc::default(),
        cost: Arc::default(),
    };
    let plan = statements.plan(Statement::Text(text.clone()), Vec::new())?;
    let table = plan.followed_table()?;
    let table = FollowedTable::of(table.as_ref()).ok_or_else(|| {
        Failure::new(Code::Unsupported, "the rows of this query are in no source, so none of them are new")
    })?;
    Ok(Planned { plan, table })
}

/// Whether a planned statement depends on the time at which it is run.
///
/// # Errors
/// As [`planned`].
pub(super) fn depends_on_time(
    executor: &Executor,
    request: &Arc<QueryRequest>,
    now: i64,
    permit: &Arc<Permit>,
    plan: &Plan,
) -> Result<bool, Failure> {
    let other = planned(executor, request, now.wrapping_add(OTHER_TIME), permit)?;
    Ok(!other.plan.is_same(plan))
}

/// A statement that runs over rows in the order of their places.
#[derive(Debug)]
pub(super) struct Prepared {
    plan: PreparedPlan,
    /// The columns of the source for which it was planned.
    pub(super) columns: ColumnsVersion,
}

/// Makes the operators of a planned statement over a table with the columns of its followed one.
///
/// # Errors
/// The engine's.
pub(super) async fn prepared(
    executor: &Executor,
    planned: &Planned,
    table: &Arc<dyn TableProvider>,
) -> Result<Prepared, Failure> {
    let plan = executor.engine.prepare(&planned.plan, Arc::clone(table), &FollowedTable::PLACE).await?;
    Ok(Prepared { plan, columns: planned.table.columns.clone() })
}

/// Does the work of one look for one query, planning included, in its time.
///
/// # Errors
/// The work's; [`Code::Timeout`].
pub(super) async fn in_time<T, E: From<Failure>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    within(LOOK_TIME, work).await
}

/// Does the work of one look in so much time.
///
/// # Errors
/// As [`in_time`].
pub(super) async fn within<T, E: From<Failure>>(
    time: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let done = tokio::time::timeout(time, Stop::after(time).cover(work)).await;
    done.unwrap_or_else(|_| {
        let seconds = time.as_secs();
        let message = format!("one look at rows took longer than {seconds} s; make the condition simpler");
        Err(Failure::new(Code::Timeout, message).into())
    })
}

/// Runs a statement over the rows of its table, within [`in_time`] or [`within`]. `slice` are the new rows, if the table is
/// one of those. `take` gets the rows of the answer that come after `after`, in their order, and returns whether it takes
/// more.
///
/// # Errors
/// What the statement fails with for one of the rows.
pub(super) async fn look(
    executor: &Executor,
    request: &QueryRequest,
    prepared: &Prepared,
    slice: Arc<impl Any + Send + Sync>,
    after: Position,
    mut take: impl FnMut(Position, &[u8]) -> bool,
) -> Result<(), Failure> {
    let mut writer = LineWriter::new(prepared.plan.columns(), request.redact)?;
    let memory = request.limits.statement_memory;
    let looking = async {
        let mut batches = executor.engine.run_prepared(&prepared.plan, slice, memory)?;
        let (mut last, mut more) = (None::<Position>, true);
        while more && let Some(batch) = batches.next().await {
            let batch = batch?;
            let places = places(&batch, &mut last)?;
            writer.write(&batch, |row, json| {
                if let Some(place) = places.get(row).filter(|place| more && **place > after) {
                    more = take(*place, json);
                }
            })?;
        }
        Ok(())
    };
    let looked: Result<(), Failure> = looking.await;
    looked.map_err(|failure| writer.failure(failure))
}

/// The places of the rows of a batch. Several may be made of one stored row.
fn places(batch: &RecordBatch, last: &mut Option<Position>) -> Result<Vec<Position>, Failure> {
    let lost = |what: &str| {
        tracing::error!(what, "the rows of a followed query cannot be told apart");
        Failure::new(Code::Internal, "the rows could not be read; the server's log has the details")
    };
    let [.., calls, rows] = batch.columns() else { return Err(lost("a batch without places")) };
    let (Some(calls), Some(rows)) = (calls.as_primitive_opt::<Int64Type>(), rows.as_primitive_opt::<Int64Type>())
    else {
        return Err(lost("places that are no numbers"));
    };
    let numbers = |of: &PrimitiveArray<Int64Type>, at: usize| of.is_valid(at).then(|| of.value(at));
    let mut places = Vec::with_capacity(calls.len());
    for at in 0..calls.len() {
        let row = numbers(rows, at).and_then(|row| usize::try_from(row).ok());
        let (call, row) = numbers(calls, at).zip(row).ok_or_else(|| lost("a row without a place"))?;
        let place = match *last {
            Some(before) => before.next(call, row).ok_or_else(|| lost("rows in another order"))?,
            None => Position::row(call, row, 0),
        };
        *last = Some(place);
        places.push(place);
    }
    Ok(places)
}
