//! A little JSON, for endpoints that need no crate for it.

/// JSON text, as a cell of a [`Table`](crate::Table) or an argument of a statement. The host checks that it is JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Json(
    /// The text.
    pub String,
);

/// `text` as a JSON string, in its quotes.
///
/// ```
/// assert_eq!(tidegate_sdk::quote("a \"b\"\n"), r#""a \"b\"\n""#);
/// ```
pub fn quote(text: &str) -> String {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\0'..='\x1f' => {
                quoted.push_str("\\u00");
                for digit in [usize::from(c as u8 >> 4), usize::from(c as u8 & 15)] {
                    quoted.extend(HEX.get(digit));
                }
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote("ä😀/\u{7f}"), "\"ä😀/\u{7f}\"");
        assert_eq!(quote("\\\"\r\t\0\u{1f}"), "\"\\\\\\\"\\r\\t\\u0000\\u001f\"");
    }
}
