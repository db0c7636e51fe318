//! The events of a stream, as they come.
//!
//! A connection may stay open though nobody is at its other end: a laptop slept, a network forgot it. The server sends a
//! heartbeat, so a stream on which nothing comes for long is left.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use serde_json::Value;

use super::Format;
use super::row::text;
use crate::client::plain;

/// The longest line of a stream, in bytes: a row.
const LONGEST: u64 = 64 << 20;
/// The lines that are read ahead.
const AHEAD: usize = 4;

/// What one event says.
#[derive(Debug, Default)]
struct Event {
    id: Option<String>,
    name: String,
    data: String,
}

/// Why a stream was left.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It broke off, or the server stops: it can go on.
    Again,
    /// It is over, for this reason.
    Over(String),
}

/// The lines of a stream, without their ends. A thread reads them, so that waiting for one can end; one that waits for
/// nothing ends with its connection.
pub(super) fn lines(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, receive) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            // A stream that breaks off ends with an error or in the middle of an event.
            let read = Read::take(&mut stream, LONGEST).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || line.pop() != Some(b'\n') || send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

/// Shows the events of a stream until it ends, or nothing comes for so long. `last` is the id of the last event.
pub(super) fn read(
    lines: &Receiver<Vec<u8>>,
    silence: Duration,
    last: &mut Option<String>,
    format: Format,
    colours: bool,
) -> Result<Left, Box<dyn Error>> {
    let mut event = Event::default();
    let mut out = std::io::stdout().lock();
    loop {
        // The id of an event that breaks off does not count, so that it is sent again.
        let Ok(line) = lines.recv_timeout(silence) else { return Ok(Left::Again) };
        let text = String::from_utf8_lossy(&line);
        if let Some(id) = text.strip_prefix("id: ") {
            event.id = Some(id.to_owned());
        } else if let Some(name) = text.strip_prefix("event: ") {
            name.clone_into(&mut event.name);
        } else if let Some(data) = text.strip_prefix("data: ") {
            event.data.push_str(data);
        } else if text.is_empty() {
            let Event { id, name, data } = std::mem::take(&mut event);
            let left = show(&mut out, &name, &data, format, colours)?;
            if id.is_some() {
                *last = id;
            }
            if let Some(left) = left {
                return Ok(left);
            }
        }
    }
}

fn show(
    out: &mut impl Write,
    name: &str,
    data: &str,
    format: Format,
    colours: bool,
) -> Result<Option<Left>, Box<dyn Error>> {
    if data.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    match name {
        "" => {
            match (format, &value) {
                (Format::Text, Value::Object(row)) => writeln!(out, "{}", text(row, colours))?,
                _ => writeln!(out, "{data}")?,
            }
            out.flush()?;
        }
        "missed" => {
            let rows = value.get("rows").and_then(Value::as_u64).unwrap_or(0);
            eprintln!("tidegate: {rows} rows were missed: they came faster than they could be read");
        }
        "gap" => eprintln!("tidegate: {}", plain(field("message"), 500)),
        "end" => {
            let failure = value.get("error").and_then(|error| error.get("message")).and_then(Value::as_str);
            let reason = plain(failure.unwrap_or(field("message")), 500);
            return Ok(Some(match field("reason") {
                "limit" => Left::Again,
                "shutdown" | "endpoint_changed" | "tenancy_changed" => {
                    eprintln!("tidegate: {reason}");
                    Left::Again
                }
                _ => Left::Over(reason),
            }));
        }
        _ => {}
    }
    Ok(None)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(30);

    fn of(text: &'static str) -> Receiver<Vec<u8>> {
        lines(text.as_bytes())
    }

    #[test]
    fn a_silent_stream_is_left() {
        let (_open, receive) = sync_channel(1);
        let left = read(&receive, Duration::from_millis(1), &mut None, Format::Json, false).unwrap();
        assert_eq!(left, Left::Again);
    }

    #[test]
    fn a_stream_is_read_event_by_event() {
        let mut last = None;
        let stream = ": alive\nid: 5\n\nid: 5.0.0\ndata: {\"a\":1}\n\nevent: end\nid: 6\ndata: {\"reason\":\"token_revoked\",\"message\":\"it was revoked\"}\n\n";
        let left = read(&of(stream), WAIT, &mut last, Format::Json, false).unwrap();
        assert_eq!((left, last.as_deref()), (Left::Over("it was revoked".to_owned()), Some("6")));
        let left = read(&of("id: 7.0.0\ndata: {\"a\""), WAIT, &mut last, Format::Json, false).unwrap();
        assert_eq!((left, last.as_deref()), (Left::Again, Some("6")), "the row that broke off is sent again");
    }
}
