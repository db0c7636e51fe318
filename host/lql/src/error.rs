//! The error type of the crate: a stable name for programs, and a sentence for people that says what is wrong, where,
//! and what would be right.

use std::fmt;

/// What went wrong, as a stable name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No clause of the grammar matches.
    Syntax,
    /// The text is longer than [`crate::MAX_LENGTH`].
    TooLong,
    /// The value after an operator is missing or not a value.
    InvalidValue,
    /// The value of a `t:` filter has none of the accepted forms.
    InvalidTimestamp,
    /// A date that does not exist in the calendar.
    InvalidDate,
    /// A date and time that does not exist.
    InvalidDatetime,
    /// A range with one end in the viewer's zone and the other end in UTC.
    MixedTimestampOrigin,
    /// The schema has no such field, or the field is a record.
    FieldNotFound,
    /// The field has integers and the value is not one.
    TypeInteger,
    /// The field has floating-point numbers and the value is not one.
    TypeFloat,
    /// The field has booleans and the value is not one.
    TypeBoolean,
    /// The field has times and the value is not one.
    TypeDatetime,
    /// `@` without a name after it.
    BlankAlias,
    /// `f:` with something that is not a table name.
    InvalidFrom,
    /// More than one `f:`.
    MultipleFrom,
    /// `f:` names a table that does not exist.
    UnknownCte,
    /// Several tables, and no `f:` to choose one.
    FromRequired,
    /// There is no table at all.
    NoCte,
    /// A path that cannot be a column: it has an empty part, or too many parts.
    InvalidPath,
    /// Two result columns with one name.
    DuplicateColumn,
    /// A line of `lql parse --jsonl` that is not a request.
    InvalidRequest,
}

impl ErrorKind {
    /// The name that programs see, for instance `type_integer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::TooLong => "too_long",
            Self::InvalidValue => "invalid_value",
            Self::InvalidTimestamp => "invalid_timestamp",
            Self::InvalidDate => "invalid_date",
            Self::InvalidDatetime => "invalid_datetime",
            Self::MixedTimestampOrigin => "mixed_timestamp_origin",
            Self::FieldNotFound => "field_not_found",
            Self::TypeInteger => "type_integer",
            Self::TypeFloat => "type_float",
            Self::TypeBoolean => "type_boolean",
            Self::TypeDatetime => "type_datetime",
            Self::BlankAlias => "blank_alias",
            Self::InvalidFrom => "invalid_from",
            Self::MultipleFrom => "multiple_from",
            Self::UnknownCte => "unknown_cte",
            Self::FromRequired => "from_required",
            Self::NoCte => "no_cte",
            Self::InvalidPath => "invalid_path",
            Self::DuplicateColumn => "duplicate_column",
            Self::InvalidRequest => "invalid_request",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A position in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The number of bytes before it.
    pub offset: usize,
    /// Its line, from 1.
    pub line: usize,
    /// Its column in that line, in characters, from 1.
    pub column: usize,
}

impl Position {
    /// The position `offset` bytes into `text`. An offset inside a character is the position of that character.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Self {
        let mut position = Self { offset: offset.min(text.len()), line: 1, column: 1 };
        for (at, c) in text.char_indices() {
            if at + c.len_utf8() > position.offset {
                break;
            }
            if c == '\n' {
                position.line += 1;
                position.column = 1;
            } else {
                position.column += 1;
            }
        }
        position
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 1 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "column {}", self.column)
    }
}

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at {position})")]
pub struct LqlError {
    /// What went wrong, for programs.
    pub kind: ErrorKind,
    /// The same for people, without the position.
    pub message: String,
    /// The position.
    pub position: Position,
}

impl LqlError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>, position: Position) -> Self {
        Self { kind, message: message.into(), position }
    }
}

/// An error with a byte offset only. It becomes an [`LqlError`] where the text is available.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    pub(crate) offset: usize,
}

impl Fault {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>, offset: usize) -> Self {
        Self { kind, message: message.into(), offset }
    }

    pub(crate) fn locate(self, text: &str) -> LqlError {
        LqlError::new(self.kind, self.message, Position::of(text, self.offset))
    }
}

/// An explanation of charts, for a user whose chart was parsed as a filter on a field `c`.
pub(crate) const CHARTS: &str = "A chart is c:count(*), c:group_by(t::minute), or another of avg, countd, sum, max, p50, \
                                 p95, p99 over a path";

/// The beginning of a part of the input, short and printable, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 40;
    let mut out = String::new();
    for c in text.chars().take(LONGEST) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_lines_and_characters() {
        let text = "aé\nüb";
        assert_eq!(Position::of(text, 0), Position { offset: 0, line: 1, column: 1 });
        assert_eq!(Position::of(text, 3).column, 3);
        let last = Position::of(text, 6);
        assert_eq!((last.line, last.column), (2, 2));
        assert_eq!(last.to_string(), "line 2, column 2");
        assert_eq!(Position::of(text, 999).offset, text.len());
    }

    #[test]
    fn an_excerpt_is_short_and_printable() {
        assert_eq!(excerpt("a\tb"), "a\\tb");
        assert_eq!(excerpt(&"x".repeat(100)).chars().count(), 41);
    }
}
