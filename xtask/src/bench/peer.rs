//! The other stores, each in a process of its own: a Python program that is sent requests as lines of JSON.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Answer, rows};
use crate::root;

/// A running peer; it ends with this value.
#[derive(Debug)]
pub(crate) struct Peer {
    /// `duckdb`, `chdb` or `postgres`.
    pub(crate) name: String,
    /// Name and version, for people.
    pub(crate) version: String,
    pub(crate) settings: String,
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts a peer with its data in a folder that is there.
    ///
    /// # Errors
    /// Where it does not start; it says why on standard error.
    pub(crate) fn start(python: &Path, name: &str, folder: &Path, threads: usize) -> Result<Self, String> {
        let mut process = Command::new(python)
            .arg(root().join("xtask/bench/peers/peer.py"))
            .arg(name)
            .arg(folder)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} does not start: {error}"))?;
        let requests = process.stdin.take();
        let answers = process.stdout.take().ok_or_else(|| format!("{name} has no output"))?;
        let answers = BufReader::with_capacity(1 << 16, answers);
        let mut peer =
            Self { name: name.to_owned(), version: String::new(), settings: String::new(), process, requests, answers };
        let started = peer.answer()?;
        let field = |field: &str| started.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        (peer.version, peer.settings) = (field("version"), field("settings"));
        Ok(peer)
    }

    /// Adds the rows of a CSV file to a table.
    ///
    /// # Errors
    /// What the peer says.
    pub(crate) fn load(&mut self, table: &str, file: &Path) -> Result<(), String> {
        self.call(&json!({"do": "load", "table": table, "file": file})).map(drop)
    }

    /// Sorts, merges, indexes: whatever the peer's best layout takes once all rows are there.
    ///
    /// # Errors
    /// What the peer says.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.call(&json!({"do": "finish"})).map(drop)
    }

    /// Asks; the time is that of executing and fetching, in the peer's process.
    ///
    /// # Errors
    /// What the peer says.
    pub(crate) fn ask(&mut self, statements: &[String]) -> Result<(Duration, Answer), String> {
        let answer = self.call(&json!({"do": "ask", "statements": statements}))?;
        let seconds = answer.get("seconds").and_then(Value::as_f64).ok_or("an answer without its time")?;
        let answers = answer.get("answers").and_then(Value::as_array).ok_or("an answer without rows")?;
        Ok((Duration::from_secs_f64(seconds), answers.iter().map(rows).collect::<Result<_, _>>()?))
    }

    fn call(&mut self, request: &Value) -> Result<Value, String> {
        let requests = self.requests.as_mut().ok_or("the peer has no input")?;
        let sent = writeln!(requests, "{request}").and_then(|()| requests.flush());
        sent.map_err(|error| format!("{}: {error}", self.name))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).map_err(|error| format!("{}: {error}", self.name))?;
        if read == 0 {
            return Err(format!("{} ended", self.name));
        }
        let answer: Value = serde_json::from_str(&line).map_err(|error| format!("{}: {error}", self.name))?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("{}: {error}", self.name)),
            None => Ok(answer),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Without input it closes its data and ends.
        self.requests = None;
        let _ = self.process.wait();
    }
}
