//! JSON: reading out of text, and writing values as text.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringViewBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as EngineResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use serde_json::Value;
use tidegate_model::Code;

use super::kernels::{arity, texts};
use super::{Builder, Call, kernel};
use crate::encode::{ColumnEncoder, Style};
use crate::fail::{Result, fail, value_error};
use crate::resolve::Typed;
use crate::types::Type;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("JSON_VALUE", |call| path(call, "json_value")),
    ("JSON_EXTRACT_SCALAR", |call| path(call, "json_value")),
    ("JSON_QUERY", |call| path(call, "json_query")),
    ("JSON_EXTRACT", |call| path(call, "json_query")),
    ("TO_JSON_STRING", |call| {
        call.count(1, 2)?;
        Ok(to_json_string(&call.value(0)?))
    }),
];

fn path(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    let subject = match call.count(1, 2)? {
        _ if matches!(call.value(0)?.ty, Type::Record(_) | Type::Array(_) | Type::Struct { .. }) => {
            to_json_string(&call.value(0)?).expr
        }
        _ => call.text(0)?,
    };
    let path = if call.arguments.len() == 2 { call.value(1)? } else { Typed::text("$") };
    if let Some(text) = path.literal_text()
        && steps(text).is_none()
    {
        let message = format!("'{text}' is no JSON path; write e.g. '$.a.b' or '$.list[0]'");
        return Err(fail(Code::InvalidQuery, message, call.at));
    }
    let path = path.convert(&Type::String, crate::resolve::Conversion::implicit(call.at))?;
    Ok(Typed::new(kernel(name, call.safe, vec![subject, path.expr]), Type::String))
}

/// One step of a JSON path.
#[derive(Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

/// `$.a.b`, `$['a']`, `$."a.b"`, `$.list[0]`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            if let Some(quoted) = after.strip_prefix('"') {
                let (key, tail) = quoted.split_once('"')?;
                steps.push(Step::Key(key.to_owned()));
                rest = tail;
            } else {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (key, tail) = after.split_at(end);
                if key.is_empty() {
                    return None;
                }
                steps.push(Step::Key(key.to_owned()));
                rest = tail;
            }
        } else {
            let (inside, tail) = rest.strip_prefix('[')?.split_once(']')?;
            let inside = inside.trim();
            let quoted = ['\'', '"'].iter().find_map(|q| inside.strip_prefix(*q)?.strip_suffix(*q));
            steps.push(match quoted {
                Some(key) => Step::Key(key.to_owned()),
                None => Step::Index(inside.parse().ok()?),
            });
            rest = tail;
        }
    }
    Some(steps)
}

/// The value at a path, or nothing: text that is no JSON has no values.
fn at<'v>(mut value: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    for step in steps {
        value = match step {
            Step::Key(key) => value.as_object()?.get(key)?,
            Step::Index(index) => value.as_array()?.get(*index)?,
        };
    }
    Some(value)
}

fn each(arguments: &[ArrayRef], show: impl Fn(&Value) -> Option<String>) -> EngineResult<ArrayRef> {
    let [subjects, paths] = arguments else { return Err(arity()) };
    let (subjects, paths) = (texts(subjects)?, texts(paths)?);
    let mut known: Option<(String, Vec<Step>)> = None;
    let mut builder = StringViewBuilder::new();
    for (subject, path) in subjects.iter().zip(paths.iter()) {
        let (Some(subject), Some(path)) = (subject, path) else {
            builder.append_null();
            continue;
        };
        if known.as_ref().is_none_or(|(text, _)| text != path) {
            let steps = steps(path).ok_or_else(|| value_error(format!("'{path}' is no JSON path")))?;
            known = Some((path.to_owned(), steps));
        }
        let found = known.as_ref().and_then(|(_, steps)| {
            // Most log lines are no JSON: do not parse what cannot be.
            let first = subject.trim_start().as_bytes().first()?;
            if !matches!(first, b'{' | b'[' | b'"') && !steps.is_empty() {
                return None;
            }
            let value: Value = serde_json::from_str(subject).ok()?;
            show(at(&value, steps)?)
        });
        builder.append_option(found);
    }
    Ok(Arc::new(builder.finish()))
}

/// A scalar as text; NULL for objects, arrays and null.
pub(super) fn value(arguments: &[ArrayRef], _safe: bool) -> EngineResult<ArrayRef> {
    each(arguments, |value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    })
}

/// Any value as JSON text.
pub(super) fn query(arguments: &[ArrayRef], _safe: bool) -> EngineResult<ArrayRef> {
    each(arguments, |value| Some(value.to_string()))
}

/// TO_JSON_STRING: a function of its own for each type, because the text depends on it.
pub(super) fn to_json_string(value: &Typed) -> Typed {
    let function =
        ScalarUDF::from(ToJson { ty: value.ty.clone(), signature: Signature::any(1, Volatility::Immutable) });
    Typed::new(function.call(vec![value.expr.clone()]), Type::String)
}

#[derive(Debug)]
struct ToJson {
    ty: Type,
    signature: Signature,
}

impl PartialEq for ToJson {
    fn eq(&self, other: &Self) -> bool {
        self.ty == other.ty
    }
}

impl Eq for ToJson {}

impl std::hash::Hash for ToJson {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.ty.to_string().hash(state);
    }
}

impl ScalarUDFImpl for ToJson {
    fn name(&self) -> &'static str {
        "to_json_string"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> EngineResult<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> EngineResult<ColumnarValue> {
        let Some(argument) = call.args.first() else { return Err(arity()) };
        let array = argument.to_array(call.number_rows)?;
        let encoder = ColumnEncoder::new(&array, &self.ty, Style::Text)?;
        let mut builder = StringViewBuilder::new();
        let mut text = Vec::new();
        for row in 0..array.len() {
            text.clear();
            encoder.write(row, &mut text);
            builder.append_value(String::from_utf8_lossy(&text));
        }
        Ok(ColumnarValue::Array(Arc::new(builder.finish())))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_or_refused() {
        let key = |text: &str| Step::Key(text.to_owned());
        assert_eq!(steps("$").unwrap(), []);
        assert_eq!(
            steps("$.a.b[2]['c d'].\"e.f\"").unwrap(),
            [key("a"), key("b"), Step::Index(2), key("c d"), key("e.f")]
        );
        for bad in ["", "a.b", "$.", "$[", "$[x]", "$..a"] {
            assert_eq!(steps(bad), None, "{bad}");
        }
    }
}
