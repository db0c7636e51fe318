//! Finding IP addresses in a text.
//!
//! One pass over the text tries each place where an address may begin, and takes the first address, and the longest
//! that begins there. The rules:
//!
//! - **IPv4** is four groups of one to three digits up to 255, also among further groups: of `1.2.3.4.5` the first four
//!   are masked. Ports and prefix lengths stay.
//! - **IPv6** is whatever the standard library reads as one: full, compressed, or with an IPv4
//!   tail; a link-local or multicast address is masked with its `%zone`. A colon may also be written `%3A`,
//!   as it is in query strings. Tried are the up to 45 bytes from a beginning to each group's end.
//! - **Edges**: with a letter or digit on either side it is a part of a word (`v1.2.3.4`, `x::1`) and no address. Every
//!   other character is an edge, so that addresses in brackets, quotes, `key=value`, JSON within text and sentences are
//!   found. The letters of an escape (`%2F`, `\n`, `\u003c`) are no part of a word.
//! - **Too many groups** are no address, so fingerprints are none. A ninth group counts as a port if it reads like one. A
//!   label in front (`client:2001:db8::1`) is recognized by not being a group.
//! - **Names**: `::` alone, `dead::beef` and `abc::` stay. An address in use has a digit, because
//!   the global ones all begin with 2 or 3; only private ones (`fc00::/7`) may do without.
//!
//! At each place a bounded number of bytes is looked at, so the time is linear in the length of the text.

use std::net::Ipv6Addr;
use std::ops::Range;

use memchr::memchr3_iter;

/// The longest IPv6 address as text: eight groups, the last two written as IPv4.
const LONGEST: usize = 45;

/// A text that is searched; what is before `done` is masked or searched already.
pub(super) struct Scan<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) done: usize,
}

impl Scan<'_> {
    /// The first address from here on.
    ///
    /// An address has its first separator within four bytes of its beginning. So it is the separators
    /// that are looked for, at the speed of memory, and most of them show at once that they are none:
    /// places are tried only in front of the others.
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

    /// Where an address may begin at the earliest whose first separator is this dot.
    fn before_dot(&self, dot: usize) -> Option<usize> {
        let between_digits = self.before(dot, 1).is_ascii_digit() && self.at(dot + 1).is_ascii_digit();
        between_digits.then(|| dot.saturating_sub(3))
    }

    /// The same of this colon, plain or escaped.
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
        // `%20` is a blank before it is the beginning of `201.2.3.4`.
        let escaped = self.before(at, 1) == b'%' && self.hex(at) && self.hex(at + 1);
        if let Some(end) = escaped.then(|| self.address(at + 2)).flatten() {
            return Some(at + 2..end);
        }
        let of_colon = self.before(at, 1) == b'%' && self.colon(at - 1) > 0;
        (!of_colon).then(|| self.address(at)).flatten().map(|end| at..end)
    }

    /// The end of the address that begins here.
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
        // The address as it reads with plain colons, and where each letter of it ends in the text.
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

    /// Whether there are colons enough for an address: six and an IPv4 tail, seven, or a pair. Times of
    /// day and labels end here.
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

    /// The bytes of `%zone` behind an address that may have one.
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

    /// Whether a word, or the mask of the address before, does not run on into this place.
    fn edge_before(&self, start: usize) -> bool {
        let back = |distance| self.before(start, distance);
        let hex = |distances: Range<usize>| distances.into_iter().all(|distance| back(distance).is_ascii_hexdigit());
        let last = back(1);
        !last.is_ascii_alphanumeric()
            || matches!(last, b'n' | b'r' | b't') && back(2) == b'\\'
            || hex(1..3) && back(3) == b'%'
            || hex(1..5) && back(5) == b'u' && back(6) == b'\\'
    }

    /// Whether an IPv6 address may end here: not within a word, a number with dots, or more groups.
    fn edge_after(&self, end: usize) -> bool {
        let colon = self.colon(end);
        if colon > 0 {
            let next = end + colon;
            let second = self.colon(next);
            return !self.is_group(next + second) || second == 0 && self.is_port(next);
        }
        match self.at(end) {
            // `2001:db8::1.443`: some tools join the port with a dot. More dots are a bad IPv4 tail.
            b'.' => {
                let digits = self.run(end + 1, 6, u8::is_ascii_digit);
                let more = self.at(end + 1 + digits) == b'.' && self.at(end + 2 + digits).is_ascii_alphanumeric();
                digits == 0 || !more || self.v4(end + 1).is_some()
            }
            next => !next.is_ascii_alphanumeric(),
        }
    }

    /// Whether the groups of an address that could not be read stand before this place.
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

    /// Whether a whole group of an IPv6 address stands here.
    fn is_group(&self, at: usize) -> bool {
        let length = self.run(at, 5, u8::is_ascii_hexdigit);
        let next = at + length;
        let of_v4 = self.at(next) == b'.' && self.at(next + 1).is_ascii_digit();
        (1..=4).contains(&length) && !self.at(next).is_ascii_alphanumeric() && !of_v4
    }

    /// Whether a port stands here: one digit is too little to tell it from a group.
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

    /// The bytes of the colon that stands here, plain or escaped; none is 0.
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

    /// How many bytes from here are of the kind, up to a limit.
    fn run(&self, start: usize, limit: usize, kind: fn(&u8) -> bool) -> usize {
        self.bytes.iter().skip(start).take(limit).take_while(|byte| kind(byte)).count()
    }

    /// The number that the digits make; they are five at most.
    fn decimal(&self, start: usize, digits: usize) -> u32 {
        self.bytes.iter().skip(start).take(digits).fold(0, |sum, digit| sum * 10 + u32::from(digit.wrapping_sub(b'0')))
    }

    fn hex(&self, at: usize) -> bool {
        self.at(at).is_ascii_hexdigit()
    }

    /// The byte here; behind the end a NUL, an edge like any other.
    fn at(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// The byte so far back. What is masked already reads as a letter that belongs to no group.
    fn before(&self, at: usize, distance: usize) -> u8 {
        match at.checked_sub(distance) {
            Some(back) if back >= self.done => self.at(back),
            _ if self.done > 0 => b'R',
            _ => 0,
        }
    }
}

/// Whether what can be read as an IPv6 address is one, and not two words with `::` between.
pub(super) fn is_meant(text: &str, address: Ipv6Addr) -> bool {
    !text.contains("::") || text.bytes().any(|byte| byte.is_ascii_digit()) || address.is_unique_local()
}
