//! Result sets: the rows of a statement in the host, of which a guest has a handle.
//!
//! Selecting columns and limiting rows are recorded and applied to each batch as it passes. A set that the guest passes
//! on unchanged is the statement's own stream, without anything in between.

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tidegate_model::{Code, Failure, nearest};

use crate::held_bytes::held_bytes;
use crate::rows::{Column, Rows};

type Batches = BoxStream<'static, Result<RecordBatch, Failure>>;

/// Rows, and what a guest requested to be done with them.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ResultSet {
    pub(crate) rows: Rows,
    selection: Selection,
    /// The rest of a batch that was read in part, after the selection.
    pub(crate) rest: Option<RecordBatch>,
    /// What the rest is counted by, in the memory that is shared with statements.
    memory: Option<MemoryReservation>,
}

/// Changes to be applied to each batch as it passes.
#[derive(Debug, Default)]
struct Selection {
    /// Indices of the columns that were selected.
    projection: Option<Vec<usize>>,
    /// Rows that may still pass; `None` for all.
    remaining: Option<usize>,
}

impl Selection {
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
        Self { rows, selection: Selection::default(), rest: None, memory: None }
    }

    /// The remaining rows, to be streamed without the guest.
    pub(crate) fn into_rows(self) -> Rows {
        let Self { mut rows, selection, rest, memory } = self;
        if selection.is_plain() && rest.is_none() {
            return rows;
        }
        let batches = std::mem::replace(&mut rows.batches, stream::empty().boxed());
        let selected = stream::try_unfold((selection, batches), |(mut selection, mut batches)| async move {
            if selection.remaining == Some(0) {
                return Ok(None);
            }
            match batches.next().await {
                Some(batch) => Ok(Some((selection.apply(batch?)?, (selection, batches)))),
                None => Ok(None),
            }
        });
        let rest = stream::iter(rest.map(Ok)).inspect(move |_| {
            let _ = &memory;
        });
        rows.batches = rest.chain(selected).boxed();
        rows
    }

    pub(crate) fn select(&mut self, names: &[String]) -> Result<(), Failure> {
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
        let before = self.selection.projection.take();
        self.selection.projection = Some(match before {
            Some(before) => indices.iter().filter_map(|index| before.get(*index).copied()).collect(),
            None => indices,
        });
        self.rows.columns = columns;
        Ok(())
    }

    pub(crate) fn limit(&mut self, rows: usize) {
        // The limit counts from the next row, which may be in the rest of a batch.
        let mut after = rows;
        if let Some(rest) = &mut self.rest {
            *rest = rest.slice(0, rest.num_rows().min(rows));
            after -= rest.num_rows();
        }
        self.selection.remaining = Some(self.selection.remaining.map_or(after, |earlier| earlier.min(after)));
    }

    /// Says which rows of the batch are still to be read, if any are.
    pub(crate) fn keep(&mut self, rest: Option<RecordBatch>) {
        if rest.is_none() {
            self.memory = None;
        }
        self.rest = rest;
    }

    /// Takes out what [`Feed::fill`] needs, for the time of the call.
    pub(crate) fn take_feed(&mut self) -> Feed {
        let batches = std::mem::replace(&mut self.rows.batches, stream::empty().boxed());
        self.memory = None;
        Feed { batches, selection: std::mem::take(&mut self.selection), rest: self.rest.take() }
    }

    /// Puts back what [`Self::take_feed`] took. `memory` is what the rest counts as.
    pub(crate) fn restore(&mut self, feed: Feed, memory: Option<MemoryReservation>) {
        self.memory = memory;
        self.rows.batches = feed.batches;
        self.selection = feed.selection;
        self.rest = feed.rest;
    }
}

/// The parts of a result set that produce rows, while a task uses them.
pub(crate) struct Feed {
    batches: Batches,
    selection: Selection,
    rest: Option<RecordBatch>,
}

impl Feed {
    /// Bytes of the rows that are at hand.
    pub(crate) fn held(&self) -> usize {
        self.rest.as_ref().map_or(0, held_bytes)
    }

    /// Fills `rest` with at least one row, if there is one.
    pub(crate) async fn fill(mut self) -> Result<Self, Failure> {
        while self.rest.as_ref().is_none_or(|rest| rest.num_rows() == 0) {
            self.rest = None;
            if self.selection.remaining == Some(0) {
                break;
            }
            match self.batches.next().await {
                Some(batch) => self.rest = Some(self.selection.apply(batch?)?),
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
