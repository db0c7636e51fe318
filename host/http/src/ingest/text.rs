//! The body of a request as text, where some bytes may not be valid UTF-8.
//!
//! A body is split into its events as text, and an event that is not valid UTF-8 is refused alone. Such an event must
//! not make the whole body unreadable. So for the splitting only, each invalid byte is replaced by one byte that is
//! allowed in a JSON string and has no meaning in JSON. Offsets stay the same, so each event is found again in the
//! bytes that were sent.

use std::borrow::Cow;

/// The replacement of each invalid byte: DEL.
const REPLACEMENT: char = '\x7f';

/// A body as text, and the bytes that were sent.
#[derive(Debug)]
pub(super) struct Text<'b> {
    text: Cow<'b, str>,
    sent: &'b [u8],
}

impl<'b> Text<'b> {
    pub(super) fn of(sent: &'b [u8]) -> Self {
        if let Ok(text) = std::str::from_utf8(sent) {
            return Self { text: Cow::Borrowed(text), sent };
        }
        let mut text = String::with_capacity(sent.len());
        for chunk in sent.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| REPLACEMENT));
        }
        Self { text: Cow::Owned(text), sent }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether all bytes that were sent are valid UTF-8.
    pub(super) fn is_valid(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    /// How many bytes are allocated besides the bytes that were sent.
    pub(super) fn held(&self) -> usize {
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
    pub(super) fn check(&self, part: &str) -> Result<(), String> {
        let Cow::Owned(text) = &self.text else { return Ok(()) };
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
    fn a_whole_text_is_not_copied() {
        let text = Text::of("a\u{20ac}".as_bytes());
        assert_eq!((text.held(), text.check(text.as_str())), (0, Ok(())));
    }
}
