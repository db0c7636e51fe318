//! The context of the request that a task handles: what is found out about it, for its log line and its answer.
//!
//! Handlers and middleware note what they find out (the token, the endpoint, the format) in a task-local value. The
//! request log reads it when the answer is sent, and the middleware that writes errors reads it when a request fails.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::Errors;
use tidegate_runtime::Class;
use tidegate_service::answer::{Format, Reservation};
use tidegate_service::rate::RateStatus;
use tidegate_service::tokens::Access;
use tidegate_service::{Account, AnonymousConnection};
use uuid::Uuid;

use crate::slow_queries::NotedQuery;

/// What is known about a request besides its head.
#[derive(Debug, Default)]
pub(crate) struct RequestContext {
    /// For whom the request is.
    pub(crate) caller: Option<Account>,
    /// The token's id in log lines; never the token.
    pub(crate) token: Option<String>,
    /// The endpoint's name.
    pub(crate) endpoint: Option<String>,
    /// The endpoint's id.
    pub(crate) endpoint_id: Option<Uuid>,
    /// Where the answer came from: `hit`, `stale`, `miss`, `collapsed`, `unkept`.
    pub(crate) cache: Option<&'static str>,
    /// The status of errors, where the token or the endpoint chooses it.
    pub(crate) errors: Option<Errors>,
    /// The format of the answer.
    pub(crate) format: Option<Format>,
    /// Whether the answer is a stream of events, which lasts until the caller leaves.
    pub(crate) followed: bool,
    /// How the component ended, if it did not answer.
    pub(crate) ended: Option<Class>,
    /// The query, from when its parameters are checked.
    pub(crate) query: Option<NotedQuery>,
    /// The state of the token's rate limit.
    pub(crate) rate: Option<RateStatus>,
    /// The request's connection, while it counts among those without a valid token.
    pub(crate) anonymous: Option<Arc<AnonymousConnection>>,
    /// The memory that was taken for the answer before the request changed something.
    pub(crate) answer_room: Option<Reservation>,
}

tokio::task_local! {
    pub(crate) static CONTEXT: Arc<Mutex<RequestContext>>;
}

/// Notes something about the request that this task handles. Does nothing in a task without a request.
pub(crate) fn note(change: impl FnOnce(&mut RequestContext)) {
    let _ = CONTEXT.try_with(|context| change(&mut context.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// What is noted about the response so far: the status of errors, and the format.
pub(crate) fn chosen() -> (Option<Errors>, Option<Format>) {
    let mut chosen = (None, None);
    note(|context| chosen = (context.errors, context.format));
    chosen
}

/// For whom the request is, if it had a valid token.
pub(crate) fn caller() -> Option<Account> {
    let mut caller = None;
    note(|context| caller = context.caller);
    caller
}

/// Takes the memory that is noted for the answer.
pub(crate) fn take_answer_room() -> Option<Reservation> {
    let mut room = None;
    note(|context| room = context.answer_room.take());
    room
}

/// Notes the token of the request: its id, or what stands for a token that has none. The connection does not count as
/// anonymous from here on.
pub(crate) fn note_caller(access: &Access) {
    note(|context| {
        if let Some(connection) = context.anonymous.take() {
            connection.is_known();
        }
        context.caller = Some(access.account());
        context.token = Some(access.id.map_or_else(|| access.label(), |id| id.to_string()));
    });
}
