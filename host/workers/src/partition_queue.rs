//! What was sent of a partition and not taken by the connection.
//!
//! A connection whose other end takes nothing asks for nothing, and keeps what it was given. So it is given copies of small
//! pieces, and the batches are where the task can drop them when it ends.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use datafusion::arrow::buffer::Buffer;
use datafusion::execution::memory_pool::MemoryReservation;
use tokio::sync::mpsc;

use crate::frames;
use crate::task_state::TaskState;

/// How many bytes of a batch are handed to the connection at once.
const PIECE: usize = 64 << 10;

/// What is sent of a partition.
#[derive(Debug)]
pub(crate) enum Part {
    /// A batch, which counts in the memory of the task.
    Rows { head: Vec<u8>, body: Buffer, held: MemoryReservation },
    /// A frame without rows.
    Small(Bytes),
    /// The last frame.
    Last(Bytes),
}

/// What was sent of a partition and not taken.
#[derive(Debug)]
struct Waiting {
    from: mpsc::Receiver<Part>,
    /// The batch that is handed on in pieces, and how many of its bytes are handed on.
    batch: Option<(Buffer, usize, MemoryReservation)>,
}

/// A queue that others may have.
#[derive(Debug)]
pub(crate) struct WeakQueue(Weak<Mutex<Option<Waiting>>>);

impl WeakQueue {
    /// Whether somebody has the queue.
    pub(crate) fn is_there(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Drops what is in the queue, and whatever comes.
    pub(crate) fn clear(&self) {
        let waiting = self.0.upgrade();
        let parts = waiting.and_then(|waiting| waiting.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(parts);
    }
}

/// The bytes of a partition for the connection.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Arc<TaskState>,
    /// `None` when the task has ended.
    waiting: Arc<Mutex<Option<Waiting>>>,
    /// Whether the body of a frame is not handed on to its end.
    is_in_frame: bool,
    is_done: bool,
}

impl Queue {
    pub(crate) fn new(state: Arc<TaskState>, from: mpsc::Receiver<Part>) -> Self {
        let waiting = Arc::new(Mutex::new(Some(Waiting { from, batch: None })));
        Self { state, waiting, is_in_frame: false, is_done: false }
    }

    pub(crate) fn weak(&self) -> WeakQueue {
        WeakQueue(Arc::downgrade(&self.waiting))
    }

    /// The next piece; `None` at the end, which is a good one only if the last piece said so.
    ///
    /// A piece is a copy, because a connection whose other end takes nothing keeps what it was given: a piece, and not the
    /// batch that it is of.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_done {
            return Poll::Ready(None);
        }
        let Some(queue) = waiting.as_mut() else {
            self.is_done = true;
            // In the middle of a frame, another one would be read as a part of it.
            let why = self.state.why().filter(|_| !self.is_in_frame);
            return Poll::Ready(why.map(|why| frames::failed(&why.failure())));
        };
        if let Some((body, from, _)) = &mut queue.batch {
            let to = from.saturating_add(PIECE).min(body.len());
            let piece = body.as_slice().get(*from..to).unwrap_or_default();
            if !piece.is_empty() {
                // Without room the frame is cut, which the reader never takes for its end.
                let held = self.state.held(piece.len()).ok();
                let bytes = held.map(|held| Bytes::from_owner(Held { bytes: piece.to_vec(), _held: held }));
                *from = to;
                self.is_done = bytes.is_none();
                return Poll::Ready(bytes);
            }
        }
        queue.batch = None;
        self.is_in_frame = false;
        match ready!(queue.from.poll_recv(cx)) {
            Some(Part::Rows { head, body, held }) => {
                queue.batch = Some((body, 0, held));
                self.is_in_frame = true;
                Poll::Ready(Some(head.into()))
            }
            Some(Part::Small(frame)) => Poll::Ready(Some(frame)),
            Some(Part::Last(frame)) => {
                self.is_done = true;
                Poll::Ready(Some(frame))
            }
            // The task has ended, or what sends broke off: then no frame says that there are no more rows.
            None => {
                self.is_done = true;
                Poll::Ready(self.state.why().map(|why| frames::failed(&why.failure())))
            }
        }
    }
}

/// Bytes that count in the memory of their task until the connection has sent or dropped them.
struct Held {
    bytes: Vec<u8>,
    _held: MemoryReservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
mod tests {
    use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
    use futures::task::noop_waker_ref;
    use tokio::sync::watch;

    use super::*;
    use crate::task_state::Ended;

    /// A task that ends in the middle of a batch says nothing more: what it said would be taken for values.
    #[test]
    fn a_frame_is_never_in_another_one() {
        for pieces in 0..=3 {
            let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
            let state = Arc::new(TaskState { memory, ended: watch::Sender::new(None) });
            let (to, from) = mpsc::channel(1);
            let mut queue = Queue::new(Arc::clone(&state), from);
            let (held, body) = (state.held(3 * PIECE).unwrap(), Buffer::from(vec![7_u8; 2 * PIECE + 1]));
            to.try_send(Part::Rows { head: vec![1], body, held }).unwrap();
            let mut cx = Context::from_waker(noop_waker_ref());
            for _ in 0..pieces {
                assert!(matches!(queue.poll_piece(&mut cx), Poll::Ready(Some(_))));
            }
            state.ended.send_replace(Some(Ended::Late));
            queue.weak().clear();
            let Poll::Ready(last) = queue.poll_piece(&mut cx) else { panic!("it waits") };
            // The head and two of three pieces: the frame is not whole.
            assert_eq!(last.is_some(), pieces == 0, "{pieces}");
            assert!(matches!(queue.poll_piece(&mut cx), Poll::Ready(None)));
            assert_eq!(state.memory.reserved(), 0);
        }
    }
}
