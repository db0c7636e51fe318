//! The meaning of a query: the rules to which the clauses of a text are converted.

use std::borrow::Cow;

use chrono::NaiveDate;

use crate::error::Position;
use crate::moment::{Moment, Origin};

/// A parsed query. All filters must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The conditions on the rows.
    pub filters: Vec<Filter>,
    /// A count or another aggregate over time, instead of rows.
    pub chart: Option<Chart>,
    /// The selected columns; a single wildcard if `s:*` was among them.
    pub select: Vec<Select>,
    /// The table. In the sandbox always set, whether or not it was written.
    pub from: Option<String>,
}

impl Query {
    /// The paths of the fields that the query names; a path may occur more than once. For a path that begins with `m.`,
    /// the one with `metadata.` is included too, because it may be meant.
    pub fn paths(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let selected = self.select.iter().filter(|select| !select.wildcard).map(|select| &select.path);
        let filtered = self.filters.iter().map(|filter| &filter.path);
        let named = filtered.chain(selected).chain(self.chart.iter().map(|chart| &chart.path));
        named.flat_map(|path| {
            let meant = path.strip_prefix("m.").map(|rest| Cow::Owned(format!("metadata.{rest}")));
            std::iter::once(Cow::Borrowed(path.as_str())).chain(meant)
        })
    }
}

/// One condition on the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The field, with `m.` written out as `metadata.`.
    pub path: String,
    /// The operator.
    pub operator: Operator,
    /// The operand.
    pub operand: Operand,
    /// How the condition was written.
    pub modifiers: Modifiers,
    /// The relative time from which the operand was computed, for instance `last@15minute`.
    pub shorthand: Option<String>,
    /// Where the condition begins.
    pub position: Position,
}

/// Details of how a condition was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// Whether it was negated with `-`.
    pub negate: bool,
    /// Whether the value was in quotes or parentheses.
    pub quoted_string: bool,
    /// For times: absolute, or local in the viewer's zone.
    pub timestamp_origin: Option<Origin>,
}

/// The operator of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `:`
    Equal,
    /// `:>`
    Greater,
    /// `:>=`
    GreaterOrEqual,
    /// `:<`
    Less,
    /// `:<=`
    LessOrEqual,
    /// `:~` and `~word`
    Regex,
    /// `:a..b`, both ends included.
    Range,
    /// A bare word or a quoted text.
    Contains,
    /// `:@>`
    ListIncludes,
    /// `:@>~`
    ListIncludesRegex,
}

impl Operator {
    /// The name that programs see, for instance `string_contains`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Regex => "~",
            Self::Range => "range",
            Self::Contains => "string_contains",
            Self::ListIncludes => "list_includes",
            Self::ListIncludesRegex => "list_includes_regexp",
        }
    }
}

/// The operand of a filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// One value.
    One(Literal),
    /// Two ends, as written.
    Range(Literal, Literal),
    /// Log levels: any of them.
    Levels(Vec<Level>),
}

/// A value with its text, because its type is a guess if there is no schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// The value.
    pub value: Value,
    /// As written, without quotes and escapes.
    pub text: String,
    /// Whether the type was guessed.
    pub guessed: bool,
}

/// A typed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `NULL`
    Null,
    /// `true` or `false`
    Boolean(bool),
    /// A 64-bit integer.
    Integer(i64),
    /// A finite floating-point number.
    Float(f64),
    /// Text.
    Text(String),
    /// A day.
    Date(NaiveDate),
    /// A point in time.
    Datetime(Moment),
}

/// The severity of a log line, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}

impl Level {
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    /// The name, for instance `warning`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The levels from one to another, both included, in the given direction.
    pub(crate) fn between(from: Self, to: Self) -> Vec<Self> {
        let all = Self::ALL.iter().map(|&(_, level)| level);
        if from <= to {
            all.filter(|level| (from..=to).contains(level)).collect()
        } else {
            all.rev().filter(|level| (to..=from).contains(level)).collect()
        }
    }
}

/// An aggregate over intervals of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    /// The aggregated field; `timestamp` if `*` was written.
    pub path: String,
    /// The aggregate function.
    pub aggregate: Aggregate,
    /// The interval.
    pub period: Period,
    /// The type of the field in the schema, for instance `float`.
    pub value_type: Option<String>,
    /// Where the clause that names the field begins, or else the first clause of the chart.
    pub position: Position,
}

/// The aggregate function of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Arithmetic mean.
    Average,
    /// Number of values.
    Count,
    /// Number of different values.
    CountDistinct,
    /// Sum.
    Sum,
    /// Greatest value.
    Max,
    /// The approximate percentile: 50, 95 or 99.
    Percentile(u8),
}

impl Aggregate {
    /// In the order in which they are tried.
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("avg", Self::Average),
        ("countd", Self::CountDistinct),
        ("count", Self::Count),
        ("sum", Self::Sum),
        ("max", Self::Max),
        ("p50", Self::Percentile(50)),
        ("p95", Self::Percentile(95)),
        ("p99", Self::Percentile(99)),
    ];

    /// The name, for instance `countd`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, a)| *a == self).map_or("percentile", |(name, _)| name)
    }
}

/// The length of a chart's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Period {
    /// One second.
    Second,
    /// One minute.
    Minute,
    /// One hour.
    Hour,
    /// One day.
    Day,
}

impl Period {
    /// In the order in which they are tried.
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("second", Self::Second),
        ("s", Self::Second),
        ("minute", Self::Minute),
        ("m", Self::Minute),
        ("hour", Self::Hour),
        ("h", Self::Hour),
        ("day", Self::Day),
        ("d", Self::Day),
    ];

    /// The name, for instance `minute`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }
}

/// One column of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// The field; `*` for a wildcard.
    pub path: String,
    /// The name of the column, if one was given.
    pub alias: Option<String>,
    /// `s:*`
    pub wildcard: bool,
    /// Where the clause begins.
    pub position: Position,
}
