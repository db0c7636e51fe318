//! `logs.all`: specification 4.3.

use serde_json::{Value, json};
use tidegate_tests::{EDGE, PRIVATE, Raw, Server, query_string, request};

/// 2025-11-20T10:15:00Z
const START: i64 = 1_763_633_700_000_000;

fn ids(server: &Server, bounds: &[(&str, &str)]) -> Vec<String> {
    let mut parameters = vec![("project", "p1")];
    parameters.extend_from_slice(bounds);
    server.query("logs.all", &parameters).ids()
}

#[test]
fn the_start_is_exclusive_and_the_end_inclusive_to_the_microsecond() {
    let server = Server::start();
    let events: Vec<Value> = (0..5).map(|i| request(&i.to_string(), START + i, "/x")).collect();
    server.send(EDGE, &Value::Array(events));
    let (start, end) = ("iso_timestamp_start", "iso_timestamp_end");
    let all = ["4", "3", "2", "1", "0"];
    assert_eq!(ids(&server, &[]), all);
    assert_eq!(ids(&server, &[(start, ""), (end, "")]), all);
    assert_eq!(ids(&server, &[(start, "2025-11-20T10:15:00.000002Z")]), ["4", "3"]);
    assert_eq!(ids(&server, &[(end, "2025-11-20T10:15:00.000002Z")]), ["2", "1", "0"]);
    assert_eq!(
        ids(&server, &[(start, "2025-11-20T10:15:00.000001Z"), (end, "2025-11-20T10:15:00.000003Z")]),
        ["3", "2"]
    );
    // The same instant with an offset, and without a zone, which is UTC.
    assert_eq!(ids(&server, &[(end, "2025-11-20T12:15:00.000000+02:00")]), ["0"]);
    assert_eq!(ids(&server, &[(end, "2025-11-20T10:15:00")]), ["0"]);
}

#[test]
fn the_newest_hundred_of_one_project_come_newest_first() {
    let server = Server::start();
    let mut events: Vec<Value> = (0..250).map(|i| request(&format!("{i:03}"), START + i * 1000, "/x")).collect();
    for event in events.iter_mut().step_by(5) {
        event["project"] = json!("p2");
    }
    server.send(EDGE, &Value::Array(events));
    let answer = server.query("logs.all", &[("project", "p1")]);
    let times: Vec<i64> = answer.column("timestamp").iter().map(|time| time.as_i64().unwrap()).collect();
    assert_eq!(times.len(), 100);
    assert!(times.is_sorted_by(|a, b| a > b), "newest first");
    assert_eq!(answer.ids()[0], "249");
    assert!(answer.ids().iter().all(|id| id.parse::<i64>().unwrap() % 5 != 0), "the other project's rows never");
    let row = &answer.rows()[0];
    assert_eq!(row.as_object().unwrap().keys().collect::<Vec<_>>(), ["id", "timestamp", "event_message", "metadata"]);
    assert_eq!(row["timestamp"].to_string().len(), 16);
    let none: [&str; 0] = [];
    assert_eq!(ids(&server, &[("iso_timestamp_start", "2026-01-01T00:00:00Z")]), none);
}

#[test]
fn both_flavours_are_shown_as_arrays_at_every_level() {
    let server = Server::start();
    server.send(
        EDGE,
        &json!([
            {"id": "plain", "timestamp": START, "project": "p1", "event_message": "m",
             "metadata": {"request": {"method": "GET", "headers": {"user_agent": "x"}}, "tags": ["a", "b"]}},
            {"id": "wrapped", "timestamp": START - 1, "project": "p1", "event_message": "m",
             "metadata": [{"request": [{"method": "GET", "headers": [{"user_agent": "x"}]}], "tags": ["a", "b"]}]},
        ]),
    );
    let shown = json!([{"request": [{"method": "GET", "headers": [{"user_agent": "x"}]}], "tags": ["a", "b"]}]);
    assert_eq!(server.query("logs.all", &[("project", "p1")]).column("metadata"), [shown.clone(), shown]);
}

#[test]
fn it_is_called_by_name_and_by_id() {
    let server = Server::start();
    let endpoints = server.manage("GET", "/api/endpoints", &Value::Null);
    let id = endpoints.body.as_array().unwrap().iter().find(|e| e["name"] == "logs.all").unwrap()["id"].clone();
    assert_eq!(server.query(id.as_str().unwrap(), &[("project", "p1")]).rows(), &[] as &[Value]);
}

#[test]
fn redaction_is_asked_for_by_header() {
    let server = Server::start();
    let mut event = request("1", START, "/x");
    event["event_message"] = json!("from 203.0.113.9");
    server.send(EDGE, &event);
    let path = "/api/endpoints/query/logs.all?project=p1";
    for (header, expected) in
        [(None, "from 203.0.113.9"), (Some("true"), "from REDACTED"), (Some("false"), "from 203.0.113.9")]
    {
        let mut headers = vec![("x-api-key", tidegate_tests::PRIVATE)];
        headers.extend(header.map(|value| ("SVC-ENDPOINT-REDACT-PII", value)));
        assert_eq!(server.call("GET", path, &headers, b"").column("event_message"), [json!(expected)]);
    }
}

/// A page of a log viewer that asks for a column which no table has shows nothing, and nothing says why.
#[test]
fn a_name_that_no_log_has_had_is_told_with_the_answer() {
    let server = Server::start();
    server.send(EDGE, &json!([request("1", START, "/x")]));
    let get = |sql: &str, extra: &[(&str, &str)]| {
        let mut parameters = vec![("project", "p1"), ("sql", sql)];
        parameters.extend_from_slice(extra);
        let path = format!("/api/endpoints/query/logs.all?{}", query_string(&parameters));
        server.fetch("GET", &path, &[("x-api-key", PRIVATE)], b"")
    };
    let warning = |answer: &Raw| answer.header("x-tidegate-note-warning");
    let from = "FROM edge_logs CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS request";
    let asked = format!("SELECT id, path {from} WHERE identifier = 'default'");
    let told = format!(
        "no log has had identifier so far, and it is NULL (line 1, column {})",
        asked.find("identifier").map_or(0, |at| at + 1)
    );
    for extra in [&[][..], &[("format", "ndjson")], &[("format", "csv")]] {
        let answer = get(&asked, extra);
        assert_eq!((answer.status, warning(&answer).as_deref()), (200, Some(told.as_str())), "{extra:?}");
    }
    let near = get(&format!("SELECT pahth {from}"), &[]);
    assert_eq!(
        warning(&near).as_deref(),
        Some("no log has had pahth so far, and it is NULL; did you mean path? (line 1, column 8)")
    );
    for fine in [format!("SELECT id, path, request.nowhere {from}"), "SELECT id FROM edge_logs".to_owned()] {
        let answer = get(&fine, &[]);
        assert_eq!((answer.status, warning(&answer)), (200, None), "{fine}");
    }
}

/// Tables whose records have different fields, one of which is several kinds, in one list.
#[test]
fn tables_of_different_records_unite_to_one_with_all_fields() {
    let server = Server::start();
    let log = |id: &str, time: i64, metadata: Value| json!({"id": id, "timestamp": START + time, "project": "p1", "event_message": id, "metadata": metadata});
    let edge = [
        log(
            "e1",
            1,
            json!({"request": {"method": "GET", "path": "/a"}, "status": 200, "context": [{"pid": 1}, {"pid": 2}]}),
        ),
        log("e2", 2, json!({"request": "none", "status": "late"})),
    ];
    let postgres = [
        log(
            "p1",
            3,
            json!({"parsed": {"error_severity": "ERROR"}, "status": true, "context": {"pid": 3, "host": "h"}}),
        ),
        log("p2", 4, json!({"request": {"path": "/b", "host": "h"}})),
    ];
    server.send(EDGE, &json!(edge));
    server.send("postgres.logs", &json!(postgres));
    let rows = |sql: &str| server.query("logs.all", &[("project", "p1"), ("sql", sql)]).rows().to_vec();
    for (one, other) in [("edge_logs", "postgres_logs"), ("postgres_logs", "edge_logs")] {
        let both = format!(
            "(SELECT id, metadata FROM {one} UNION ALL SELECT id, metadata FROM {other}) AS t, UNNEST(metadata) AS m"
        );
        assert_eq!(
            rows(&format!(
                "SELECT id, m.status, r.method, r.path, r.host, p.error_severity AS severity, CAST(m.request AS STRING) AS whole
                 FROM {both} LEFT JOIN UNNEST(m.request) AS r LEFT JOIN UNNEST(m.parsed) AS p ORDER BY id"
            )),
            [
                json!({"id": "e1", "status": "200", "method": "GET", "path": "/a", "host": null, "severity": null,
                       "whole": rows(&format!("SELECT CAST(m.request AS STRING) AS w FROM {both} WHERE id = 'e1'"))[0]["w"]}),
                json!({"id": "e2", "status": "late", "method": null, "path": null, "host": null, "severity": null, "whole": "none"}),
                json!({"id": "p1", "status": "true", "method": null, "path": null, "host": null, "severity": "ERROR", "whole": null}),
                json!({"id": "p2", "status": null, "method": null, "path": "/b", "host": "h", "severity": null,
                       "whole": rows(&format!("SELECT CAST(m.request AS STRING) AS w FROM {both} WHERE id = 'p2'"))[0]["w"]}),
            ],
            "{both}"
        );
        assert_eq!(
            rows(&format!("SELECT id, c.pid, c.host FROM {both}, UNNEST(m.context) AS c ORDER BY id, pid")),
            [
                json!({"id": "e1", "pid": 1, "host": null}),
                json!({"id": "e1", "pid": 2, "host": null}),
                json!({"id": "p1", "pid": 3, "host": "h"}),
            ],
            "{both}"
        );
        let shown =
            rows(&format!("SELECT id, metadata FROM {one} UNION ALL SELECT id, metadata FROM {other} ORDER BY id"));
        assert_eq!(shown[1]["metadata"][0]["request"], json!("none"));
        assert_eq!(shown[2]["metadata"][0]["context"], json!([{"pid": 3, "host": "h"}]));
        assert_eq!(shown[3]["metadata"][0]["request"][0]["path"], json!("/b"));
    }
    let refused = server.query(
        "logs.all",
        &[("project", "p1"), ("sql", "SELECT id, metadata FROM edge_logs UNION ALL SELECT id, 1 FROM postgres_logs")],
    );
    refused.refused(400, "invalid_query", &["the column metadata of the UNION"]);
}

/// A parameter of an ad-hoc query that was not sent would be NULL; one of the endpoint's may be left out.
#[test]
fn a_parameter_that_was_not_sent_is_refused() {
    let server = Server::start();
    server.send("postgres.logs", &json!([{"id": "a", "project": "p1", "event_message": "m"}]));
    let ask = |sql: &str, more: &[(&str, &str)]| {
        server.query("logs.all", &[&[("project", "p1"), ("sql", sql)], more].concat())
    };
    let filtered = "SELECT id FROM postgres_logs WHERE event_message = @message";
    ask(filtered, &[]).refused(400, "invalid_parameter", &["@message, which was not sent", "message=VALUE"]);
    assert_eq!(ask(filtered, &[("message", "m")]).ids(), ["a"]);
    let misspelt = "SELECT id FROM postgres_logs WHERE 'p1' = @projct";
    ask(misspelt, &[]).refused(400, "invalid_parameter", &["did you mean @project?"]);
    let optional = "SELECT id FROM postgres_logs WHERE @ISO_timestamp_start IS NULL AND @Project = 'p1'";
    assert_eq!(ask(optional, &[]).ids(), ["a"]);
}
