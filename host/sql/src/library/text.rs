//! Text: case, pieces, search, regular expressions.
//!
//! Searches use the engine's functions, which the optimizer knows. What makes text is a kernel, because the engine does
//! not bound what its own functions make.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::string::expr_fn as string;
use datafusion::functions::unicode::expr_fn as unicode;
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::{Expr, Operator, binary_expr, cast, lit};
use tidegate_functions::context::{Compiled, check_planning, compiled, engine_may_compile};
use tidegate_functions::scalar;
use tidegate_functions::translated_pattern;
use tidegate_model::{Code, Position};

use super::call::{Argument, Builder, Call};
use super::format;
use super::over_bytes::over_bytes;
use crate::exprs::is_truth;
use crate::fail::{Result, fail};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::kernel;
use crate::typing::to_json_string;
use crate::typing::{Conversion, folded};

const TEXT: Type = Type::String;
const INT: Type = Type::Int64;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("LOWER", |call| cased(call, "lower_text", [CAPITALS, SMALL])),
    ("UPPER", |call| cased(call, "upper_text", [SMALL, CAPITALS])),
    ("REVERSE", |call| either(call, ["reverse_text", "reverse_bytes"], &[TEXT])),
    ("INITCAP", |call| call.run("title_text", 1, &[TEXT, TEXT], TEXT)),
    ("LENGTH", length),
    ("CHAR_LENGTH", length),
    ("CHARACTER_LENGTH", length),
    ("BYTE_LENGTH", byte_length),
    ("OCTET_LENGTH", byte_length),
    ("CONCAT", concat),
    ("STARTS_WITH", |call| two(call, string::starts_with, "bytes_start")),
    ("ENDS_WITH", |call| two(call, string::ends_with, "bytes_end")),
    ("CONTAINS_SUBSTR", contains_substr),
    ("STRPOS", |call| {
        over_bytes(call, |call| {
            call.count(2, 2)?;
            Ok(Typed::new(cast(unicode::strpos(call.text(0)?, call.text(1)?), DataType::Int64), INT))
        })
    }),
    ("INSTR", |call| over_bytes(call, |call| call.run("find_text", 2, &[TEXT, TEXT, INT, INT], INT))),
    ("SUBSTR", substr),
    ("SUBSTRING", substr),
    ("LEFT", |call| either(call, ["left_text", "left_bytes"], &[TEXT, INT])),
    ("RIGHT", |call| either(call, ["right_text", "right_bytes"], &[TEXT, INT])),
    ("REPLACE", |call| either(call, ["replace_text", "replace_bytes"], &[TEXT, TEXT, TEXT])),
    ("TRANSLATE", |call| over_bytes(call, |call| call.run("translate_text", 3, &[TEXT, TEXT, TEXT], TEXT))),
    ("TRIM", |call| over_bytes(call, |call| call.run("trim_text", 1, &[TEXT, TEXT], TEXT))),
    ("LTRIM", |call| over_bytes(call, |call| call.run("trim_left", 1, &[TEXT, TEXT], TEXT))),
    ("RTRIM", |call| over_bytes(call, |call| call.run("trim_right", 1, &[TEXT, TEXT], TEXT))),
    ("REPEAT", |call| over_bytes(call, |call| call.run("repeat_text", 2, &[TEXT, INT], TEXT))),
    ("LPAD", |call| over_bytes(call, |call| call.run("pad_left", 2, &[TEXT, INT, TEXT], TEXT))),
    ("RPAD", |call| over_bytes(call, |call| call.run("pad_right", 2, &[TEXT, INT, TEXT], TEXT))),
    ("SPLIT", |call| {
        over_bytes(call, |call| {
            let separator = if call.count(1, 2)? == 2 { call.text(1)? } else { lit(",") };
            Ok(Typed::new(kernel("split_text", call.safe, vec![call.text(0)?, separator]), list(TEXT)))
        })
    }),
    ("SOUNDEX", |call| call.run("soundex", 1, &[TEXT], TEXT)),
    ("EDIT_DISTANCE", |call| call.run("edit_distance", 2, &[TEXT, TEXT, INT], INT)),
    ("FORMAT", format::build),
    ("ASCII", |call| over_bytes(call, |call| call.run("ascii_code", 1, &[TEXT], INT))),
    ("UNICODE", |call| call.run("unicode_code", 1, &[TEXT], INT)),
    ("CHR", |call| call.run("code_text", 1, &[INT], TEXT)),
    ("CODE_POINTS_TO_STRING", |call| call.run("codes_text", 1, &[list(INT)], TEXT)),
    ("CODE_POINTS_TO_BYTES", |call| call.run("codes_bytes", 1, &[list(INT)], Type::Bytes)),
    ("TO_CODE_POINTS", |call| {
        call.count(1, 1)?;
        let value = call.text_or_bytes(0)?;
        let name = if value.ty == Type::Bytes { "bytes_codes" } else { "text_codes" };
        Ok(Typed::new(kernel(name, call.safe, vec![value.expr]), list(INT)))
    }),
    ("NORMALIZE", |call| normalize(call, false)),
    ("NORMALIZE_AND_CASEFOLD", |call| normalize(call, true)),
    ("REGEXP_CONTAINS", |call| {
        over_bytes(call, |call| {
            call.count(2, 2)?;
            let pattern = call.value(1)?;
            if is_bad_but_safe(call, &pattern)? {
                return Typed::null().convert(&Type::Bool, Conversion::implicit(call.at));
            }
            regexp_contains(call.value(0)?, pattern, false, call.at)
        })
    }),
    ("REGEXP_EXTRACT", extract),
    ("REGEXP_SUBSTR", extract),
    ("REGEXP_EXTRACT_ALL", |call| {
        over_bytes(call, |call| matched(call, "regexp_extract_all", &[TEXT, TEXT], list(TEXT)))
    }),
    ("REGEXP_INSTR", |call| over_bytes(call, |call| matched(call, "regexp_find", &[TEXT, TEXT, INT, INT, INT], INT))),
    ("REGEXP_REPLACE", |call| {
        over_bytes(call, |call| {
            call.count(3, 3)?;
            matched(call, "regexp_replace_all", &[TEXT, TEXT, TEXT], TEXT)
        })
    }),
];

fn list(item: Type) -> Type {
    Type::Array(Box::new(item))
}

fn extract(call: &Call<'_>) -> Result<Typed> {
    over_bytes(call, |call| {
        call.count(2, 4)?;
        matched(call, "regexp_extract", &[TEXT, TEXT, INT, INT], TEXT)
    })
}

/// The letters of ASCII, which alone have a case in BYTES.
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const SMALL: &str = "abcdefghijklmnopqrstuvwxyz";

/// UPPER and LOWER.
fn cased(call: &Call<'_>, name: &'static str, [from, to]: [&'static str; 2]) -> Result<Typed> {
    call.count(1, 1)?;
    if call.value(0)?.ty != Type::Bytes {
        return call.run(name, 1, &[TEXT], TEXT);
    }
    let characters = kernel("bytes_as_characters", call.safe, vec![call.value(0)?.expr]);
    let letters = [from, to].map(|letters| Typed::text(letters).expr);
    let changed = kernel("translate_text", call.safe, std::iter::once(characters).chain(letters).collect());
    Ok(Typed::new(kernel("characters_as_bytes", call.safe, vec![changed]), Type::Bytes))
}

fn matched(call: &Call<'_>, name: &'static str, wants: &[Type], ty: Type) -> Result<Typed> {
    call.count(2, wants.len())?;
    if is_bad_but_safe(call, &call.value(1)?)? {
        return Typed::null().convert(&ty, Conversion::implicit(call.at));
    }
    call.run(name, 2, wants, ty)
}

/// A function that makes text of text and BYTES of BYTES, with the kernels of both.
fn either(call: &Call<'_>, [of_text, of_bytes]: [&'static str; 2], wants: &[Type]) -> Result<Typed> {
    call.count(wants.len(), wants.len())?;
    if call.value(0)?.ty != Type::Bytes {
        return call.run(of_text, wants.len(), wants, TEXT);
    }
    let wants: Vec<Type> = wants.iter().map(|ty| if *ty == TEXT { Type::Bytes } else { ty.clone() }).collect();
    call.run(of_bytes, wants.len(), &wants, Type::Bytes)
}

fn two(call: &Call<'_>, function: fn(Expr, Expr) -> Expr, of_bytes: &'static str) -> Result<Typed> {
    call.count(2, 2)?;
    let (first, second) = (call.value(0)?.ty, call.value(1)?.ty);
    if first == Type::Bytes || (first, second) == (Type::Null, Type::Bytes) {
        return call.run(of_bytes, 2, &[Type::Bytes, Type::Bytes], Type::Bool);
    }
    Ok(Typed::new(function(call.text(0)?, call.text(1)?), Type::Bool))
}

fn length(call: &Call<'_>) -> Result<Typed> {
    call.count(1, 1)?;
    if call.text_or_bytes(0)?.ty == Type::Bytes {
        return byte_length(call);
    }
    Ok(Typed::new(cast(unicode::character_length(call.text(0)?), DataType::Int64), INT))
}

fn byte_length(call: &Call<'_>) -> Result<Typed> {
    call.count(1, 1)?;
    let value = call.text_or_bytes(0)?;
    if value.ty == Type::Bytes {
        // The engine's takes text only.
        return Ok(Typed::new(kernel("byte_count", call.safe, vec![value.expr]), INT));
    }
    Ok(Typed::new(cast(string::octet_length(value.expr), DataType::Int64), INT))
}

/// NULL if any piece is NULL.
fn concat(call: &Call<'_>) -> Result<Typed> {
    let count = call.count(1, usize::MAX)?;
    let pieces = (0..count).map(|i| call.value(i)).collect::<Result<Vec<_>>>()?;
    if pieces.iter().all(|piece| piece.ty == Type::Bytes) {
        let pieces = pieces.into_iter().map(|piece| piece.expr).collect();
        return Ok(Typed::new(kernel("joined_bytes", call.safe, pieces), Type::Bytes));
    }
    let pieces = (0..count).map(|i| call.text(i)).collect::<Result<Vec<_>>>()?;
    Ok(Typed::new(kernel("joined_text", call.safe, pieces), TEXT))
}

fn substr(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 3)?;
    if call.text_or_bytes(0)?.ty == Type::Bytes {
        return call.run("bytes_piece", 2, &[Type::Bytes, INT, INT], Type::Bytes);
    }
    call.run("piece", 2, &[TEXT, INT, INT], TEXT)
}

fn normalize(call: &Call<'_>, fold: bool) -> Result<Typed> {
    let form = match call.arguments.get(1) {
        Some(Argument::Part(form)) => form.as_str(),
        Some(Argument::Value(_)) => return Err(call.fails("a normal form is a word: NFC, NFKC, NFD or NFKD")),
        Some(Argument::Absent) | None => "NFC",
    };
    call.count(1, 2)?;
    if !matches!(form, "NFC" | "NFKC" | "NFD" | "NFKD") {
        return Err(call.fails(format!("there is no normal form {form}; there are NFC, NFKC, NFD, NFKD")));
    }
    let text = call.text(0)?;
    let text = if fold { kernel("folded_text", call.safe, vec![text]) } else { text };
    Ok(Typed::new(kernel("normalized_text", call.safe, vec![text, lit(form)]), TEXT))
}

/// Without regard to case, in a text or in any field of a record.
fn contains_substr(call: &Call<'_>) -> Result<Typed> {
    call.count(2, 3)?;
    call.without_bytes(0)?;
    let scope = call.word(2, &["JSON_VALUES", "JSON_KEYS", "JSON_KEYS_AND_VALUES"])?.unwrap_or_default();
    let part = kernel("lower_text", call.safe, vec![call.text(1)?]);
    let mut value = call.value(0)?;
    if value.ty == Type::Json {
        let words = kernel("json_words", call.safe, vec![value.expr, lit(scope > 0), lit(scope != 1)]);
        value = Typed::new(words, TEXT);
    }
    let mut leaves = Vec::new();
    leaves_of(&value, &mut leaves, call)?;
    let nested = matches!(value.ty, Type::Struct { .. } | Type::Record(_));
    let tests = leaves.into_iter().map(|leaf| {
        let found = string::contains(kernel("lower_text", call.safe, vec![leaf]), part.clone());
        // A field that is not there contains nothing.
        if nested { is_truth(found, true) } else { found }
    });
    Ok(Typed::new(tests.reduce(Expr::or).unwrap_or_else(|| lit(false)), Type::Bool))
}

/// The texts of a value's fields, at any depth.
fn leaves_of(value: &Typed, leaves: &mut Vec<Expr>, call: &Call<'_>) -> Result<()> {
    match &value.ty {
        Type::Struct { fields, .. } | Type::Record(fields) => {
            for field in fields.iter().filter(|field| !field.is_hidden()) {
                let expr = scalar::field(value.expr.clone(), &field.name);
                leaves_of(&Typed::new(expr, field.ty.clone()), leaves, call)?;
            }
        }
        Type::Array(_) => leaves.push(to_json_string(value).expr),
        _ => leaves.push(value.clone().convert(&TEXT, Conversion::implicit(call.at))?.expr),
    }
    Ok(())
}

/// The most bytes of a compiled pattern that the engine is given.
const SMALL_PATTERN: usize = 256 << 10;
/// The longest pattern of LIKE that the engine is given.
const SHORT_PATTERN: usize = 1 << 10;
/// What the engine compiles for each `_` in such a pattern, in bytes.
const WILDCARD: usize = 512;

/// REGEXP_CONTAINS. Patterns that are texts, or several of them, are left to the engine's regex operator, of which the
/// optimizer makes plain searches. Other patterns are left to a kernel, which compiles them once for a statement and
/// not for each batch, looks at repeated texts once, and can be stopped. The subject may be anything: a number is
/// searched as text.
pub(crate) fn regexp_contains(
    subject: Typed,
    pattern: Typed,
    ignore_case: bool,
    at: Option<Position>,
) -> Result<Typed> {
    let compiled = check_pattern(&pattern, at)?;
    let how = Conversion::implicit(at);
    let subject = match subject.ty {
        Type::Record(_) | Type::Array(_) | Type::Struct { .. } => to_json_string(&subject),
        _ => subject.convert(&TEXT, how)?,
    };
    let pattern = pattern.convert(&TEXT, how)?;
    let translated = pattern.literal_text().map(|text| translated_pattern(text).into_owned());
    let searched = |text: &String| {
        let size = compiled.as_ref().map_or(usize::MAX, |compiled| compiled.size);
        let plain = regex::escape(text) == *text;
        size <= SMALL_PATTERN && (plain || (is_texts(text) && engine_may_compile(size)))
    };
    let expr = if let Some(translated) = translated.filter(searched) {
        let op = if ignore_case { Operator::RegexIMatch } else { Operator::RegexMatch };
        binary_expr(subject.expr, op, Typed::text(&translated).expr)
    } else {
        let pattern = match (ignore_case, pattern.literal_text()) {
            (false, _) => pattern.expr,
            (true, Some(text)) => Typed::text(format!("(?i){text}")).expr,
            (true, None) => kernel("joined_text", false, vec![lit("(?i)"), pattern.expr]),
        };
        kernel("regexp_contains", false, vec![subject.expr, pattern])
    };
    Ok(folded(Typed::new(expr, Type::Bool)))
}

/// Whether a pattern is a text, or several of which one is searched, each at the beginning, at the end or anywhere.
fn is_texts(pattern: &str) -> bool {
    pattern.split('|').all(|text| {
        let text = text.strip_prefix('^').unwrap_or(text);
        let text = text.strip_suffix('$').unwrap_or(text);
        regex::escape(text) == text
    })
}

/// LIKE: the engine's for short literal patterns, which it can prune by; else a kernel.
pub(crate) fn like_pattern(subject: Expr, pattern: Typed, negated: bool, ignore_case: bool) -> Expr {
    let short = |text: &str| text.len() <= SHORT_PATTERN && engine_may_compile(text.matches('_').count() * WILDCARD);
    if pattern.literal().is_some() && pattern.literal_text().is_none_or(short) {
        return Expr::Like(Like::new(negated, Box::new(subject), Box::new(pattern.expr), None, ignore_case));
    }
    let name = if ignore_case { "like_text_without_case" } else { "like_text" };
    let like = kernel(name, false, vec![subject, pattern.expr]);
    if negated { datafusion::logical_expr::not(like) } else { like }
}

/// Checks a literal pattern; whether it is none, and NULL is wanted then.
fn is_bad_but_safe(call: &Call<'_>, pattern: &Typed) -> Result<bool> {
    match check_pattern(pattern, call.at) {
        Err(failure) if call.safe && failure.code == Code::InvalidQuery => Ok(true),
        checked => checked.map(|_| false),
    }
}

/// A literal pattern is checked now, so that its mistake is told with its place.
fn check_pattern(pattern: &Typed, at: Option<Position>) -> Result<Option<Arc<Compiled>>> {
    let Some(text) = pattern.literal_text() else { return Ok(None) };
    check_planning()?;
    compiled(text).map(Some).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        fail(Code::InvalidQuery, format!("'{text}' is not a valid regular expression: {reason}"), at)
    })
}
