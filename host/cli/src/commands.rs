//! Small commands that filter standard input to standard output.

use std::io::{BufRead, Write};

use clap::Subcommand;

use crate::outcome::Outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum Lql {
    /// Parse queries: one JSON request a line, one JSON answer a line
    Parse {
        /// The only form there is: JSON lines in, JSON lines out
        #[arg(long, required = true)]
        jsonl: bool,
    },
}

pub(crate) fn lql(command: &Lql) -> Outcome {
    let Lql::Parse { .. } = command;
    each_line(|line| Ok(tidegate_lql::parse_line(line)))
}

pub(crate) fn redact() -> Outcome {
    each_line(|line| {
        let mut value = serde_json::from_str(line)?;
        tidegate_service::redact::redact_json(&mut value);
        Ok(serde_json::to_string(&value)?)
    })
}

/// Answers each line. Blank lines are skipped; an error names the number of its line.
fn each_line(mut answer: impl FnMut(&str) -> Result<String, Box<dyn std::error::Error>>) -> Outcome {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (i, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let text = answer(&line).map_err(|error| format!("line {}: {error}", i + 1))?;
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(())
}
