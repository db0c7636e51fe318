//! `tidegate run`: one request to an endpoint, over sample logs or given ones, without a server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};
use tidegate_compiler::{Folder, in_plain_words};
use tidegate_model::parse_timestamp;
use tidegate_service::workbench::{Ask, Logs, Outcome as Answered, Scene, Workbench};

use super::build::built;
use super::cost::{bytes, grouped};
use super::guest_log::GuestLog;
use super::json_diff::laid_out;
use super::test::remarks;
use crate::client::{parameter_hint, plain};
use crate::outcome::Outcome;
use crate::runtime::runtime;
use crate::sample;

/// Sample logs of each source, over the time that they are spread over.
const SAMPLES: usize = 800;
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint's folder
    folder: PathBuf,
    /// A parameter of the request; may be repeated
    #[arg(long = "parameter", short, value_name = "NAME=VALUE", value_parser = pair)]
    parameters: Vec<(String, String)>,
    /// Ad-hoc SQL in place of the saved query
    #[arg(long, conflicts_with = "lql")]
    sql: Option<String>,
    /// An ad-hoc query in LQL
    #[arg(long)]
    lql: Option<String>,
    /// Mask personal data, whatever the endpoint's own setting is
    #[arg(long)]
    redact: bool,
    /// Logs of a source: one JSON object a line, or an array of them; may be repeated. With any, all
    /// other sources are empty; without, all have sample logs
    #[arg(long, value_name = "SOURCE=FILE", value_parser = pair)]
    logs: Vec<(String, String)>,
    /// When the request is made, such as 2026-01-31T12:00:00Z; now unless set
    #[arg(long, value_parser = moment)]
    now: Option<i64>,
    /// The module or component that is run, for an endpoint with code that was built already
    #[arg(long)]
    module: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a name and a value are needed, with = between them".to_owned()),
    }
}

fn moment(text: &str) -> Result<i64, String> {
    parse_timestamp(text).ok_or_else(|| "this is no time such as 2026-01-31T12:00:00Z".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let folder = Folder::read(&arguments.folder)?;
    let component = built(&folder, arguments.module.as_deref())?;
    let mut logs = Logs::new();
    for (source, file) in &arguments.logs {
        logs.entry(source.clone()).or_default().extend(events(Path::new(file))?);
    }
    let now = arguments.now.unwrap_or_else(|| chrono::Utc::now().timestamp_micros());
    let others = if logs.is_empty() { samples } else { Scene::none };
    let log = GuestLog::start();
    let workbench = Workbench::start()?;
    let answered = runtime()?.block_on(async {
        let trial = workbench.trial(&component, Scene { logs, now, others }).await?;
        let ask = ask(arguments);
        for remark in remarks(&trial, &ask) {
            eprintln!("{remark}");
        }
        let answered = trial.ask(ask).await;
        trial.close().await?;
        Ok::<_, Box<dyn std::error::Error>>(answered)
    });
    for line in log.take() {
        eprintln!("{line}");
    }
    tell(&answered?)
}

/// The sample logs of a source.
pub(super) fn samples(source: &str, now: i64) -> Vec<Value> {
    sample::events(source, SAMPLES, now, WEEK, 1).collect()
}

fn ask(arguments: &Arguments) -> Ask {
    let given = arguments.parameters.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let mut parameters: Map<String, Value> = given.collect();
    for (name, text) in [("sql", &arguments.sql), ("lql", &arguments.lql)] {
        if let Some(text) = text {
            parameters.insert(name.to_owned(), text.as_str().into());
        }
    }
    Ask { parameters, redact: arguments.redact.then_some(true) }
}

/// The body on standard output, everything else on standard error.
fn tell(answered: &Answered) -> Outcome {
    let Answered { status, body, truncated, notes, cost, limits } = answered;
    println!("{}", laid_out(body, 0, 0));
    for (key, value) in notes {
        eprintln!("note of the component: {key}: {}", plain(value, 1024));
    }
    if *truncated {
        eprintln!("note: there were more rows than the cap of {}", limits.rows);
    }
    eprintln!(
        "{status}: {} instructions, {} of memory, {} calls into the host, {} statements, {} rows and {} read, {} rows answered",
        grouped(cost.instructions),
        bytes(cost.guest_memory),
        grouped(cost.host_calls),
        grouped(cost.statements),
        grouped(cost.guest_rows),
        bytes(cost.guest_bytes),
        grouped(cost.answer_rows),
    );
    if *status == 200 {
        return Ok(());
    }
    let hint = body.pointer("/error/message").and_then(Value::as_str).and_then(parameter_hint);
    Err(format!("the endpoint answered with status {status}{}", hint.unwrap_or_default()).into())
}

/// The logs of a file: one JSON object a line, or an array of them.
fn events(path: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let failed = |line: usize, error: &dyn std::fmt::Display| format!("{}:{line}: {error}", path.display());
    let place = |error: &serde_json::Error| {
        let told = error.to_string();
        in_plain_words(told.split(" at line ").next().unwrap_or(&told))
    };
    if text.trim_start().starts_with('[') {
        let events: Vec<Map<String, Value>> =
            serde_json::from_str(&text).map_err(|error| failed(error.line(), &place(&error)))?;
        return Ok(events.into_iter().map(Value::Object).collect());
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let event = |(i, line): (usize, &str)| {
        let event: Map<String, Value> = serde_json::from_str(line).map_err(|error| failed(i + 1, &place(&error)))?;
        Ok(Value::Object(event))
    };
    lines.map(event).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn logs_are_read_from_lines_and_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ndjson");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            events(&path)
        };
        let two = vec![json!({"b": 1, "a": 2}), json!({})];
        assert_eq!(read("{\"b\": 1, \"a\": 2}\n\n{}\n").unwrap(), two);
        assert_eq!(read(" [{\"b\": 1, \"a\": 2},\n {}]").unwrap(), two);
        assert!(read("{}\n[1]\n").unwrap_err().contains("x.ndjson:2: "));
        assert!(read("[{},\n\n 5]").unwrap_err().contains("x.ndjson:3: "));
        assert_eq!(read("").unwrap(), Vec::<Value>::new());
        assert!(events(&folder.path().join("none")).is_err());
    }
}
