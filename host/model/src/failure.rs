//! The common form of a failed request, whichever crate found the reason.
//!
//! Crates have typed errors of their own. What a caller may learn of them is a [`Failure`], and only the server turns a
//! failure into an HTTP answer. The text of a failure says what is wrong, where, and what is allowed instead. It never
//! names plans or the engine.

use std::fmt;

/// Why a request failed: `error.code` of the HTTP interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// A parameter is missing, malformed or outside its allowed values.
    InvalidParameter,
    /// The SQL or LQL text cannot be read.
    Syntax,
    /// A table that does not exist or was not granted.
    UnknownTable,
    /// A column, field or alias that does not exist.
    UnknownColumn,
    /// A function that does not exist.
    UnknownFunction,
    /// A named statement that the endpoint does not have: an error in its code.
    UnknownStatement,
    /// A violation of types, argument counts or other rules of the language.
    InvalidQuery,
    /// A construct that is recognized and not supported or not allowed.
    Unsupported,
    /// A value at run time: a failed cast, a division by zero.
    InvalidValue,
    /// The request body or an event in it cannot be read.
    InvalidBody,
    /// A definition (endpoint, component, token) that is refused when it is saved.
    Refused,
    /// No token, or one that is unknown or expired.
    Unauthorized,
    /// A token of an issuer that is refused; the message has one word that says why.
    InvalidToken,
    /// The token lacks the scope.
    Forbidden,
    /// No such endpoint, source or route.
    NotFound,
    /// The name is taken.
    Conflict,
    /// What was to be changed is another version than the one that the request names.
    PreconditionFailed,
    /// The key of a request was used for another one.
    KeyReused,
    /// The method does not exist on this route.
    MethodNotAllowed,
    /// The request is larger than allowed.
    TooLarge,
    /// The route does not accept this type of body.
    UnsupportedMediaType,
    /// A limit of the request was reached: rows, bytes, memory, statements.
    LimitExceeded,
    /// The quota of the token or the source is used up; try again later.
    TooManyRequests,
    /// Too many requests at once, over all callers; try again later.
    Overloaded,
    /// The disk is full: nothing can be stored until there is space; reads work.
    StorageFull,
    /// The body of the request came too slowly.
    SlowRequest,
    /// The statement or the component ran longer than allowed.
    Timeout,
    /// The component failed (trap, violation of the contract).
    ComponentFailed,
    /// Stored data could not be read completely.
    DataUnavailable,
    /// Stored data is damaged or missing: the same error each time until it is repaired.
    DataDamaged,
    /// A write failed, and it is unknown whether it was carried out.
    Unconfirmed,
    /// There are no keys of the issuer of a token.
    IssuerUnavailable,
    /// Anything else; the details are in the server's log.
    Internal,
}

impl Code {
    /// The name in `error.code`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidParameter => "invalid_parameter",
            Self::Syntax => "syntax_error",
            Self::UnknownTable => "unknown_table",
            Self::UnknownColumn => "unknown_column",
            Self::UnknownFunction => "unknown_function",
            Self::UnknownStatement => "unknown_statement",
            Self::InvalidQuery => "invalid_query",
            Self::Unsupported => "unsupported",
            Self::InvalidValue => "invalid_value",
            Self::InvalidBody => "invalid_body",
            Self::Refused => "refused",
            Self::Unauthorized => "unauthorized",
            Self::InvalidToken => "invalid_token",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::PreconditionFailed => "precondition_failed",
            Self::KeyReused => "key_reused",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::TooLarge => "too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::LimitExceeded => "limit_exceeded",
            Self::TooManyRequests => "too_many_requests",
            Self::Overloaded => "overloaded",
            Self::StorageFull => "storage_full",
            Self::SlowRequest => "slow_request",
            Self::Timeout => "timeout",
            Self::ComponentFailed => "component_failed",
            Self::DataUnavailable => "data_unavailable",
            Self::DataDamaged => "data_damaged",
            Self::Unconfirmed => "unconfirmed",
            Self::IssuerUnavailable => "issuer_unavailable",
            Self::Internal => "internal",
        }
    }

    /// The HTTP status for the code.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidParameter
            | Self::Syntax
            | Self::UnknownTable
            | Self::UnknownColumn
            | Self::UnknownFunction
            | Self::InvalidQuery
            | Self::Unsupported
            | Self::InvalidValue
            | Self::InvalidBody => 400,
            Self::Unauthorized | Self::InvalidToken => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::SlowRequest => 408,
            Self::Conflict => 409,
            Self::PreconditionFailed => 412,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::KeyReused | Self::Refused | Self::LimitExceeded => 422,
            Self::TooManyRequests => 429,
            Self::Internal | Self::ComponentFailed | Self::DataDamaged | Self::UnknownStatement => 500,
            Self::Overloaded | Self::DataUnavailable | Self::Unconfirmed | Self::IssuerUnavailable => 503,
            Self::Timeout => 504,
            Self::StorageFull => 507,
        }
    }

    /// Seconds after which to retry, for causes that may pass.
    pub fn retry_after(self) -> Option<u64> {
        match self {
            Self::TooManyRequests | Self::Overloaded => Some(1),
            Self::DataUnavailable | Self::Unconfirmed | Self::IssuerUnavailable => Some(10),
            Self::StorageFull => Some(30),
            _ => None,
        }
    }
}

/// A position in SQL or LQL text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
}

/// A limit of a request that its component may handle. The names are those of the contract (`types.quota`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Rows that the component reads into its memory.
    Rows,
    /// Bytes that the component reads into its memory, or bytes of its document.
    Bytes,
    /// Statements of the request.
    Statements,
    /// Memory of a statement, or of all together.
    Memory,
}

impl Quota {
    /// The name in documents of failures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Bytes => "bytes",
            Self::Statements => "statements",
            Self::Memory => "memory",
        }
    }
}

/// The failure of a request: code, text, and, if known, the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class of the failure.
    pub code: Code,
    /// Text for a person: what is wrong, and what would be right.
    pub message: String,
    /// What the failure is about: a parameter, a table, a column, a function, a field.
    pub location: Option<String>,
    /// The limit that was reached, where a component may handle it ([`Failure::quota`]).
    pub quota: Option<Quota>,
    /// The position in the query text.
    pub position: Option<Position>,
    /// Seconds after which to retry, if known better than by the code ([`Code::retry_after`]).
    pub retry_after: Option<u64>,
    /// Further failures, such as those of other fields of a definition.
    pub others: Vec<Failure>,
}

impl Failure {
    /// A failure without a location.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            location: None,
            quota: None,
            position: None,
            retry_after: None,
            others: Vec::new(),
        }
    }

    /// One failure for several. The first gives the code; `None` if there are none.
    pub fn of_all(failures: impl IntoIterator<Item = Failure>) -> Option<Self> {
        let mut failures = failures.into_iter();
        let mut first = failures.next()?;
        first.others.extend(failures);
        Some(first)
    }

    /// The failure and the others in it, one by one.
    pub fn each(mut self) -> impl Iterator<Item = Failure> {
        let others = std::mem::take(&mut self.others);
        std::iter::once(self).chain(others)
    }

    /// The same failure, with the seconds after which to retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// The same failure, naming the parameter, table, column, ... that it is about.
    #[must_use]
    pub fn about(mut self, location: impl Into<String>) -> Self {
        self.location = Some(location.into());
        self
    }

    /// This failure with the limit that it is about. The name of the limit is its location.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quota = Some(quota);
        self.about(quota.name())
    }

    /// The same failure, with its position in the query text.
    #[must_use]
    pub fn at(mut self, position: Option<Position>) -> Self {
        self.position = position;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, " (line {line}, column {column})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The longest text, in bytes, for which a similar name is looked for.
const LONGEST_NAME: usize = 1 << 10;

/// The name in `candidates` that is nearest to `wanted`, if one is near enough to be meant.
///
/// Near means an edit distance of at most a third of the longer name, rounded up, compared case-insensitively. Every
/// crate that says "did you mean" uses it.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Such a text is not a name, and the search would take time proportional to its length for each candidate.
    if wanted.len() > LONGEST_NAME {
        return None;
    }
    let wanted = wanted.to_lowercase();
    let length = wanted.chars().count();
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= length.max(candidate.chars().count()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().take(64).enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        if let Some(first) = row.first_mut() {
            *first = previous;
        }
        for (cell, right) in row.iter_mut().skip(1).zip(&b) {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = *cell;
            *cell = substituted.min(previous + 1).min(*cell + 1);
            previous = *cell;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_insertions_deletions_and_substitutions() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn nothing_is_near_to_a_text_that_is_no_name() {
        assert_eq!(nearest("projct", ["project", "other"]), Some("project"));
        assert_eq!(nearest(&"project".repeat(1_000), ["project"]), None);
    }

    #[test]
    fn the_nearest_name_is_suggested_only_when_it_is_near() {
        let tables = ["edge_logs", "auth_logs"];
        assert_eq!(nearest("Edge_log", tables), Some("edge_logs"));
        assert_eq!(nearest("users", tables), None);
    }

    #[test]
    fn every_failure_says_its_place() {
        let failure = Failure::new(Code::UnknownTable, "no table x").at(Some(Position { line: 2, column: 7 }));
        assert_eq!(failure.to_string(), "no table x (line 2, column 7)");
        assert_eq!(failure.code.status(), 400);
    }
}
