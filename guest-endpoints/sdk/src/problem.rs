//! Why an endpoint has no answer.

use crate::contract::{Failure, Problem, QueryError};

/// The code of mistakes of the author, which callers cannot mend.
const MISTAKE: &str = "endpoint-mistake";

impl Problem {
    /// The caller sent something that the endpoint cannot work with: status 400, code `invalid_parameter`.
    ///
    /// As for all problems, `detail` is the message that the caller reads. It is cut after 2048 bytes.
    pub fn invalid_argument(detail: &str) -> Self {
        Self::new("invalid-argument", detail)
    }

    /// What was asked for is not there: status 404, code `not_found`.
    pub fn not_found(detail: &str) -> Self {
        Self::new("not-found", detail)
    }

    /// What was asked for contradicts the state of things: status 409, code `conflict`.
    pub fn conflict(detail: &str) -> Self {
        Self::new("conflict", detail)
    }

    /// The request is understood, and no answer can be made for it: status 422, code `refused`.
    pub fn unprocessable(detail: &str) -> Self {
        Self::new("unprocessable", detail)
    }

    /// The endpoint itself failed: status 500, code `component_failed`.
    pub fn failed(detail: &str) -> Self {
        Self::new("failed", detail)
    }

    /// A problem of a code of your own: status 500, code `component_failed`, and the message begins with your code.
    /// The contract's five codes (see [`Problem::code`](Self#structfield.code)) mean what they mean there.
    pub fn new(code: &str, detail: &str) -> Self {
        Self { code: code.to_owned(), detail: detail.to_owned(), retryable: false }
    }

    /// The same problem, marked: the same request may succeed later. The answer has `Retry-After` with the seconds to wait.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// A mistake of the author, such as a column that the statement does not have.
    pub(crate) fn mistake(parts: &[&str]) -> Self {
        Self::new(MISTAKE, &parts.concat())
    }
}

/// `?` on a call into the host ends the request with that call's own error: a wrong statement is answered with its
/// code, its message and its line and column, a limit with its name, and so on. The host remembers the call that failed
/// last, so hand a failure on before you call it again; to answer something else, use
/// [`map_err`](Result::map_err).
impl From<Failure> for Problem {
    fn from(_: Failure) -> Self {
        Self::new("statement-failed", "")
    }
}

impl Failure {
    /// What happened, in words: the host's message without its code and place. For a line in the log.
    pub fn message(&self) -> String {
        match self {
            Self::InvalidArgument(error) => ["argument '", &error.name, "' ", &error.reason].concat(),
            Self::UnknownStatement(name) => ["there is no statement '", name, "'"].concat(),
            Self::BadQuery(QueryError { message, .. }) => message.clone(),
            Self::Exhausted(exhaustion) => exhaustion.message.clone(),
            Self::Denied(message) | Self::Unavailable(message) | Self::Other(message) => message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ArgumentError;

    #[test]
    fn a_failure_is_handed_on_as_the_reason() {
        let problem = Problem::from(Failure::Denied("no".to_owned()));
        assert_eq!((problem.code.as_str(), problem.detail.as_str()), ("statement-failed", ""));
    }

    #[test]
    fn constructors_have_the_codes_of_the_contract() {
        let contract = include_str!("../wit/endpoint.wit");
        let problems = [
            Problem::invalid_argument("d"),
            Problem::not_found("d"),
            Problem::conflict("d"),
            Problem::unprocessable("d"),
            Problem::from(Failure::Other(String::new())),
        ];
        for problem in problems {
            assert!(contract.contains(&format!("`{}`", problem.code)), "{}", problem.code);
            assert!(!problem.retryable);
        }
        assert!(Problem::failed("d").retryable().retryable);
    }

    #[test]
    fn failures_have_words() {
        let error = ArgumentError { name: "n".to_owned(), reason: "is given twice".to_owned() };
        assert_eq!(Failure::InvalidArgument(error).message(), "argument 'n' is given twice");
        assert_eq!(Failure::UnknownStatement("slow".to_owned()).message(), "there is no statement 'slow'");
    }
}
