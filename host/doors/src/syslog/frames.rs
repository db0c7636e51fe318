//! Cuts the bytes of a connection into syslog messages (RFC 6587, RFC 5425).
//!
//! There are two framings. With octet counting a message follows its length and a blank: `20 <13>1 ...`. Otherwise a
//! message is a line, which ends with LF or NUL. They are told apart at each message: octet counting is a number, a
//! blank and `<`. RFC 6587 looks at the first digit only; lines of programs may begin with a number, too.
//!
//! The messages depend on the bytes alone, not on the pieces in which they arrive.

/// The most digits of a length. A longer number begins a line.
const MOST_DIGITS: usize = 10;

/// Cuts one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The most bytes of a message.
    most: usize,
    skip: Skip,
    /// How many bytes of an unfinished line were searched for its end already.
    searched: usize,
    /// Whether the message before had a length.
    counting: bool,
}

/// The rest of a message that is too long, which is discarded as it arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Skip {
    Nothing,
    Bytes(usize),
    Line,
}

/// What stands at the beginning of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut<'b> {
    /// A whole message.
    Message(&'b [u8]),
    /// A message that is too long.
    TooLong,
    /// No whole message yet.
    More,
    /// The length of the message before was wrong: where the next one begins is not known.
    Lost,
}

/// What is left when the sender has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest<'b> {
    /// Nothing.
    Nothing,
    /// A line without an end.
    Line(&'b [u8]),
    /// A part of a message.
    Part,
}

/// A length at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// The message has so many bytes, and follows after this many.
    Counted {
        /// The bytes before the message: the digits and the blank.
        header: usize,
        /// The bytes of the message.
        length: usize,
    },
    /// There is none.
    Absent,
    /// There may be one; the next bytes tell.
    Open,
}

impl Length {
    /// Reads a length and its blank.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let digits = bytes.iter().take(MOST_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        match bytes.get(digits) {
            _ if digits > MOST_DIGITS => Self::Absent,
            None => Self::Open,
            Some(b' ') => {
                let number = bytes.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
                number.map_or(Self::Absent, |length| Self::Counted { header: digits + 1, length })
            }
            Some(_) => Self::Absent,
        }
    }

    /// Reads a length before a message that begins with `<`, where other text may stand instead.
    fn before_message(bytes: &[u8]) -> Self {
        match Self::read(bytes) {
            _ if bytes.first() == Some(&b'0') => Self::Absent,
            Self::Counted { header, length } => match bytes.get(header) {
                None => Self::Open,
                Some(b'<') => Self::Counted { header, length },
                Some(_) => Self::Absent,
            },
            other => other,
        }
    }
}

impl Frames {
    /// Messages of at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, skip: Skip::Nothing, searched: 0, counting: false }
    }

    /// What stands at the beginning of `bytes`, and how many of them it takes. The next call gets what follows these;
    /// after [`Cut::More`], with more bytes behind it.
    pub(crate) fn next<'b>(&mut self, bytes: &'b [u8]) -> (usize, Cut<'b>) {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match self.skip {
                Skip::Bytes(left) if left > rest.len() => {
                    self.skip = Skip::Bytes(left - rest.len());
                    return (bytes.len(), Cut::More);
                }
                Skip::Bytes(left) => used += left,
                Skip::Line => match rest.iter().position(is_end) {
                    Some(end) => used += end + 1,
                    None => return (bytes.len(), Cut::More),
                },
                Skip::Nothing => {
                    let (taken, cut) = self.first(rest);
                    return (used + taken, cut);
                }
            }
            self.skip = Skip::Nothing;
        }
    }

    fn first<'b>(&mut self, bytes: &'b [u8]) -> (usize, Cut<'b>) {
        let used = blanks(bytes);
        let rest = bytes.get(used..).unwrap_or_default();
        if rest.is_empty() {
            return (used, Cut::More);
        }
        match Length::before_message(rest) {
            Length::Open => (used, Cut::More),
            Length::Counted { header, length } => {
                if length > self.most {
                    (self.skip, self.counting) = (Skip::Bytes(header.saturating_add(length)), true);
                    return (used, Cut::TooLong);
                }
                match rest.get(header..header + length) {
                    Some(message) => {
                        self.counting = true;
                        (used + header + length, Cut::Message(message))
                    }
                    None => (used, Cut::More),
                }
            }
            Length::Absent if self.counting && rest.first() != Some(&b'<') => (used, Cut::Lost),
            Length::Absent => {
                let (taken, cut) = self.line(rest);
                (used + taken, cut)
            }
        }
    }

    fn line<'b>(&mut self, bytes: &'b [u8]) -> (usize, Cut<'b>) {
        let from = self.searched.min(bytes.len());
        let end = bytes.get(from..).and_then(|new| new.iter().position(is_end)).map(|place| from + place);
        self.searched = 0;
        match end.and_then(|end| Some((end, bytes.get(..end)?))) {
            Some((end, line)) => {
                self.counting = false;
                (end + 1, if end > self.most { Cut::TooLong } else { Cut::Message(without_return(line)) })
            }
            None if bytes.len() > self.most => {
                (self.skip, self.counting) = (Skip::Line, false);
                (bytes.len(), Cut::TooLong)
            }
            None => {
                self.searched = bytes.len();
                (0, Cut::More)
            }
        }
    }

    /// Whether the bytes that come next belong to a message of which a part is discarded already.
    pub(crate) fn is_skipping(&self) -> bool {
        self.skip != Skip::Nothing
    }

    /// What is left of the bytes after [`Cut::More`], when no more will come.
    pub(crate) fn end<'b>(&self, bytes: &'b [u8]) -> Rest<'b> {
        let rest = bytes.get(blanks(bytes)..).unwrap_or_default();
        if self.is_skipping() || rest.is_empty() {
            return Rest::Nothing;
        }
        match Length::before_message(rest) {
            Length::Counted { .. } => Rest::Part,
            _ if self.counting && rest.first() != Some(&b'<') => Rest::Part,
            _ => Rest::Line(without_return(rest)),
        }
    }
}

/// Line ends between messages: some senders end messages with a line end that have a length, too.
fn blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_end(byte) || **byte == b'\r').count()
}

fn is_end(byte: &u8) -> bool {
    matches!(byte, b'\n' | 0)
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The messages of a stream that arrives in these pieces.
    fn cut(pieces: &[&[u8]], most: usize) -> Vec<String> {
        let (mut frames, mut held, mut all) = (Frames::new(most), Vec::new(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            loop {
                let (used, cut) = frames.next(&held);
                match cut {
                    Cut::Message(message) => all.push(message.escape_ascii().to_string()),
                    Cut::TooLong => all.push("TOO LONG".to_owned()),
                    Cut::More => {
                        held.drain(..used);
                        break;
                    }
                    Cut::Lost => {
                        all.push("LOST".to_owned());
                        return all;
                    }
                }
                held.drain(..used);
            }
            assert!(held.len() <= most + MOST_DIGITS + 2, "{} bytes are held", held.len());
        }
        match frames.end(&held) {
            Rest::Nothing => {}
            Rest::Line(line) => all.push(line.escape_ascii().to_string()),
            Rest::Part => all.push("PART".to_owned()),
        }
        all
    }

    #[test]
    fn lengths_and_lines_are_told_apart_at_each_message() {
        let whole = |bytes: &[u8]| cut(&[bytes], 100);
        assert_eq!(whole(b"6 <1>one7 <1>t\nwo<1>three\r\n\n\n6 <1>fou"), ["<1>one", "<1>t\\nwo", "<1>three", "<1>fou"]);
        assert_eq!(whole(b"6 <1>one\n6 <1>two\n"), ["<1>one", "<1>two"]);
        assert_eq!(whole(b"404 not found\n2025-11-20 x\n0 <1>\n7\n"), ["404 not found", "2025-11-20 x", "0 <1>", "7"]);
        assert_eq!(whole(b"<1>one\0<1>two\0\0\0<1>three"), ["<1>one", "<1>two", "<1>three"]);
        assert_eq!(whole(b"9 <1>one"), ["PART"]);
        assert_eq!(whole(b"9 "), ["9 "]);
        assert!(whole(b"").is_empty() && whole(&[0; 300]).is_empty());
    }

    #[test]
    fn what_is_too_long_costs_itself_only() {
        let long = "x".repeat(50);
        assert_eq!(cut(&[format!("<1>{long}\n<1>a\n").as_bytes()], 20), ["TOO LONG", "<1>a"]);
        assert_eq!(cut(&[format!("53 <1>{long}4 <1>a").as_bytes()], 20), ["TOO LONG", "<1>a"]);
        assert_eq!(cut(&[format!("<1>{long}").as_bytes()], 20), ["TOO LONG"]);
        assert_eq!(cut(&[b"9999999999 <1>a"], 20), ["TOO LONG"]);
        assert_eq!(cut(&[b"99999999999999999999 <1>a\n"], 40), ["99999999999999999999 <1>a"]);
    }

    #[test]
    fn a_wrong_length_ends_what_can_be_read() {
        assert_eq!(cut(&[b"4 <1>abc6 <1>two"], 100), ["<1>a", "LOST"]);
        assert_eq!(cut(&[b"4 <1>a5 <1>b"], 100), ["<1>a", "PART"]);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            parts in prop::collection::vec(prop_oneof![
                Just(b"5 <1>ab".to_vec()), Just(b"<1>line\n".to_vec()), Just(b"50 <1>".to_vec()), Just(b"9999999999 <".to_vec()),
                Just(b"\r\n".to_vec()), Just(b"\0".to_vec()), Just(b"7".to_vec()), Just(b" ".to_vec()), Just(b"<".to_vec()),
                prop::collection::vec(any::<u8>(), 0..30),
            ], 0..12),
            sizes in prop::collection::vec(1_usize..9, 1..40),
        ) {
            let whole = parts.concat();
            let (mut pieces, mut at) = (Vec::new(), 0);
            for size in sizes.iter().cycle() {
                if at >= whole.len() {
                    break;
                }
                let end = (at + size).min(whole.len());
                pieces.push(&whole[at..end]);
                at = end;
            }
            let single: Vec<&[u8]> = whole.chunks(1).collect();
            let expected = cut(&single, 16);
            prop_assert_eq!(&cut(&pieces, 16), &expected);
            // In one piece the bytes behind a message are held, too.
            let mut frames = Frames::new(16);
            let (mut at, mut all) = (0, 0);
            while let (used, Cut::Message(_) | Cut::TooLong) = frames.next(whole.get(at..).unwrap()) {
                (at, all) = (at + used, all + 1);
            }
            prop_assert!(expected.len() - all <= 1);
        }
    }
}
