//! The room for the answer of a request that may change something, taken before the change is made.
//!
//! If the memory for the answer were taken afterwards and there was none, the client would be told that its request
//! failed, although the change is made. The middleware that counts answers ([`crate::middleware::counting`]) uses the
//! room that is noted here, and refuses no answer that has one.

use tidegate_model::Failure;
use tidegate_service::Service;
use tidegate_service::answer::Reservation;
use tidegate_service::tokens::Access;

use super::{MAX_BODY, memory_of};
use crate::request_context::note;

/// How much is taken, in bytes: an answer shows what a body defines, with defaults, state and warnings.
const ROOM: usize = 2 * MAX_BODY;
/// The part of the whole memory for answers that is taken at most, so that a small one still has room for several changes.
const MOST: usize = 8;

/// Takes room for the answer of a request without a body.
///
/// # Errors
/// Those of [`Reservation::hold`], if there is no room.
pub(super) async fn take(service: &Service, access: &Access) -> Result<(), Failure> {
    keep(service, memory_of(service, access).take_now(0)?).await
}

/// Keeps the memory of a body as the room for its answer, and takes more if that is too little. So a large body and its
/// answer are not refused because of each other.
///
/// # Errors
/// As [`take`].
pub(super) async fn keep(service: &Service, mut held: Reservation) -> Result<(), Failure> {
    held.hold(ROOM.min(service.options.admission.answer_memory / MOST)).await?;
    note(|context| context.answer_room = Some(held));
    Ok(())
}
