//! Aggregates over frames that values leave, for aggregates that cannot take a value back: they are computed anew over the
//! rows of each frame.
//!
//! The rows of a frame are kept as a few arrays, of which each is longer than the next one, so that a frame of many rows
//! is handed over in few calls.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::common::not_impl_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::scalar::ScalarValue;

use super::collect::owned;
use super::making::Making;
use crate::arrays::arity;
use crate::context::{self, Transient, failed};

/// The accumulator of `function` over a frame that values leave.
///
/// # Errors
/// If the aggregate makes none.
pub(super) fn over_frame(function: &Arc<AggregateUDF>, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    let moving = function.create_sliding_accumulator(arguments.clone())?;
    if moving.supports_retract_batch() {
        return Ok(moving);
    }
    Ok(Box::new(Recomputed {
        making: Making::of(function, &arguments, arguments.exprs.len()),
        chunks: VecDeque::new(),
        result: None,
        copied: 0,
        counted: 0,
        memory: Transient::default(),
    }))
}

#[derive(Debug)]
struct Recomputed {
    making: Making,
    /// The rows of the frame, the oldest first.
    chunks: VecDeque<Chunk>,
    /// The result, if the frame has not changed since.
    result: Option<ScalarValue>,
    /// Bytes of the rows that were copied, and the most that they have been, which are counted as long as this lives.
    copied: usize,
    counted: usize,
    memory: Transient,
}

/// Some rows of a frame.
#[derive(Debug)]
struct Chunk {
    columns: Vec<ArrayRef>,
    /// Bytes, if they were copied.
    copied: usize,
}

impl Chunk {
    fn rows(&self) -> usize {
        rows(&self.columns)
    }
}

fn rows(columns: &[ArrayRef]) -> usize {
    columns.first().map_or(0, |column| column.len())
}

impl Recomputed {
    /// Makes one chunk of the last ones, as long as one of them is no longer than what follows it.
    fn merge_last(&mut self) -> Result<()> {
        while let [.., before, last] = self.chunks.make_contiguous()
            && before.rows() <= last.rows()
        {
            let merged = before.columns.iter().zip(&last.columns);
            let merged = merged.map(|(before, last)| concat(&[before.as_ref(), last.as_ref()]));
            let (columns, copied) = owned(&merged.collect::<std::result::Result<Vec<_>, _>>()?);
            self.copied = (self.copied + copied).saturating_sub(before.copied + last.copied);
            self.chunks.truncate(self.chunks.len() - 2);
            self.chunks.push_back(Chunk { columns, copied });
        }
        if let Some(more) = self.copied.checked_sub(self.counted) {
            self.memory.grow(more).map_err(failed)?;
            self.counted = self.copied;
        }
        Ok(())
    }
}

impl Accumulator for Recomputed {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if rows(values) > 0 {
            self.result = None;
            self.chunks.push_back(Chunk { columns: values.to_vec(), copied: 0 });
            self.merge_last()?;
        }
        Ok(())
    }

    /// What leaves is what came first.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = rows(values);
        while leaving > 0 {
            self.result = None;
            let chunk = self.chunks.front_mut().ok_or_else(arity)?;
            let length = chunk.rows();
            if length <= leaving {
                leaving -= length;
                self.copied = self.copied.saturating_sub(chunk.copied);
                self.chunks.pop_front();
            } else {
                chunk.columns.iter_mut().for_each(|column| *column = column.slice(leaving, length - leaving));
                leaving = 0;
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    /// Frames are not computed in parts.
    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("a frame has no state")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("a frame has no state")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(result) = &self.result {
            return Ok(result.clone());
        }
        context::check()?;
        let mut accumulator = self.making.make()?;
        self.chunks.iter().try_for_each(|chunk| accumulator.update_batch(&chunk.columns))?;
        let result = accumulator.evaluate()?;
        self.result = Some(result.clone());
        Ok(result)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
