//! Building the failures of this crate (code, message, place), and translating errors of the engine into such.

use std::fmt;

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use sqlparser::ast::Spanned;
use sqlparser::tokenizer::{Location, Span};
use tidegate_functions::wording::{DIVISION_BY_ZERO, MORE_THAN_ONE_ROW, out_of_memory};
use tidegate_model::{Code, Failure, Position};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The place at which a piece of the syntax tree begins, where the parser kept it.
pub(crate) fn place(node: &impl Spanned) -> Option<Position> {
    place_of(node.span())
}

pub(crate) fn place_of(span: Span) -> Option<Position> {
    let Location { line, column } = span.start;
    (line > 0).then_some(Position { line, column })
}

pub(crate) fn fail(code: Code, message: impl Into<String>, at: Option<Position>) -> Failure {
    Failure::new(code, message).at(at)
}

/// A rule of the language is broken.
pub(crate) fn invalid(message: impl Into<String>, at: Option<Position>) -> Failure {
    fail(Code::InvalidQuery, message, at)
}

/// A construct that the parser reads and the dialect does not have; `instead` says what to write, if that is known.
pub(crate) fn unsupported(what: impl fmt::Display, instead: Option<&str>, at: Option<Position>) -> Failure {
    let message = match instead {
        Some(instead) => format!("{what} is not supported; {instead}"),
        None => format!("{what} is not supported"),
    };
    fail(Code::Unsupported, message, at)
}

/// What a caller may learn of an engine error. Our own failures come through as they are; the
/// engine's internal words go to the log and the caller gets a plain sentence.
pub(crate) fn from_engine(error: DataFusionError) -> Failure {
    known(&error).unwrap_or_else(|| internal(&error.to_string()))
}

/// The same for a statement that runs, one of whose functions may have failed before.
pub(crate) fn from_running(error: DataFusionError, failure: Option<&Failure>) -> Failure {
    known(&error)
        .or_else(|| failure.cloned())
        .or_else(|| of_filter(&error.to_string()))
        .unwrap_or_else(|| internal(&error.to_string()))
}

/// What a caller may learn of an error of a statement that runs, if anything.
pub(crate) fn known_while_running(error: &DataFusionError) -> Option<Failure> {
    known(error).or_else(|| of_filter(&error.to_string()))
}

/// What a caller may learn of an error of the engine, if anything.
pub(crate) fn known(error: &DataFusionError) -> Option<Failure> {
    if let Some(failure) = own_failure(error) {
        return Some(failure);
    }
    match error.find_root() {
        DataFusionError::ResourcesExhausted(reason) => Some(out_of_memory(reason)),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::DivideByZero => Some(divided_by_zero()),
            ArrowError::CastError(reason) | ArrowError::ParseError(reason) | ArrowError::ComputeError(reason) => {
                Some(not_converted(reason))
            }
            ArrowError::ArithmeticOverflow(_) => Some(overflowed()),
            _ => None,
        },
        DataFusionError::Execution(reason) if reason.contains("more than one row") => {
            Some(Failure::new(Code::InvalidValue, MORE_THAN_ONE_ROW))
        }
        DataFusionError::Execution(reason) if about_range(reason) => Some(beyond_time()),
        DataFusionError::NotImplemented(reason) | DataFusionError::Plan(reason) if about_correlation(reason) => {
            Some(correlated(reason))
        }
        _ => None,
    }
}

/// A subquery can be no join. The engine's reason is for the log.
pub(crate) fn correlated(reason: &str) -> Failure {
    tracing::info!(%reason, "a correlated subquery cannot be planned");
    Failure::new(
        Code::Unsupported,
        "a subquery that uses columns of the enclosing query in this way is not supported; compare them with = or write it as a JOIN",
    )
}

/// An error of the engine's own functions in a filter that a scan computes, of which only the text
/// is left.
fn of_filter(text: &str) -> Option<Failure> {
    let (_, error) = text.split_once("Error evaluating filter predicate: ")?;
    let reason = |kind: &str| error.split_once(kind)?.1.split('"').next();
    // The reason may quote a value, which may say anything.
    if let Some(reason) = reason("CastError(\"").or_else(|| reason("ParseError(\"")) {
        Some(not_converted(reason))
    } else if error.contains("DivideByZero") {
        Some(divided_by_zero())
    } else if error.contains("ArithmeticOverflow") {
        Some(overflowed())
    } else if about_range(error) {
        Some(beyond_time())
    } else {
        error.contains("ResourcesExhausted").then(|| out_of_memory(error))
    }
}

fn divided_by_zero() -> Failure {
    Failure::new(Code::InvalidValue, DIVISION_BY_ZERO)
}

fn overflowed() -> Failure {
    Failure::new(Code::InvalidValue, "an integer overflowed 64 bits")
}

fn beyond_time() -> Failure {
    Failure::new(Code::InvalidValue, "a TIMESTAMP is too far away to be computed with; its years are 1 to 9999")
}

/// Whether the engine says that a time is out of the range of its calendar: `Timestamp 9223372036854775807
/// out of range`.
fn about_range(reason: &str) -> bool {
    let times = reason.match_indices("Timestamp ").filter_map(|(at, word)| reason.get(at + word.len()..));
    let mut after = times.map(|text| text.trim_start_matches('-').trim_start_matches(|c: char| c.is_ascii_digit()));
    after.any(|text| text.starts_with(" out of range"))
}

fn not_converted(reason: &str) -> Failure {
    Failure::new(Code::InvalidValue, format!("a value cannot be converted: {reason}; SAFE_CAST gives NULL instead"))
}

/// Whether the engine says that it cannot turn a subquery into a join.
fn about_correlation(reason: &str) -> bool {
    ["ScalarSubquery", "OuterReferenceColumn", "InSubquery", "Exists", "orrelated"].iter().any(|w| reason.contains(w))
}

/// The failure that an error of the engine carries, if it is one of ours.
pub fn own_failure(error: &DataFusionError) -> Option<Failure> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = next {
        if let Some(failure) = current.downcast_ref::<Failure>() {
            return Some(failure.clone());
        }
        if let Some(DataFusionError::External(inner)) = current.downcast_ref::<DataFusionError>()
            && let Some(failure) = inner.downcast_ref::<Failure>()
        {
            return Some(failure.clone());
        }
        next = current.source();
    }
    None
}

fn internal(detail: &str) -> Failure {
    tracing::error!(detail, "the query engine failed on a resolved statement");
    Failure::new(Code::Internal, "the statement could not be run; the server's log has the details")
}

/// Engine errors while a plan is built are bugs of the resolver, except for our own failures.
pub(crate) trait Planning<T> {
    fn planned(self) -> Result<T>;
}

impl<T> Planning<T> for std::result::Result<T, DataFusionError> {
    fn planned(self) -> Result<T> {
        self.map_err(from_engine)
    }
}
