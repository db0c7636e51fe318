//! `tidegate import`: sends files of events, one JSON object per line, to a running server.
//!
//! It uses HTTP, so that it needs only an ingest token and works beside other clients. If the server refuses a batch,
//! the refused events are found by bisection and counted, and all others are stored.

mod answer;
mod lines;
mod patience;
mod send;

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::client::{Client, ServerArguments};
use crate::outcome::Outcome;
use lines::{Batch, Event, Lines};
use send::{Sender, Sent};

/// The size of one request, in bytes of events.
const BATCH: usize = 1 << 20;
/// The number of refused lines that are printed one by one.
const TOLD: u64 = 10;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The source, by name
    #[arg(long)]
    source: String,
    #[command(flatten)]
    server: ServerArguments,
    /// Files with one JSON object a line, also packed as .gz or .zst; - is standard input
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "an ingest token")?;
    let mut total = Total { sender: Sender::new(client, &arguments.source), stored: 0, refused: 0 };
    for path in &arguments.files {
        let done = total.file(path);
        // The number of stored events is reported even if a later part fails.
        done.map_err(|error| format!("{}: {error}; {} events were stored before", path.display(), total.stored))?;
    }
    let Total { stored, refused, .. } = total;
    println!("{stored} events stored, {refused} refused");
    if refused > 0 { Err(format!("{refused} lines were refused").into()) } else { Ok(()) }
}

struct Total {
    sender: Sender,
    stored: u64,
    refused: u64,
}

impl Total {
    fn file(&mut self, path: &Path) -> Outcome {
        let bar = bar(path)?;
        let mut lines = Lines::new(open(path, &bar)?);
        while let Some(batch) = lines.batch(BATCH)? {
            self.batch(path, &bar, batch)?;
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn batch(&mut self, path: &Path, bar: &ProgressBar, batch: Batch) -> Outcome {
        for (line, reason) in &batch.bad {
            self.refuse(path, bar, *line, reason);
        }
        // A refused batch is split into halves, down to single lines.
        let mut parts = vec![batch.events];
        while let Some(mut events) = parts.pop() {
            if events.is_empty() {
                continue;
            }
            let tell = |words: &str| bar.suspend(|| eprintln!("{words}"));
            match self.sender.send(&events, tell)? {
                Sent::Stored(stored) => {
                    self.stored += stored.accepted;
                    let before = self.refused;
                    for (index, reason) in stored.named {
                        self.refuse(path, bar, line_of(&events, index), &reason);
                    }
                    self.refused = before + stored.rejected;
                }
                Sent::Refused(reason) => {
                    if events.len() == 1 {
                        let line = events.first().map_or(0, |event| event.line);
                        self.refuse(path, bar, line, &reason);
                    } else {
                        let rest = events.split_off(events.len() / 2);
                        parts.extend([rest, events]);
                    }
                }
            }
        }
        bar.set_message(format!("{} stored, {} refused", self.stored, self.refused));
        Ok(())
    }

    fn refuse(&mut self, path: &Path, bar: &ProgressBar, line: u64, reason: &str) {
        self.refused += 1;
        if self.refused <= TOLD {
            bar.suspend(|| eprintln!("{}, line {line}: {reason}", path.display()));
        } else if self.refused == TOLD + 1 {
            bar.suspend(|| eprintln!("more lines are refused; they are counted"));
        }
    }
}

/// The line of the event with this index in a batch.
fn line_of(events: &[Event], index: usize) -> u64 {
    let mut left = u64::try_from(index).unwrap_or(u64::MAX);
    for event in events {
        match left.checked_sub(event.events) {
            Some(rest) => left = rest,
            None => return event.line,
        }
    }
    0
}

/// A progress bar over the bytes of a file, only if standard error is a terminal.
fn bar(path: &Path) -> Result<ProgressBar, Box<dyn std::error::Error>> {
    if !std::io::stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let bar = if path.as_os_str() == "-" {
        ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{bytes} {bytes_per_sec} {msg}")?)
    } else {
        let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}")?;
        ProgressBar::new(std::fs::metadata(path)?.len()).with_style(style)
    };
    Ok(bar)
}

fn open(path: &Path, bar: &ProgressBar) -> Result<Box<dyn BufRead>, Box<dyn std::error::Error>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(bar.wrap_read(std::io::stdin()))));
    }
    let file = bar.wrap_read(File::open(path)?);
    let read: Box<dyn Read> = match path.extension().and_then(|kind| kind.to_str()) {
        Some("gz") => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file))),
        Some("zst") => Box::new(zstd::Decoder::new(file)?),
        _ => Box::new(file),
    };
    Ok(Box::new(BufReader::with_capacity(256 << 10, read)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_leads_to_its_line() {
        let event = |line, events| Event { line, text: Vec::new(), events };
        let all = [event(1, 1), event(3, 0), event(4, 2), event(7, 1)];
        assert_eq!([0, 1, 2, 3, 4].map(|index| line_of(&all, index)), [1, 4, 4, 7, 0]);
    }
}
