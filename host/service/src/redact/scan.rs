//! Finds IP addresses in a text.
//!
//! One pass over the text tries each position where an address may begin. It takes the first address, and the longest
//! one that begins at that position. The rules are:
//!
//! - **IPv4** is four groups of one to three digits, each at most 255. More groups may follow: of `1.2.3.4.5` the first
//!   four are masked. Ports and prefix lengths stay.
//! - **IPv6** is whatever the standard library parses as an IPv6 address: full, compressed, or with an IPv4 tail. A
//!   link-local or multicast address is masked together with its `%zone`. A colon may also be written `%3A`, as in
//!   query strings. The candidates are the texts of up to 45 bytes from a start to the end of each group.
//! - **Edges**: if there is a letter or digit on either side, the candidate is part of a word (`v1.2.3.4`, `x::1`) and
//!   not an address. Every other character is an edge, so that addresses are found in brackets, quotes, `key=value`,
//!   JSON within text and sentences. The letters of an escape (`%2F`, `\n`, `\u003c`) are not part of a word.
//! - **Too many groups** are not an address, so fingerprints are not masked. A ninth group counts as a port if it looks
//!   like one. A label in front (`client:2001:db8::1`) is recognized because it is not a group.
//! - **Names**: `::` alone, `dead::beef` and `abc::` stay. Addresses in use contain a digit, because all global ones
//!   begin with 2 or 3. Only private ones (`fc00::/7`) may have no digit.
//!
//! At each position a bounded number of bytes is examined, so the time is linear in the length of the text.

use std::net::Ipv6Addr;
use std::ops::Range;

use memchr::memchr3_iter;

/// The length of the longest IPv6 address as text: eight groups, the last two written as IPv4.
const LONGEST: usize = 45;

/// A text that is being searched. The bytes before `done` are masked or searched already.
pub(super) struct Scan<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) done: usize,
}

impl Scan<'_> {
    /// The first address at or after `done`.
    ///
    /// The first separator of an address is within four bytes of its beginning. So this searches for separators, with a
    /// fast byte search. Most separators are quickly seen not to belong to an address. Only in front of the others are
    /// start positions tried.
    pub(super) fn find(&self) -> Option<Range<usize>> {
        let mut tried = self.done;
        for offset in memchr3_iter(b'.', b':', b'%', self.bytes.get(self.done..)?) {
            let separator = self.done + offset;
            let address = match self.at(separator) {
                b'.' => self.before_dot(separator),
                _ => self.before_colon(separator),
            };
            let Some(earliest) = address else { continue };
            for start in earliest.max(tried)..=separator {
                if let Some(found) = self.try_at(start) {
                    return Some(found);
                }
            }
            tried = separator + 1;
        }
        None
    }

    /// The earliest start of an address whose first separator is this dot.
    fn before_dot(&self, dot: usize) -> Option<usize> {
        let between_digits = self.before(dot, 1).is_ascii_digit() && self.at(dot + 1).is_ascii_digit();
        between_digits.then(|| dot.saturating_sub(3))
    }

    /// The earliest start of an address whose first separator is this colon, plain or escaped.
    fn before_colon(&self, colon: usize) -> Option<usize> {
        let width = self.colon(colon);
        let next = self.at(colon + width);
        let pair = self.colon(colon + width) > 0;
        let group = self.before(colon, 1).is_ascii_hexdigit() && next.is_ascii_hexdigit();
        (width > 0 && (pair || group)).then(|| colon.saturating_sub(4))
    }

    fn try_at(&self, at: usize) -> Option<Range<usize>> {
        let byte = self.at(at);
        if !(byte.is_ascii_hexdigit() || byte == b':' || byte == b'%') {
            return None;
        }
        // The text `%201.2.3.4` is read as an escaped space (`%20`) before `1.2.3.4`, before it is read as `201.2.3.4`.
        let escaped = self.before(at, 1) == b'%' && self.hex(at) && self.hex(at + 1);
        if let Some(end) = escaped.then(|| self.address(at + 2)).flatten() {
            return Some(at + 2..end);
        }
        let of_colon = self.before(at, 1) == b'%' && self.colon(at - 1) > 0;
        (!of_colon).then(|| self.address(at)).flatten().map(|end| at..end)
    }

    /// The end of the address that begins at `start`.
    fn address(&self, start: usize) -> Option<usize> {
        if !self.edge_before(start) {
            return None;
        }
        self.v6(start).or_else(|| self.v4(start))
    }

    fn v4(&self, start: usize) -> Option<usize> {
        let mut at = start;
        for group in 0..4 {
            if group > 0 {
                if self.at(at) != b'.' {
                    return None;
                }
                at += 1;
            }
            let digits = self.run(at, 4, u8::is_ascii_digit);
            if !(1..=3).contains(&digits) || self.decimal(at, digits) > 255 {
                return None;
            }
            at += digits;
        }
        (!self.at(at).is_ascii_alphanumeric()).then_some(at)
    }

    fn v6(&self, start: usize) -> Option<usize> {
        let group = self.run(start, 5, u8::is_ascii_hexdigit);
        let colon = self.colon(start + group);
        let begins = colon > 0 && (1..=4).contains(&group) || self.colon(start + colon) > 0;
        if !begins || colon == 0 || self.inside_groups(start) {
            return None;
        }
        if !self.has_v6_colons(start) {
            return None;
        }
        // The candidate with plain colons, and for each of its characters the end offset in the original text.
        let (mut letters, mut ends) = ([0; LONGEST], [0; LONGEST]);
        let (mut length, mut at) = (0, start);
        for (letter, end) in letters.iter_mut().zip(&mut ends) {
            let byte = self.at(at);
            if byte.is_ascii_hexdigit() || byte == b'.' {
                *letter = byte;
                at += 1;
            } else {
                let width = self.colon(at);
                if width == 0 {
                    break;
                }
                *letter = b':';
                at += width;
            }
            *end = at;
            length += 1;
        }
        let letters = letters.get(..length)?;
        (2..=length).rev().zip(ends.iter().take(length).rev()).find_map(|(length, &end)| {
            if !self.edge_after(end) {
                return None;
            }
            let text = std::str::from_utf8(letters.get(..length)?).ok()?;
            let address: Ipv6Addr = text.parse().ok()?;
            is_meant(text, address).then(|| end + self.zone(end, address))
        })
    }

    /// Whether there are enough colons for an address: seven, six before an IPv4 tail, or a double colon. This excludes
    /// times of day and labels.
    fn has_v6_colons(&self, start: usize) -> bool {
        let (mut colons, mut last, mut at) = (0, false, start);
        for _ in 0..LONGEST {
            let byte = self.at(at);
            let width = if byte.is_ascii_hexdigit() || byte == b'.' { 0 } else { self.colon(at) };
            if width > 0 {
                if last {
                    return true;
                }
                colons += 1;
            } else if !byte.is_ascii_hexdigit() && byte != b'.' {
                break;
            }
            last = width > 0;
            at += width.max(1);
        }
        colons >= 6
    }

    /// The length of `%zone` after an address that may have a zone.
    fn zone(&self, end: usize, address: Ipv6Addr) -> usize {
        if self.at(end) != b'%' || !(address.is_unicast_link_local() || address.is_multicast()) {
            return 0;
        }
        let mut at = end + 1;
        while match self.at(at) {
            b'.' | b'-' => self.at(at + 1).is_ascii_alphanumeric(),
            byte => byte.is_ascii_alphanumeric() || byte == b'_',
        } {
            at += 1;
        }
        if at == end + 1 { 0 } else { at - end }
    }

    /// Whether an address may begin at `start`: it does not continue a word, or the mask of the previous address.
    fn edge_before(&self, start: usize) -> bool {
        let back = |distance| self.before(start, distance);
        let hex = |distances: Range<usize>| distances.into_iter().all(|distance| back(distance).is_ascii_hexdigit());
        let last = back(1);
        !last.is_ascii_alphanumeric()
            || matches!(last, b'n' | b'r' | b't') && back(2) == b'\\'
            || hex(1..3) && back(3) == b'%'
            || hex(1..5) && back(5) == b'u' && back(6) == b'\\'
    }

    /// Whether an IPv6 address may end here: not within a word, a dotted number, or further groups.
    fn edge_after(&self, end: usize) -> bool {
        let colon = self.colon(end);
        if colon > 0 {
            let next = end + colon;
            let second = self.colon(next);
            return !self.is_group(next + second) || second == 0 && self.is_port(next);
        }
        match self.at(end) {
            // `2001:db8::1.443`: some tools separate the port with a dot. More dots mean an invalid IPv4 tail.
            b'.' => {
                let digits = self.run(end + 1, 6, u8::is_ascii_digit);
                let more = self.at(end + 1 + digits) == b'.' && self.at(end + 2 + digits).is_ascii_alphanumeric();
                digits == 0 || !more || self.v4(end + 1).is_some()
            }
            next => !next.is_ascii_alphanumeric(),
        }
    }

    /// Whether the bytes before `start` are groups of an address that could not be parsed.
    fn inside_groups(&self, start: usize) -> bool {
        let mut at = start;
        for _ in 0..4 {
            match self.colon_before(at) {
                0 => break,
                width => at -= width,
            }
        }
        let hex = |distance| self.before(at, distance).is_ascii_hexdigit();
        at < start && (1..=4).take_while(|&distance| hex(distance)).any(|length| self.edge_before(at - length))
    }

    /// Whether there is a complete group of an IPv6 address at `at`.
    fn is_group(&self, at: usize) -> bool {
        let length = self.run(at, 5, u8::is_ascii_hexdigit);
        let next = at + length;
        let of_v4 = self.at(next) == b'.' && self.at(next + 1).is_ascii_digit();
        (1..=4).contains(&length) && !self.at(next).is_ascii_alphanumeric() && !of_v4
    }

    /// Whether there is a port at `at`. One digit is not enough to tell a port from a group.
    fn is_port(&self, at: usize) -> bool {
        let digits = self.run(at, 6, u8::is_ascii_digit);
        let next = at + digits;
        let colon = self.colon(next);
        (2..=5).contains(&digits)
            && self.at(at) != b'0'
            && self.decimal(at, digits) <= 65_535
            && !self.at(next).is_ascii_alphanumeric()
            && !(colon > 0 && self.at(next + colon).is_ascii_alphanumeric())
    }

    /// The length of the colon at `at`, plain or escaped; 0 if there is none.
    fn colon(&self, at: usize) -> usize {
        match self.at(at) {
            b':' => 1,
            b'%' if self.at(at + 1) == b'3' && matches!(self.at(at + 2), b'A' | b'a') => 3,
            _ => 0,
        }
    }

    fn colon_before(&self, at: usize) -> usize {
        match self.before(at, 1) {
            b':' => 1,
            b'A' | b'a' if self.before(at, 2) == b'3' && self.before(at, 3) == b'%' => 3,
            _ => 0,
        }
    }

    /// The number of bytes from `start` that satisfy `kind`, up to a limit.
    fn run(&self, start: usize, limit: usize, kind: fn(&u8) -> bool) -> usize {
        self.bytes.iter().skip(start).take(limit).take_while(|byte| kind(byte)).count()
    }

    /// The value of the digits, of which there are at most five.
    fn decimal(&self, start: usize, digits: usize) -> u32 {
        self.bytes.iter().skip(start).take(digits).fold(0, |sum, digit| sum * 10 + u32::from(digit.wrapping_sub(b'0')))
    }

    fn hex(&self, at: usize) -> bool {
        self.at(at).is_ascii_hexdigit()
    }

    /// The byte at `at`. After the end it is NUL, which is an edge.
    fn at(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// The byte `distance` before `at`. Masked text reads as a letter that is not a hexadecimal digit.
    fn before(&self, at: usize, distance: usize) -> u8 {
        match at.checked_sub(distance) {
            Some(back) if back >= self.done => self.at(back),
            _ if self.done > 0 => b'R',
            _ => 0,
        }
    }
}

/// Whether a text that parses as an IPv6 address is one, and not two words separated by `::`.
pub(super) fn is_meant(text: &str, address: Ipv6Addr) -> bool {
    !text.contains("::") || text.bytes().any(|byte| byte.is_ascii_digit()) || address.is_unique_local()
}
