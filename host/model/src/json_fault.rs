//! Why a text is no JSON, in words for its sender.

use std::fmt::Display;

/// How deep JSON may nest, which is the limit of the reader of JSON that all crates use.
const MOST_LEVELS: usize = 127;

/// The reason in an error of the reader of JSON. It tells how deep a value may nest, where it nests deeper, and the column
/// alone for an error in the first line, which mostly is the only one, or one of many that are read one at a time.
pub fn json_fault(error: &impl Display) -> String {
    let deeper = format!("it nests deeper than {MOST_LEVELS} levels");
    error.to_string().replacen("recursion limit exceeded", &deeper, 1).replacen(" at line 1 column ", " at column ", 1)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_depth_and_the_place() {
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).map_err(|error| json_fault(&error));
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(read(&nested(MOST_LEVELS)).is_ok());
        assert_eq!(read(&nested(MOST_LEVELS + 1)).unwrap_err(), "it nests deeper than 127 levels at column 128");
        assert_eq!(read("{\"a\":}").unwrap_err(), "expected value at column 6");
        assert_eq!(read("{\"a\":\n}").unwrap_err(), "expected value at line 2 column 1");
    }
}
