//! Reads the lines of a file in batches, in bounded memory for any file.

use std::io::{BufRead, Read, Result};

use serde_json::Value;
use tidegate_model::json_fault;

/// The limit on the length of a line, in bytes. A longer line is refused.
const LONGEST: u64 = 16 << 20;

/// One event and the number of its line.
#[derive(Debug, PartialEq)]
pub(super) struct Event {
    pub(super) line: u64,
    pub(super) text: Vec<u8>,
    /// How many events the server makes of it: one, or those in its `batch`.
    pub(super) events: u64,
}

/// The events of one request, and the lines that cannot be sent.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) events: Vec<Event>,
    pub(super) bad: Vec<(u64, String)>,
}

pub(super) struct Lines<R> {
    read: R,
    line: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read, line: 0 }
    }

    /// The next events, up to about `bytes`; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read or decompressed.
    pub(super) fn batch(&mut self, bytes: usize) -> Result<Option<Batch>> {
        let mut batch = Batch::default();
        let mut held = 0;
        while held < bytes && batch.bad.len() < 10_000 {
            let mut text = Vec::new();
            let read = self.read.by_ref().take(LONGEST + 1).read_until(b'\n', &mut text)?;
            if read == 0 {
                break;
            }
            self.line += 1;
            if !text.ends_with(b"\n") && u64::try_from(read).is_ok_and(|read| read > LONGEST) {
                self.skip()?;
                batch.bad.push((self.line, format!("it is longer than {} MiB", LONGEST >> 20)));
                continue;
            }
            // Some programs begin a file with a byte order mark.
            let text = if self.line == 1 { text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text) } else { &text };
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Value>(text) {
                Ok(value) if value.is_object() => {
                    held += text.len() + 1;
                    let several = value.get("batch").and_then(Value::as_array);
                    let events = several.map_or(Some(1), |several| u64::try_from(several.len()).ok()).unwrap_or(1);
                    batch.events.push(Event { line: self.line, text: text.to_vec(), events });
                }
                Ok(_) => batch.bad.push((self.line, "it is no JSON object".to_owned())),
                Err(error) => {
                    batch.bad.push((self.line, format!("it is not valid JSON: {}", json_fault(&error))));
                }
            }
        }
        Ok((!batch.events.is_empty() || !batch.bad.is_empty()).then_some(batch))
    }

    /// Skips the rest of a line without keeping it in memory.
    fn skip(&mut self) -> Result<()> {
        loop {
            let buffer = self.read.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.read.consume(used);
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_batches_with_their_numbers() {
        let text = "{\"a\": 1}\n\n  {\"a\": 2}\r\nnonsense\n[1]\n{\"batch\": [{}, {}]}";
        let mut lines = Lines::new(text.as_bytes());
        let batch = lines.batch(1 << 20).unwrap().unwrap();
        let numbers: Vec<u64> = batch.events.iter().map(|event| event.line).collect();
        assert_eq!(numbers, [1, 3, 6]);
        assert_eq!(batch.events.iter().map(|event| event.events).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!(batch.bad.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 5]);
        assert!(lines.batch(1 << 20).unwrap().is_none());
        let mut lines = Lines::new(text.as_bytes());
        assert_eq!(lines.batch(1).unwrap().unwrap().events.len(), 1);
        assert_eq!(lines.batch(1).unwrap().unwrap().events.first().unwrap().line, 3);
    }

    #[test]
    fn an_endless_line_is_refused_and_the_next_is_read() {
        let long = std::io::repeat(b'x').take(LONGEST + 5);
        let read = std::io::BufReader::new(long.chain(&b"\n{\"a\": 1}\n"[..]));
        let batch = Lines::new(read).batch(1 << 20).unwrap().unwrap();
        assert_eq!((batch.bad.len(), batch.events.len()), (1, 1));
        assert_eq!(batch.events.first().unwrap().line, 2);
    }
}
