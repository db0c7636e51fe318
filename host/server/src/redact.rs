//! Redaction: which personal data is masked in answers, and how.
//!
//! Masked are IP addresses, version 4 and 6, in every text of the result at any depth; each is
//! replaced by `REDACTED`, and what stands around it (a port, a prefix length, a path) stays. Keys,
//! numbers, booleans and times are left alone.
//!
//! An IPv4 address is four numbers up to 255 with word boundaries around. An IPv6 address is a
//! run of hexadecimal groups that reads as one, wherever it stands: in brackets, quotes, JSON or
//! before punctuation. Because C++ and Ruby write `a::b`, a run without any decimal digit counts
//! only if all eight groups are there. The scan is linear; most texts have neither three dots nor
//! two colons and are passed through as they are.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use serde_json::Value;

/// What stands in place of an address.
const MASK: &str = "REDACTED";
/// The longest text that an IPv6 address has, with an IPv4 tail.
const MAX_IPV6: usize = 45;

/// Masks the addresses in a text.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let count = |wanted: u8| bytes.iter().filter(|byte| **byte == wanted).count();
    if count(b'.') < 3 && count(b':') < 2 {
        return Cow::Borrowed(text);
    }
    let mut masked = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        // Only where a run of address characters begins can an address begin.
        if !is_address_byte(bytes.get(at)) {
            at += 1;
            continue;
        }
        let end = at + bytes.iter().skip(at).take_while(|byte| is_address_byte(Some(byte))).count();
        for (from, to) in addresses(bytes, at, end) {
            masked.push_str(text.get(copied..from).unwrap_or_default());
            masked.push_str(MASK);
            copied = to;
        }
        at = end.max(copied);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(masked)
}

/// Masks the addresses in every text of a value.
pub fn redact_json(value: &mut Value) {
    // A list of what is still to do instead of recursion: values may nest deeply.
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = redact_text(text) {
                    *text = masked;
                }
            }
            Value::Array(items) => pending.extend(items),
            Value::Object(fields) => pending.extend(fields.values_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn is_address_byte(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii())
}

fn before(bytes: &[u8], at: usize) -> Option<&u8> {
    at.checked_sub(1).and_then(|at| bytes.get(at))
}

/// The addresses in one run of address characters, in order.
fn addresses(bytes: &[u8], start: usize, end: usize) -> Vec<(usize, usize)> {
    if let Some(found) = ipv6(bytes, start, end) {
        return vec![found];
    }
    let mut found = Vec::new();
    let mut at = start;
    while at < end {
        match ipv4(bytes, at, end) {
            Some(to) => {
                found.push((at, to));
                at = to;
            }
            None => at += 1,
        }
    }
    found
}

/// The run as an IPv6 address, without the punctuation that may stick to it.
fn ipv6(bytes: &[u8], mut start: usize, mut end: usize) -> Option<(usize, usize)> {
    let run = bytes.get(start..end)?;
    if run.len() > MAX_IPV6 + 2 || run.iter().filter(|byte| **byte == b':').count() < 2 {
        return None;
    }
    // `addr:2001:db8::1`: the first colon separates.
    if run.starts_with(b":") && !run.starts_with(b"::") {
        start += 1;
    } else if is_word(before(bytes, start)) {
        return None;
    }
    let mut trimmed = bytes.get(start..end)?;
    while let Some(rest) = trimmed.strip_suffix(b".").or_else(|| {
        // `::1:` ends a sentence's clause; `2001:db8::` is an address.
        trimmed.strip_suffix(b":").filter(|rest| !rest.ends_with(b":"))
    }) {
        trimmed = rest;
        end -= 1;
    }
    if is_word(bytes.get(end)) {
        return None;
    }
    let text = std::str::from_utf8(trimmed).ok()?;
    text.parse::<Ipv6Addr>().ok()?;
    let telling = trimmed.iter().any(u8::is_ascii_digit) || trimmed.iter().filter(|byte| **byte == b':').count() == 7;
    if !telling {
        return None;
    }
    // A zone belongs to the address: it names an interface of the machine.
    if bytes.get(end) == Some(&b'%') {
        let zone = bytes.iter().skip(end + 1).take_while(|byte| byte.is_ascii_alphanumeric()).count();
        if zone > 0 {
            end += 1 + zone;
        }
    }
    Some((start, end))
}

/// Where an IPv4 address that begins at `at` ends.
fn ipv4(bytes: &[u8], at: usize, end: usize) -> Option<usize> {
    if is_word(before(bytes, at)) {
        return None;
    }
    let mut next = at;
    for group in 0..4 {
        if group > 0 {
            if bytes.get(next) != Some(&b'.') {
                return None;
            }
            next += 1;
        }
        let digits = bytes.iter().skip(next).take(4.min(end - next)).take_while(|byte| byte.is_ascii_digit()).count();
        let number: u32 = std::str::from_utf8(bytes.get(next..next + digits)?).ok()?.parse().ok()?;
        if digits > 3 || number > 255 {
            return None;
        }
        next += digits;
    }
    (!is_word(bytes.get(next))).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::net::Ipv4Addr;

    #[test]
    fn addresses_are_masked_and_their_surroundings_stay() {
        for (text, masked) in [
            ("from 198.51.100.7 to 203.0.113.9:443", "from REDACTED to REDACTED:443"),
            ("198.51.100.0/24", "REDACTED/24"),
            ("ip=2001:db8::7, next", "ip=REDACTED, next"),
            ("[2001:db8::7]:8080", "[REDACTED]:8080"),
            ("{\"ip\":\"2001:db8:0:0:1:0:0:1\"}", "{\"ip\":\"REDACTED\"}"),
            ("peer:2001:db8::7: closed", "peer:REDACTED: closed"),
            ("It was fe80::1%eth0.", "It was REDACTED."),
            ("2001:db8::/32", "REDACTED/32"),
            ("::ffff:192.0.2.1", "REDACTED"),
            ("1.2.3.4.5", "REDACTED.5"),
        ] {
            assert_eq!(redact_text(text), masked, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_an_address_stays() {
        for text in [
            "12:30:45.678",
            "2026-01-31T12:00:00Z",
            "std::fs::read",
            "a::b",
            "dead::beef",
            ":: x",
            "v1.2.3.4",
            "300.1.1.1",
            "12192.168.1.11",
            "1.2.3",
            "0:1:2",
            "größe.1.2.3.4x",
        ] {
            assert_eq!(redact_text(text), text);
        }
    }

    #[test]
    fn every_text_of_a_value_is_masked_and_nothing_else() {
        let mut value = json!([{"192.0.2.1": ["192.0.2.1", 5, null, {"x": "::1"}]}]);
        redact_json(&mut value);
        assert_eq!(value, json!([{"192.0.2.1": ["REDACTED", 5, null, {"x": "REDACTED"}]}]));
    }

    proptest! {
        #[test]
        fn no_ipv4_address_survives(address: Ipv4Addr, before in "[ =(\"/,]?", after in "[ :)\"/,]?") {
            let text = format!("x{before} {before}{address}{after} y");
            prop_assert!(!redact_text(&text).contains(&address.to_string()), "{text}");
        }

        #[test]
        fn no_ipv6_address_survives(address: Ipv6Addr, before in "[ =(\"\\[,]?", after in "[ .,:)\"\\]/]?") {
            let printed = address.to_string();
            prop_assume!(printed.bytes().any(|byte| byte.is_ascii_digit()));
            let text = format!("x {before}{address}{after} y");
            prop_assert!(!redact_text(&text).contains(&printed), "{text}");
        }

        #[test]
        fn masking_again_changes_nothing(text in "[0-9a-f:.% x]{0,60}") {
            let once = redact_text(&text).into_owned();
            prop_assert_eq!(redact_text(&once).into_owned(), once);
        }
    }
}
