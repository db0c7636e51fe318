//! A complete answer: its bytes in pieces, each with a reservation of the memory budget.
//!
//! The answer is in pieces for two reasons. A single growing buffer temporarily needs up to three times its size. And
//! memory is released piece by piece as the reader takes the bytes.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_model::Failure;

use super::memory::{AccountMemory, Reservation, counted};
use super::metadata::AnswerMetadata;
use super::shared::SharedReservation;

/// The minimum size of a piece in bytes, except for the last piece.
pub(super) const PIECE: usize = 256 << 10;

/// A complete answer.
#[derive(Debug)]
pub struct Encoded {
    pieces: Vec<(Bytes, Arc<Reservation>)>,
    content_type: &'static str,
    /// Whether rows beyond the limit were left out.
    pub truncated: bool,
    /// What the component says about the answer.
    pub metadata: AnswerMetadata,
    memory: AccountMemory,
}

/// An answer without reservations, for the cache, which counts the bytes itself.
#[derive(Debug)]
pub struct CachedBody {
    pub(crate) pieces: Vec<Bytes>,
    content_type: &'static str,
    truncated: bool,
    /// What the component says about the answer.
    pub metadata: AnswerMetadata,
}

impl Encoded {
    /// An answer that consists of these pieces.
    pub(super) fn of(pieces: Pieces, content_type: &'static str, truncated: bool, metadata: AnswerMetadata) -> Self {
        Self { pieces: pieces.done, content_type, truncated, metadata, memory: pieces.memory }
    }

    /// The answer for sending. Its pieces keep their reservations until they are dropped.
    pub fn into_outgoing(self) -> (Outgoing, AnswerMetadata) {
        let Self { pieces, content_type, truncated, metadata, memory } = self;
        let pieces = pieces.into_iter().map(|(bytes, held)| counted(bytes, held)).collect();
        (Outgoing { pieces, content_type, truncated, memory }, metadata)
    }

    /// The whole body in one buffer.
    pub fn concat(&self) -> Vec<u8> {
        let pieces: Vec<&[u8]> = self.pieces.iter().map(|(bytes, _)| &**bytes).collect();
        pieces.concat()
    }

    /// The answer for the cache, without its reservations.
    pub(crate) fn into_cached(self) -> CachedBody {
        let Self { pieces, content_type, truncated, metadata, memory: _ } = self;
        let pieces = pieces.into_iter().map(|(bytes, _)| bytes).collect();
        CachedBody { pieces, content_type, truncated, metadata }
    }
}

impl CachedBody {
    /// The size of the body in bytes.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// The answer for sending to one caller. `held` is the reservation that all callers of its account share.
    pub(crate) fn outgoing(&self, memory: &AccountMemory, held: &Arc<SharedReservation>) -> Outgoing {
        let pieces = self.pieces.iter().map(|bytes| counted(bytes.clone(), Arc::clone(held))).collect();
        Outgoing { pieces, content_type: self.content_type, truncated: self.truncated, memory: memory.clone() }
    }
}

/// A complete answer that is being sent to a caller.
#[derive(Debug)]
pub struct Outgoing {
    /// The body in pieces; each keeps its reservation until it is dropped.
    pub pieces: Vec<Bytes>,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// Whether rows beyond the limit were left out.
    pub truncated: bool,
    /// The budget in which the pieces are counted, for middleware that replaces the bytes, such as compression.
    pub memory: AccountMemory,
}

/// The pieces of an answer that is being encoded. Memory is reserved before a piece is encoded.
#[derive(Debug)]
pub(super) struct Pieces {
    memory: AccountMemory,
    done: Vec<(Bytes, Arc<Reservation>)>,
    /// The reservation for the piece that is being encoded.
    held: Reservation,
}

impl Pieces {
    pub(super) fn new(memory: AccountMemory) -> Self {
        let held = memory.note(0);
        Self { memory, done: Vec::new(), held }
    }

    /// Reserves memory for the next piece, so that at least `bytes` are reserved.
    ///
    /// # Errors
    /// The budget is used up; see [`AccountMemory::take`].
    pub(super) async fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let more = bytes.saturating_sub(self.held.bytes());
        if more > 0 {
            self.held.join(self.memory.take(more).await?);
        }
        Ok(())
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// The piece is longer than the reservation, and the budget is used up.
    pub(super) async fn push(&mut self, piece: Vec<u8>) -> Result<(), Failure> {
        self.hold(piece.len()).await?;
        let held = std::mem::replace(&mut self.held, self.memory.note(0));
        if !piece.is_empty() {
            self.done.push(exact(piece, held));
        }
        Ok(())
    }
}

/// Drops the spare capacity of a piece, and shrinks its reservation to its length.
fn exact(piece: Vec<u8>, mut held: Reservation) -> (Bytes, Arc<Reservation>) {
    let piece = piece.into_boxed_slice();
    held.shrink(piece.len());
    (Bytes::from(piece), Arc::new(held))
}

/// One piece of a streamed answer, with its reservation.
pub(super) fn piece(piece: Vec<u8>, held: Reservation) -> Bytes {
    let (bytes, held) = exact(piece, held);
    counted(bytes, held)
}
