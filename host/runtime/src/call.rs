//! One call of `handle`, and the meaning of its outcome.

use std::time::Duration;

use tidegate_model::{Code, Failure};
use wasmtime::Store;
use wasmtime::component::Resource;

use crate::answer::{Answer, Body, Usage};
use crate::bindings::exports::tidegate::endpoint::handler::Problem;
use crate::class::{Class, Fault};
use crate::endpoint::Endpoint;
use crate::host::State;
use crate::response::{BodyEntry, RequestEntry, ResponseEntry};
use crate::wit_convert::shorten;

/// The problem code by which a guest says that its last failed host call is the reason.
const STATEMENT_FAILED: &str = "statement-failed";

/// Seconds after which to retry what a component calls retryable, unless the failure itself has a value.
const RETRY_AFTER: u64 = 10;

/// The longest text of a guest that is passed to a caller, in bytes.
const MAX_DETAIL: usize = 2048;

/// Instantiates the component and calls it. All code of the guest runs here: start functions, its allocator, the
/// handler, destructors.
pub(crate) async fn call(
    store: &mut Store<State>,
    endpoint: &Endpoint,
    received_at: i64,
) -> wasmtime::Result<Result<Resource<ResponseEntry>, Problem>> {
    let instance = endpoint.pre.instantiate_async(&mut *store).await?;
    let request = store.data_mut().push(RequestEntry { received_at })?;
    let borrowed = Resource::new_borrow(request.rep());
    let returned = instance.tidegate_endpoint_handler().call_handle(&mut *store, borrowed).await?;
    // The guest had a borrow; the host drops the request.
    store.data_mut().take(request)?;
    Ok(returned)
}

/// Takes the response out of the store. The engine has checked the type of the handle, so that a missing response is a
/// bug of the host.
pub(crate) fn answer(state: &mut State, response: Resource<ResponseEntry>) -> Result<Answer, Box<(Class, Failure)>> {
    let ResponseEntry { body, max_age, notes } = state.take(response).map_err(|error| {
        tracing::error!(%error, "the response is not in the table");
        let message = "the answer of the component was lost; the server's log has the details";
        Box::new((Class::HostBug, Failure::new(Code::Internal, message)))
    })?;
    let body = match body {
        BodyEntry::Rows(set) => Body::Rows(set.into_rows()),
        BodyEntry::Document { json, .. } => Body::Document(json),
        BodyEntry::Empty => Body::Empty,
    };
    let max_age = max_age.map(|seconds| Duration::from_secs(seconds.into()));
    let usage = Usage { handles_left: state.left_open(), ..state.budget.used() };
    Ok(Answer { body, max_age, notes, saw_time: state.saw_time, usage })
}

/// The class and the failure for a problem. The table of codes is a part of the contract (`handler.problem`).
pub(crate) fn of_problem(problem: &Problem, last_failure: Option<Failure>) -> (Class, Failure) {
    let Problem { code, detail, retryable } = problem;
    let (class, mut failure) = meaning(code, detail, last_failure);
    if *retryable && failure.code.retry_after().is_none() {
        failure.retry_after.get_or_insert(RETRY_AFTER);
    }
    (class, failure)
}

fn meaning(named: &str, detail: &str, last_failure: Option<Failure>) -> (Class, Failure) {
    let code = match named {
        STATEMENT_FAILED => {
            return match last_failure {
                Some(failure) => (Class::of_passed_on(&failure), failure),
                None => {
                    let message = "the component says that a statement failed, but none did";
                    (Class::Faulted(Fault::Contract), Failure::new(Code::ComponentFailed, message))
                }
            };
        }
        "invalid-argument" => Code::InvalidParameter,
        "not-found" => Code::NotFound,
        "conflict" => Code::Conflict,
        "unprocessable" => Code::Refused,
        _ => Code::ComponentFailed,
    };
    let detail = shorten(detail, MAX_DETAIL);
    let named = shorten(named, 64);
    let message = match (code, detail.is_empty()) {
        (Code::ComponentFailed, true) => format!("the component failed: {named}"),
        (Code::ComponentFailed, false) => format!("the component failed: {named}: {detail}"),
        (_, true) => named.to_owned(),
        (_, false) => detail.to_owned(),
    };
    (Class::Problem, Failure::new(code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_says_when_to_try_again() {
        let of = |code: &str, retryable: bool, last: Option<Failure>| {
            let problem = Problem { code: code.to_owned(), detail: String::new(), retryable };
            let failure = of_problem(&problem, last).1;
            failure.retry_after.or(failure.code.retry_after())
        };
        for code in ["invalid-argument", "not-found", "conflict", "unprocessable", "own"] {
            assert_eq!([of(code, true, None), of(code, false, None)], [Some(RETRY_AFTER), None], "{code}");
        }
        // A failure that is passed on knows better, where it knows.
        let busy = Failure::new(Code::Overloaded, "too much at once");
        let busy_for = |seconds| Some(Failure::retry_after(busy.clone(), seconds));
        for retryable in [true, false] {
            assert_eq!(of(STATEMENT_FAILED, retryable, Some(busy.clone())), busy.code.retry_after());
            assert_eq!(of(STATEMENT_FAILED, retryable, busy_for(7)), Some(7));
        }
        let wrong = Failure::new(Code::Timeout, "too slow");
        assert_eq!(of(STATEMENT_FAILED, true, Some(wrong.clone())), Some(RETRY_AFTER));
        assert_eq!(of(STATEMENT_FAILED, false, Some(wrong)), None);
    }
}
