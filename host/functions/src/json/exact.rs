//! PARSE_JSON: of equal keys the first counts, and numbers that a value cannot hold are refused, as BigQuery does. What is
//! read out of a text of JSON has neither rule.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value with the first of equal keys.
pub(super) fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str::<First>(text).map(|First(value)| value)
}

struct First(Value);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(FirstVisitor).map(Self)
    }
}

struct FirstVisitor;

impl<'de> Visitor<'de> for FirstVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }
    fn visit_bool<X: Error>(self, value: bool) -> Result<Value, X> {
        Ok(Value::from(value))
    }
    fn visit_i64<X: Error>(self, value: i64) -> Result<Value, X> {
        Ok(Value::from(value))
    }
    fn visit_u64<X: Error>(self, value: u64) -> Result<Value, X> {
        Ok(Value::from(value))
    }
    fn visit_f64<X: Error>(self, value: f64) -> Result<Value, X> {
        Ok(Value::from(value))
    }
    fn visit_unit<X: Error>(self) -> Result<Value, X> {
        Ok(Value::Null)
    }
    fn visit_str<X: Error>(self, text: &str) -> Result<Value, X> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(First(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if map.contains_key(&key) {
                fields.next_value::<First>()?;
            } else {
                let First(value) = fields.next_value()?;
                map.insert(key, value);
            }
        }
        Ok(Value::Object(map))
    }
}

/// The first number of a text of JSON that its value does not hold exactly.
pub(super) fn inexact(text: &str) -> Option<&str> {
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    let mut rest = text;
    while let Some(at) = rest.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        rest = rest.get(at..)?;
        if let Some(inside) = rest.strip_prefix('"') {
            rest = behind_string(inside)?;
            continue;
        }
        let (number, behind) = rest.split_at(rest.find(|c| !of_number(c)).unwrap_or(rest.len()));
        if !is_exact(number) {
            return Some(number);
        }
        rest = behind;
    }
    None
}

/// What follows a string, whose first quote is cut off.
fn behind_string(mut rest: &str) -> Option<&str> {
    loop {
        rest = rest.get(rest.find(['"', '\\'])?..)?;
        match rest.strip_prefix('\\') {
            // What is escaped has one byte at least, and a quote and a backslash exactly one.
            Some(escaped) => rest = escaped.get(escaped.chars().next()?.len_utf8()..)?,
            None => return rest.get(1..),
        }
    }
}

/// Whether a number is an INT64, an unsigned one, or what a FLOAT64 is written as with the fewest digits or with 17.
fn is_exact(number: &str) -> bool {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return true;
    }
    let Ok(value) = number.parse::<f64>() else { return false };
    let wanted = decimal(number);
    wanted == decimal(&format!("{value:e}")) || wanted == decimal(&format!("{value:.16e}"))
}

/// The digits of a number without zeros at the ends, and the power of ten of the last.
fn decimal(number: &str) -> Option<(String, i64)> {
    let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    let shortened = digits.trim_end_matches('0');
    let cut = i64::try_from(digits.len() - shortened.len()).ok()?;
    let shortened = shortened.trim_start_matches('0');
    if shortened.is_empty() {
        return Some((String::new(), 0));
    }
    let power: i64 = power.parse().ok()?;
    let power = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(cut)?;
    Some((shortened.to_owned(), power))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn of_equal_keys_the_first_counts_at_any_depth() {
        for (text, expected) in [
            (r#"{"a": 1, "a": 2}"#, r#"{"a":1}"#),
            (r#"[{"b": {"a": [1], "\u0061": 2, "c": null}}]"#, r#"[{"b":{"a":[1],"c":null}}]"#),
            ("\"x\"", "\"x\""),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), expected);
        }
        for text in ["", "{\"a\": 1} x", "{\"a\": 1, \"a\": soon}", "1e999", &"[".repeat(200)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_number_that_loses_digits_is_found() {
        for (text, found) in [
            ("12345678901234567890123", Some("12345678901234567890123")),
            ("[1, {\"a\": 3.14159265358979323846}]", Some("3.14159265358979323846")),
            ("[-9223372036854775808, 18446744073709551615, 9007199254740993]", None),
            ("[-9223372036854775809]", Some("-9223372036854775809")),
            ("[0.1, 1.10, 1e20, 100000000000000000000, 0.30000000000000004, -0, 0e5, 1E-7, 5e-324]", None),
            ("0.79999999999999993", None),
            ("1e-400", Some("1e-400")),
            (r#"{"12345678901234567890123\"\\": "a12345678901234567890123é"}"#, None),
        ] {
            assert_eq!(inexact(text), found, "{text}");
        }
    }
}
