//! The type of a value: that of the schema if there is one, else a guess from the text.

use crate::cursor::Cursor;
use crate::error::ErrorKind;
use crate::moment::{self, Instant};
use crate::rules::Value;
use crate::schema::FieldType;

/// The text as a value of the type, or the kind of error and what was expected.
pub(crate) fn cast(kind: FieldType, text: &str) -> Result<Value, (ErrorKind, &'static str)> {
    match kind {
        FieldType::String => Ok(Value::Text(text.to_owned())),
        FieldType::Integer => {
            integer(text).map(Value::Integer).ok_or((ErrorKind::TypeInteger, "an integer of 64 bits, such as 42"))
        }
        FieldType::Float => float(text).map(Value::Float).ok_or((ErrorKind::TypeFloat, "a number, such as 4.2")),
        FieldType::Boolean => boolean(text).map(Value::Boolean).ok_or((ErrorKind::TypeBoolean, "true or false")),
        FieldType::Datetime => datetime(text).ok_or((
            ErrorKind::TypeDatetime,
            "a time, such as 2024-05-01T08:00:00Z or a unix time of 10, 13 or 16 digits",
        )),
        FieldType::Record => Err((ErrorKind::FieldNotFound, "one of its fields")),
        FieldType::Other => Ok(guess(text)),
    }
}

/// The value without a schema: true and false, integers, numbers, and text for everything else.
pub(crate) fn guess(text: &str) -> Value {
    boolean(text)
        .map(Value::Boolean)
        .or_else(|| integer(text).map(Value::Integer))
        .or_else(|| decimal(text).map(Value::Float))
        .unwrap_or_else(|| Value::Text(text.to_owned()))
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn float(text: &str) -> Option<f64> {
    integer(text).and_then(|_| finite(text)).or_else(|| decimal(text))
}

/// Digits, a point, digits, and an optional exponent. Versions such as `1e5` or `.5` must not be guessed to be numbers.
fn decimal(text: &str) -> Option<f64> {
    let mut c = Cursor::new(text, 0);
    let digit = |c: char| c.is_ascii_digit();
    c.eat_any(&["+", "-"]);
    c.some(digit)?;
    c.eat(".").then(|| c.some(digit))??;
    c.attempt(|c| {
        c.eat_any(&["e", "E"])?;
        c.eat_any(&["+", "-"]);
        c.some(digit)
    });
    if c.peek().is_some() { None } else { finite(text) }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn datetime(text: &str) -> Option<Value> {
    let mut c = Cursor::new(text, 0);
    let instant = match moment::iso(&mut c) {
        Some(parts) => moment::instant(parts, false, 0).ok()?,
        None => moment::unix(&mut c)?,
    };
    if c.peek().is_some() {
        return None;
    }
    Some(from_instant(instant))
}

pub(crate) fn from_instant(instant: Instant) -> Value {
    match instant {
        Instant::Date(date) => Value::Date(date),
        Instant::At(moment, _) => Value::Datetime(moment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses() {
        let text = |t: &str| Value::Text(t.to_owned());
        for (written, wanted) in [
            ("true", Value::Boolean(true)),
            ("True", text("True")),
            ("007", Value::Integer(7)),
            ("-12", Value::Integer(-12)),
            ("2.50", Value::Float(2.5)),
            ("1.5e3", Value::Float(1500.0)),
            ("1e5", text("1e5")),
            (".5", text(".5")),
            ("5.", text("5.")),
            ("1.2.3", text("1.2.3")),
            ("inf", text("inf")),
            ("NaN", text("NaN")),
            ("99999999999999999999", text("99999999999999999999")),
            ("1.0e999", text("1.0e999")),
            ("", text("")),
        ] {
            assert_eq!(guess(written), wanted, "{written}");
        }
    }

    #[test]
    fn casts() {
        let kind = |kind, text| cast(kind, text).unwrap_err().0;
        assert_eq!(cast(FieldType::Float, "3").unwrap(), Value::Float(3.0));
        assert_eq!(kind(FieldType::Integer, "3.0"), ErrorKind::TypeInteger);
        assert_eq!(kind(FieldType::Float, "infinity"), ErrorKind::TypeFloat);
        assert_eq!(kind(FieldType::Boolean, "1"), ErrorKind::TypeBoolean);
        assert_eq!(kind(FieldType::Datetime, "2024-01-01x"), ErrorKind::TypeDatetime);
        assert_eq!(kind(FieldType::Datetime, "123"), ErrorKind::TypeDatetime);
        assert_eq!(kind(FieldType::Datetime, "2023-02-30"), ErrorKind::TypeDatetime);
        assert_eq!(cast(FieldType::String, "3").unwrap(), Value::Text("3".to_owned()));
    }
}
