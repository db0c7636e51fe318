//! The host's side of the two resources of the interface `exchange`: the request that a guest reads, the response that it
//! builds.

use std::collections::BTreeMap;

use datafusion::execution::memory_pool::MemoryReservation;

use crate::result_set::ResultSet;

/// A request, as the host keeps it for the handle of the guest; its arguments are in [`State`](crate::host::State).
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct RequestEntry {
    pub(crate) received_at: i64,
}

/// A response, as the host keeps it for the handle of the guest.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct ResponseEntry {
    pub(crate) body: BodyEntry,
    pub(crate) max_age: Option<u32>,
    pub(crate) notes: BTreeMap<String, String>,
}

/// The body of a response.
#[derive(Debug)]
pub(crate) enum BodyEntry {
    Rows(ResultSet),
    Document {
        json: String,
        /// The reservation for the text, as long as the guest may make more.
        _held: Option<MemoryReservation>,
    },
    Empty,
}
