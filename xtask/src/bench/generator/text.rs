//! How records become bytes: JSON lines for the ingest door, CSV rows for the peers. Written straight into a buffer,
//! because a tree of JSON values for each record would take most of the time of a load.

use std::fmt::Arguments;
use std::io::Write;

use chrono::DateTime;

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
    put(out, format_args!("{value}"));
}

/// The lowest `count` hexadecimal digits, from 1 to 16.
pub(crate) fn hex(out: &mut Vec<u8>, value: u64, count: u32) {
    let digits = value & u64::MAX >> (64 - 4 * count);
    put(out, format_args!("{digits:0width$x}", width = count as usize));
}

/// 128 bits as a UUID of version 4.
pub(crate) fn uuid(out: &mut Vec<u8>, (high, low): (u64, u64)) {
    let (first, second, third) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    let (fourth, fifth) = (0x8000 | (low >> 48 & 0x3fff), low & 0xffff_ffff_ffff);
    put(out, format_args!("{first:08x}-{second:04x}-4{third:03x}-{fourth:04x}-{fifth:012x}"));
}

/// An IPv4 address of the ranges for documentation and private use.
pub(crate) fn address(out: &mut Vec<u8>, bits: u64) {
    put(out, format_args!("10.{}.{}.{}", bits >> 16 & 255, bits >> 8 & 255, bits & 255));
}

/// Microseconds since 1970 as `2026-01-31T12:00:00.000000`, with `separator` in the place of the T.
pub(crate) fn moment(out: &mut Vec<u8>, microseconds: i64, separator: u8) {
    let moment = DateTime::from_timestamp_micros(microseconds).unwrap_or_default().naive_utc();
    put(out, format_args!("{}{}{}", moment.date(), char::from(separator), moment.format("%H:%M:%S%.6f")));
}

fn put(out: &mut Vec<u8>, text: Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}
