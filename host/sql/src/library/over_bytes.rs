//! Functions of text over BYTES: each byte is taken for the character of its number, so that positions and lengths count
//! bytes, and what is made becomes BYTES again.

use datafusion::logical_expr::{Expr, col};
use datafusion::scalar::ScalarValue;
use tidegate_functions::pattern_of_bytes;

use super::call::{Argument, Builder, Call};
use crate::fail::Result;
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::{Conversion, folded, kernel, mapped};

fn is(ty: &Type, wanted: &Type) -> bool {
    ty == wanted || matches!(ty, Type::Array(item) if **item == *wanted)
}

/// A value or each element of an array, by a kernel.
fn changed(value: Typed, name: &'static str, to: &Type) -> Result<Typed> {
    let Type::Array(_) = value.ty else {
        return Ok(folded(Typed::new(kernel(name, false, vec![value.expr]), to.clone())));
    };
    let item = "item".to_owned();
    let element: Expr = kernel(name, false, vec![col(&item)]);
    Ok(Typed::new(mapped(value.expr, item, element)?, Type::Array(Box::new(to.clone()))))
}

/// A pattern over bytes as one over their characters. A mistake in a literal is told with its place.
fn pattern(call: &Call<'_>, value: Typed) -> Result<Typed> {
    match value.literal() {
        Some(ScalarValue::Binary(Some(bytes))) => match pattern_of_bytes(bytes) {
            Ok(text) => Ok(Typed::text(text)),
            Err(_) if call.safe => Typed::null().convert(&Type::String, Conversion::implicit(call.at)),
            Err(reason) => Err(call.fails(reason)),
        },
        _ if value.ty == Type::Bytes => changed(value, "pattern_of_bytes", &Type::String),
        _ => Ok(value),
    }
}

/// The call of a function of text, which may be over BYTES.
pub(super) fn over_bytes(call: &Call<'_>, builder: Builder) -> Result<Typed> {
    let types = call.arguments.iter().filter_map(|argument| match argument {
        Argument::Value(value) => Some(&value.ty),
        Argument::Part(_) | Argument::Absent => None,
    });
    let (of_bytes, of_text): (Vec<&Type>, Vec<&Type>) =
        types.filter(|ty| is(ty, &Type::Bytes) || is(ty, &Type::String)).partition(|ty| is(ty, &Type::Bytes));
    if of_bytes.is_empty() {
        return builder(call);
    }
    if !of_text.is_empty() {
        return Err(call.fails(format!(
            "{} takes texts or BYTES, not both; b'a' is a literal of BYTES, and SAFE_CONVERT_BYTES_TO_STRING and TO_HEX make text of BYTES",
            call.name
        )));
    }
    let characters = |(i, argument): (usize, &Argument)| match argument {
        Argument::Value(value) if i == 1 && call.name.starts_with("REGEXP_") => {
            pattern(call, value.clone()).map(Argument::Value)
        }
        Argument::Value(value) if is(&value.ty, &Type::Bytes) => {
            changed(value.clone(), "bytes_as_characters", &Type::String).map(Argument::Value)
        }
        other => Ok(other.clone()),
    };
    let arguments = call.arguments.iter().enumerate().map(characters).collect::<Result<_>>()?;
    let made = builder(&Call { arguments, ..*call })?;
    match is(&made.ty, &Type::String) {
        true => changed(made, "characters_as_bytes", &Type::Bytes),
        false => Ok(made),
    }
}
