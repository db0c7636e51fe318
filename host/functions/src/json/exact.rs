//! PARSE_JSON refuses numbers that a value cannot hold, as BigQuery does. What is read out of a text of JSON has no such rule.

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
mod tests {
    use super::*;

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
