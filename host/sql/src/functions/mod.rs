//! The function library: what a statement may call, and nothing else.
//!
//! A function is built from the engine's own operators wherever those mean the same, so that
//! the optimizer still sees through it (a `REGEXP_CONTAINS` of a literal becomes a substring
//! search, a `TIMESTAMP_TRUNC` can be pruned by). Where they differ from BigQuery, a kernel of
//! ours computes it. The table of all functions is [`build`]; it is an allow-list.

mod array;
mod json;
mod kernels;
mod number;
mod quantiles;
mod row_query;
mod text;
mod time;
mod top;
mod udf;
mod watched;

use datafusion::logical_expr::{Expr, Operator};
use tidegate_model::{Code, Failure, Position, nearest};

pub(crate) use kernels::kernel;
pub(crate) use number::arithmetic;
pub(crate) use quantiles::{percentile, quantiles};
pub(crate) use row_query::{Finish, RowQuery, Step};
pub(crate) use text::regexp_contains;
pub(crate) use time::time_arithmetic;
pub(crate) use top::top;
pub(crate) use watched::watched;

use crate::fail::{Result, fail, invalid};
use crate::resolve::{Conversion, Typed};
use crate::types::Type;

/// An argument of a call: a value, or a date part such as `HOUR`, which is a word.
#[derive(Debug, Clone)]
pub(crate) enum Argument {
    Value(Typed),
    Part(String),
}

/// A call to build.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The name in capitals, without `SAFE.`.
    pub(crate) name: &'a str,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) at: Option<Position>,
    /// A value that cannot be computed is NULL instead of an error.
    pub(crate) safe: bool,
    /// The time of the request in microseconds.
    pub(crate) now: i64,
}

impl Call<'_> {
    /// Checks the number of arguments.
    pub(crate) fn count(&self, least: usize, most: usize) -> Result<usize> {
        let count = self.arguments.len();
        if (least..=most).contains(&count) {
            return Ok(count);
        }
        let wanted = match (least, most) {
            (0, 0) => "no arguments".to_owned(),
            (1, 1) => "one argument".to_owned(),
            (least, most) if least == most => format!("{least} arguments"),
            (least, usize::MAX) => format!("at least {least} arguments"),
            (least, most) => format!("{least} to {most} arguments"),
        };
        Err(invalid(format!("{} takes {wanted}, not {count}", self.name), self.at))
    }

    pub(crate) fn value(&self, i: usize) -> Result<Typed> {
        match self.arguments.get(i) {
            Some(Argument::Value(value)) => Ok(value.clone()),
            Some(Argument::Part(part)) => {
                Err(invalid(format!("{} does not take the date part {part} there", self.name), self.at))
            }
            None => Err(invalid(format!("{} lacks argument {}", self.name, i + 1), self.at)),
        }
    }

    /// Argument `i` as a `ty`, converted as the dialect does on its own.
    pub(crate) fn typed(&self, i: usize, ty: &Type) -> Result<Expr> {
        Ok(self.value(i)?.convert(ty, Conversion::implicit(self.at))?.expr)
    }

    pub(crate) fn text(&self, i: usize) -> Result<Expr> {
        self.typed(i, &Type::String)
    }

    pub(crate) fn int(&self, i: usize) -> Result<Expr> {
        self.typed(i, &Type::Int64)
    }

    pub(crate) fn float(&self, i: usize) -> Result<Expr> {
        self.typed(i, &Type::Float64)
    }

    /// Argument `i`, which must be a date part.
    pub(crate) fn part(&self, i: usize) -> Result<&str> {
        match self.arguments.get(i) {
            Some(Argument::Part(part)) => Ok(part),
            _ => Err(invalid(format!("{} needs a date part such as HOUR as argument {}", self.name, i + 1), self.at)),
        }
    }

    pub(crate) fn fails(&self, message: impl Into<String>) -> Failure {
        invalid(message, self.at)
    }
}

/// Which argument of a function is a date part.
pub(crate) fn part_argument(name: &str) -> Option<usize> {
    match name {
        "TIMESTAMP_TRUNC" | "DATETIME_TRUNC" | "DATE_TRUNC" | "TIME_TRUNC" | "LAST_DAY" => Some(1),
        "TIMESTAMP_DIFF" | "DATETIME_DIFF" | "DATE_DIFF" | "TIME_DIFF" => Some(2),
        _ => None,
    }
}

/// Whether a function can make much out of little, so that folding it early would escape the
/// statement's limits.
pub(crate) fn grows(engine_name: &str) -> bool {
    matches!(engine_name, "repeat" | "lpad" | "rpad" | "generate_series" | "range" | "array_repeat")
}

type Builder = fn(&Call<'_>) -> Result<Typed>;

/// Every function with its builder.
fn table() -> impl Iterator<Item = &'static (&'static str, Builder)> {
    text::FUNCTIONS
        .iter()
        .chain(time::FUNCTIONS)
        .chain(number::FUNCTIONS)
        .chain(json::FUNCTIONS)
        .chain(array::FUNCTIONS)
}

/// Builds a call.
///
/// # Errors
/// Unknown functions, with the nearest name; wrong counts and types of arguments.
pub(crate) fn build(call: Call<'_>) -> Result<Typed> {
    if let Some((_, builder)) = table().find(|(name, _)| *name == call.name) {
        return builder(&call);
    }
    let mut message = format!("there is no function {}", call.name);
    let hint = match call.name {
        "DATE_FORMAT" | "TO_CHAR" => Some("FORMAT_TIMESTAMP"),
        "STRFTIME" => Some("FORMAT_TIMESTAMP"),
        "ISNULL" | "NVL" => Some("IFNULL"),
        "REGEXP_LIKE" | "REGEXP_MATCHES" | "MATCH" => Some("REGEXP_CONTAINS"),
        "TO_TIMESTAMP" => Some("PARSE_TIMESTAMP"),
        "POSITION" | "CHARINDEX" => Some("STRPOS"),
        name => nearest(name, table().map(|(known, _)| *known)),
    };
    if let Some(near) = hint {
        message.push_str(&format!("; did you mean {near}?"));
    }
    Err(fail(Code::UnknownFunction, message, call.at).about(call.name))
}

/// A comparison operator's use by builders.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    crate::resolve::compare(left, op, right, at)
}
