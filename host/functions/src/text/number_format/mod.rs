//! Numbers as text in the elements of CAST: `999,999.00`, `S9.99EEEE`, `XXXX`.
//!
//! A number has a place for each digit of its format. Where places before its first digit stay blank, its sign and its currency stand
//! beside that digit, and not at the begin. What the description of the elements leaves open is an error.

mod elements;

use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowError, RowResult};
use elements::{Digit, Elements, Place, Sign, elements};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::rows("number_in_format", 2..=2, Body::Text(formatted))];

/// The digits of a number before and behind its point.
struct Decimal {
    negative: bool,
    /// Without zeros at the begin.
    whole: Vec<u8>,
    fraction: Vec<u8>,
}

impl Decimal {
    /// A text of digits, as those of INT64 and NUMERIC are.
    fn read(text: &str) -> Option<Self> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let digit = |c: char| c.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
        let read = |part: &str| part.chars().map(digit).collect::<Option<Vec<u8>>>();
        let mut number = Self { negative, whole: read(whole)?, fraction: read(fraction)? };
        number.trim();
        Some(number)
    }

    fn trim(&mut self) {
        let zeros = self.whole.iter().take_while(|digit| **digit == 0).count();
        self.whole.drain(..zeros);
    }

    fn is_zero(&self) -> bool {
        self.whole.iter().chain(&self.fraction).all(|digit| *digit == 0)
    }

    /// Moves the point to the right.
    fn times_ten_to(&mut self, power: usize) {
        for _ in 0..power {
            self.whole.push(if self.fraction.is_empty() { 0 } else { self.fraction.remove(0) });
        }
        self.trim();
    }

    /// Moves the point behind the first digit that is not zero. Gives by how much it was to the right of that.
    fn normalize(&mut self) -> i64 {
        let count = |len: usize| i64::try_from(len).unwrap_or(i64::MAX);
        if self.is_zero() {
            return 0;
        }
        if self.whole.is_empty() {
            let zeros = self.fraction.iter().take_while(|digit| **digit == 0).count();
            self.times_ten_to(zeros + 1);
            return -count(zeros + 1);
        }
        let moved = self.whole.split_off(1);
        let exponent = count(moved.len());
        self.fraction.splice(0..0, moved);
        exponent
    }

    /// Rounds to so many digits behind the point, halves away from zero.
    fn round(&mut self, digits: usize) {
        let up = self.fraction.get(digits).is_some_and(|next| *next >= 5);
        self.fraction.resize(digits, 0);
        if !up {
            return;
        }
        for digit in self.fraction.iter_mut().rev().chain(self.whole.iter_mut().rev()) {
            *digit = (*digit + 1) % 10;
            if *digit != 0 {
                return;
            }
        }
        self.whole.insert(0, 1);
    }

    fn hexadecimal(&self) -> Option<Vec<u8>> {
        let value =
            self.whole.iter().try_fold(0_u64, |value, digit| value.checked_mul(10)?.checked_add((*digit).into()))?;
        let text = if value == 0 { String::new() } else { format!("{value:x}") };
        Some(text.bytes().collect())
    }
}

/// `number_in_format(number, format)`.
fn formatted(row: &Row, out: &mut Out) -> RowResult<()> {
    let format = row.remember(1, elements)?;
    let mut number = Decimal::read(row.text(0)).ok_or("a number that is not finite has no format")?;
    let exponent = exponent_of(&mut number, &format);
    if number.is_zero() && number.negative {
        return Err("a negative number that the format rounds to zero has no sign in it; ROUND it first".into());
    }
    let digits = match format.is_hexadecimal() {
        true => number.hexadecimal().ok_or("a number in hexadecimal digits has at most 64 bits")?,
        false => number.whole.iter().map(|digit| b'0' + digit).collect(),
    };
    let places = format.whole.iter().filter(|place| matches!(place, Place::Digit(_))).count();
    if digits.len() > places {
        return Err("the number has more digits before the point than the format".to_owned().into());
    }
    let mut body = whole(&format, &digits)?;
    let blank = body.bytes().take_while(|byte| *byte == b' ').count();
    let body_digits = body.split_off(blank);
    let mut fraction: String = number.fraction.iter().map(|digit| char::from(b'0' + digit)).collect();
    if format.fills_not && !fraction.is_empty() {
        fraction.truncate(fraction.trim_end_matches('0').len());
        if fraction.is_empty() {
            return Err(
                "with FM no digit would be left behind the point; ROUND the number, and leave the point out".into()
            );
        }
    }
    let (before, behind) = signs(&format, &number);
    let point = if format.has_point { "." } else { "" };
    let exponent = exponent.map(|exponent| {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("E{sign}{:02}", exponent.unsigned_abs())
    });
    let text = format!(
        "{}{before}{}{body_digits}{point}{fraction}{}{behind}",
        " ".repeat(blank),
        format.currency.unwrap_or_default(),
        exponent.unwrap_or_default()
    );
    if format.blank_zero && digits.is_empty() {
        out.repeated(" ", if format.fills_not { 0 } else { text.len() })?;
    } else if format.fills_not {
        out.text(text.replace(' ', "").as_str())?;
    } else {
        out.text(&text)?;
    }
    Ok(Some(()))
}

/// The number as its format has it, rounded, and its exponent.
fn exponent_of(number: &mut Decimal, format: &Elements) -> Option<i64> {
    number.times_ten_to(format.power);
    if !format.exponent {
        number.round(format.fraction);
        return None;
    }
    let exponent = number.normalize();
    number.round(format.fraction);
    // 9.99 may have become 10.0.
    let more = number.normalize();
    number.round(format.fraction);
    Some(exponent.saturating_add(more))
}

/// The places before the point: blank ones, digits and separators.
fn whole(format: &Elements, digits: &[u8]) -> Result<String, RowError> {
    let mut text = String::with_capacity(format.whole.len());
    let mut left = format.whole.iter().filter(|place| matches!(place, Place::Digit(_))).count();
    let mut has_begun = false;
    for place in &format.whole {
        let Place::Digit(digit) = place else {
            text.push(if has_begun { ',' } else { ' ' });
            continue;
        };
        let nth = digits.len().checked_sub(left).and_then(|nth| digits.get(nth)).copied();
        left -= 1;
        // A number without digits before the point, and without digits behind it, is 0.
        let is_last = left == 0 && !format.has_point;
        has_begun |= nth.is_some() || matches!(digit, Digit::Zero { .. }) || is_last;
        if !has_begun && left == 0 && !format.blank_zero {
            return Err("a number between -1 and 1 needs a 0 in the format before the point: 9990.99".into());
        }
        let c = if has_begun { char::from(nth.unwrap_or(b'0')) } else { ' ' };
        text.push(if digit.is_upper() { c.to_ascii_uppercase() } else { c });
    }
    Ok(text)
}

/// What stands before the digits for the sign, and behind them.
fn signs(format: &Elements, number: &Decimal) -> (&'static str, &'static str) {
    match (format.sign, number.negative, number.is_zero()) {
        (Sign::Implicit, true, _) => ("-", ""),
        (Sign::Implicit, false, _) => (" ", ""),
        (Sign::Before, true, _) => ("-", ""),
        (Sign::Before, false, false) => ("+", ""),
        (Sign::Before, false, true) => (" ", ""),
        (Sign::Behind, true, _) | (Sign::Minus, true, _) => ("", "-"),
        (Sign::Behind, false, false) => ("", "+"),
        (Sign::Behind, false, true) | (Sign::Minus, false, _) => ("", " "),
        (Sign::Brackets, true, _) => ("<", ">"),
        (Sign::Brackets, false, _) => (" ", " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::read(text).unwrap_or(Decimal { negative: false, whole: Vec::new(), fraction: Vec::new() })
    }

    #[test]
    fn digits_are_rounded_and_moved() {
        let mut number = decimal("-99.995");
        number.round(2);
        assert_eq!((number.whole.as_slice(), number.fraction.as_slice()), ([1, 0, 0].as_slice(), [0, 0].as_slice()));
        let mut small = decimal("0.00120");
        assert_eq!((small.normalize(), small.whole.as_slice()), (-3, [1].as_slice()));
        let mut large = decimal("0012.5");
        large.times_ten_to(2);
        assert_eq!(large.whole, [1, 2, 5, 0]);
        assert_eq!(large.normalize(), 3);
        assert!(Decimal::read("NaN").is_none());
    }
}
