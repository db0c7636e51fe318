//! Cuts a body of plain text into lines, each of which is an event.

use serde_json::Value;
use tidegate_store::too_long;

use super::super::batch::Batch;
use super::super::text::Text;

/// Adds an event for each line that is not blank.
pub(super) fn lines(body: &[u8], batch: &mut Batch, event: impl Fn(&str) -> Value) {
    let text = Text::of(body);
    batch.hold_more(text.held());
    for line in text.as_str().split('\n').map(str::trim_end).filter(|line| !line.is_empty()) {
        if line.len() > batch.max_event() {
            batch.refuse(too_long(line.len(), batch.max_event()));
        } else {
            match text.check(line) {
                Ok(()) => batch.take(event(line)),
                Err(reason) => batch.refuse(reason),
            }
        }
        if batch.has_failed() {
            break;
        }
    }
}
