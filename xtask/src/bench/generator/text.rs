//! How records become bytes: JSON lines for the ingest door, CSV rows for the peers. Written straight into a buffer,
//! because a tree of JSON values for each record would take most of the time of a load.

/// Writes one JSON object after the other into a buffer.
#[derive(Debug)]
pub(crate) struct Json<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// Whether each record stands in an array of its own, as senders of the hosted kind write it.
    pub(crate) wrapped: bool,
}

impl Json<'_> {
    /// Begins an object without a key.
    pub(crate) fn begin(&mut self) {
        self.out.push(b'{');
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.out.push(b'}');
    }

    fn key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    /// Begins a record.
    pub(crate) fn open(&mut self, key: &str) {
        self.key(key);
        self.out.extend_from_slice(if self.wrapped { b"[{" } else { b"{" });
    }

    /// Ends it.
    pub(crate) fn close(&mut self) {
        self.out.extend_from_slice(if self.wrapped { b"}]" } else { b"}" });
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        self.out.push(b'"');
        escape(self.out, value);
        self.out.push(b'"');
    }

    pub(crate) fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        number(self.out, value);
    }

    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        self.key(key);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// A value that `write` makes: JSON as it is.
    pub(crate) fn raw(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        write(self.out);
    }

    /// A text that `write` makes of characters that need no escape.
    pub(crate) fn plain(&mut self, key: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.key(key);
        self.out.push(b'"');
        write(self.out);
        self.out.push(b'"');
    }
}

/// The text inside the quotes of JSON.
fn escape(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            0..b' ' => {
                out.extend_from_slice(b"\\u00");
                hex(out, u64::from(byte), 2);
            }
            _ => out.push(byte),
        }
    }
}

/// A CSV field in quotes, and the comma after it.
pub(crate) fn field(out: &mut Vec<u8>, text: &str) {
    quoted(out, text.as_bytes());
}

/// The same of bytes that are UTF-8.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if text.contains(&b'"') {
        for byte in text {
            if *byte == b'"' {
                out.push(b'"');
            }
            out.push(*byte);
        }
    } else {
        out.extend_from_slice(text);
    }
    out.extend_from_slice(b"\",");
}

/// A CSV field or NULL, which is `\N` without quotes for all peers.
pub(crate) fn optional(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => field(out, text),
        None => out.extend_from_slice(b"\\N,"),
    }
}

/// A number as a CSV field.
pub(crate) fn count(out: &mut Vec<u8>, value: u64) {
    number(out, value);
    out.push(b',');
}

/// Ends a CSV row: the last comma is too much.
pub(crate) fn end_row(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b'\n');
}

pub(crate) fn number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0_u8; 20];
    let mut rest = value;
    let mut length = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        length += 1;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(digits.len() - length..).unwrap_or_default());
}

/// The lowest `count` hexadecimal digits, at most 16.
pub(crate) fn hex(out: &mut Vec<u8>, value: u64, count: u32) {
    for place in (0..count).rev() {
        let digit = (value >> (4 * place) & 15) as u8;
        out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

/// 128 bits as a UUID of version 4.
pub(crate) fn uuid(out: &mut Vec<u8>, (high, low): (u64, u64)) {
    hex(out, high >> 32, 8);
    out.push(b'-');
    hex(out, high >> 16, 4);
    out.extend_from_slice(b"-4");
    hex(out, high, 3);
    out.push(b'-');
    hex(out, 0x8000 | (low >> 48 & 0x3fff), 4);
    out.push(b'-');
    hex(out, low, 12);
}

/// An IPv4 address of the ranges for documentation and private use.
pub(crate) fn address(out: &mut Vec<u8>, bits: u64) {
    out.extend_from_slice(b"10.");
    number(out, bits >> 16 & 255);
    out.push(b'.');
    number(out, bits >> 8 & 255);
    out.push(b'.');
    number(out, bits & 255);
}

/// Microseconds since 1970 as `2026-01-31T12:00:00.000000`, with `separator` in the place of the T.
pub(crate) fn moment(out: &mut Vec<u8>, microseconds: i64, separator: u8) {
    let (days, rest) = (microseconds.div_euclid(86_400_000_000), microseconds.rem_euclid(86_400_000_000));
    let (year, month, day) = date(days);
    let second = rest / 1_000_000;
    padded(out, year, 4);
    for (mark, value, width) in [
        (b'-', month, 2),
        (b'-', day, 2),
        (separator, second / 3600, 2),
        (b':', second / 60 % 60, 2),
        (b':', second % 60, 2),
        (b'.', rest % 1_000_000, 6),
    ] {
        out.push(mark);
        padded(out, value, width);
    }
}

fn padded(out: &mut Vec<u8>, value: i64, width: u32) {
    for place in (0..width).rev() {
        out.push(b'0' + (value / 10_i64.pow(place) % 10) as u8);
    }
}

/// Year, month and day of a number of days since 1970, in the Gregorian calendar: years begin in March here, so that
/// the day that leap years have more is the last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}
