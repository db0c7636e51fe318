//! The report of `tidegate access` as a table: a line for each source that a part of an endpoint reads.

use serde_json::Value;

/// The widest column, apart from the last.
const WIDEST: usize = 60;

/// The report of one token.
pub(super) fn of_token(report: &Value) -> Vec<String> {
    let token = report.get("token").unwrap_or(&Value::Null);
    let mut lines = vec![format!("token {}  {}", text(token, "id"), text(token, "description"))];
    let pinned = token.get("pinned").and_then(Value::as_object).into_iter().flatten();
    let pinned: Vec<String> =
        pinned.map(|(name, value)| format!("{name} = '{}'", value.as_str().unwrap_or_default())).collect();
    lines.push(format!("  scopes {}{}", text(token, "scopes"), listed("; pins ", &pinned)));
    let time = |field: &str, none: &str| token.get(field).and_then(Value::as_str).unwrap_or(none).to_owned();
    lines.push(format!("  expires {}; last used {}", time("expires_at", "never"), time("last_used_at", "never")));
    lines.extend(about(report));
    lines.extend(endpoints(report));
    lines
}

/// The report of all who read: classes of tokens, rules of issuers, alerts.
pub(super) fn of_all(report: &Value) -> Vec<String> {
    let classes = list(report, "classes").iter().flat_map(of_class);
    let rules = list(report, "rules").iter().flat_map(of_rule);
    let alerts = list(report, "alerts").iter().flat_map(of_alert);
    let lines: Vec<String> = classes.chain(rules).chain(alerts).collect();
    if lines.is_empty() { vec!["nobody reads that".to_owned()] } else { lines }
}

/// The report of the tokens to which a rule of an issuer applies.
fn of_rule(rule: &Value) -> Vec<String> {
    let pinned: Vec<String> = pairs(rule, "pinned").iter().map(|pin| pin.replacen(' ', " from ", 1)).collect();
    let mut lines = vec![format!(
        "tokens of the rule {} with the scopes {}{}",
        text(rule, "rule"),
        text(rule, "scopes"),
        listed("; pins ", &pinned)
    )];
    lines.extend(limits(rule));
    lines.extend(about(rule));
    lines.extend(endpoints(rule));
    lines.push(String::new());
    lines
}

/// The report of an alert.
fn of_alert(alert: &Value) -> Vec<String> {
    let paused = if alert.get("paused") == Some(&Value::Bool(true)) { "; paused" } else { "" };
    let mut lines = vec![format!(
        "alert {} of {}, to {}{paused}",
        text(alert, "alert"),
        text(alert, "endpoint"),
        text(alert, "receiver")
    )];
    let tenant: Vec<String> = pairs(alert, "tenant").iter().map(|pin| pin.replacen(' ', " = ", 1)).collect();
    lines.push(match tenant.as_slice() {
        [] => "  asks for no tenant, and reads the rows of all".to_owned(),
        _ => format!("  asks for {}", tenant.join(", ")),
    });
    lines.extend(endpoints(alert));
    lines.push(String::new());
    lines
}

fn limits(report: &Value) -> Option<String> {
    let limits = pairs(report, "limits");
    (!limits.is_empty()).then(|| format!("  limits of the token: {}", limits.join(", ")))
}

/// The report of a class of tokens.
fn of_class(class: &Value) -> Vec<String> {
    let tokens = class.get("tokens").and_then(Value::as_u64).unwrap_or_default();
    let pinned: Vec<String> = texts(class, "pinned").map(str::to_owned).collect();
    let who = if tokens == 1 { "token" } else { "tokens" };
    let mut lines =
        vec![format!("{tokens} {who} with the scopes {}{}", text(class, "scopes"), listed("; pins ", &pinned))];
    lines.extend(limits(class));
    lines.extend(about(class));
    lines.extend(endpoints(class));
    lines.push(String::new());
    lines
}

/// What holds whatever endpoints there are.
fn about(report: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    if report.get("private") == Some(&Value::Bool(true)) {
        lines.push("  may manage everything, and read all rows of all sources".to_owned());
    }
    let written: Vec<String> =
        report.get("writes").into_iter().flat_map(|writes| texts(writes, "sources")).map(str::to_owned).collect();
    lines.push(match report.pointer("/writes/all") {
        Some(Value::Bool(true)) => "  writes to all sources".to_owned(),
        _ if written.is_empty() => "  writes nothing".to_owned(),
        _ => format!("  writes to {}", written.join(", ")),
    });
    lines
}

fn endpoints(report: &Value) -> Vec<String> {
    let all = list(report, "endpoints");
    if all.is_empty() {
        return vec!["  reads nothing through endpoints".to_owned()];
    }
    let head = ["endpoint", "table", "source", "rows", "columns"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(all.iter().flat_map(rows)).collect();
    let mut lines = aligned(&rows);
    let head = ["endpoint", "ad-hoc text", "redaction", "limits"].map(str::to_owned).to_vec();
    let bounds: Vec<Vec<String>> = std::iter::once(head).chain(all.iter().map(bounds)).collect();
    lines.push(String::new());
    lines.extend(aligned(&bounds));
    lines
}

/// The lines of an endpoint.
fn rows(endpoint: &Value) -> Vec<Vec<String>> {
    let name = text(endpoint, "endpoint");
    let row = |cells: [&str; 4]| std::iter::once(name).chain(cells).map(str::to_owned).collect::<Vec<_>>();
    let mut rows = Vec::new();
    if let Some(reason) = endpoint.get("refused").and_then(Value::as_str) {
        rows.push(row(["(all)", "-", "REFUSED", reason]));
        return rows;
    }
    for table in list(endpoint, "tables") {
        // A granted table that neither callers nor code may ask for by itself.
        let within = text(table, "kind") == "grant" && text(table, "read_by") == "query";
        let named = format!("{}{}", text(table, "table"), if within { " (in the query)" } else { "" });
        if let Some(failed) = table.get("failed").and_then(Value::as_str) {
            rows.push(row([&named, "-", "FAILS", failed]));
            continue;
        }
        let sources = list(table, "sources");
        if sources.is_empty() {
            rows.push(row([&named, "(no source)", "-", "-"]));
        }
        for source in sources {
            let columns: Vec<&str> = texts(source, "columns").collect();
            let columns = if columns.is_empty() { "(counted only)".to_owned() } else { columns.join(", ") };
            let last = source.get("reason").and_then(Value::as_str).map_or(columns, str::to_owned);
            let source_name = source.get("source").and_then(Value::as_str).unwrap_or("(not told)");
            rows.push(row([&named, source_name, text(source, "rows"), &last]));
        }
    }
    rows
}

/// What bounds the answers of an endpoint.
fn bounds(endpoint: &Value) -> Vec<String> {
    let adhoc = match text(endpoint, "adhoc") {
        "tables" => "over its tables",
        "sources" => "over all sources",
        _ => "no",
    };
    let redaction = match text(endpoint, "redaction") {
        "always" => "always",
        "unless_turned_off" => "unless turned off",
        _ => "if asked for",
    };
    // Limits of code say nothing of a saved query.
    let is_code = list(endpoint, "tables").iter().any(|table| text(table, "read_by") == "code");
    let mut limits = pairs(endpoint, "limits");
    limits.retain(|limit| is_code || !limit.starts_with("component_"));
    let limits = limits.join(", ");
    [text(endpoint, "endpoint"), adhoc, redaction, &limits].map(str::to_owned).to_vec()
}

/// Rows with their cells below each other.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |nth: usize| {
        let cells = rows.iter().filter_map(|row| row.get(nth)).map(|cell| cell.chars().count());
        cells.max().unwrap_or_default().min(WIDEST)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    list(value, field).iter().filter_map(Value::as_str)
}

/// The fields of an object, as `name value`.
fn pairs(value: &Value, field: &str) -> Vec<String> {
    let fields = value.get(field).and_then(Value::as_object).into_iter().flatten();
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    fields.map(|(name, value)| format!("{name} {}", shown(value))).collect()
}

fn listed(before: &str, texts: &[String]) -> String {
    if texts.is_empty() { String::new() } else { format!("{before}{}", texts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_a_table() {
        let source = json!({"source": "app.logs", "rows": "project = own", "columns": ["id", "metadata.a"]});
        let refused = json!({"source": "members", "rows": "REFUSED", "reason": "no tenant key", "columns": ["id"]});
        let tables = json!([
            {"table": "mine", "kind": "grant", "read_by": "caller", "sources": [source]},
            {"table": "(body)", "kind": "body", "read_by": "query", "sources": [refused]},
            {"table": "odd", "kind": "statement", "read_by": "code", "failed": "no table x", "sources": []},
        ]);
        let class = json!({
            "scopes": "query", "pinned": ["project"], "limits": {"rows": "5"}, "tokens": 3, "private": false,
            "writes": {"all": false, "sources": []},
            "endpoints": [
                {"endpoint": "own", "refused": null, "adhoc": "tables", "redaction": "always", "limits": {"rows": "5"}, "tables": tables},
                {"endpoint": "x", "refused": "not bound", "adhoc": "nothing", "redaction": "on_request", "limits": {}, "tables": []},
            ],
        });
        let expected = [
            "3 tokens with the scopes query; pins project",
            "  limits of the token: rows 5",
            "  writes nothing",
            "endpoint  table   source    rows           columns",
            "own       mine    app.logs  project = own  id, metadata.a",
            "own       (body)  members   REFUSED        no tenant key",
            "own       odd     -         FAILS          no table x",
            "x         (all)   -         REFUSED        not bound",
            "",
            "endpoint  ad-hoc text      redaction     limits",
            "own       over its tables  always        rows 5",
            "x         no               if asked for",
            "",
        ];
        assert_eq!(of_class(&class), expected);
        let own = json!({"classes": [], "rules": [], "alerts": []});
        assert_eq!(of_all(&own), ["nobody reads that"]);
    }

    #[test]
    fn rules_and_alerts_are_readers() {
        let rule = json!({"rule": "main/1", "scopes": "query", "pinned": {"project": "/org/project"}, "limits": {},
                          "private": false, "writes": {"all": false, "sources": []}, "endpoints": []});
        let alert = json!({"alert": "many", "endpoint": "own", "receiver": "https://hooks.example.com", "tenant": {"project": "abc"},
                           "paused": true, "endpoints": []});
        let all = json!({"classes": [], "rules": [rule], "alerts": [alert]});
        let expected = [
            "tokens of the rule main/1 with the scopes query; pins project from /org/project",
            "  writes nothing",
            "  reads nothing through endpoints",
            "",
            "alert many of own, to https://hooks.example.com; paused",
            "  asks for project = abc",
            "  reads nothing through endpoints",
            "",
        ];
        assert_eq!(of_all(&all), expected);
    }
}
