//! Text: case, pieces, search, regular expressions.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::functions::crypto::expr_fn as crypto;
use datafusion::functions::regex::expr_fn as engine_regex;
use datafusion::functions::string::expr_fn as string;
use datafusion::functions::unicode::expr_fn as unicode;
use datafusion::functions_nested::expr_fn as nested;
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit, when};
use datafusion::scalar::ScalarValue;
use regex::Regex;
use tidegate_model::{Code, Position};

use super::kernels::{arity, texts};
use super::{Builder, Call, kernel};
use crate::fail::{Planning, Result, fail, value_error};
use crate::resolve::{Conversion, Typed};
use crate::types::Type;

/// How often REPEAT repeats and how long LPAD and RPAD make, in characters. Every row of a batch
/// gets such a text, and the engine does not count what functions allocate: a million characters
/// a row was seen to take gigabytes before the answer's own limit stopped it.
const MAX_MADE: i64 = 8 << 10;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("LOWER", |call| one(call, string::lower)),
    ("UPPER", |call| one(call, string::upper)),
    ("REVERSE", |call| one(call, unicode::reverse)),
    ("INITCAP", |call| one(call, unicode::initcap)),
    ("LENGTH", length),
    ("CHAR_LENGTH", length),
    ("CHARACTER_LENGTH", length),
    ("BYTE_LENGTH", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(cast(string::octet_length(call.text(0)?), DataType::Int64), Type::Int64))
    }),
    ("CONCAT", concat),
    ("STARTS_WITH", |call| two(call, string::starts_with)),
    ("ENDS_WITH", |call| two(call, string::ends_with)),
    ("CONTAINS_SUBSTR", |call| {
        call.count(2, 2)?;
        let (text, part) = (string::lower(call.text(0)?), string::lower(call.text(1)?));
        Ok(Typed::new(string::contains(text, part), Type::Bool))
    }),
    ("STRPOS", strpos),
    ("INSTR", strpos),
    ("SUBSTR", substr),
    ("SUBSTRING", substr),
    ("LEFT", |call| side(call, unicode::left)),
    ("RIGHT", |call| side(call, unicode::right)),
    ("REPLACE", |call| {
        call.count(3, 3)?;
        Ok(Typed::new(string::replace(call.text(0)?, call.text(1)?, call.text(2)?), Type::String))
    }),
    ("TRIM", |call| trim(call, string::btrim)),
    ("LTRIM", |call| trim(call, string::ltrim)),
    ("RTRIM", |call| trim(call, string::rtrim)),
    ("REPEAT", |call| {
        call.count(2, 2)?;
        bounded(call, 1)?;
        Ok(Typed::new(string::repeat(call.text(0)?, call.int(1)?), Type::String))
    }),
    ("LPAD", |call| pad(call, unicode::lpad)),
    ("RPAD", |call| pad(call, unicode::rpad)),
    ("SPLIT", |call| {
        let separator = if call.count(1, 2)? == 2 { call.text(1)? } else { lit(",") };
        Ok(Typed::new(
            nested::string_to_array(call.text(0)?, separator, lit(ScalarValue::Utf8(None))),
            Type::Array(Box::new(Type::String)),
        ))
    }),
    ("REGEXP_CONTAINS", |call| {
        call.count(2, 2)?;
        regexp_contains(call.value(0)?, call.value(1)?, false, call.at)
    }),
    ("REGEXP_EXTRACT", |call| {
        call.count(2, 2)?;
        check_pattern(&call.value(1)?, call.at)?;
        Ok(Typed::new(kernel("regexp_extract", call.safe, vec![call.text(0)?, call.text(1)?]), Type::String))
    }),
    ("REGEXP_REPLACE", |call| {
        call.count(3, 3)?;
        check_pattern(&call.value(1)?, call.at)?;
        // BigQuery writes \1 for a group; the engine's regex writes ${1}.
        let replacement = match call.value(2)?.literal_text() {
            Some(text) => lit(group_references(text)),
            None => call.text(2)?,
        };
        let replaced = engine_regex::regexp_replace(call.text(0)?, call.text(1)?, replacement, Some(lit("g")));
        Ok(Typed::new(replaced, Type::String))
    }),
    ("NORMALIZE_AND_CASEFOLD", |call| one(call, string::lower)),
    ("NET.HOST", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(kernel("net_host", true, vec![call.text(0)?]), Type::String))
    }),
    ("MD5", |call| hash(call, "md5")),
    ("SHA256", |call| hash(call, "sha256")),
    ("SHA512", |call| hash(call, "sha512")),
    ("TO_HEX", |call| {
        call.count(1, 1)?;
        let bytes = call.typed(0, &Type::Bytes)?;
        Ok(Typed::new(datafusion::functions::encoding::expr_fn::encode(bytes, lit("hex")), Type::String))
    }),
];

fn one(call: &Call<'_>, function: fn(Expr) -> Expr) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(function(call.text(0)?), Type::String))
}

fn two(call: &Call<'_>, function: fn(Expr, Expr) -> Expr) -> Result<Typed> {
    call.count(2, 2)?;
    Ok(Typed::new(function(call.text(0)?, call.text(1)?), Type::Bool))
}

fn hash(call: &Call<'_>, method: &str) -> Result<Typed> {
    call.count(1, 1)?;
    let value = call.value(0)?;
    let value = if value.ty == Type::Bytes { value.expr } else { call.text(0)? };
    Ok(Typed::new(cast(crypto::digest(value, lit(method)), DataType::Binary), Type::Bytes))
}

fn length(call: &Call<'_>) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(cast(unicode::character_length(call.text(0)?), DataType::Int64), Type::Int64))
}

/// NULL if any piece is NULL (the engine's own skips NULLs).
fn concat(call: &Call<'_>) -> Result<Typed> {
    let pieces = (0..call.count(1, usize::MAX)?)
        .map(|i| Ok(call.value(i)?.convert(&Type::String, Conversion::implicit(call.at))?.expr))
        .collect::<Result<Vec<Expr>>>()?;
    let joined = pieces.into_iter().reduce(|left, right| binary_expr(left, Operator::StringConcat, right));
    joined.map(|expr| Typed::new(expr, Type::String)).ok_or_else(|| call.fails("CONCAT takes at least one argument"))
}

fn strpos(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 2)?;
    Ok(Typed::new(cast(unicode::strpos(call.text(0)?, call.text(1)?), DataType::Int64), Type::Int64))
}

/// Positions count from 1; a negative one counts from the end, 0 is taken as 1.
fn substr(call: &Call<'_>) -> Result<Typed> {
    let count = call.count(2, 3)?;
    let text = call.text(0)?;
    let position = call.int(1)?;
    let size = cast(unicode::character_length(text.clone()), DataType::Int64);
    let start = when(position.clone().gt(lit(0_i64)), position.clone())
        .when(position.clone().eq(lit(0_i64)), lit(1_i64))
        .when((size.clone() + position.clone()).lt(lit(0_i64)), lit(1_i64))
        .otherwise(size + position + lit(1_i64))
        .planned()?;
    let start = crate::resolve::folded(Typed::new(start, Type::Int64)).expr;
    let piece = if count == 3 { unicode::substring(text, start, call.int(2)?) } else { unicode::substr(text, start) };
    Ok(Typed::new(piece, Type::String))
}

fn side(call: &Call<'_>, function: fn(Expr, Expr) -> Expr) -> Result<Typed> {
    call.count(2, 2)?;
    Ok(Typed::new(function(call.text(0)?, call.int(1)?), Type::String))
}

fn trim(call: &Call<'_>, function: fn(Vec<Expr>) -> Expr) -> Result<Typed> {
    let mut arguments = vec![call.text(0)?];
    // Without a set, all white space goes; the engine's default is the blank alone.
    arguments.push(if call.count(1, 2)? == 2 { call.text(1)? } else { lit(" \t\n\r\u{b}\u{c}") });
    Ok(Typed::new(function(arguments), Type::String))
}

/// A length that must be a modest constant: it decides how much memory a row may take.
fn bounded(call: &Call<'_>, i: usize) -> Result<()> {
    match call.value(i)?.literal() {
        Some(ScalarValue::Int64(Some(n))) if *n <= MAX_MADE => Ok(()),
        Some(ScalarValue::Int64(Some(n))) => Err(fail(
            Code::LimitExceeded,
            format!("{} would make a text of {n} characters or repeats; at most {MAX_MADE} are allowed", call.name),
            call.at,
        )),
        _ => Err(call.fails(format!("{} takes a constant number as argument {}", call.name, i + 1))),
    }
}

fn pad(call: &Call<'_>, function: fn(Vec<Expr>) -> Expr) -> Result<Typed> {
    call.count(2, 3)?;
    bounded(call, 1)?;
    let mut arguments = vec![call.text(0)?, call.int(1)?];
    if call.arguments.len() == 3 {
        arguments.push(call.text(2)?);
    }
    Ok(Typed::new(function(arguments), Type::String))
}

/// REGEXP_CONTAINS, on the engine's regex operator: the optimizer turns literal patterns into
/// cheap searches. The subject may be anything: a number is searched as text.
pub(crate) fn regexp_contains(
    subject: Typed,
    pattern: Typed,
    ignore_case: bool,
    at: Option<Position>,
) -> Result<Typed> {
    check_pattern(&pattern, at)?;
    let how = Conversion::implicit(at);
    let subject = match subject.ty {
        Type::Record(_) | Type::Array(_) | Type::Struct { .. } => super::json::to_json_string(&subject),
        _ => subject.convert(&Type::String, how)?,
    };
    let pattern = pattern.convert(&Type::String, how)?;
    let op = if ignore_case { Operator::RegexIMatch } else { Operator::RegexMatch };
    Ok(crate::resolve::folded(Typed::new(binary_expr(subject.expr, op, pattern.expr), Type::Bool)))
}

/// A literal pattern is checked now, so that its mistake is told with its place.
fn check_pattern(pattern: &Typed, at: Option<Position>) -> Result<()> {
    if let Some(text) = pattern.literal_text()
        && let Err(error) = Regex::new(text)
    {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        return Err(fail(Code::InvalidQuery, format!("'{text}' is not a valid regular expression: {reason}"), at));
    }
    Ok(())
}

fn group_references(replacement: &str) -> String {
    let mut out = String::with_capacity(replacement.len());
    let mut rest = replacement.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, rest.peek().copied()) {
            ('\\', Some(digit @ '0'..='9')) => {
                rest.next();
                out.push_str(&format!("${{{digit}}}"));
            }
            ('\\', Some('\\')) => {
                rest.next();
                out.push('\\');
            }
            ('$', _) => out.push_str("$$"),
            (c, _) => out.push(c),
        }
    }
    out
}

/// The first match; of a pattern with a group, the group.
pub(super) fn extract(arguments: &[ArrayRef], safe: bool) -> datafusion::error::Result<ArrayRef> {
    let [subjects, patterns] = arguments else { return Err(arity()) };
    let (subjects, patterns) = (texts(subjects)?, texts(patterns)?);
    let mut compiled: Option<(String, Regex)> = None;
    let mut builder = StringViewBuilder::new();
    for (subject, pattern) in subjects.iter().zip(patterns.iter()) {
        let (Some(subject), Some(pattern)) = (subject, pattern) else {
            builder.append_null();
            continue;
        };
        if compiled.as_ref().is_none_or(|(known, _)| known != pattern) {
            match Regex::new(pattern) {
                Ok(regex) => compiled = Some((pattern.to_owned(), regex)),
                Err(_) if safe => {
                    builder.append_null();
                    continue;
                }
                Err(_) => return Err(value_error(format!("'{pattern}' is not a valid regular expression"))),
            }
        }
        let found = compiled.as_ref().and_then(|(_, regex)| regex.captures(subject));
        let found =
            found.and_then(|captures| captures.get(usize::from(captures.len() > 1)).map(|m| m.as_str().to_owned()));
        builder.append_option(found);
    }
    Ok(Arc::new(builder.finish()))
}

/// The host of a URL, in lower case as written; NULL where there is none.
pub(super) fn net_host(arguments: &[ArrayRef], _safe: bool) -> datafusion::error::Result<ArrayRef> {
    let [urls] = arguments else { return Err(arity()) };
    let mut builder = StringViewBuilder::new();
    for url in texts(urls)?.iter() {
        let host = url.and_then(|url| {
            let (_, rest) = url.trim().split_once("//").unwrap_or(("", url.trim()));
            let authority = rest.split(['/', '?', '#']).next()?;
            let host = authority.rsplit('@').next()?;
            let host = match host.strip_prefix('[') {
                Some(v6) => host.get(..=v6.find(']')? + 1)?,
                None => host.split(':').next()?,
            };
            (!host.is_empty()).then(|| host.to_owned())
        });
        builder.append_option(host);
    }
    Ok(Arc::new(builder.finish()))
}
