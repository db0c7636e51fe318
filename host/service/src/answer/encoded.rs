//! A whole answer: its bytes in pieces, each with its reservation of the memory budget.
//!
//! In pieces, because a text that grows in one buffer needs up to three times its size for a moment, and because memory
//! is given back piece by piece as the reader takes them.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_model::Failure;

use super::memory::{Reservation, TenantMemory, counted};
use super::metadata::AnswerMetadata;

/// A piece has at least so many bytes, unless it is the last.
pub(super) const PIECE: usize = 256 << 10;

/// A whole answer.
#[derive(Debug)]
pub struct Encoded {
    pieces: Vec<(Bytes, Arc<Reservation>)>,
    content_type: &'static str,
    /// Whether rows beyond the limit were left out.
    pub truncated: bool,
    /// What the component says about it.
    pub metadata: AnswerMetadata,
    memory: TenantMemory,
}

/// An answer without reservations, for the cache, which counts its bytes itself.
#[derive(Debug)]
pub struct CachedBody {
    pub(crate) pieces: Vec<Bytes>,
    content_type: &'static str,
    truncated: bool,
    /// What the component says about it.
    pub metadata: AnswerMetadata,
}

impl Encoded {
    /// An answer of these pieces.
    pub(super) fn of(pieces: Pieces, content_type: &'static str, truncated: bool, metadata: AnswerMetadata) -> Self {
        Self { pieces: pieces.done, content_type, truncated, metadata, memory: pieces.memory }
    }

    /// The answer as it is sent: its pieces keep their reservations until they are dropped.
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
    /// Bytes of the body.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// The answer as it is sent to one caller. `held` is the reservation that all callers of this answer share.
    pub(crate) fn outgoing(&self, memory: &TenantMemory, held: &Arc<Reservation>) -> Outgoing {
        let pieces = self.pieces.iter().map(|bytes| counted(bytes.clone(), Arc::clone(held))).collect();
        Outgoing { pieces, content_type: self.content_type, truncated: self.truncated, memory: memory.clone() }
    }
}

/// A whole answer on its way to a caller.
#[derive(Debug)]
pub struct Outgoing {
    /// The body in pieces; each keeps its reservation until it is dropped.
    pub pieces: Vec<Bytes>,
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// Whether rows beyond the limit were left out.
    pub truncated: bool,
    /// The budget in which the pieces are counted, for those who change the bytes on the way.
    pub memory: TenantMemory,
}

/// Pieces of an answer that is being encoded. Memory for them is reserved before they are made.
#[derive(Debug)]
pub(super) struct Pieces {
    memory: TenantMemory,
    done: Vec<(Bytes, Arc<Reservation>)>,
    /// For the piece that is being made.
    held: Reservation,
}

impl Pieces {
    pub(super) fn new(memory: TenantMemory) -> Self {
        let held = memory.note(0);
        Self { memory, done: Vec::new(), held }
    }

    /// Reserves memory for so many bytes after the last piece.
    ///
    /// # Errors
    /// The budget is used up; see [`TenantMemory::take`].
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
    /// The piece is longer than what is reserved, and the budget is used up.
    pub(super) async fn push(&mut self, piece: Vec<u8>) -> Result<(), Failure> {
        self.hold(piece.len()).await?;
        let held = std::mem::replace(&mut self.held, self.memory.note(0));
        if !piece.is_empty() {
            self.done.push(exact(piece, held));
        }
        Ok(())
    }
}

/// A piece without spare capacity, with a reservation of exactly its length.
fn exact(piece: Vec<u8>, mut held: Reservation) -> (Bytes, Arc<Reservation>) {
    let piece = piece.into_boxed_slice();
    held.shrink(piece.len());
    (Bytes::from(piece), Arc::new(held))
}

/// One piece of an answer that is sent as it is made.
pub(super) fn piece(piece: Vec<u8>, held: Reservation) -> Bytes {
    let (bytes, held) = exact(piece, held);
    counted(bytes, held)
}
