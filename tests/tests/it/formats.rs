//! The formats of an answer: the same rows in each, masked, capped and compressed alike.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_ipc::reader::StreamReader;
use serde_json::{Value, json};
use tidegate_tests::{EDGE, PRIVATE, Raw, Server, query_string, request};

/// 2025-11-20 10:15:02 UTC.
const TIME: i64 = 1_763_633_702_000_000;

fn path(endpoint: &str, parameters: &[(&str, &str)]) -> String {
    format!("/api/endpoints/query/{endpoint}?{}", query_string(parameters))
}

/// An ad-hoc query over the tables of `logs.all`, in a format.
fn sql(server: &Server, format: &str, sql: &str) -> Raw {
    get(server, format, sql, &[])
}

fn get(server: &Server, format: &str, sql: &str, headers: &[(&str, &str)]) -> Raw {
    let mut parameters = vec![("project", "p1"), ("sql", sql)];
    if !format.is_empty() {
        parameters.push(("format", format));
    }
    let mut all = vec![("x-api-key", PRIVATE)];
    all.extend_from_slice(headers);
    server.fetch("GET", &path("logs.all", &parameters), &all, b"")
}

fn good(raw: Raw) -> Raw {
    assert_eq!(raw.status, 200, "{}", String::from_utf8_lossy(&raw.body));
    raw
}

fn json_rows(raw: &Raw) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&raw.body).unwrap();
    body["result"].as_array().unwrap().clone()
}

fn lines(raw: &Raw) -> Vec<Value> {
    assert!(raw.body.is_empty() || raw.text().ends_with('\n'));
    raw.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn arrow(raw: &Raw) -> RecordBatch {
    let reader = StreamReader::try_new(raw.body.as_slice(), None).unwrap();
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    match batches.as_slice() {
        [] => RecordBatch::new_empty(schema),
        [one] => one.clone(),
        _ => panic!("{rows} rows in {} batches", batches.len()),
    }
}

/// Text as CSV readers see it: cells of rows.
fn cells(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.push(letters.next().unwrap()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {
                assert_eq!(letters.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            '\n' if !quoted => panic!("a line that ends without CR: {text:?}"),
            _ => cell.push(letter),
        }
    }
    assert!(row.is_empty() && cell.is_empty(), "the last line ends: {text:?}");
    rows
}

fn with_logs() -> Server {
    let server = Server::start();
    let mut second = request("2", TIME + 1_500_000, "/rest/v1?a=\"1,2\"\r\n=SUM(1)");
    second["metadata"]["request"]["headers"] = json!([{"user_agent": "curl/8 from 192.0.2.17"}]);
    second["event_message"] = json!("GET, from \"192.0.2.17\" and 2001:db8::7\nto 10.0.0.1");
    server.send(EDGE, &json!([request("1", TIME, "/x"), second]));
    server
}

const ALL: &str = "select id, timestamp, event_message, metadata, null as nothing from edge_logs order by id";

#[test]
fn every_format_has_the_same_rows() {
    let server = with_logs();
    let json = good(sql(&server, "json", ALL));
    assert_eq!(json.header("content-type").unwrap(), "application/json; charset=utf-8");
    let rows = json_rows(&json);
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["metadata"][0]["request"][0]["path"], "/x");

    let ndjson = good(sql(&server, "ndjson", ALL));
    assert_eq!(ndjson.header("content-type").unwrap(), "application/x-ndjson; charset=utf-8");
    assert_eq!(lines(&ndjson), rows);

    let csv = good(sql(&server, "csv", ALL));
    assert_eq!(csv.header("content-type").unwrap(), "text/csv; charset=utf-8; header=present");
    let cells = cells(csv.text());
    assert_eq!(cells[0], ["id", "timestamp", "event_message", "metadata", "nothing"]);
    for (row, cells) in rows.iter().zip(&cells[1..]) {
        assert_eq!(
            (cells[0].as_str(), cells[2].as_str()),
            (row["id"].as_str().unwrap(), row["event_message"].as_str().unwrap())
        );
        assert_eq!(serde_json::from_str::<Value>(&cells[3]).unwrap(), row["metadata"], "nested values are JSON");
        assert_eq!(cells[4], "", "NULL is empty");
    }
    assert_eq!((cells.len(), cells[1][1].as_str()), (3, "2025-11-20T10:15:02.000000Z"));
    assert_eq!(cells[2][1], "2025-11-20T10:15:03.500000Z");

    let stream = good(sql(&server, "arrow", ALL));
    assert_eq!(stream.header("content-type").unwrap(), "application/vnd.apache.arrow.stream");
    let batch = arrow(&stream);
    let text = |array: &dyn Array, row| array.as_string::<i32>().value(row).to_owned();
    let times = batch.column_by_name("timestamp").unwrap();
    assert_eq!(times.data_type().to_string(), "Timestamp(µs, \"UTC\")");
    assert_eq!(batch.column_by_name("nothing").unwrap().logical_null_count(), 2);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(text(batch.column_by_name("event_message").unwrap(), i), row["event_message"].as_str().unwrap());
        assert_eq!(json!(times.as_primitive::<TimestampMicrosecondType>().value(i)), row["timestamp"]);
        // A record is a list of one struct at every level, as in JSON, with the same fields.
        let metadata = batch.column_by_name("metadata").unwrap().as_list::<i32>().value(i);
        let metadata: &StructArray = metadata.as_struct();
        let names = |of: &StructArray| of.column_names().iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!((metadata.len(), names(metadata)), (1, keys(&row["metadata"][0])));
        let inner = metadata.column_by_name("request").unwrap().as_list::<i32>().value(0);
        let inner: &StructArray = inner.as_struct();
        assert_eq!(names(inner), keys(&row["metadata"][0]["request"][0]));
        assert_eq!(
            text(inner.column_by_name("path").unwrap(), 0),
            row["metadata"][0]["request"][0]["path"].as_str().unwrap()
        );
    }
}

#[test]
fn every_type_has_a_form_in_every_format() {
    let server = Server::start();
    let query = "select 'a' as s, 7 as i, 0.5 as f, cast('nan' as float64) as n, true as b, b'x,y' as y, \
                 timestamp '2025-11-20 10:15:02.25+00' as t, datetime '2025-11-20 10:15:02' as d, date '2025-11-20' as day, \
                 time '10:15:02' as clock, [1, 2] as l, struct(1 as a, 'x' as b) as st, parse_json('{\"k\": [1.50]}') as j, \
                 interval 3 day as iv, cast(null as int64) as z, '' as e";
    let expected = json!({
        "s": "a", "i": 7, "f": 0.5, "n": "NaN", "b": true, "y": "eCx5", "t": 1_763_633_702_250_000_i64,
        "d": "2025-11-20T10:15:02", "day": "2025-11-20", "clock": "10:15:02", "l": [1, 2], "st": {"a": 1, "b": "x"},
        "j": {"k": [1.5]}, "iv": "0-0 3 0:0:0", "z": null, "e": "",
    });
    assert_eq!(json_rows(&good(sql(&server, "json", query))), std::slice::from_ref(&expected));
    assert_eq!(lines(&good(sql(&server, "ndjson", query))), std::slice::from_ref(&expected));
    let csv = good(sql(&server, "csv", query));
    let row = &cells(csv.text())[1];
    let texts = [
        "a",
        "7",
        "0.5",
        "NaN",
        "true",
        "eCx5",
        "2025-11-20T10:15:02.250000Z",
        "2025-11-20T10:15:02",
        "2025-11-20",
        "10:15:02",
        "[1,2]",
        "{\"a\":1,\"b\":\"x\"}",
    ];
    assert_eq!(row[..12], texts);
    assert_eq!(row[13..], ["0-0 3 0:0:0", "", ""]);
    let batch = arrow(&good(sql(&server, "arrow", query)));
    let column = |name: &str| batch.column_by_name(name).unwrap();
    assert_eq!(column("i").as_primitive::<Int64Type>().value(0), 7);
    assert!(column("n").as_primitive::<Float64Type>().value(0).is_nan());
    assert!(column("b").as_boolean().value(0));
    assert_eq!(column("y").as_binary::<i32>().value(0), b"x,y");
    assert_eq!(column("day").as_primitive::<Date32Type>().value(0), 20_412);
    assert_eq!(column("l").as_list::<i32>().value(0).as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(column("st").as_struct().column_names(), ["a", "b"]);
    assert_eq!(serde_json::from_str::<Value>(column("j").as_string::<i32>().value(0)).unwrap(), expected["j"]);
    assert_eq!(column("iv").as_string::<i32>().value(0), "0-0 3 0:0:0");
    assert!(column("z").is_null(0) && !column("e").is_null(0));
    // No rows are an answer in each format.
    let none = "select id, metadata from edge_logs";
    assert_eq!(json_rows(&good(sql(&server, "json", none))), [] as [Value; 0]);
    assert_eq!(good(sql(&server, "ndjson", none)).body, b"");
    assert_eq!(good(sql(&server, "csv", none)).text(), "id,metadata\r\n");
    assert_eq!(arrow(&good(sql(&server, "arrow", none))).num_columns(), 2);
}

#[test]
fn personal_data_is_masked_in_every_format() {
    let server = with_logs();
    let masked: (&str, &str) = ("svc-endpoint-redact-pii", "true");
    let query = "select id, event_message, metadata, [event_message] as l, struct(event_message as m) as s, \
                 parse_json(concat('{\"192.0.2.17\": \"ip 192.0.2.17\", \"n\": 1.50}')) as j, \
                 to_json_string(metadata) as t from edge_logs where id = '2'";
    for format in ["json", "ndjson", "csv", "arrow"] {
        let plain = good(get(&server, format, query, &[]));
        let found =
            |raw: &Raw, text: &str| raw.body.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        assert!(found(&plain, "192.0.2.17") >= 6 && found(&plain, "2001:db8::7") >= 3, "{format}");
        let answer = good(get(&server, format, query, &[masked]));
        // The one that stays is a name of a field, no value.
        assert_eq!(
            (found(&answer, "192.0.2.17"), found(&answer, "2001:db8::7"), found(&answer, "10.0.0.1")),
            (1, 0, 0),
            "{format}"
        );
        assert!(found(&answer, "REDACTED") >= 12, "{format}");
    }
    let row = &json_rows(&good(get(&server, "json", query, &[masked])))[0];
    assert_eq!(row["event_message"], "GET, from \"REDACTED\" and REDACTED\nto REDACTED");
    assert_eq!(row["metadata"][0]["request"][0]["headers"][0]["user_agent"], "curl/8 from REDACTED");
    assert_eq!(row["j"], json!({"192.0.2.17": "ip REDACTED", "n": 1.5}));
    // A failure quotes the value that it met.
    for format in ["json", "ndjson", "csv", "arrow"] {
        let failing = "select cast('192.0.2.17' as int64) + length(id) as n from edge_logs";
        let told = |headers: &[(&str, &str)]| {
            let raw = get(&server, format, failing, headers);
            assert_eq!(raw.status, 400, "{format}");
            assert_eq!(raw.header("content-type").unwrap(), "application/json", "{format}");
            raw.text().to_owned()
        };
        assert!(told(&[]).contains("192.0.2.17"), "{format}");
        assert!(!told(&[masked]).contains("192.0.2.17") && told(&[masked]).contains("REDACTED"), "{format}");
    }
}

#[test]
fn the_caps_hold_in_every_format() {
    let server = Server::start_set(&[("TIDEGATE_LIMITS_ANSWER_BYTES", "64 KiB")]);
    let events: Vec<Value> =
        (0..1_200).map(|i| json!({"project": "p1", "event_message": "m".repeat(200), "id": format!("{i}")})).collect();
    server.send("postgres.logs", &Value::Array(events));
    let many = "select id from postgres_logs";
    for format in ["json", "csv", "arrow"] {
        let cut = good(sql(&server, format, many));
        assert_eq!(cut.header("x-result-truncated").as_deref(), Some("true"), "{format}");
        let whole = good(sql(&server, format, &format!("{many} limit 1000")));
        assert_eq!(whole.header("x-result-truncated"), None, "{format}");
    }
    assert_eq!(cells(good(sql(&server, "csv", many)).text()).len(), 1_001);
    assert_eq!(arrow(&good(sql(&server, "arrow", many))).num_rows(), 1_000);
    let cut = good(sql(&server, "ndjson", many));
    assert_eq!(cut.header("trailer").as_deref(), Some("x-result-truncated"));
    let mut rows = lines(&cut);
    assert_eq!(rows.pop(), Some(json!({"truncated": {"rows": 1_000}})));
    assert_eq!(rows.len(), 1_000);
    for (query, is_cut) in [(many.to_owned(), true), (format!("{many} limit 1000"), false)] {
        let mut answer = open(&server, &query, "te: trailers\r\nconnection: close\r\n");
        let mut text = String::new();
        answer.read_to_string(&mut text).unwrap();
        assert_eq!(
            text.ends_with("\r\n0\r\nx-result-truncated: true\r\n\r\n"),
            is_cut,
            "{:?}",
            text.get(text.len() - 80..)
        );
        assert_eq!(text.contains("{\"truncated\""), is_cut);
    }
    for large in [
        "select event_message from postgres_logs",
        "select repeat(event_message, 1000) as m from postgres_logs limit 5",
    ] {
        for format in ["json", "ndjson", "csv", "arrow"] {
            let raw = sql(&server, format, large);
            let body: Value = serde_json::from_slice(&raw.body).unwrap();
            assert_eq!((raw.status, &body["error"]["code"]), (422, &json!("limit_exceeded")), "{format} {large}");
        }
    }
    // One text that many rows share is small in memory only: written out, these would be gigabytes.
    let shared =
        "select m, m as m2, m as m3, m as m4 from (select repeat('192.0.2.1 ', 100000) as m) cross join postgres_logs";
    let before = server.peak_memory();
    for format in ["json", "ndjson", "csv", "arrow"] {
        let raw = get(&server, format, shared, &[("svc-endpoint-redact-pii", "true")]);
        assert_eq!(raw.status, 422, "{format}: {}", String::from_utf8_lossy(&raw.body));
    }
    assert!(server.peak_memory() < before + 500, "{} after {before} MiB", server.peak_memory());
}

#[test]
fn the_format_is_asked_for_by_name_or_by_media_type() {
    let server = with_logs();
    let kind = |raw: Raw| good(raw).header("content-type").unwrap().split(';').next().unwrap().to_owned();
    let by_accept = |accept: &str| kind(get(&server, "", ALL, &[("accept", accept)]));
    for (accept, expected) in [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        ("image/png", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "application/json"),
        ("nonsense", "application/json"),
        ("text/csv", "text/csv"),
        ("application/json;q=0.9, text/csv", "text/csv"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("application/jsonl", "application/x-ndjson"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
    ] {
        assert_eq!(by_accept(accept), expected, "{accept}");
    }
    assert_eq!(kind(get(&server, "", ALL, &[])), "application/json");
    assert_eq!(kind(get(&server, "csv", ALL, &[("accept", "application/json")])), "text/csv", "the name wins");
    let vary = good(sql(&server, "json", ALL)).header("vary").unwrap().to_lowercase();
    assert!(vary.contains("accept") && vary.contains("accept-encoding"), "{vary}");
    server.query("logs.all", &[("project", "p1"), ("format", "xml")]).refused(
        400,
        "invalid_parameter",
        &["format", "json, ndjson, csv, arrow"],
    );
    let posted = server.fetch(
        "POST",
        "/api/endpoints/query/logs.all",
        &[("x-api-key", PRIVATE), ("content-type", "application/json")],
        br#"{"project": "p1", "format": "csv"}"#,
    );
    assert_eq!(kind(posted), "text/csv");
    // An endpoint's own parameter of that name is the endpoint's.
    let own = json!({"name": "own", "query": "select @format as f"});
    server.save(&own);
    let raw =
        server.fetch("GET", &path("own", &[("format", "xml")]), &[("x-api-key", PRIVATE), ("accept", "text/csv")], b"");
    assert_eq!(good(raw).text(), "f\r\nxml\r\n");
}

#[test]
fn long_answers_are_compressed_as_the_caller_likes() {
    let server = Server::start();
    let events: Vec<Value> = (0..200)
        .map(|i| json!({"project": "p1", "event_message": format!("message {i}"), "id": format!("{i}")}))
        .collect();
    server.send("postgres.logs", &Value::Array(events));
    let query = "select id, event_message from postgres_logs order by id";
    for format in ["json", "csv", "arrow"] {
        let plain = good(sql(&server, format, query));
        assert_eq!(plain.header("content-encoding"), None);
        for encoding in ["gzip", "zstd", "br"] {
            let packed = good(get(&server, format, query, &[("accept-encoding", encoding)]));
            assert_eq!(packed.header("content-encoding").as_deref(), Some(encoding), "{format}");
            assert!(packed.body.len() < plain.body.len(), "{format} {encoding}: {}", packed.body.len());
            let mut unpacked = Vec::new();
            match encoding {
                "gzip" => flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_end(&mut unpacked).map(drop),
                "zstd" => zstd::stream::copy_decode(packed.body.as_slice(), &mut unpacked),
                _ => brotli::Decompressor::new(packed.body.as_slice(), 4_096).read_to_end(&mut unpacked).map(drop),
            }
            .unwrap();
            assert_eq!(unpacked, plain.body, "{format} {encoding}");
        }
    }
    // Node's fetch; a caller who refuses everything; an answer that is too short to gain by it.
    let encoding = |accepted: &str, query: &str| {
        good(get(&server, "json", query, &[("accept-encoding", accepted)])).header("content-encoding")
    };
    assert_eq!(encoding("gzip, deflate", query).as_deref(), Some("gzip"));
    for accepted in ["*;q=0", "identity;q=0, *;q=0", "deflate", "nonsense", "gzip;q=0"] {
        assert_eq!(encoding(accepted, query), None, "{accepted}");
    }
    assert_eq!(encoding("gzip", "select 1 as a"), None);
    server.fetch("GET", "/nothing", &[("accept-encoding", "identity;q=0")], b"").is(404);
}

/// A request by hand, so that what has arrived so far can be seen.
fn open(server: &Server, sql: &str, headers: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let path = path("logs.all", &[("project", "p1"), ("format", "ndjson"), ("sql", sql)]);
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Rows of which the first come at once, and the last after a computation that does not end.
const SLOW: &str = "select id from postgres_logs union all \
                    select a.id from postgres_logs a cross join postgres_logs b cross join postgres_logs c \
                    where concat(a.event_message, b.event_message, c.event_message) like '%zz%y%'";

fn with_many(settings: &[(&str, &str)]) -> Server {
    let server = Server::start_set(settings);
    let event = |i: usize| json!({"id": format!("e{i}"), "project": "p1", "event_message": "m".repeat(50)});
    server.send("postgres.logs", &Value::Array((0..3_000).map(event).collect()));
    server
}

#[test]
fn lines_arrive_while_the_rest_is_computed() {
    let server = with_many(&[("TIDEGATE_LIMITS_REQUEST_TIME", "4s")]);
    let slow = SLOW
        .replace("select id from postgres_logs union", "select id from (select id from postgres_logs limit 3) union");
    let mut answer = open(&server, &slow, "accept-encoding: gzip\r\n");
    let mut read = String::new();
    while !read.contains("{\"id\":") {
        assert!(answer.read_line(&mut read).unwrap() > 0, "{read}");
    }
    assert!(read.starts_with("HTTP/1.1 200") && !read.to_lowercase().contains("content-encoding"), "{read}");
    server.call("GET", "/ready", &[], b"").is(200);
    // Then the time is over: a last line says it, and the body does not end as a whole one does.
    let mut rest = String::new();
    let _ = answer.read_to_string(&mut rest);
    let all = format!("{read}{rest}");
    let last = all.lines().rfind(|line| line.starts_with('{')).unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["error"]["code"], "timeout", "{all}");
    assert!(!all.ends_with("0\r\n\r\n"), "the transfer is visibly broken: {all}");
}

#[test]
fn a_failure_before_the_first_row_has_its_status() {
    let server = with_many(&[("TIDEGATE_LIMITS_REQUEST_TIME", "2s")]);
    for (sql, status, code) in [
        ("select nothing from postgres_logs", 400, "unknown_column"),
        ("select cast(event_message as int64) as n from postgres_logs", 400, "invalid_value"),
        (
            "select count(*) as c from postgres_logs a cross join postgres_logs b cross join postgres_logs c",
            504,
            "timeout",
        ),
    ] {
        server.query("logs.all", &[("project", "p1"), ("format", "ndjson"), ("sql", sql)]).refused(status, code, &[]);
    }
}

#[test]
fn a_caller_who_leaves_a_stream_ends_its_statement() {
    let server = with_many(&[("TIDEGATE_LIMITS_REQUEST_TIME", "60s")]);
    let slow = SLOW
        .replace("select id from postgres_logs union", "select id from (select id from postgres_logs limit 3) union");
    let mut answer = open(&server, &slow, "");
    let mut line = String::new();
    while !line.contains("{\"id\":") {
        assert!(answer.read_line(&mut line).unwrap() > 0, "{line}");
    }
    drop(answer);
    // At rest: in some half second the server computes nothing worth the name.
    let mut last = server.processor_time();
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(500));
        let used = server.processor_time();
        if used <= last + 5 {
            return;
        }
        last = used;
    }
    panic!("the statement goes on");
}
