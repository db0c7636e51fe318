//! FORMAT_TIMESTAMP and PARSE_TIMESTAMP: BigQuery's format elements on chrono's.

use std::sync::Arc;

use chrono::format::{Parsed, StrftimeItems, parse as parse_items};
use chrono::{DateTime, NaiveDate, NaiveTime};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::TimestampMicrosecondType;
use datafusion::error::Result;

use crate::fail::value_error;
use crate::functions::kernels::{arity, texts};

/// BigQuery's elements in chrono's words; the two differ in the fraction (`%E6S`) and the zone
/// (`%Ez`). `None` for an element that has no counterpart.
fn translated(format: &str, parsing: bool) -> Option<String> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match rest.next()? {
            'E' => match rest.next()? {
                '*' if rest.next()? == 'S' => out.push_str("%S%.f"),
                'z' => out.push_str(if parsing { "%#z" } else { "%:z" }),
                'Y' if parsing => out.push_str("%Y"),
                digit @ '0'..='9' => {
                    let unit = rest.next()?;
                    match (digit, unit) {
                        ('4', 'Y') => out.push_str("%Y"),
                        ('0', 'S') => out.push_str("%S"),
                        (_, 'S') if parsing => out.push_str("%S%.f"),
                        ('3' | '6' | '9', 'S') => out.push_str(&format!("%S%.{digit}f")),
                        _ => return None,
                    }
                }
                _ => return None,
            },
            'z' => out.push_str(if parsing { "%#z" } else { "%z" }),
            'Z' => out.push_str(if parsing { "%Z" } else { "UTC" }),
            'Q' => return None,
            'P' => out.push_str("%P"),
            plain @ ('A' | 'a' | 'B' | 'b' | 'C' | 'c' | 'D' | 'd' | 'e' | 'F' | 'G' | 'g' | 'H' | 'h' | 'I' | 'j'
            | 'k' | 'l' | 'M' | 'm' | 'n' | 'p' | 'R' | 'r' | 'S' | 's' | 'T' | 't' | 'U' | 'u' | 'V'
            | 'W' | 'w' | 'X' | 'x' | 'Y' | 'y' | '%') => {
                out.push('%');
                out.push(plain);
            }
            _ => return None,
        }
    }
    Some(out)
}

fn unknown_element(format: &str) -> datafusion::error::DataFusionError {
    value_error(format!("the format '{format}' has an element that is not known, or ends in the middle of one"))
}

/// `format_time(format, timestamp)`.
pub(crate) fn format(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [formats, times] = arguments else { return Err(arity()) };
    let formats = texts(formats)?;
    let mut builder = StringViewBuilder::new();
    for (format, micros) in formats.iter().zip(times.as_primitive::<TimestampMicrosecondType>()) {
        let (Some(format), Some(instant)) = (format, micros.and_then(DateTime::from_timestamp_micros)) else {
            builder.append_null();
            continue;
        };
        match translated(format, false) {
            Some(items) => builder.append_value(instant.format(&items).to_string()),
            None if safe => builder.append_null(),
            None => return Err(unknown_element(format)),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// `parse_time_as(format, text)`.
pub(crate) fn parse(arguments: &[ArrayRef], safe: bool) -> Result<ArrayRef> {
    let [formats, values] = arguments else { return Err(arity()) };
    let (formats, values) = (texts(formats)?, texts(values)?);
    let mut micros = Vec::with_capacity(values.len());
    for (format, text) in formats.iter().zip(values.iter()) {
        let (Some(format), Some(text)) = (format, text) else {
            micros.push(None);
            continue;
        };
        let items = match translated(format, true) {
            Some(items) => items,
            None if safe => {
                micros.push(None);
                continue;
            }
            None => return Err(unknown_element(format)),
        };
        match read(&items, text) {
            Some(value) => micros.push(Some(value)),
            None if safe => micros.push(None),
            None => {
                let short: String = text.chars().take(60).collect();
                return Err(value_error(format!("the text '{short}' does not match the format '{format}'")));
            }
        }
    }
    Ok(Arc::new(TimestampMicrosecondArray::from(micros)))
}

/// Missing parts are those of 1970-01-01 00:00:00 UTC.
fn read(items: &str, text: &str) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse_items(&mut parsed, text.trim(), StrftimeItems::new(items)).ok()?;
    let offset = parsed.offset().unwrap_or(0);
    if let Some(seconds) = parsed.timestamp() {
        return seconds.checked_mul(1_000_000);
    }
    let date = parsed.to_naive_date().ok().or_else(|| {
        NaiveDate::from_ymd_opt(parsed.year().unwrap_or(1970), parsed.month().unwrap_or(1), parsed.day().unwrap_or(1))
    })?;
    let time = parsed.to_naive_time().ok().or_else(|| {
        let hour = parsed.hour_div_12().unwrap_or(0) * 12 + parsed.hour_mod_12().unwrap_or(0);
        NaiveTime::from_hms_opt(hour, parsed.minute().unwrap_or(0), 0)
    })?;
    date.and_time(time).and_utc().timestamp_micros().checked_sub(i64::from(offset) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_translated_or_refused() {
        assert_eq!(translated("%Y-%m-%dT%H:%M:%E*S%Ez", true).as_deref(), Some("%Y-%m-%dT%H:%M:%S%.f%#z"));
        assert_eq!(translated("%F %E3S", false).as_deref(), Some("%F %S%.3f"));
        assert_eq!(translated("%J", false), None);
        assert_eq!(translated("100%", false), None);
    }

    #[test]
    fn texts_are_read_with_what_they_have() {
        let micros = read("%Y-%m-%dT%H:%M:%S%.f%#z", "2025-11-20T12:15:02.5+02:00");
        assert_eq!(micros, Some(1_763_633_702_500_000));
        assert_eq!(read("%Y-%m-%d", "1970-01-02"), Some(86_400_000_000));
        assert_eq!(read("%Y-%m-%d", "soon"), None);
    }
}
