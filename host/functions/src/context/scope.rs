//! Making a context the thread's current one: for a call, a future, a stream of rows.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};

use super::{CURRENT, ExecutionContext};

impl ExecutionContext {
    /// Does `work` with this as the current context of the thread. The one before is current again afterwards.
    pub fn enter<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        struct Before(Option<Arc<ExecutionContext>>);
        impl Drop for Before {
            fn drop(&mut self) {
                drop(CURRENT.replace(self.0.take()));
            }
        }
        let _before = Before(CURRENT.replace(Some(Arc::clone(self))));
        work()
    }

    /// The same for a future: whenever it is polled, on whichever thread.
    pub async fn scope<T>(self: &Arc<Self>, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| -> Poll<T> { self.enter(|| work.as_mut().poll(cx)) }).await
    }

    /// The same for a stream of rows.
    pub fn scope_stream(self: Arc<Self>, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        Box::pin(ScopedStream { rows, context: self })
    }
}

struct ScopedStream {
    rows: SendableRecordBatchStream,
    context: Arc<ExecutionContext>,
}

impl Stream for ScopedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { rows, context } = &mut *self;
        context.enter(|| rows.poll_next_unpin(cx))
    }
}

impl RecordBatchStream for ScopedStream {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
