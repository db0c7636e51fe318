//! Cuts a body of plain text into lines, each of which is an event.

use serde_json::Value;
use tidegate_model::{Code, Failure};
use tidegate_store::too_long;

use super::super::batch::Batch;
use super::super::text::Text;
use super::fields::{EXPANDED, Fields, event};

/// Adds an event for each line that is not blank, with these fields as its metadata.
///
/// # Errors
/// [`Code::TooLarge`] when the lines come to too many bytes, each with the fields.
pub(super) fn lines(body: &[u8], shared: &Fields, batch: &mut Batch) -> Result<(), Failure> {
    let text = Text::of(body);
    batch.hold_more(text.held());
    let own: usize = shared.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    let mut expanded = 0_usize;
    for line in text.as_str().split('\n').map(str::trim_end).filter(|line| !line.is_empty()) {
        expanded = expanded.saturating_add(line.len() + own);
        if expanded > EXPANDED {
            let message =
                format!("the lines come to more than {EXPANDED} bytes, each with its fields; send smaller batches");
            return Err(Failure::new(Code::TooLarge, message));
        }
        if line.len() > batch.max_event() {
            batch.refuse(too_long(line.len(), batch.max_event()));
        } else {
            match text.check(line) {
                Ok(()) => batch.take(event([("event_message", Some(Value::from(line)))], shared.clone())),
                Err(reason) => batch.refuse(reason),
            }
        }
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

    #[test]
    fn lines_are_events_and_bounded_with_what_they_share() {
        let mut batch = Batch::for_tests(1000);
        let shared: Fields = [("host".to_owned(), json!("h"))].into_iter().collect();
        lines(b"a\r\n\n \nb", &shared, &mut batch).unwrap();
        lines(&[b'x'; 1001], &shared, &mut batch).unwrap();
        let expected = json!({"event_message": "a", "metadata": {"host": "h"}});
        assert_eq!((batch.events().first(), batch.events().len(), batch.refused().len()), (Some(&expected), 2, 1));
        let large: Fields = [("host".to_owned(), json!("h".repeat(1 << 20)))].into_iter().collect();
        let failure = lines("a\n".repeat(100).as_bytes(), &large, &mut batch).unwrap_err();
        assert_eq!(failure.code, Code::TooLarge);
    }
}
