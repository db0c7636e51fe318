//! `tidegate tail`: the newest rows of an endpoint's table, and then each new one, in the terminal.
//!
//! The command reads the events of the route of queries. Where the connection breaks off, it asks again with the id of the
//! last event, so that no row is lost or shown twice as far as the server still has them; what it does not have is told.

use std::error::Error;
use std::io::{ErrorKind, IsTerminal};
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::stream::{Left, lines, read};
use crate::client::{Client, ServerArguments, plain, segment, with_parameter_hint};
use crate::outcome::Outcome;

mod row;
mod stream;

/// The pauses before the next try while the server cannot be reached.
const PAUSES: [u64; 5] = [1, 2, 4, 8, 15];
/// How long nothing may come before it is asked again. The server sends a sign of life every 15 seconds, unless its settings
/// say otherwise.
const SILENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Time, severity, message and the other fields
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint
    endpoint: String,
    /// Filters in LQL; without them every row of the first granted table
    lql: Option<String>,
    /// A query in SQL instead: SELECT columns FROM table WHERE condition
    #[arg(long, conflicts_with = "lql")]
    sql: Option<String>,
    /// A parameter of the endpoint
    #[arg(short = 'p', long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// How rows are shown
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Begin with all rows since then: 30s, 10m, 2h, 1d ago, or a time such as 2026-01-31T12:00:00Z
    #[arg(long)]
    since: Option<String>,
    /// Begin with so many of the newest rows
    #[arg(short = 'n', long)]
    rows: Option<u32>,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a token that may query the endpoint")?;
    let path = path(arguments)?;
    let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let (mut last, mut tries, mut begun) = (None::<String>, 0, false);
    loop {
        let left = match client.events(&path, last.as_deref()) {
            Ok(stream) => {
                (tries, begun) = (0, true);
                match read(&lines(stream), SILENCE, &mut last, arguments.format, colours) {
                    // Whoever read the output has ended, such as `head`.
                    Err(error) if is_closed_pipe(&*error) => return Ok(()),
                    left => left?,
                }
            }
            Err(error) if error.is_final || !begun => return Err(with_parameter_hint(error.message).into()),
            Err(error) => {
                eprintln!("tidegate: {}", plain(&error.message, 500));
                Left::Again
            }
        };
        if let Left::Over(reason) = left {
            return Err(reason.into());
        }
        let pause = PAUSES.get(tries).or(PAUSES.last()).copied().unwrap_or(1);
        tries += 1;
        sleep(Duration::from_secs(pause));
    }
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn path(arguments: &Arguments) -> Result<String, Box<dyn Error>> {
    let Arguments { endpoint, lql, sql, parameters, format: _, since, rows, server: _ } = arguments;
    let mut query = form_urlencoded::Serializer::new(String::new());
    for parameter in parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            return Err(format!("{parameter}: a parameter is written NAME=VALUE").into());
        };
        query.append_pair(name, value);
    }
    let rows = rows.map(|rows| rows.to_string());
    for (name, value) in [("lql", lql), ("sql", sql), ("follow_since", since), ("follow_rows", &rows)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    Ok(format!("/api/endpoints/query/{}?{}", segment(endpoint), query.finish()))
}
