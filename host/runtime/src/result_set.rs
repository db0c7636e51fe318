//! Result sets: the rows of a statement in the host, of which a guest holds a handle.
//!
//! Selecting columns and limiting rows are remembered and applied as batches pass, so that a set
//! that is passed through untouched is the statement's own stream, with nothing in between.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tidegate_model::{Code, Failure, nearest};
use wasmtime::component::Resource;

use crate::batch::{Room, batch_out, scalar_out};
use crate::bindings::tidegate::endpoint::{results, types as wit};
use crate::host::{State, apart};
use crate::made::made;
use crate::rows::{Column, Rows};
use crate::words::{exhausted, kind_out};

/// The most rows that one `next` copies, whatever the guest asks for.
const MAX_BATCH_ROWS: u32 = 65_536;

type Batches = BoxStream<'static, Result<RecordBatch, Failure>>;

/// Rows, and what a guest asked to be done with them.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ResultSet {
    rows: Rows,
    shape: Shape,
    /// The rest of a batch that was read in part; shaped already.
    rest: Option<RecordBatch>,
}

/// How batches are changed as they pass.
#[derive(Debug, Default)]
struct Shape {
    /// Indices of the columns that were selected.
    projection: Option<Vec<usize>>,
    /// Rows that may still pass.
    remaining: Option<usize>,
}

impl Shape {
    fn apply(&mut self, batch: RecordBatch) -> Result<RecordBatch, Failure> {
        let batch = match &self.projection {
            Some(columns) => batch.project(columns).map_err(|error| {
                tracing::error!(%error, "a batch does not have the columns of its result set");
                Failure::new(Code::Internal, "the result does not have the columns that it announced")
            })?,
            None => batch,
        };
        let Some(remaining) = &mut self.remaining else { return Ok(batch) };
        let rows = batch.num_rows().min(*remaining);
        *remaining -= rows;
        Ok(batch.slice(0, rows))
    }

    fn is_plain(&self) -> bool {
        self.projection.is_none() && self.remaining.is_none()
    }
}

impl ResultSet {
    pub(crate) fn new(rows: Rows) -> Self {
        Self { rows, shape: Shape::default(), rest: None }
    }

    /// The rows that are left, to be streamed without the guest.
    pub(crate) fn into_rows(self) -> Rows {
        let Self { mut rows, shape, rest } = self;
        if shape.is_plain() && rest.is_none() {
            return rows;
        }
        let batches = std::mem::replace(&mut rows.batches, stream::empty().boxed());
        let shaped = stream::try_unfold((shape, batches), |(mut shape, mut batches)| async move {
            if shape.remaining == Some(0) {
                return Ok(None);
            }
            match batches.next().await {
                Some(batch) => Ok(Some((shape.apply(batch?)?, (shape, batches)))),
                None => Ok(None),
            }
        });
        rows.batches = stream::iter(rest.map(Ok)).chain(shaped).boxed();
        rows
    }

    fn select(&mut self, names: &[String]) -> Result<(), Failure> {
        let mut indices = Vec::with_capacity(names.len());
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let index = self.rows.columns.iter().position(|column| column.name == *name);
            let Some((index, column)) = index.and_then(|index| Some((index, self.rows.columns.get(index)?))) else {
                return Err(unknown_column(name, &self.rows.columns));
            };
            if indices.contains(&index) {
                return Err(Failure::new(Code::InvalidQuery, format!("the column '{name}' is selected twice")));
            }
            indices.push(index);
            columns.push(column.clone());
        }
        if let Some(rest) = &mut self.rest {
            let projected = rest.project(&indices);
            *rest = projected.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        }
        let before = self.shape.projection.take();
        self.shape.projection = Some(match before {
            Some(before) => indices.iter().filter_map(|index| before.get(*index).copied()).collect(),
            None => indices,
        });
        self.rows.columns = columns;
        Ok(())
    }

    fn limit(&mut self, rows: usize) {
        // The limit counts from the next row, which may be in the rest of a batch.
        let mut after = rows;
        if let Some(rest) = &mut self.rest {
            *rest = rest.slice(0, rest.num_rows().min(rows));
            after -= rest.num_rows();
        }
        self.shape.remaining = Some(self.shape.remaining.map_or(after, |earlier| earlier.min(after)));
    }

    /// Takes what `fill` needs out of the set: the next rows that are there, at least one.
    fn source(&mut self) -> Source {
        let batches = std::mem::replace(&mut self.rows.batches, stream::empty().boxed());
        Source { batches, shape: std::mem::take(&mut self.shape), rest: self.rest.take() }
    }

    fn restore(&mut self, source: Source) {
        self.rows.batches = source.batches;
        self.shape = source.shape;
        self.rest = source.rest;
    }
}

/// The moving parts of a result set, while they are in a task.
struct Source {
    batches: Batches,
    shape: Shape,
    rest: Option<RecordBatch>,
}

impl Source {
    /// Makes `rest` hold at least one row, if there is one.
    async fn fill(mut self) -> Result<Self, Failure> {
        while self.rest.as_ref().is_none_or(|rest| rest.num_rows() == 0) {
            self.rest = None;
            if self.shape.remaining == Some(0) {
                break;
            }
            match self.batches.next().await {
                Some(batch) => self.rest = Some(self.shape.apply(batch?)?),
                None => break,
            }
        }
        Ok(self)
    }
}

fn unknown_column(name: &str, columns: &[Column]) -> Failure {
    let hint = nearest(name, columns.iter().map(|column| column.name.as_str()));
    let hint = hint.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    Failure::new(Code::UnknownColumn, format!("the result has no column '{name}'{hint}")).about(name)
}

impl State {
    /// Brings the next rows of a set into `rest`, waiting in a task of its own.
    async fn fill(&mut self, set: &Resource<ResultSet>) -> wasmtime::Result<Result<(), Failure>> {
        let entry = self.table.get_mut(set)?;
        if entry.rest.as_ref().is_some_and(|rest| rest.num_rows() > 0) {
            return Ok(Ok(()));
        }
        let source = entry.source();
        let filled = apart(source.fill()).await;
        Ok(match filled {
            Ok(source) => {
                self.table.get_mut(set)?.restore(source);
                Ok(())
            }
            // A stream that failed has ended: the set stays, empty.
            Err(failure) => Err(failure),
        })
    }

    /// Copies up to `max_rows` rows out of `rest`.
    fn take_batch(
        &mut self,
        set: &Resource<ResultSet>,
        max_rows: u32,
    ) -> wasmtime::Result<Result<Option<wit::Batch>, Failure>> {
        let room = Room { rows: self.budget.rows_left(), bytes: self.budget.bytes_left() };
        let entry = self.table.get_mut(set)?;
        let Some(rest) = entry.rest.take() else { return Ok(Ok(None)) };
        if room.rows == 0 {
            entry.rest = Some(rest);
            let most = self.budget.limits().guest_rows;
            return Ok(Err(exhausted("rows", format!("a component may read at most {most} rows into its memory"))));
        }
        let wanted = usize::try_from(max_rows.min(MAX_BATCH_ROWS)).unwrap_or(usize::MAX);
        let rows = wanted.min(rest.num_rows()).min(usize::try_from(room.rows).unwrap_or(usize::MAX));
        let batch = match batch_out(&rest.slice(0, rows), &entry.rows.columns, &entry.rows.json, &room) {
            Ok(batch) => batch,
            Err(failure) => {
                // Nothing was read: fewer rows may fit, or the set is passed on whole.
                entry.rest = Some(rest);
                return Ok(Err(failure));
            }
        };
        if rows < rest.num_rows() {
            entry.rest = Some(rest.slice(rows, rest.num_rows() - rows));
        }
        self.budget.read(rows as u64, batch.bytes);
        Ok(Ok(Some(batch.words)))
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
        match made(columns, batches) {
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

/// Rows that hold a reservation of memory until they are read or dropped.
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

/// The encoder of nested cells of rows that have none: what a guest made holds JSON already.
pub(crate) fn text_cells() -> crate::CellJson {
    use datafusion::arrow::array::AsArray;
    Arc::new(|_, array, row| {
        Ok(array.as_string_opt::<i32>().map_or_else(|| "null".to_owned(), |texts| texts.value(row).to_owned()))
    })
}
