//! The body of a request as text, where some bytes may not be valid UTF-8, and some escapes no characters.
//!
//! A body is split into its events as text, and an event that is not valid UTF-8 is refused alone. Such an event must
//! not make the whole body unreadable. So for the splitting only, each invalid byte is replaced by one byte that is
//! allowed in a JSON string and has no meaning in JSON. Offsets stay the same, so each event is found again in the
//! bytes that were sent.
//!
//! Half of a pair of surrogates (`"\ud83d"`) comes of a text that another program has cut in the middle of a character. It
//! stands for no character, and JSON parsers refuse it. It becomes U+FFFD, as long as it was.

use std::borrow::Cow;

/// The replacement of each invalid byte: DEL.
const REPLACEMENT: char = '\x7f';

/// A body as text, and the bytes that were sent.
#[derive(Debug)]
pub(crate) struct Text<'b> {
    text: Cow<'b, str>,
    sent: &'b [u8],
    is_valid: bool,
}

impl<'b> Text<'b> {
    pub(crate) fn of(sent: &'b [u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(sent) {
            return Self { text: Cow::Borrowed(text), sent, is_valid: true };
        }
        let mut text = String::with_capacity(sent.len());
        for chunk in sent.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
        }
        Self { text: Cow::Owned(text), sent, is_valid: false }
    }

    /// A body of JSON, in which each escape of half a character is one of U+FFFD.
    pub(crate) fn json(sent: &'b [u8]) -> Self {
        let mut own = Self::of(sent);
        if let Some(text) = without_halves(&own.text) {
            own.text = Cow::Owned(text);
        }
        own
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether all bytes that were sent are valid UTF-8.
    pub(crate) fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// How many bytes are allocated besides the bytes that were sent.
    pub(crate) fn held(&self) -> usize {
        match &self.text {
            Cow::Borrowed(_) => 0,
            Cow::Owned(text) => text.capacity(),
        }
    }

    /// Checks that the bytes that were sent for a part of [`Self::as_str`] are valid UTF-8. `part` must be a slice of
    /// that text.
    ///
    /// # Errors
    /// The reason why the event in this part is refused.
    pub(crate) fn check(&self, part: &str) -> Result<(), String> {
        if self.is_valid {
            return Ok(());
        }
        let text = &self.text;
        let start = part.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
        let sent = start.checked_add(part.len()).and_then(|end| self.sent.get(start..end));
        match sent.map(std::str::from_utf8) {
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(format!(
                "the event is not valid UTF-8 at its byte {}; send text as UTF-8, and other bytes as base64",
                error.valid_up_to()
            )),
            None => Err("the event cannot be found in the body".to_owned()),
        }
    }
}

/// The text with an escape of U+FFFD for each escape of half a pair of surrogates; `None` if there is none.
fn without_halves(text: &str) -> Option<String> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return None;
    }
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u").filter(|digits| digits.is_ascii())?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(step) = text.get(at..).and_then(|rest| rest.find('\\')) {
        at += step;
        match unit(at) {
            Some(0xd800..=0xdbff) if matches!(unit(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                out.push_str(text.get(copied..at).unwrap_or_default());
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            Some(_) => at += 6,
            // The backslash and what it escapes. A character of several bytes is no escape.
            None => at += if text.is_char_boundary(at + 2) { 2 } else { 1 },
        }
    }
    if copied == 0 {
        return None;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn places_stay_the_same() {
        let sent = b"a\xffb\xe2\x82c\xe2\x82\xac\xf0";
        let text = Text::of(sent);
        assert_eq!(text.as_str(), "a\x7fb\x7f\x7fc\u{20ac}\x7f");
        assert_eq!((text.as_str().len(), text.held() >= sent.len()), (sent.len(), true));
        assert!(text.check(&text.as_str()[5..9]).is_ok());
        assert!(text.check(&text.as_str()[0..1]).is_ok());
        assert!(text.check(&text.as_str()[0..2]).unwrap_err().contains("at its byte 1;"));
        assert!(text.check("elsewhere").is_err());
    }

    #[test]
    fn halves_of_characters_are_replaced() {
        for (sent, expected) in [
            (r#"{"a": "x\ud83d"}"#, r#"{"a": "x\ufffd"}"#),
            (r#"{"a": "\uD83D\uDE00"}"#, r#"{"a": "\uD83D\uDE00"}"#),
            (r#"{"a": "\uDE00\uD83D"}"#, r#"{"a": "\ufffd\ufffd"}"#),
            (r#"{"a": "\ud83d\ud83d\ude00 \u00e9"}"#, r#"{"a": "\ufffd\ud83d\ude00 \u00e9"}"#),
            (r#"{"a": "\\ud83d"}"#, r#"{"a": "\\ud83d"}"#),
            (r#"{"a": "\\\ud83d"}"#, r#"{"a": "\\\ufffd"}"#),
            (r#"{"a": "\ud83"}"#, r#"{"a": "\ud83"}"#),
            (r#"{"a\ud800": 1, "b": "\u20"}"#, r#"{"a\ufffd": 1, "b": "\u20"}"#),
            ("\"\\\u{20ac}\\ud83d", "\"\\\u{20ac}\\ufffd"),
            ("\\ud83d", "\\ufffd"),
            ("\\", "\\"),
        ] {
            let text = Text::json(sent.as_bytes());
            assert_eq!((text.as_str(), text.is_valid(), text.check(text.as_str())), (expected, true, Ok(())), "{sent}");
            assert_eq!(text.held() > 0, sent != expected, "{sent}");
        }
        // An event of other bytes is still refused alone.
        let sent = b"\"\\ud83d\" \"\xff\"";
        let text = Text::json(sent);
        assert_eq!((text.as_str(), text.is_valid()), ("\"\\ufffd\" \"\x7f\"", false));
        assert!(text.check(&text.as_str()[..8]).is_ok());
        assert!(text.check(&text.as_str()[9..]).is_err());
    }

    #[test]
    fn a_whole_text_is_not_copied() {
        let text = Text::of("a\u{20ac}".as_bytes());
        assert_eq!((text.held(), text.check(text.as_str())), (0, Ok(())));
    }
}
