//! Frames: how a worker's answers are cut into messages.
//!
//! A frame has a head of fixed length, a message and, if it has rows, a body. An answer ends well only with a frame that
//! says so: what is cut off by a broken connection is never taken for the end of the rows. Lengths are bounded, and
//! counted by the reader, before anything is allocated for them.

use std::future::Future;

use bytes::{Buf, Bytes};
use prost::Message;
use tidegate_cluster::{BatchBytes, WorkerFailure};
use tidegate_model::Failure;

use crate::failure_message::{FailureMessage, RefusedMessage};
use crate::messages::{ColumnsMessage, CostMessage, StartedMessage};

/// Kind (1 byte), rows (8), length of the message (4), length of the body (8); numbers begin with their lowest byte.
const HEAD: usize = 21;
/// The longest message of a frame that has no rows.
const MAX_MESSAGE: usize = 1 << 20;
/// The longest message of a frame with rows: it grows with the number of columns.
const MAX_ROWS_MESSAGE: usize = 64 << 20;
/// The longest body.
const MAX_BODY: u64 = 1 << 30;
/// What is allocated for a frame before more of it has come.
const FIRST_ROOM: usize = 64 << 10;

const STARTED: u8 = 1;
const REFUSED: u8 = 2;
const FAILED: u8 = 3;
const COST: u8 = 4;
const ROWS: u8 = 5;
const END: u8 = 6;
const COLUMNS: u8 = 7;

/// What a worker says.
#[derive(Debug, Clone)]
pub(crate) enum Frame {
    /// The task runs.
    Started(StartedMessage),
    /// It has failed. Nothing follows.
    Failed(WorkerFailure),
    /// What the task has cost so far.
    Cost(CostMessage),
    /// The columns of the rows that follow, where the reader does not know them.
    Columns(ColumnsMessage),
    /// Rows of a partition.
    Rows(BatchBytes),
    /// There are no more rows in the partition; what the task has cost so far.
    End(CostMessage),
}

fn head(kind: u8, rows: usize, message: usize, body: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD + message);
    head.push(kind);
    head.extend_from_slice(&(rows as u64).to_le_bytes());
    // What is longer than the reader allows is refused there.
    head.extend_from_slice(&u32::try_from(message).unwrap_or(u32::MAX).to_le_bytes());
    head.extend_from_slice(&(body as u64).to_le_bytes());
    head
}

/// The head and the message of a frame with rows, whose body follows.
pub(crate) fn rows_head(batch: &BatchBytes) -> Vec<u8> {
    let mut bytes = head(ROWS, batch.rows, batch.message.len(), batch.body.len());
    bytes.extend_from_slice(&batch.message);
    bytes
}

/// A frame without rows.
fn small(kind: u8, message: &impl Message) -> Bytes {
    let message = message.encode_to_vec();
    let mut bytes = head(kind, 0, message.len(), 0);
    bytes.extend_from_slice(&message);
    bytes.into()
}

pub(crate) fn started(message: &StartedMessage) -> Bytes {
    small(STARTED, message)
}

/// A failure, of the worker or of the statement. Nothing follows.
pub(crate) fn failed(failure: &WorkerFailure) -> Bytes {
    match RefusedMessage::of(failure) {
        Ok(refused) => small(REFUSED, &refused),
        Err(failure) => small(FAILED, &FailureMessage::from(failure)),
    }
}

pub(crate) fn columns(columns: Vec<u8>) -> Bytes {
    small(COLUMNS, &ColumnsMessage { columns })
}

pub(crate) fn cost(cost: &CostMessage) -> Bytes {
    small(COST, cost)
}

pub(crate) fn end(cost: &CostMessage) -> Bytes {
    small(END, cost)
}

/// What the head of a frame says.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: u8,
    rows: usize,
    message: usize,
    body: usize,
}

/// Why there is no next frame.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The connection or the stream broke, in the middle of a frame or not.
    Broken(String),
    /// What came is no frame.
    Nonsense(&'static str),
    /// There is no room for the frame.
    NoRoom(Failure),
}

/// Where bytes come from.
pub(crate) trait Chunks: Send {
    /// The next bytes; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Option<Result<Bytes, String>>> + Send;
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct FrameReader<C> {
    chunks: C,
    chunk: Bytes,
}

impl<C: Chunks> FrameReader<C> {
    pub(crate) fn new(chunks: C) -> Self {
        Self { chunks, chunk: Bytes::new() }
    }

    /// The next frame; `None` where the bytes end between frames. `room` is asked for the length of a frame before it is
    /// read.
    pub(crate) async fn next(
        &mut self,
        room: &mut (dyn FnMut(usize) -> Result<(), Failure> + Send),
    ) -> Result<Option<Frame>, FrameError> {
        let Some(head) = self.head().await? else { return Ok(None) };
        room(head.message.saturating_add(head.body)).map_err(FrameError::NoRoom)?;
        self.frame(head).await.map(Some)
    }

    /// The next frame of an answer that has no rows: nothing that is long is read.
    pub(crate) async fn next_without_rows(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.head().await? {
            Some(Head { kind: ROWS, .. }) => Err(FrameError::Nonsense("rows come where there are none")),
            Some(head) => self.frame(head).await.map(Some),
            None => Ok(None),
        }
    }

    async fn head(&mut self) -> Result<Option<Head>, FrameError> {
        if !self.has_more().await? {
            return Ok(None);
        }
        let head = self.bytes(HEAD).await?;
        let mut head = head.as_slice();
        let (kind, rows, message, body) = (head.get_u8(), head.get_u64_le(), head.get_u32_le(), head.get_u64_le());
        let most = if kind == ROWS { (MAX_ROWS_MESSAGE, MAX_BODY) } else { (MAX_MESSAGE, 0) };
        let (Ok(rows), Ok(message)) = (usize::try_from(rows), usize::try_from(message)) else {
            return Err(FrameError::Nonsense("a frame is too long"));
        };
        let Some(body) = usize::try_from(body).ok().filter(|_| message <= most.0 && body <= most.1) else {
            return Err(FrameError::Nonsense("a frame is too long"));
        };
        Ok(Some(Head { kind, rows, message, body }))
    }

    async fn frame(&mut self, Head { kind, rows, message, body }: Head) -> Result<Frame, FrameError> {
        let message = self.bytes(message).await?;
        let body = self.bytes(body).await?;
        let frame = match kind {
            ROWS => return Ok(Frame::Rows(BatchBytes { message, body: body.into(), rows })),
            STARTED => StartedMessage::decode(message.as_slice()).map(Frame::Started),
            REFUSED => RefusedMessage::decode(message.as_slice()).map(|refused| Frame::Failed(refused.into())),
            FAILED => {
                let failure = FailureMessage::decode(message.as_slice()).map(Failure::from);
                failure.map(|failure| Frame::Failed(WorkerFailure::of_run(failure)))
            }
            COLUMNS => ColumnsMessage::decode(message.as_slice()).map(Frame::Columns),
            COST => CostMessage::decode(message.as_slice()).map(Frame::Cost),
            END => CostMessage::decode(message.as_slice()).map(Frame::End),
            _ => return Err(FrameError::Nonsense("a frame is of no known kind")),
        };
        frame.map_err(|_| FrameError::Nonsense("a frame cannot be read"))
    }

    /// Whether there are more bytes.
    async fn has_more(&mut self) -> Result<bool, FrameError> {
        while self.chunk.is_empty() {
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.chunk = chunk,
                Some(Err(error)) => return Err(FrameError::Broken(error)),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    async fn bytes(&mut self, length: usize) -> Result<Vec<u8>, FrameError> {
        let mut bytes = Vec::new();
        while bytes.len() < length {
            if !self.has_more().await? {
                return Err(FrameError::Broken("it ended in the middle of a frame".to_owned()));
            }
            let left = length - bytes.len();
            let taken = self.chunk.split_to(self.chunk.len().min(left));
            // As much again as has come, and no more than is missing: a length alone allocates nothing.
            let more = bytes.len().max(taken.len()).max(FIRST_ROOM).min(left);
            if bytes.capacity() - bytes.len() < taken.len() && bytes.try_reserve_exact(more).is_err() {
                return Err(FrameError::Nonsense("a frame is longer than there is memory"));
            }
            bytes.extend_from_slice(&taken);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]
mod tests {
    use std::collections::VecDeque;

    use tidegate_model::Code;

    use super::*;

    /// Bytes in pieces.
    struct Pieces(VecDeque<Bytes>);

    impl Chunks for Pieces {
        async fn next(&mut self) -> Option<Result<Bytes, String>> {
            self.0.pop_front().map(Ok)
        }
    }

    fn reader(bytes: &[u8], piece: usize) -> FrameReader<Pieces> {
        FrameReader::new(Pieces(bytes.chunks(piece).map(Bytes::copy_from_slice).collect()))
    }

    fn all() -> Vec<u8> {
        let rows = BatchBytes { message: vec![1; 30], body: vec![2_u8; 100].into(), rows: 5 };
        let cost_message = CostMessage::default().later(CostMessage::default());
        [
            started(&StartedMessage { id: vec![1; 16], partitions: 3 }).to_vec(),
            cost(&cost_message).to_vec(),
            rows_head(&rows),
            rows.body.to_vec(),
            end(&cost_message).to_vec(),
            failed(&WorkerFailure::Statement(Failure::new(Code::InvalidValue, "no"))).to_vec(),
            failed(&WorkerFailure::Busy("full".to_owned())).to_vec(),
        ]
        .concat()
    }

    #[tokio::test]
    async fn frames_come_whole_however_they_are_cut() {
        for piece in [1, 2, 7, 20, 21, 22, 1000] {
            let mut reader = reader(&all(), piece);
            let mut frames = Vec::new();
            while let Some(frame) = reader.next(&mut |_| Ok(())).await.unwrap() {
                frames.push(frame);
            }
            let [
                Frame::Started(started),
                Frame::Cost(_),
                Frame::Rows(rows),
                Frame::End(_),
                Frame::Failed(failed),
                Frame::Failed(_),
            ] = frames.as_slice()
            else {
                panic!("{frames:?}");
            };
            assert!(!failed.is_of_worker(), "{failed}");
            assert_eq!((started.partitions, rows.rows, rows.body.as_slice()), (3, 5, [2; 100].as_slice()));
        }
    }

    #[tokio::test]
    async fn what_is_cut_is_no_end() {
        let all = all();
        let mut ends = 0;
        for length in 0..=all.len() {
            let mut reader = reader(all.get(..length).unwrap(), 1000);
            loop {
                match reader.next(&mut |_| Ok(())).await {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        ends += 1;
                        break;
                    }
                    Err(FrameError::Broken(_)) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        assert_eq!(ends, 7, "only between frames");
    }

    #[tokio::test]
    async fn lengths_are_bounded_before_anything_is_allocated() {
        let lies = |kind: u8, message: u32, body: u64| {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&0_u64.to_le_bytes());
            bytes.extend_from_slice(&message.to_le_bytes());
            bytes.extend_from_slice(&body.to_le_bytes());
            bytes
        };
        for bytes in [
            lies(ROWS, 10, 1 << 60),
            lies(ROWS, u32::MAX, 0),
            lies(ROWS, 10, u64::MAX),
            lies(END, 1 << 30, 0),
            lies(END, 0, 1),
            lies(99, 0, 0),
            vec![255; 100],
        ] {
            let read = reader(&bytes, 1000).next(&mut |_| Ok(())).await;
            assert!(matches!(read, Err(FrameError::Nonsense(_))), "{read:?}");
        }
        // No frame with rows is read where none may come.
        let read = reader(&lies(ROWS, 100, 1 << 29), 1000).next_without_rows().await;
        assert!(matches!(read, Err(FrameError::Nonsense(_))), "{read:?}");
        // A length that is allowed is counted first.
        let mut asked = 0;
        let read = reader(&lies(ROWS, 100, 1 << 29), 1000)
            .next(&mut |bytes| {
                asked = bytes;
                Err(Failure::new(Code::LimitExceeded, "no room"))
            })
            .await;
        assert!(matches!(read, Err(FrameError::NoRoom(_))), "{read:?}");
        assert_eq!(asked, 100 + (1 << 29));
    }
}
