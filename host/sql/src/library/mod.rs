//! The function library: the functions that a statement may call, and nothing else.
//!
//! Each function of the dialect has a builder, which makes an expression of a call. It uses the engine's own operators
//! wherever those mean the same, so that the optimizer still knows them (a `REGEXP_CONTAINS` of a literal becomes a
//! substring search, a `TIMESTAMP_TRUNC` can be pruned by). Where they differ from BigQuery, it calls a kernel of
//! `tidegate_functions`. The tables of all builders together are an allow-list ([`build`]).

mod array;
mod bytes;
mod call;
mod foreign;
mod format;
mod json;
mod net;
mod number;
mod over_bytes;
mod text;
mod time;

use tidegate_model::{Code, nearest};

pub(crate) use call::{Argument, Call};
pub(crate) use number::{arithmetic, division};
pub(crate) use text::{like_pattern, regexp_contains};
pub(crate) use time::{at_time_zone, computed_interval, interval_over, interval_times, time_arithmetic};

use crate::fail::{Result, fail};
use crate::typed::Typed;
use call::Builder;

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

/// The arguments of a function that may be written with their names, and their places; one without a place comes last.
pub(crate) fn named_arguments(function: &str) -> &'static [(&'static str, Option<usize>)] {
    match function {
        "CONTAINS_SUBSTR" => &[("json_scope", Some(2))],
        "EDIT_DISTANCE" => &[("max_distance", Some(2))],
        "FLOAT64" => &[("wide_number_mode", Some(1))],
        "JSON_SET" => &[("create_if_missing", None)],
        "JSON_ARRAY_APPEND" => &[("append_each_element", None)],
        "JSON_ARRAY_INSERT" => &[("insert_each_element", None)],
        "JSON_KEYS" => &[("max_depth", Some(1)), ("mode", Some(2))],
        "JSON_STRIP_NULLS" => &[("include_arrays", Some(2)), ("remove_empty", Some(3))],
        "MAKE_INTERVAL" => &[
            ("year", Some(0)),
            ("month", Some(1)),
            ("day", Some(2)),
            ("hour", Some(3)),
            ("minute", Some(4)),
            ("second", Some(5)),
        ],
        "PARSE_JSON" => &[("wide_number_mode", Some(1))],
        "TO_JSON" => &[("stringify_wide_numbers", Some(1))],
        "TO_JSON_STRING" => &[("pretty_print", Some(1))],
        _ => &[],
    }
}

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
        time::FUNCTIONS,
        time::text::FUNCTIONS,
        time::interval::FUNCTIONS,
        time::range::FUNCTIONS,
    ]
    .into_iter()
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
