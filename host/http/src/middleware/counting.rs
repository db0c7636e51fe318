//! Counts the answers that are not counted where they are made: those of management, OpenAPI and metrics.
//!
//! A client may read such an answer as slowly as that of a query, so it holds as much memory. Answers to a token count in
//! the budget for answers, as those of its queries do. Answers to callers without a token have a small budget of their
//! own, so that such callers take nothing away from tokens.
//!
//! A request of management that may change something has taken the room for its answer before ([`crate::manage`]).

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tidegate_model::{Code, Failure};
use tidegate_service::Account;
use tidegate_service::answer::AccountMemory;

use crate::app::App;
use crate::failure::Refusal;
use crate::holding_body::holding;
use crate::request_context::{caller, take_answer_room};
use crate::response::Accounted;

/// The shortest answer that is counted, in bytes. What a connection itself holds is about as much.
const LEAST: u64 = 16 << 10;

/// All callers without a token. No token has this identity, because it is the hash of no known text.
pub(super) const NOBODY: Account = Account::Token([0; 32]);

/// Middleware: counts whole answers. Streams are counted where they are made.
pub(crate) async fn count_answers(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let room = take_answer_room();
    let extensions = response.extensions();
    let is_counted = extensions.get::<AccountMemory>().is_some() || extensions.get::<Accounted>().is_some();
    let Some(length) = response.body().size_hint().exact().filter(|_| !is_counted) else { return response };
    let (memory, busy) = match caller() {
        Some(account) => (app.service.executor.answers().of(account), None),
        None => {
            let message = "the answers to callers without an access token are not read; try again later";
            (app.tokenless_answers.of(NOBODY), Some(Failure::new(Code::Overloaded, message)))
        }
    };
    if length >= LEAST {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let held = match room {
            // What the request asked for may be done, so the answer is not refused, even if it is longer than its room.
            Some(mut room) => {
                room.resize(length);
                Ok(room)
            }
            None => memory.take_now(length),
        };
        match held {
            Ok(held) => response = response.map(|body| holding(body, Arc::new(held))),
            Err(failure) => return Refusal(busy.unwrap_or(failure)).into_response(),
        }
    }
    // For the memory of a compressor.
    response.extensions_mut().insert(memory);
    response
}
