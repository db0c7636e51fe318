//! MessagePack as JSON text: each value of a body by itself, so that what reads events as JSON reads these, too.
//!
//! A body says lengths and depths that it need not have. Nothing is allocated by a length that is said, texts are written up to a
//! bound, and what is too deep is skipped without recursion, so that its event is refused alone.

use std::fmt::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, SecondsFormat};

/// The deepest value that is written: JSON is read about so deep.
const DEEPEST: usize = 100;
/// The extension that is a moment.
const TIMESTAMP: i8 = -1;

/// A body that ends before its values do, or has a byte that begins none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken;

/// What a value begins with: what it is, and how much belongs to it.
enum Head<'b> {
    Plain(Plain),
    Text(&'b [u8]),
    Bytes(&'b [u8]),
    Extension(i8, &'b [u8]),
    Array(u64),
    Map(u64),
}

enum Plain {
    Null,
    Boolean(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// Written as short as it was.
    Single(f32),
}

/// The values of a body, one after the other.
#[derive(Debug)]
pub(super) struct Values<'b> {
    rest: &'b [u8],
}

/// The text of a value, up to a bound.
#[derive(Debug)]
pub(super) struct Json {
    text: String,
    most: usize,
    /// How long it would be.
    pub(super) length: usize,
    pub(super) refused: Option<&'static str>,
}

impl Json {
    fn push(&mut self, text: &str) {
        self.length = self.length.saturating_add(text.len());
        if self.length <= self.most {
            self.text.push_str(text);
        }
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.refused = Some("the event has a text that is not valid UTF-8; send such bytes as binary");
            return self.push("\"\"");
        };
        // What is too long is not even copied.
        if text.len() > self.most {
            self.length = self.length.saturating_add(text.len());
            return;
        }
        match serde_json::to_string(text) {
            Ok(quoted) => self.push(&quoted),
            Err(_) => self.push("\"\""),
        }
    }

    /// The text, if it is whole.
    pub(super) fn text(&self) -> Option<&str> {
        (self.length <= self.most).then_some(&self.text)
    }
}

impl<'b> Values<'b> {
    pub(super) fn of(body: &'b [u8]) -> Self {
        Self { rest: body }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many elements the list has that comes next, which is entered; `None` if no list comes.
    ///
    /// # Errors
    /// [`Broken`].
    pub(super) fn list(&mut self) -> Result<Option<u64>, Broken> {
        let mut ahead = Self { rest: self.rest };
        let Head::Array(count) = ahead.head()? else { return Ok(None) };
        self.rest = ahead.rest;
        Ok(Some(count))
    }

    /// The next value as JSON, of which at most so many bytes are written.
    ///
    /// # Errors
    /// [`Broken`].
    pub(super) fn next_json(&mut self, most: usize) -> Result<Json, Broken> {
        let mut json = Json { text: String::new(), most, length: 0, refused: None };
        self.value(&mut json, 0)?;
        Ok(json)
    }

    fn value(&mut self, json: &mut Json, depth: usize) -> Result<(), Broken> {
        if depth > DEEPEST {
            json.refused = Some("the event is nested too deeply");
            json.push("null");
            return self.skip();
        }
        match self.head()? {
            Head::Plain(plain) => json.push(&plain.text()),
            Head::Text(text) => json.quoted(text),
            Head::Bytes(bytes) => quote_bytes(json, bytes),
            Head::Extension(TIMESTAMP, bytes) => match moment(bytes) {
                Some(moment) => json.quoted(moment.as_bytes()),
                None => json.push("null"),
            },
            Head::Extension(_, bytes) => quote_bytes(json, bytes),
            Head::Array(count) => {
                self.elements(json, ["[", "]"], count, |values, json| values.value(json, depth + 1))?
            }
            Head::Map(count) => self.elements(json, ["{", "}"], count, |values, json| {
                values.name(json, depth + 1)?;
                json.push(":");
                values.value(json, depth + 1)
            })?,
        }
        Ok(())
    }

    /// So many elements between brackets, with commas between.
    fn elements(
        &mut self,
        json: &mut Json,
        [open, close]: [&str; 2],
        count: u64,
        mut element: impl FnMut(&mut Self, &mut Json) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        json.push(open);
        for place in 0..count {
            if place > 0 {
                json.push(",");
            }
            element(self, json)?;
        }
        json.push(close);
        Ok(())
    }

    /// The name of a field: a text, or another value as text.
    fn name(&mut self, json: &mut Json, depth: usize) -> Result<(), Broken> {
        let mut ahead = Self { rest: self.rest };
        match ahead.head()? {
            Head::Text(text) => json.quoted(text),
            Head::Plain(plain) => json.quoted(plain.text().as_bytes()),
            _ => {
                let mut name = Json { text: String::new(), most: json.most, length: 0, refused: None };
                self.value(&mut name, depth)?;
                json.refused = json.refused.or(name.refused);
                json.quoted(name.text.as_bytes());
                return Ok(());
            }
        }
        self.rest = ahead.rest;
        Ok(())
    }

    /// Leaves out the next value, however deep it is.
    fn skip(&mut self) -> Result<(), Broken> {
        let mut left = 1_u64;
        while left > 0 {
            left -= 1;
            let more = match self.head()? {
                Head::Array(count) => count,
                Head::Map(count) => count.saturating_mul(2),
                _ => 0,
            };
            left = left.saturating_add(more);
        }
        Ok(())
    }

    fn take(&mut self, count: u64) -> Result<&'b [u8], Broken> {
        let count = usize::try_from(count).map_err(|_| Broken)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Broken)?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned number of so many bytes.
    fn number(&mut self, bytes: u64) -> Result<u64, Broken> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, bytes: u64) -> Result<Head<'b>, Broken> {
        let unused = 64 - 8 * bytes;
        Ok(Head::Plain(Plain::Signed((self.number(bytes)? << unused).cast_signed() >> unused)))
    }

    fn extension(&mut self, length: u64) -> Result<Head<'b>, Broken> {
        let kind = self.number(1)?;
        #[expect(clippy::cast_possible_truncation, reason = "one byte")]
        let kind = (kind as u8).cast_signed();
        Ok(Head::Extension(kind, self.take(length)?))
    }

    fn head(&mut self) -> Result<Head<'b>, Broken> {
        let first = self.number(1)?;
        let plain = |plain| Ok(Head::Plain(plain));
        match first {
            0x00..=0x7f => plain(Plain::Unsigned(first)),
            0x80..=0x8f => Ok(Head::Map(first & 0xf)),
            0x90..=0x9f => Ok(Head::Array(first & 0xf)),
            0xa0..=0xbf => Ok(Head::Text(self.take(first & 0x1f)?)),
            0xc0 => plain(Plain::Null),
            0xc2 | 0xc3 => plain(Plain::Boolean(first == 0xc3)),
            0xc4..=0xc6 => {
                let length = self.number(1 << (first - 0xc4))?;
                Ok(Head::Bytes(self.take(length)?))
            }
            0xc7..=0xc9 => {
                let length = self.number(1 << (first - 0xc7))?;
                self.extension(length)
            }
            0xca => {
                let bits = u32::try_from(self.number(4)?).map_err(|_| Broken)?;
                plain(Plain::Single(f32::from_bits(bits)))
            }
            0xcb => plain(Plain::Float(f64::from_bits(self.number(8)?))),
            0xcc..=0xcf => plain(Plain::Unsigned(self.number(1 << (first - 0xcc))?)),
            0xd0..=0xd3 => self.signed(1 << (first - 0xd0)),
            0xd4..=0xd8 => self.extension(1 << (first - 0xd4)),
            0xd9..=0xdb => {
                let length = self.number(1 << (first - 0xd9))?;
                Ok(Head::Text(self.take(length)?))
            }
            0xdc | 0xdd => Ok(Head::Array(self.number(2 << (first - 0xdc))?)),
            0xde | 0xdf => Ok(Head::Map(self.number(2 << (first - 0xde))?)),
            0xe0..=0xff => plain(Plain::Signed(first.cast_signed() - 0x100)),
            _ => Err(Broken),
        }
    }
}

impl Plain {
    fn text(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Boolean(value) => value.to_string(),
            Self::Unsigned(number) => number.to_string(),
            Self::Signed(number) => number.to_string(),
            // JSON has no words for what is no number.
            Self::Float(number) => serde_json::to_string(number).unwrap_or_else(|_| "null".to_owned()),
            Self::Single(number) => serde_json::to_string(number).unwrap_or_else(|_| "null".to_owned()),
        }
    }
}

/// Bytes as text, if they are one, else as Base64.
fn quote_bytes(json: &mut Json, bytes: &[u8]) {
    if std::str::from_utf8(bytes).is_ok() || bytes.len() > json.most {
        return json.quoted(bytes);
    }
    let mut text = String::from("\"");
    BASE64_STANDARD.encode_string(bytes, &mut text);
    let _ = text.write_char('"');
    json.push(&text);
}

/// A moment as text, in its forms of 4, 8 and 12 bytes.
fn moment(bytes: &[u8]) -> Option<String> {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let (seconds, nanos) = match bytes.len() {
        4 => (number(bytes).cast_signed(), 0),
        8 => ((number(bytes) & 0x3_ffff_ffff).cast_signed(), number(bytes) >> 34),
        12 => {
            let (nanos, seconds) = bytes.split_at_checked(4)?;
            (number(seconds).cast_signed(), number(nanos))
        }
        _ => return None,
    };
    let moment = DateTime::from_timestamp(seconds, u32::try_from(nanos).ok()?)?;
    Some(moment.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> Result<String, Broken> {
        let mut values = Values::of(bytes);
        let json = values.next_json(1000)?;
        assert!(values.is_empty() && json.refused.is_none(), "{json:?}");
        Ok(json.text().unwrap().to_owned())
    }

    #[test]
    fn every_kind_of_value_is_written() {
        for (bytes, expected) in [
            (&b"\x82\xa1a\x01\xa1b\x92\xc0\xc3"[..], r#"{"a":1,"b":[null,true]}"#),
            (b"\xcc\xff", "255"),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
            (b"\xff", "-1"),
            (b"\xe0", "-32"),
            (b"\xd0\x80", "-128"),
            (b"\xd1\xff\x00", "-256"),
            (b"\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808"),
            (b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
            (b"\xca\x3d\xcc\xcc\xcd", "0.1"),
            (b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "null"),
            (b"\xd9\x02\"\n", r#""\"\n""#),
            (b"\xda\x00\x01x", "\"x\""),
            (b"\xdb\x00\x00\x00\x01x", "\"x\""),
            (b"\xc4\x02ab", "\"ab\""),
            (b"\xc4\x02\xff\xfe", "\"//4=\""),
            (b"\xdc\x00\x01\x07", "[7]"),
            (b"\xde\x00\x01\x07\x08", r#"{"7":8}"#),
            (b"\x81\x91\x01\x08", r#"{"[1]":8}"#),
            // 2025-11-20T10:15:02, in all lengths.
            (b"\xd6\xff\x69\x1e\xea\x26", "\"2025-11-20T10:15:02Z\""),
            (b"\xd7\xff\x00\x00\x00\x00\x69\x1e\xea\x26", "\"2025-11-20T10:15:02Z\""),
            (b"\xc7\x0c\xff\x00\x00\x00\x00\x00\x00\x00\x00\x69\x1e\xea\x26", "\"2025-11-20T10:15:02Z\""),
            (b"\xd4\x05\xff", "\"/w==\""),
        ] {
            assert_eq!(json(bytes).as_deref(), Ok(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn what_ends_early_is_broken_and_allocates_nothing() {
        for bytes in [
            &b""[..],
            b"\x81",
            b"\x81\xa1a",
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff\x01",
            b"\xdb\xff\xff\xff\xffx",
            b"\xc6\xff\xff\xff\xffx",
            b"\xc9\xff\xff\xff\xff\x01",
            b"\xc1",
            b"\xcb\x00",
        ] {
            assert_eq!(Values::of(bytes).next_json(1000).unwrap_err(), Broken, "{bytes:x?}");
        }
        for length in 0..64 {
            let deep = vec![0x91; 100_000 + length];
            assert_eq!(Values::of(&deep).next_json(1000).unwrap_err(), Broken);
        }
    }

    #[test]
    fn what_cannot_be_an_event_is_read_to_its_end() {
        let mut deep = vec![0x91; 100_000];
        deep.extend([0xc0, 0x07]);
        let mut values = Values::of(&deep);
        assert!(values.next_json(1000).unwrap().refused.unwrap().contains("deep"));
        assert_eq!(values.next_json(1000).unwrap().text(), Some("7"));
        let long = [b"\x81\xa1a\xda\x10\x00".as_slice(), &[b'x'; 4096], b"\x07"].concat();
        let mut values = Values::of(&long);
        let json = values.next_json(1000).unwrap();
        assert!(json.text().is_none() && json.length > 4096 && json.text.len() <= 1000);
        assert_eq!(values.next_json(1000).unwrap().text(), Some("7"));
        let mut values = Values::of(b"\x81\xa1a\xa1\xff\x07");
        assert!(values.next_json(1000).unwrap().refused.unwrap().contains("UTF-8"));
        assert_eq!(values.next_json(1000).unwrap().text(), Some("7"));
    }
}
