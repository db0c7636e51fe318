//! The interface `results` of the contract: what a guest does with the rows of a statement, and rows that it makes.

use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;
use futures::stream;
use tidegate_model::{Code, Failure, Quota};
use wasmtime::component::Resource;

use crate::batch::{ReadBudget, batch_out, scalar_out};
use crate::bindings::tidegate::endpoint::{results, types as wit};
use crate::guest_rows::guest_rows;
use crate::host::State;
use crate::result_set::ResultSet;
use crate::rows::{Column, Rows};
use crate::statement_task::run_in_task;
use crate::wit_convert::{exhausted, kind_out};

/// The most rows that one `next` copies, whatever the guest asks for.
const MAX_BATCH_ROWS: u32 = 65_536;

impl State {
    /// Makes the next rows of a set available in `rest`. The waiting is done in a task of its own.
    async fn fill(&mut self, set: &Resource<ResultSet>) -> wasmtime::Result<Result<(), Failure>> {
        let entry = self.table.get_mut(set)?;
        if entry.rest.as_ref().is_some_and(|rest| rest.num_rows() > 0) {
            return Ok(Ok(()));
        }
        let feed = entry.take_feed();
        let filled = run_in_task(feed.fill()).await;
        // A guest may hold many sets open, and each has its rows in the host.
        let held = filled.and_then(|feed| Ok((self.budget.reserve(feed.held())?, feed)));
        Ok(match held {
            Ok((memory, feed)) => {
                self.table.get_mut(set)?.restore(feed, memory);
                Ok(())
            }
            // A stream that failed has ended. The set remains, and is empty.
            Err(failure) => Err(failure),
        })
    }

    /// Copies up to `max_rows` rows out of `rest`.
    fn take_batch(
        &mut self,
        set: &Resource<ResultSet>,
        max_rows: u32,
    ) -> wasmtime::Result<Result<Option<wit::Batch>, Failure>> {
        let left = ReadBudget { rows: self.budget.rows_left(), bytes: self.budget.bytes_left() };
        let entry = self.table.get_mut(set)?;
        let Some(rest) = entry.rest.take() else { return Ok(Ok(None)) };
        if left.rows == 0 {
            entry.rest = Some(rest);
            let most = self.budget.limits().guest_rows;
            return Ok(Err(exhausted(
                Quota::Rows,
                format!("a component may read at most {most} rows into its memory"),
            )));
        }
        let wanted = usize::try_from(max_rows.min(MAX_BATCH_ROWS)).unwrap_or(usize::MAX);
        let rows = wanted.min(rest.num_rows()).min(usize::try_from(left.rows).unwrap_or(usize::MAX));
        let batch = match batch_out(&rest.slice(0, rows), &entry.rows.columns, &entry.rows.json, &left) {
            Ok(batch) => batch,
            Err(failure) => {
                // Nothing was read: fewer rows may fit, or the guest may pass the set on as a whole.
                entry.rest = Some(rest);
                return Ok(Err(failure));
            }
        };
        entry.keep((rows < rest.num_rows()).then(|| rest.slice(rows, rest.num_rows() - rows)));
        self.budget.read(rows as u64, batch.bytes);
        Ok(Ok(Some(batch.batch)))
    }
}

impl results::Host for State {}

impl results::HostResultSet for State {
    fn columns(&mut self, set: Resource<ResultSet>) -> wasmtime::Result<Vec<wit::Column>> {
        self.enter()?;
        let columns = &self.table.get(&set)?.rows.columns;
        let words = |column: &Column| wit::Column {
            name: column.name.clone(),
            kind: kind_out(column.kind),
            nullable: column.nullable,
        };
        Ok(columns.iter().map(words).collect())
    }

    fn select(
        &mut self,
        input: Resource<ResultSet>,
        columns: Vec<String>,
    ) -> wasmtime::Result<Result<Resource<ResultSet>, wit::Failure>> {
        self.enter()?;
        let mut set = self.take(input)?;
        match set.select(&columns) {
            Ok(()) => Ok(Ok(self.push(set)?)),
            Err(failure) => Ok(Err(self.fail(failure))),
        }
    }

    fn limit(&mut self, input: Resource<ResultSet>, rows: u32) -> wasmtime::Result<Resource<ResultSet>> {
        self.enter()?;
        let mut set = self.take(input)?;
        set.limit(usize::try_from(rows).unwrap_or(usize::MAX));
        self.push(set)
    }

    async fn next(
        &mut self,
        set: Resource<ResultSet>,
        max_rows: u32,
    ) -> wasmtime::Result<Result<Option<wit::Batch>, wit::Failure>> {
        self.enter()?;
        if max_rows == 0 {
            let failure = Failure::new(Code::InvalidParameter, "max-rows must be at least 1").about("max-rows");
            return Ok(Err(self.fail(failure)));
        }
        if let Err(failure) = self.fill(&set).await? {
            return Ok(Err(self.fail(failure)));
        }
        match self.take_batch(&set, max_rows)? {
            Ok(batch) => Ok(Ok(batch)),
            Err(failure) => Ok(Err(self.fail(failure))),
        }
    }

    async fn scalar(&mut self, set: Resource<ResultSet>) -> wasmtime::Result<Result<wit::Value, wit::Failure>> {
        self.enter()?;
        if let Err(failure) = self.fill(&set).await? {
            return Ok(Err(self.fail(failure)));
        }
        match self.take_batch(&set, 1)? {
            Ok(batch) => Ok(Ok(batch.map_or(wit::Value::Null, scalar_out))),
            Err(failure) => Ok(Err(self.fail(failure))),
        }
    }

    fn make(
        &mut self,
        columns: Vec<wit::Column>,
        batches: Vec<wit::Batch>,
    ) -> wasmtime::Result<Result<Resource<ResultSet>, wit::Failure>> {
        self.enter()?;
        match guest_rows(columns, batches) {
            Ok((rows, bytes)) => {
                let held = match self.budget.reserve(bytes) {
                    Ok(held) => held,
                    Err(failure) => return Ok(Err(self.fail(failure))),
                };
                Ok(Ok(self.push(ResultSet::new(holding(rows, held)))?))
            }
            Err(reason) => {
                let message = format!("the component's rows are not well made: {reason}");
                Ok(Err(self.fail(Failure::new(Code::ComponentFailed, message))))
            }
        }
    }

    fn drop(&mut self, set: Resource<ResultSet>) -> wasmtime::Result<()> {
        self.enter()?;
        self.take(set)?;
        Ok(())
    }
}

/// Rows that keep a memory reservation until they are read or dropped.
fn holding(mut rows: Rows, held: Option<MemoryReservation>) -> Rows {
    if let Some(held) = held {
        let batches = std::mem::replace(&mut rows.batches, stream::empty().boxed());
        rows.batches = batches
            .inspect(move |_| {
                let _ = &held;
            })
            .boxed();
    }
    rows
}
