//! Reads the elements of a format of numbers.

use crate::rows::RowError;

/// The most bytes of a format.
const LONGEST: usize = 256;
/// The most hexadecimal digits.
const MOST_HEXADECIMAL: usize = 16;

/// A digit before the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Digit {
    /// Blank before the first digit of the number.
    Nine,
    /// Zero there.
    Zero { upper: bool },
    /// A hexadecimal digit, blank there.
    Hexadecimal { upper: bool },
}

impl Digit {
    pub(super) fn is_upper(self) -> bool {
        matches!(self, Self::Zero { upper: true } | Self::Hexadecimal { upper: true })
    }
}

/// A place before the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Digit(Digit),
    Separator,
}

/// How the sign is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// Before the digits, where plus is a blank.
    Implicit,
    /// S before the digits.
    Before,
    /// S behind them.
    Behind,
    /// MI.
    Minus,
    /// PR.
    Brackets,
}

/// A format.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elements {
    pub(super) whole: Vec<Place>,
    pub(super) has_point: bool,
    /// How many digits stand behind the point.
    pub(super) fraction: usize,
    /// How many digits stand behind V.
    pub(super) power: usize,
    pub(super) exponent: bool,
    pub(super) sign: Sign,
    pub(super) currency: Option<&'static str>,
    /// FM: without blanks and zeros at the end.
    pub(super) fills_not: bool,
    /// B: blanks where there is nothing before the point.
    pub(super) blank_zero: bool,
}

impl Elements {
    pub(super) fn is_hexadecimal(&self) -> bool {
        self.whole.iter().any(|place| matches!(place, Place::Digit(Digit::Hexadecimal { .. })))
    }

    fn digits(&self) -> usize {
        self.whole.iter().filter(|place| matches!(place, Place::Digit(_))).count() + self.fraction
    }
}

/// The elements as they are written; longer ones before those that they begin with.
const NAMES: [&str; 16] = ["EEEE", "FM", "MI", "PR", "9", "0", "X", ".", "D", ",", "G", "S", "$", "C", "L", "B"];

/// The elements of a format.
pub(super) fn elements(format: &str) -> Result<Elements, RowError> {
    if format.len() > LONGEST {
        return Err(RowError::Limit(format!("a format of numbers has at most {LONGEST} bytes, not {}", format.len())));
    }
    let mut read = Elements {
        whole: Vec::new(),
        has_point: false,
        fraction: 0,
        power: 0,
        exponent: false,
        sign: Sign::Implicit,
        currency: None,
        fills_not: false,
        blank_zero: false,
    };
    let (mut rest, mut after_v, mut is_signed, mut has_ended) = (format, false, false, false);
    while !rest.is_empty() {
        let is_v = rest.starts_with(['V', 'v']);
        let name = if is_v { Some("V") } else { NAMES.into_iter().find(|name| begins(rest, name)) };
        let Some(name) = name else {
            let short: String = rest.chars().take(20).collect();
            return Err(format!("the format of numbers has no element at '{short}'").into());
        };
        let written = rest.get(..name.len()).unwrap_or_default();
        rest = rest.get(name.len()..).unwrap_or_default();
        let is_upper = !written.starts_with(|c: char| c.is_ascii_lowercase());
        let misplaced = || RowError::from(format!("the element {written} cannot stand there in the format '{format}'"));
        if has_ended && name != "FM" {
            return Err(misplaced());
        }
        let is_begun = read.digits() > 0 || read.has_point;
        match name {
            "9" | "0" if read.has_point && !read.exponent => read.fraction += 1,
            "9" | "0" | "X" if !read.has_point && !read.exponent => {
                read.power += usize::from(after_v);
                read.whole.push(Place::Digit(match name {
                    "9" => Digit::Nine,
                    "0" => Digit::Zero { upper: true },
                    _ => Digit::Hexadecimal { upper: is_upper },
                }));
            }
            "." | "D" if !read.has_point && !after_v && !read.exponent => read.has_point = true,
            "," | "G" if !read.whole.is_empty() && !read.has_point && !read.exponent => {
                read.whole.push(Place::Separator)
            }
            "V" if !after_v && !read.has_point && !read.exponent => after_v = true,
            "EEEE" if is_begun && !read.exponent && !after_v => read.exponent = true,
            "S" if !is_signed => {
                is_signed = true;
                has_ended = is_begun;
                read.sign = if is_begun { Sign::Behind } else { Sign::Before };
            }
            "MI" | "PR" if !is_signed && is_begun => {
                (is_signed, has_ended) = (true, true);
                read.sign = if name == "MI" { Sign::Minus } else { Sign::Brackets };
            }
            "$" | "C" | "L" if read.currency.is_none() && !is_begun => {
                read.currency = Some(match (name, is_upper) {
                    ("C", true) => "USD",
                    ("C", false) => "usd",
                    _ => "$",
                });
            }
            "FM" if !read.fills_not => read.fills_not = true,
            "B" if !read.blank_zero => read.blank_zero = true,
            _ => return Err(misplaced()),
        }
    }
    checked(read, format)
}

fn begins(rest: &str, name: &str) -> bool {
    rest.get(..name.len()).is_some_and(|written| written.eq_ignore_ascii_case(name))
}

/// The format, if its elements go together.
fn checked(mut read: Elements, format: &str) -> Result<Elements, RowError> {
    if read.digits() == 0 {
        return Err(format!("the format of numbers '{format}' has no digits").into());
    }
    let of_exponent = [Place::Digit(Digit::Nine), Place::Digit(Digit::Zero { upper: true })];
    if read.exponent && !matches!(read.whole.as_slice(), [one] if of_exponent.contains(one)) {
        return Err("a format with EEEE has one digit before the point: 9.99EEEE".into());
    }
    if read.is_hexadecimal() {
        let is_other = |place: &Place| matches!(place, Place::Separator | Place::Digit(Digit::Nine));
        let others = read.whole.iter().any(is_other) || read.has_point || read.exponent || read.power > 0;
        if others || read.currency.is_some() || read.blank_zero || read.whole.len() > MOST_HEXADECIMAL {
            return Err("a format with X has at most 16 digits X and 0, FM and an element of the sign".into());
        }
        // A zero has the case of the next digit.
        let mut is_upper = true;
        for place in read.whole.iter_mut().rev() {
            match place {
                Place::Digit(Digit::Hexadecimal { upper }) => is_upper = *upper,
                Place::Digit(Digit::Zero { upper }) => *upper = is_upper,
                _ => {}
            }
        }
    }
    Ok(read)
}
