//! `tidegate explain`: what a query would read on a server, and what of it workers would do. Nothing is run.

use clap::Args;
use serde_json::{Map, Value};

use crate::client::{Client, ServerArguments, endpoint_path, plain, with_parameter_hint};
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The endpoint
    endpoint: String,
    /// A query in LQL over its tables; without it, its saved query
    lql: Option<String>,
    /// A query in SQL instead
    #[arg(long, conflicts_with = "lql")]
    sql: Option<String>,
    /// A parameter of the endpoint
    #[arg(short = 'p', long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,
    /// Explain it as for a token that pins this: --as project=abc; may be repeated
    #[arg(long = "as", value_name = "NAME=VALUE")]
    tenant: Vec<String>,
    /// Print the answer of the server as it is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a private token")?;
    let body = body(arguments)?.to_string();
    let path = format!("{}/explain", endpoint_path(&arguments.endpoint));
    let answer = client.call("POST", &path, Some(("application/json", body.as_bytes())));
    let answer = answer.map_err(|error| with_parameter_hint(error.to_string()))?.json()?;
    if arguments.json {
        println!("{answer:#}");
        return Ok(());
    }
    for line in lines(&answer) {
        println!("{}", plain(&line, 3_000));
    }
    Ok(())
}

/// The parameters as the body of a query.
fn body(arguments: &Arguments) -> Result<Value, String> {
    let mut body = Map::new();
    for parameter in &arguments.parameters {
        let Some((name, value)) = parameter.split_once('=') else {
            return Err(format!("{parameter}: a parameter is written NAME=VALUE"));
        };
        body.insert(name.to_owned(), value.into());
    }
    for (name, text) in [("lql", &arguments.lql), ("sql", &arguments.sql)] {
        if let Some(text) = text {
            body.insert(name.to_owned(), text.as_str().into());
        }
    }
    let mut tenant = Map::new();
    for pinned in &arguments.tenant {
        let (name, value) = pinned.split_once('=').ok_or_else(|| format!("--as {pinned}: write NAME=VALUE"))?;
        if tenant.insert(name.to_owned(), value.into()).is_some() {
            return Err(format!("--as {name} is given twice"));
        }
    }
    if !tenant.is_empty() {
        body.insert("as".to_owned(), tenant.into());
    }
    Ok(body.into())
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn whole(value: &Value, field: &str) -> u64 {
    value.get(field).and_then(Value::as_u64).unwrap_or_default()
}

fn is(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The answer of the server as lines: tables, sources with their scans, workers.
fn lines(answer: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for table in list(answer, "tables") {
        lines.push(format!("table {}: {}", text(table, "name"), texts(table, "columns").join(", ")));
    }
    for source in list(answer, "sources") {
        lines.push(format!(
            "source {}: {} segments with {} rows and {} bytes, {} rows in memory",
            text(source, "name"),
            whole(source, "segments"),
            whole(source, "rows"),
            whole(source, "bytes"),
            whole(source, "memory_rows"),
        ));
        if let Some(condition) = source.get("of_tenant").and_then(Value::as_str) {
            lines.push(format!("  of the tenant: {condition}"));
        }
        let of_source = |scan: &&Value| text(scan, "source") == text(source, "name");
        let mut scans = list(answer, "scans").iter().filter(of_source).flat_map(scan).peekable();
        if scans.peek().is_none() {
            lines.push("  nothing is left to read".to_owned());
        }
        lines.extend(scans);
    }
    lines.extend(left_out(answer, "scans"));
    if let Some(workers) = answer.get("workers") {
        for scan in list(workers, "remote") {
            let operators = texts(scan, "operators").join(" over ");
            lines.push(format!("workers, {}: {operators}", text(scan, "source")));
            lines.extend(list(scan, "tasks").iter().map(task));
            lines.extend(left_out(scan, "tasks"));
        }
        lines.extend(stages(workers));
        let stays = list(workers, "local").iter();
        lines.extend(stays.map(|stay| format!("a scan stays with the server: {}", text(stay, "message"))));
        lines.extend(left_out(workers, "scans for workers"));
    }
    lines
}

/// What is told of the stages of a statement, beside its scans.
pub(crate) fn stages(of: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(exchange) = of.get("exchange") {
        let (stages, workers) = (whole(exchange, "stages"), texts(exchange, "workers").join(", "));
        lines.push(format!("workers exchange rows, in {stages} stages: {workers}"));
    }
    match text(of, "not_exchanged") {
        "" => {}
        why => lines.push(format!("workers exchange no rows: {why}")),
    }
    for attempt in list(of, "attempts") {
        let worker = Some(text(attempt, "worker")).filter(|worker| !worker.is_empty()).unwrap_or("a worker");
        lines.push(format!("{worker} failed ({}), and it ran again", text(attempt, "failure")));
    }
    if is(of, "fell_back") {
        lines.push("at last it ran on the server alone".to_owned());
    }
    lines
}

fn scan(scan: &Value) -> Vec<String> {
    let mut line = match text(scan, "place") {
        "memory" => format!("  reads {} rows in memory", whole(scan, "rows")),
        _ => format!(
            "  reads {} segments: {} runs with {} rows, about {} bytes",
            whole(scan, "segments"),
            whole(scan, "runs"),
            whole(scan, "rows"),
            whole(scan, "bytes"),
        ),
    };
    line.push_str(&format!(", in {} partitions", whole(scan, "partitions")));
    if is(scan, "in_order") {
        line.push_str(", newest first");
    }
    if let Some(limit) = scan.get("limit").and_then(Value::as_u64) {
        line.push_str(&format!(", at most {limit} rows of each"));
    }
    let mut lines = vec![line];
    lines.extend(texts(scan, "conditions").iter().map(|condition| format!("    where {condition}")));
    if is(scan, "learns_conditions") {
        lines.push("    and what a join or a limit finds while it runs".to_owned());
    }
    let indexes = texts(scan, "indexes");
    if !indexes.is_empty() {
        lines.push(format!("    the index of {} is looked into when a segment is opened", indexes.join(" and of ")));
    }
    lines
}

fn task(task: &Value) -> String {
    format!(
        "  {}: {} segments, {} rows, about {} bytes, in {} partitions",
        text(task, "worker"),
        whole(task, "segments"),
        whole(task, "rows"),
        whole(task, "bytes"),
        whole(task, "partitions"),
    )
}

fn left_out(of: &Value, what: &str) -> Option<String> {
    let more = whole(of, "left_out");
    (more > 0).then(|| format!("  and {more} more {what}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scans_stand_below_their_source() {
        let scan = json!({"source": "logs", "place": "segments", "segments": 2, "runs": 3, "rows": 40, "bytes": 500,
                          "partitions": 2, "in_order": true, "limit": 100, "learns_conditions": true,
                          "conditions": ["project = p", "id = a"], "indexes": ["ids", "texts"]});
        let memory = json!({"source": "logs", "place": "memory", "rows": 5, "partitions": 1, "in_order": false,
                            "limit": null, "learns_conditions": false, "conditions": [], "indexes": []});
        let source =
            |name: &str| json!({"name": name, "segments": 7, "runs": 9, "rows": 100, "bytes": 900, "memory_rows": 5});
        let tasks = json!([{"worker": "a:1", "segments": 2, "rows": 40, "bytes": 500, "partitions": 1}]);
        let answer = json!({
            "tables": [{"name": "edge", "columns": ["id", "m.path"]}],
            "sources": [source("logs"), source("others")], "scans": [memory, scan],
            "workers": {"remote": [{"source": "logs", "operators": ["FilterExec", "DataSourceExec"], "tasks": tasks}],
                        "local": [{"reason": "little", "message": "only 3 rows"}],
                        "exchange": {"stages": 3, "workers": ["a:1", "b:1"]}},
        });
        let expected = [
            "table edge: id, m.path",
            "source logs: 7 segments with 100 rows and 900 bytes, 5 rows in memory",
            "  reads 5 rows in memory, in 1 partitions",
            "  reads 2 segments: 3 runs with 40 rows, about 500 bytes, in 2 partitions, newest first, at most 100 rows of each",
            "    where project = p",
            "    where id = a",
            "    and what a join or a limit finds while it runs",
            "    the index of ids and of texts is looked into when a segment is opened",
            "source others: 7 segments with 100 rows and 900 bytes, 5 rows in memory",
            "  nothing is left to read",
            "workers, logs: FilterExec over DataSourceExec",
            "  a:1: 2 segments, 40 rows, about 500 bytes, in 1 partitions",
            "workers exchange rows, in 3 stages: a:1, b:1",
            "a scan stays with the server: only 3 rows",
        ];
        assert_eq!(lines(&answer), expected);
    }
}
