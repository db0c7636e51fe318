//! The kernel of FORMAT: `%d`, `%s`, `%t` and the like.

use std::fmt::Write;

use crate::decimal;
use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[Kernel::rows_with_nulls("format_values", 1..=usize::MAX, Body::Text(format))];

/// Each value to be formatted is three arguments: the value, its text, and its kind, which says how `%T` quotes the text.
const ARGUMENTS_OF_VALUE: usize = 3;

/// One element of a format: `%-08.3f`.
#[derive(Debug, Default, Clone, PartialEq)]
struct Element {
    left: bool,
    plus: bool,
    blank: bool,
    alternate: bool,
    zero: bool,
    grouped: bool,
    /// `Some(None)` is `*`, which takes an argument.
    width: Option<Option<usize>>,
    precision: Option<Option<usize>>,
    conversion: char,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Element(Element),
}

fn pieces(format: &str) -> std::result::Result<Vec<Piece>, RowError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        if rest.peek() == Some(&'%') {
            rest.next();
            text.push('%');
            continue;
        }
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        let mut element = Element::default();
        while let Some(flag) = rest.peek().copied() {
            match flag {
                '-' => element.left = true,
                '+' => element.plus = true,
                ' ' => element.blank = true,
                '#' => element.alternate = true,
                '0' => element.zero = true,
                '\'' => element.grouped = true,
                _ => break,
            }
            rest.next();
        }
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            if rest.peek() == Some(&'*') {
                rest.next();
                return Some(None);
            }
            let mut value: Option<usize> = None;
            while let Some(digit) = rest.peek().and_then(|c| c.to_digit(10)) {
                rest.next();
                value = Some(value.unwrap_or(0).saturating_mul(10).saturating_add(digit as usize));
            }
            value.map(Some)
        };
        element.width = number(&mut rest);
        if rest.peek() == Some(&'.') {
            rest.next();
            element.precision = number(&mut rest).or(Some(Some(0)));
        }
        element.conversion = match rest.next() {
            Some(
                c @ ('d' | 'i' | 'u' | 'o' | 'x' | 'X' | 's' | 't' | 'T' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G' | 'p'
                | 'P'),
            ) => c,
            Some(c) => {
                return Err(format!(
                    "FORMAT has no element %{c}; there are %d %i %u %o %x %X %f %F %e %E %g %G %s %t %T %p %P %%"
                )
                .into());
            }
            None => {
                return Err("the format of FORMAT ends in the middle of an element; write %% for a percent sign".into());
            }
        };
        pieces.push(Piece::Element(element));
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}

fn format(row: &Row, out: &mut Out) -> RowResult<()> {
    if !row.has(0) {
        return Ok(None);
    }
    let pieces = row.remember(0, pieces)?;
    let mut next = 1;
    let mut take = || {
        let at = next;
        next += ARGUMENTS_OF_VALUE;
        if next > row.count() { Err(RowError::from("FORMAT has fewer values than its format names")) } else { Ok(at) }
    };
    for piece in pieces.iter() {
        let element = match piece {
            Piece::Text(text) => {
                out.text(text)?;
                continue;
            }
            Piece::Element(element) => element,
        };
        let mut element = element.clone();
        let mut is_null = false;
        let mut starred = |given: Option<Option<usize>>| -> std::result::Result<Option<i64>, RowError> {
            Ok(match given {
                None => None,
                Some(Some(n)) => Some(i64::try_from(n).unwrap_or(i64::MAX)),
                Some(None) => {
                    let at = take()?;
                    is_null |= !row.has(at);
                    Some(row.int(at))
                }
            })
        };
        let width = starred(element.width)?;
        let precision = starred(element.precision)?.and_then(|n| usize::try_from(n).ok());
        element.left |= width.is_some_and(|width| width < 0);
        let width = width.map_or(0, |width| usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX));
        let at = take()?;
        if is_null || !row.has(at) && !matches!(element.conversion, 't' | 'T') {
            return Ok(None);
        }
        write(row, at, &element, width, precision, out)?;
    }
    if next < row.count() {
        return Err("FORMAT has more values than its format names".into());
    }
    Ok(Some(()))
}

/// The most decimal digits.
const MAX_PRECISION: usize = 1_000;

fn write(
    row: &Row,
    at: usize,
    element: &Element,
    width: usize,
    precision: Option<usize>,
    out: &mut Out,
) -> std::result::Result<(), RowError> {
    // Padding goes around the text of this element only.
    out.room(width)?;
    if precision.is_some_and(|precision| precision > MAX_PRECISION) && element.conversion != 's' {
        return Err(format!("a precision of FORMAT is at most {MAX_PRECISION}").into());
    }
    let mismatch = |wanted: &str| {
        RowError::from(format!("%{} of FORMAT takes {wanted}; use %t for any value", element.conversion))
    };
    match element.conversion {
        's' | 't' | 'T' | 'p' | 'P' => {
            let (text, kind) = (row.text(at + 1), row.text(at + 2));
            if element.conversion == 's' && kind != "quoted" {
                return Err(mismatch("a STRING"));
            }
            let start = out.len();
            match (element.conversion, row.has(at)) {
                (_, false) => out.text("NULL")?,
                ('p' | 'P', _) => {
                    let value = serde_json::from_str(text).map_err(|_| mismatch("JSON"))?;
                    out.json(&value, element.conversion == 'P')?;
                }
                ('T', _) => match kind {
                    "quoted" => write!(out, "{text:?}")?,
                    "plain" if row.is_float(at) && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => {
                        write!(out, "{text}.0")?
                    }
                    "plain" if row.is_float(at) && !row.float(at).is_finite() => {
                        write!(out, "CAST(\"{}\" AS FLOAT64)", text.to_ascii_lowercase())?
                    }
                    "plain" => out.text(text)?,
                    "BYTES" => write!(out, "b\"{}\"", text.replace('"', "\\\""))?,
                    kind => write!(out, "{kind} \"{}\"", text.replace('"', "\\\""))?,
                },
                _ if row.is_float(at)
                    && element.conversion == 't'
                    && text.bytes().all(|b| b.is_ascii_digit() || b == b'-') =>
                {
                    write!(out, "{text}.0")?;
                }
                _ => match precision {
                    Some(precision) => {
                        out.text(text.get(..super::pieces::boundary(text, precision)).unwrap_or_default())?
                    }
                    None => out.text(text)?,
                },
            }
            let written =
                std::str::from_utf8(out.so_far().get(start..).unwrap_or_default()).unwrap_or_default().to_owned();
            if written.chars().count() < width {
                out.truncate(start);
                padded("", &written, element.left, false, width, out)?;
            }
            Ok(())
        }
        'd' | 'i' | 'u' | 'o' | 'x' | 'X' => {
            if row.is_float(at) || row.is_text(at) {
                return Err(mismatch("an INT64"));
            }
            let value = row.int(at);
            let size = value.unsigned_abs();
            let (prefix, digits) = match element.conversion {
                'o' => (if element.alternate { "0" } else { "" }, format!("{size:o}")),
                'x' => (if element.alternate { "0x" } else { "" }, format!("{size:x}")),
                'X' => (if element.alternate { "0X" } else { "" }, format!("{size:X}")),
                _ => ("", size.to_string()),
            };
            let digits = format!("{digits:0>width$}", width = precision.unwrap_or(0));
            let (size, mark) = match element.conversion {
                'x' | 'X' => (4, ':'),
                'o' => (4, ','),
                _ => (3, ','),
            };
            let digits = if element.grouped { grouped(&digits, size, mark) } else { digits };
            let prefix = format!("{}{prefix}", sign(element, value < 0));
            padded(&prefix, &digits, element.left, element.zero && precision.is_none(), width, out)
        }
        _ if matches!(row.text(at + 2), "NUMERIC" | "BIGNUMERIC") => {
            let text = row.text(at + 1);
            let size = Number::Decimal(text.strip_prefix('-').unwrap_or(text));
            size.write(element, sign(element, text.starts_with('-')), precision, width, out)
        }
        _ => {
            if row.is_text(at) {
                return Err(mismatch("a number"));
            }
            let value = if row.is_float(at) {
                row.float(at)
            } else {
                #[expect(clippy::cast_precision_loss, reason = "a float is asked for")]
                {
                    row.int(at) as f64
                }
            };
            let upper = element.conversion.is_ascii_uppercase();
            let sign = sign(element, value < 0.0);
            if !value.is_finite() {
                let word = if value.is_nan() { "nan" } else { "inf" };
                let word = if upper { word.to_uppercase() } else { word.to_owned() };
                return padded(sign, &word, element.left, false, width, out);
            }
            Number::Float(value.abs()).write(element, sign, precision, width, out)
        }
    }
}

/// The size of a number.
#[derive(Debug, Clone, Copy)]
enum Number<'t> {
    Float(f64),
    /// The text of a decimal.
    Decimal(&'t str),
}

impl Number<'_> {
    fn write(
        self,
        element: &Element,
        sign: &str,
        precision: Option<usize>,
        width: usize,
        out: &mut Out,
    ) -> std::result::Result<(), RowError> {
        let digits = match element.conversion.to_ascii_lowercase() {
            'f' => self.in_places(precision.unwrap_or(6)),
            'e' => self.in_exponent(precision.unwrap_or(6)),
            _ => self.shortest(precision.unwrap_or(6).max(1), element.alternate),
        };
        let digits = if element.alternate && !digits.contains('.') { with_point(&digits) } else { digits };
        let digits = if element.grouped { grouped(&digits, 3, ',') } else { digits };
        let digits = if element.conversion.is_ascii_uppercase() { digits.to_uppercase() } else { digits };
        padded(sign, &digits, element.left, element.zero, width, out)
    }

    fn in_places(self, places: usize) -> String {
        match self {
            Self::Float(value) => format!("{value:.places$}"),
            Self::Decimal(text) => decimal::in_places(text, places),
        }
    }

    /// C's exponent has two digits and a sign.
    fn in_exponent(self, places: usize) -> String {
        let value = match self {
            Self::Float(value) => value,
            Self::Decimal(text) => return decimal::in_exponent(text, places),
        };
        let text = format!("{value:.places$e}");
        let Some((mantissa, power)) = text.split_once('e') else { return text };
        let power: i32 = power.parse().unwrap_or_default();
        format!("{mantissa}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs())
    }

    /// `%g`: the shorter of `%e` and `%f`, without zeros at the end.
    fn shortest(self, precision: usize, zeros: bool) -> String {
        let text = self.in_exponent(precision - 1);
        let power: i32 = text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or_default();
        let cut = |text: &str| match text.contains('.') && !zeros {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        let limit = i32::try_from(precision).unwrap_or(i32::MAX);
        if power < -4 || power >= limit {
            return match text.split_once('e') {
                Some((mantissa, power)) => format!("{}e{power}", cut(mantissa)),
                None => text,
            };
        }
        let places = usize::try_from(limit - 1 - power).unwrap_or_default();
        cut(&self.in_places(places))
    }
}

/// The digits of a number that has no point, with one.
fn with_point(digits: &str) -> String {
    let (whole, power) = digits.split_at(digits.find('e').unwrap_or(digits.len()));
    format!("{whole}.{power}")
}

fn sign(element: &Element, negative: bool) -> &'static str {
    match (negative, element.plus, element.blank) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn padded(
    sign: &str,
    body: &str,
    left: bool,
    zero: bool,
    width: usize,
    out: &mut Out,
) -> std::result::Result<(), RowError> {
    let size = sign.chars().count() + body.chars().count();
    let missing = width.saturating_sub(size);
    out.room(missing)?;
    if !left && !zero {
        out.repeated(" ", missing)?;
    }
    out.text(sign)?;
    if !left && zero {
        out.repeated("0", missing)?;
    }
    out.text(body)?;
    if left {
        out.repeated(" ", missing)?;
    }
    Ok(())
}

/// The digits of a whole number in groups, with a mark between them.
fn grouped(digits: &str, size: usize, mark: char) -> String {
    let end = digits.find(['.', 'e']).unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(end);
    let mut out = String::with_capacity(digits.len() * 2);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % size == 0 {
            out.push(mark);
        }
        out.push(c);
    }
    out + rest
}
