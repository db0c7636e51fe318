//! `tidegate alert`: the alerts of an endpoint on a server. What they are stands in `endpoint.toml` and is pushed with the
//! endpoint; here are their state, their test and their secret.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{Client, ServerArguments, endpoint_path, plain, segment};
use crate::outcome::Outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List alerts with their state
    List {
        /// The endpoint, by name or id; without it the alerts of all, those that fire first
        endpoint: Option<String>,
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Send a test message of an alert to its receiver
    Test(OneAlert),
    /// Run an alert now, as if its time had come
    Run(OneAlert),
    /// Give an alert a new secret, and print it; the old one counts no more
    Secret(OneAlert),
}

#[derive(Debug, Args)]
pub(crate) struct OneAlert {
    /// The endpoint, by name or id
    endpoint: String,
    /// The alert
    name: String,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::List { endpoint, server } => list(endpoint.as_deref(), server),
        Command::Test(one) => test(one),
        Command::Run(one) => run_now(one),
        Command::Secret(one) => secret(one),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list(endpoint: Option<&str>, server: &ServerArguments) -> Outcome {
    let client = Client::new(server, "a private token")?;
    let path = endpoint.map_or_else(|| "/api/alerts".to_owned(), |name| format!("{}/alerts", endpoint_path(name)));
    let alerts = client.json("GET", &path)?;
    let alerts = alerts.as_array().ok_or("the answer is no list of alerts; is a Tidegate server at that address?")?;
    if alerts.is_empty() {
        let whose = endpoint.map_or_else(|| "there are".to_owned(), |name| format!("{name} has"));
        println!("{whose} no alerts; [[alert]] in endpoint.toml makes one");
    }
    for alert in alerts {
        let flag = |field: &str| alert.get(field).and_then(Value::as_bool) == Some(true);
        let state = match (flag("paused"), flag("firing")) {
            (true, _) => "paused",
            (_, true) => "firing",
            _ => "quiet",
        };
        let minutes = alert.get("every_minutes").and_then(Value::as_u64).unwrap_or_default();
        let what = format!("{}, every {minutes} min", text(alert, "condition"));
        let of = alert.pointer("/endpoint/name").and_then(Value::as_str);
        let name = of.map_or_else(|| text(alert, "name").to_owned(), |of| format!("{of}/{}", text(alert, "name")));
        println!("{:<24} {state:<7} {}", plain(&name, 200), plain(&what, 500));
        let failed = alert.pointer("/last_run/error/message").and_then(Value::as_str);
        if let Some(failed) = failed {
            println!("  the last run failed: {}", plain(failed, 500));
        }
        if let Some(delivery) = alert.get("last_delivery").filter(|delivery| delivery.is_object()) {
            println!("  the last message: {}", told(delivery));
        }
    }
    Ok(())
}

/// What became of a message.
fn told(delivery: &Value) -> String {
    let state = text(delivery, "state");
    let outcome = match (delivery.get("status").and_then(Value::as_u64), delivery.get("error").and_then(Value::as_str))
    {
        (Some(status), _) => format!("the receiver answered {status}"),
        (None, Some(error)) => error.to_owned(),
        (None, None) => "nothing is known".to_owned(),
    };
    let end = if delivery.get("given_up").and_then(Value::as_bool) == Some(true) { "; given up" } else { "" };
    plain(&format!("{state}, {outcome}{end}"), 500)
}

fn call(one: &OneAlert, what: &str, body: Option<&Value>) -> Result<Value, Box<dyn std::error::Error>> {
    let client = Client::new(&one.server, "a private token")?;
    let path = format!("{}/alerts/{}/{what}", endpoint_path(&one.endpoint), segment(&one.name));
    let bytes = body.map(|body| body.to_string().into_bytes());
    client.call("POST", &path, bytes.as_deref().map(|bytes| ("application/json", bytes)))?.json()
}

fn test(one: &OneAlert) -> Outcome {
    let sent = call(one, "test", None)?;
    let holds = if sent.get("holds").and_then(Value::as_bool) == Some(true) { "holds" } else { "does not hold" };
    println!("{}: the condition {holds} now; {}", one.name, told(&sent));
    if sent.get("delivered").and_then(Value::as_bool) == Some(true) {
        return Ok(());
    }
    Err("the message was not taken: a receiver answers with a status from 200 to 299".into())
}

fn run_now(one: &OneAlert) -> Outcome {
    let run = call(one, "runs", None)?;
    if let Some(error) = run.pointer("/error/message").and_then(Value::as_str) {
        return Err(format!("the run failed: {}", plain(error, 1_000)).into());
    }
    let holds = if run.get("holds").and_then(Value::as_bool) == Some(true) { "holds" } else { "does not hold" };
    let rows = run.get("rows").and_then(Value::as_u64).unwrap_or_default();
    let message = run
        .get("message")
        .and_then(Value::as_str)
        .map_or_else(String::new, |state| format!("; a message is sent: {}", plain(state, 20)));
    println!("{}: {rows} rows, the condition {holds}{message}", one.name);
    Ok(())
}

fn secret(one: &OneAlert) -> Outcome {
    let made = call(one, "secret", Some(&json!({})))?;
    println!("{}", plain(text(&made, "secret"), 256));
    Ok(())
}
