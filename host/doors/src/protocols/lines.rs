//! Cuts a body of plain text into lines, each of which is an event.

use serde_json::Value;
use tidegate_model::Failure;

use super::fields::{Fields, event};
use crate::batch::Batch;
use crate::text::Text;

/// Adds an event for each line that is not blank, with these fields as its metadata.
///
/// # Errors
/// [`Code::TooLarge`](tidegate_model::Code::TooLarge) when the lines come to too many bytes, each with the fields.
pub(super) fn lines(body: &[u8], shared: &Fields, batch: &mut Batch) -> Result<(), Failure> {
    let text = Text::of(body);
    batch.hold_more(text.held());
    let own: usize = shared.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    for line in text.as_str().split('\n').map(str::trim_end).filter(|line| !line.is_empty()) {
        batch.take_sharing(line.len(), (own, "lines", "fields"), || {
            text.check(line)?;
            Ok(event([("event_message", Some(Value::from(line)))], shared.clone()))
        })?;
        if batch.has_failed() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;
    use tidegate_model::Code;

    #[test]
    fn lines_are_events_and_bounded_with_what_they_share() {
        let mut batch = Batch::for_tests(1000);
        let shared: Fields = [("host".to_owned(), json!("h"))].into_iter().collect();
        lines(b"a\r\n\n \nb", &shared, &mut batch).unwrap();
        lines(&[b'x'; 1001], &shared, &mut batch).unwrap();
        let expected = json!({"event_message": "a", "metadata": {"host": "h"}});
        assert_eq!((batch.events().first(), batch.events().len(), batch.refused().len()), (Some(&expected), 2, 1));
        let large: Fields = [("host".to_owned(), json!("h".repeat(1 << 20)))].into_iter().collect();
        let mut batch = Batch::for_tests(2 << 20);
        let failure = lines("a\n".repeat(100).as_bytes(), &large, &mut batch).unwrap_err();
        assert_eq!(failure.code, Code::TooLarge);
    }
}
