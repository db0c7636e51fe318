//! The function library: what a statement may call, and nothing else.
//!
//! A function is built from the engine's own operators wherever those mean the same, so that
//! the optimizer still sees through it (a `REGEXP_CONTAINS` of a literal becomes a substring
//! search, a `TIMESTAMP_TRUNC` can be pruned by). Where they differ from BigQuery, a kernel of
//! ours computes it. The table of all functions is [`build`]; it is an allow-list.

mod array;
mod bytes;
mod collect;
mod first;
mod foreign;
mod json;
mod kernels;
mod log;
mod net;
mod nullable;
mod number;
mod patterns;
mod quantiles;
mod raised;
mod row_query;
mod rows;
mod sums;
mod text;
mod time;
mod top;
mod udf;
mod unite;
mod unnamed;
mod watched;

use datafusion::logical_expr::{Expr, Operator};
use tidegate_model::{Code, Failure, Position, nearest};

pub(crate) use collect::collecting;
pub(crate) use first::first;
pub(crate) use json::to_json_string;
pub(crate) use kernels::kernel;
pub(crate) use nullable::{nullable, only};
pub(crate) use number::arithmetic;
pub(crate) use patterns::Patterns;
pub(crate) use quantiles::{percentile, quantiles};
pub(crate) use raised::raised_as;
pub(crate) use row_query::{Finish, RowQuery, Step};
pub(crate) use sums::{interval_sum, whole_sum};
pub(crate) use text::{like_pattern, regexp_contains};
pub(crate) use time::{
    at_time_zone, computed_interval, interval_over, interval_range, interval_texts, interval_times, time_arithmetic,
};
pub(crate) use top::top;
pub(crate) use udf::{all_or_null, bounded, copied_size, counted};
pub(crate) use unite::{UNITED, united};
pub(crate) use unnamed::field;
pub(crate) use watched::watched;

use crate::fail::{Result, fail, invalid};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::Conversion;

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
            (1, usize::MAX) => "at least one argument".to_owned(),
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

    /// Argument `i` as bytes if it is bytes, else as text.
    pub(crate) fn text_or_bytes(&self, i: usize) -> Result<Typed> {
        let value = self.value(i)?;
        if value.ty == Type::Bytes { Ok(value) } else { Ok(Typed::new(self.text(i)?, Type::String)) }
    }

    /// A kernel over the arguments, each converted to the type that is wanted of it. All but the
    /// first `least` may be missing.
    pub(crate) fn run(&self, name: &'static str, least: usize, wants: &[Type], returns: Type) -> Result<Typed> {
        let count = self.count(least, wants.len())?;
        let arguments =
            wants.iter().take(count).enumerate().map(|(i, ty)| self.typed(i, ty)).collect::<Result<Vec<_>>>()?;
        Ok(Typed::new(kernel(name, self.safe, arguments), returns))
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

/// Which argument of a function is a word: a date part, or a normal form. Postgres writes the
/// part first, in quotes.
pub(crate) fn part_argument(name: &str, quoted_first: bool) -> Option<usize> {
    match name {
        "DATE_PART" => Some(0),
        "DATE_TRUNC" if quoted_first => Some(0),
        "TIMESTAMP_TRUNC" | "DATETIME_TRUNC" | "DATE_TRUNC" | "TIME_TRUNC" | "LAST_DAY" => Some(1),
        "NORMALIZE" | "NORMALIZE_AND_CASEFOLD" => Some(1),
        "TIMESTAMP_DIFF" | "DATETIME_DIFF" | "DATE_DIFF" | "TIME_DIFF" => Some(2),
        _ => None,
    }
}

/// The argument of a function that is written with its name, and comes last.
pub(crate) fn named_argument(function: &str) -> Option<&'static str> {
    Some(match function {
        "EDIT_DISTANCE" => "max_distance",
        "JSON_SET" => "create_if_missing",
        "JSON_ARRAY_APPEND" => "append_each_element",
        "JSON_ARRAY_INSERT" => "insert_each_element",
        _ => return None,
    })
}

type Builder = fn(&Call<'_>) -> Result<Typed>;

/// Every function with its builder.
fn table() -> impl Iterator<Item = &'static (&'static str, Builder)> {
    [
        text::FUNCTIONS,
        bytes::FUNCTIONS,
        net::FUNCTIONS,
        number::FUNCTIONS,
        json::FUNCTIONS,
        json::change::FUNCTIONS,
        array::FUNCTIONS,
    ]
    .into_iter()
    .chain(time::FUNCTIONS.iter().copied())
    .flatten()
}

/// The functions whose arguments may stay uncomputed: the resolver builds them.
const CONDITIONAL: [&str; 3] = ["IF", "COALESCE", "IFNULL"];

/// The names of all scalar functions, in no order.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    table().map(|(name, _)| *name).chain(CONDITIONAL)
}

/// Builds a call. `all` gives the names of all functions, aggregates included: a message names the nearest.
///
/// # Errors
/// Unknown functions, with the nearest name; wrong counts and types of arguments.
pub(crate) fn build(call: Call<'_>, all: impl FnOnce() -> Vec<&'static str>) -> Result<Typed> {
    if let Some((_, builder)) = table().find(|(name, _)| *name == call.name) {
        return builder(&call);
    }
    match call.name {
        "IF" => call.count(3, 3)?,
        "IFNULL" => call.count(2, 2)?,
        "COALESCE" => call.count(1, usize::MAX)?,
        _ => 0,
    };
    if let Some(reason) = foreign::refusal(call.name) {
        let message = format!("{} is not supported; {reason}", call.name);
        return Err(fail(Code::Unsupported, message, call.at).about(call.name));
    }
    let mut message = format!("there is no function {}", call.name);
    if let Some(ours) = foreign::spelling(call.name) {
        message.push_str(&format!("; write {ours}"));
    } else if let Some(near) = nearest(call.name, all()) {
        message.push_str(&format!("; did you mean {near}?"));
    }
    Err(fail(Code::UnknownFunction, message, call.at).about(call.name))
}

/// A comparison operator's use by builders.
pub(crate) fn compare(left: Typed, op: Operator, right: Typed, at: Option<Position>) -> Result<Typed> {
    crate::typing::compare(left, op, right, at)
}
