//! Decimals as texts, and texts as decimals.

use super::form::{Form, Native};
use super::wide::Wide;

/// The text of a value: no zeros at the end, no point behind a whole number.
pub(crate) fn text_of<F: Form>(value: Native<F>) -> String {
    let (negative, size) = F::parts(value);
    let digits = padded(&size, F::SCALE as usize);
    let (whole, rest) = digits.split_at(digits.len() - F::SCALE as usize);
    let (sign, rest) = (if negative { "-" } else { "" }, rest.trim_end_matches('0'));
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{rest}")
}

/// The digits of a size in units, of which one at least is before the point.
fn padded(size: &Wide, scale: usize) -> String {
    let width = scale + 1;
    format!("{:0>width$}", size.digits())
}

/// A decimal text, without a sign, with exactly so many places behind its point; a half is rounded up.
pub(crate) fn in_places(text: &str, places: usize) -> String {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    if rest.len() <= places {
        let point = if places == 0 { "" } else { "." };
        return format!("{whole}{point}{rest:0<places$}");
    }
    let (kept, dropped) = rest.split_at(places);
    let mut digits: Vec<u8> = whole.bytes().chain(kept.bytes()).collect();
    if dropped.bytes().next().is_some_and(|digit| digit >= b'5') {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let keep = digits.len() - nines;
        digits.truncate(keep);
        match digits.last_mut() {
            Some(last) => *last += 1,
            None => digits.push(b'1'),
        }
        digits.extend(std::iter::repeat_n(b'0', nines));
    }
    let digits = String::from_utf8(digits).unwrap_or_default();
    let (whole, rest) = digits.split_at_checked(digits.len().saturating_sub(places)).unwrap_or_default();
    if places == 0 { whole.to_owned() } else { format!("{whole}.{rest}") }
}

/// A decimal text, without a sign, with an exponent and so many places behind the point of what it multiplies.
pub(crate) fn in_exponent(text: &str, places: usize) -> String {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let all = format!("{whole}{rest}");
    let digits = all.trim_start_matches('0');
    if digits.is_empty() {
        return format!("{}e+00", in_places("0", places));
    }
    let before = whole.len().cast_signed() - (all.len() - digits.len()).cast_signed();
    let (first, more) = digits.split_at_checked(1).unwrap_or((digits, ""));
    let (mut mantissa, mut power) = (in_places(&format!("{first}.{more}"), places), before - 1);
    if mantissa.starts_with("10") {
        mantissa = in_places("1", places);
        power += 1;
    }
    format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
}

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// With no more digits than the type has: a literal.
    Exact,
    /// Rounded: CAST.
    Rounded,
    /// Rounded, with commas before the point and the sign at either end: `PARSE_NUMERIC`.
    Loose,
}

/// The value of a text; `None` if it is none of the type.
pub(super) fn read<F: Form>(text: &str, reading: Reading) -> Option<Native<F>> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let sign = |c: char| matches!(c, '+' | '-');
    let (negative, text) = match (text.strip_prefix(sign), text.strip_suffix(sign)) {
        (Some(rest), _) => (text.starts_with('-'), rest),
        (None, Some(rest)) if reading == Reading::Loose => (text.ends_with('-'), rest),
        _ => (false, text),
    };
    let text = if reading == Reading::Loose { text.trim_ascii() } else { text };
    let (number, power) = match text.split_once(['e', 'E']) {
        None => (text, 0),
        Some((number, power)) => (number, read_power(power)?),
    };
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let comma = |byte: u8| reading == Reading::Loose && byte == b',';
    let whole_digits = || whole.bytes().filter(|byte| !comma(*byte));
    let digits = || whole_digits().chain(rest.bytes());
    let mut count = 0_usize;
    for digit in digits() {
        if !digit.is_ascii_digit() {
            return None;
        }
        count += 1;
    }
    if count == 0 {
        return None;
    }
    let zeros = digits().take_while(|digit| *digit == b'0').count();
    let before = i64::try_from(whole_digits().count()).ok()?;
    // How many digits the value has in units, without zeros in front.
    let wanted = before.checked_sub(i64::try_from(zeros).ok()?)?.checked_add(power)?.checked_add(F::SCALE.into())?;
    if zeros == count {
        return F::value(false, Wide::ZERO);
    }
    let mut significant = digits().skip(zeros);
    if wanted > 80 {
        return None;
    }
    let mut size = Wide::ZERO;
    for _ in 0..wanted.max(0) {
        let digit = significant.next().unwrap_or(b'0') - b'0';
        size = size.times_small(10).plus(&Wide::of(digit.into()));
    }
    let mut dropped = significant.peekable();
    let up = wanted >= 0 && dropped.peek().is_some_and(|digit| *digit >= b'5');
    if reading == Reading::Exact && dropped.any(|digit| digit != b'0') {
        return None;
    }
    F::value(negative, if up { size.plus(&Wide::of(1)) } else { size })
}

/// The number behind `e`. One of many digits is as large as it is of some.
fn read_power(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let size = digits.trim_start_matches('0');
    let size = if size.len() > 12 { 1_000_000_000_000 } else { format!("0{size}").parse::<i64>().ok()? };
    Some(if text.starts_with('-') { -size } else { size })
}
