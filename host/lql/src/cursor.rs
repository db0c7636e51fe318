//! A position in the text. The grammar moves it forward, and back if an alternative did not match.

/// Reads a text from left to right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// The rest of the text.
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes `word` if it comes next.
    pub(crate) fn eat(&mut self, word: &str) -> bool {
        let fits = self.rest().starts_with(word);
        if fits {
            self.at += word.len();
        }
        fits
    }

    /// Consumes the first of `words` that comes next.
    pub(crate) fn eat_any(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.iter().copied().find(|word| self.eat(word))
    }

    /// Consumes the first of `words` that comes next, and returns its value.
    pub(crate) fn eat_one<T: Copy>(&mut self, words: &[(&'static str, T)]) -> Option<T> {
        words.iter().find(|(word, _)| self.eat(word)).map(|&(_, meaning)| meaning)
    }

    /// Consumes the longest run of characters for which `fits` holds; it may be empty.
    pub(crate) fn run(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// The same, with at least one character.
    pub(crate) fn some(&mut self, fits: impl Fn(char) -> bool) -> Option<&'a str> {
        Some(self.run(fits)).filter(|run| !run.is_empty())
    }

    /// Consumes exactly `count` digits.
    pub(crate) fn digits(&mut self, count: usize) -> Option<&'a str> {
        let digits = self.rest().get(..count)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| {
            self.at += count;
            digits
        })
    }

    /// Consumes `least` to `most` digits, as many as there are.
    pub(crate) fn digits_between(&mut self, least: usize, most: usize) -> Option<&'a str> {
        let found = self.rest().bytes().take(most).take_while(u8::is_ascii_digit).count();
        if found < least { None } else { self.digits(found) }
    }

    /// Consumes what `part` parses. If it returns nothing, the position does not change.
    pub(crate) fn attempt<T>(&mut self, part: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let mut ahead = *self;
        let found = part(&mut ahead)?;
        *self = ahead;
        Some(found)
    }

    /// The text that was consumed since `from`.
    pub(crate) fn since(&self, from: usize) -> &'a str {
        self.text.get(from..self.at).unwrap_or_default()
    }
}

/// A character of a table name or an unquoted value.
pub(crate) fn is_ident(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A character of a path.
pub(crate) fn is_path(c: char) -> bool {
    is_ident(c) || c == '.'
}

/// A character of an unquoted value, which begins with one of an identifier.
pub(crate) fn is_value(c: char) -> bool {
    is_word(c) && !matches!(c, '(' | ')')
}

/// A character of an unquoted search word.
pub(crate) fn is_word(c: char) -> bool {
    is_path(c) || "!%$^\\+[]?(){}#&*-/<>=@;,|".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stop_where_told() {
        let mut cursor = Cursor::new("12345é", 0);
        assert_eq!(cursor.digits(4), Some("1234"));
        assert_eq!(cursor.digits(2), None);
        assert_eq!(cursor.digits_between(2, 4), None);
        assert_eq!(cursor.digits_between(1, 4), Some("5"));
        assert_eq!(cursor.rest(), "é");
        assert_eq!(cursor.digits(1), None);
    }

    #[test]
    fn a_failed_attempt_moves_nothing() {
        let mut cursor = Cursor::new("abc", 0);
        let nothing: Option<()> = cursor.attempt(|c| {
            c.eat("ab");
            None
        });
        assert!(nothing.is_none());
        assert_eq!(cursor.offset(), 0);
    }
}
