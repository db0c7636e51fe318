//! `tidegate slow-queries`: the slowest queries of the last hour on a server, what each cost, and what of it ran on
//! workers.

use clap::Args;
use serde_json::Value;

use crate::client::{Client, ServerArguments, plain};
use crate::explain::stages;
use crate::outcome::Outcome;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How many
    #[arg(long, default_value_t = 10)]
    most: usize,
    #[command(flatten)]
    server: ServerArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let client = Client::new(&arguments.server, "a private token")?;
    let queries = client.json("GET", "/api/slow-queries")?;
    let queries =
        queries.as_array().ok_or("the answer is no list of queries; is a Tidegate server at that address?")?;
    if queries.is_empty() {
        println!("no query has run in the last hour");
    }
    for query in queries.iter().take(arguments.most) {
        for line in lines(query) {
            println!("{}", plain(&line, 3_000));
        }
    }
    Ok(())
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn whole(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_default()
}

fn milliseconds(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A query: its time, cost and text, and below them its scans.
fn lines(query: &Value) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{:>9.1} ms  {}  {} rows and {} bytes read, {} bytes held  {}",
            milliseconds(query, "/milliseconds"),
            whole(query, "/status"),
            whole(query, "/rows_read"),
            whole(query, "/bytes_read"),
            whole(query, "/memory"),
            text(query, "/endpoint/name"),
        ),
        format!("    {}", query.get("text").and_then(Value::as_str).unwrap_or("the saved query")),
    ];
    for statement in list(query, "workers") {
        for scan in list(statement, "remote") {
            let operators: Vec<_> = list(scan, "operators").iter().filter_map(Value::as_str).collect();
            lines.push(format!("    {}: workers run {}", text(scan, "/source"), operators.join(" over ")));
            lines.extend(list(scan, "tasks").iter().map(task));
            lines.extend(left_out(scan, "tasks"));
        }
        lines.extend(stages(statement).into_iter().map(|line| format!("    {line}")));
        for scan in list(statement, "local") {
            lines.push(format!("    a scan stays with the server: {}", text(scan, "/message")));
        }
        lines.extend(left_out(statement, "scans"));
    }
    lines
}

fn left_out(of: &Value, what: &str) -> Option<String> {
    let more = whole(of, "/left_out");
    (more > 0).then(|| format!("      and {more} more {what}"))
}

fn task(task: &Value) -> String {
    let Some(ran) = task.get("ran") else {
        return format!("      {}: not started", text(task, "/worker"));
    };
    format!(
        "      {}: {:.1} ms, {} segments, {} rows and {} bytes read, {} rows sent",
        text(task, "/worker"),
        milliseconds(ran, "/milliseconds"),
        whole(task, "/segments"),
        whole(ran, "/rows_read"),
        whole(ran, "/bytes_read"),
        whole(ran, "/rows_sent"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_workers_did_stands_below_a_query() {
        let ran = json!({"milliseconds": 2.5, "rows_sent": 4, "rows_read": 100, "bytes_read": 2000, "memory": 5});
        let scan = json!({"source": "logs", "operators": ["AggregateExec", "DataSourceExec"], "left_out": 3,
                          "tasks": [{"worker": "a:1", "segments": 2, "ran": ran}, {"worker": "b:1", "segments": 1}]});
        let query = json!({
            "milliseconds": 12.34, "status": 200, "rows_read": 100, "bytes_read": 2000, "memory": 7,
            "endpoint": {"name": "all"}, "text": null,
            "workers": [{"remote": [scan], "local": [{"reason": "little", "message": "only 3 rows"}],
                         "not_exchanged": "x", "attempts": [{"worker": "c:1", "failure": "the worker is gone: x"},
                         {"worker": null, "failure": "y"}], "fell_back": true}],
        });
        let expected = [
            "     12.3 ms  200  100 rows and 2000 bytes read, 7 bytes held  all",
            "    the saved query",
            "    logs: workers run AggregateExec over DataSourceExec",
            "      a:1: 2.5 ms, 2 segments, 100 rows and 2000 bytes read, 4 rows sent",
            "      b:1: not started",
            "      and 3 more tasks",
            "    workers exchange no rows: x",
            "    c:1 failed (the worker is gone: x), and it ran again",
            "    a worker failed (y), and it ran again",
            "    at last it ran on the server alone",
            "    a scan stays with the server: only 3 rows",
        ];
        assert_eq!(lines(&query), expected);
    }
}
