//! Answers that break off because a worker is gone in their middle: whoever reads one can tell that it is not whole.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{Chance, EDGE, PRIVATE, Server, folder, now, query_string, serve, until};

use crate::cluster::{LONG, worker};
use crate::cluster_kills::proxy::Proxy;

const ROWS: usize = 800;
/// Rows of a segment, which are one batch.
const PART: usize = 20;
/// Bytes of the text of a row: all of them are more than lies between a worker and a reader.
const TEXT: usize = 64 << 10;

/// A server, and a worker behind a proxy that reads all of its segments.
struct Stage {
    server: Server,
    worker: Server,
    proxy: Proxy,
    _folder: TempDir,
}

impl Stage {
    fn start() -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let worker = worker(&folder, "127.0.0.1:0", &[]);
        let proxy = Proxy::start(worker.address());
        let mut command = serve(&data);
        command.envs([
            ("TIDEGATE_CLUSTER_WORKERS", proxy.address.as_str()),
            ("TIDEGATE_CLUSTER_LEAST_BYTES", "0"),
            ("TIDEGATE_CACHE_MEMORY", "0"),
            ("TIDEGATE_INGEST_FLUSH_ROWS", &PART.to_string()),
            ("TIDEGATE_COMPACTION_FAN_IN", "1000"),
            ("TIDEGATE_LIMITS_ANSWER_BYTES", "256 MiB"),
            ("TIDEGATE_ADMISSION_ANSWER_MEMORY", "1 GiB"),
            ("TIDEGATE_SERVER_WRITE_TIMEOUT", "10 min"),
        ]);
        let server = Server::spawn(command, folder.path().join("data.log"), true);
        let query = format!(
            "WITH t AS (SELECT id, event_message FROM `{EDGE}` WHERE project = @project) SELECT * FROM t WHERE event_message LIKE '%of a row%'"
        );
        let endpoint = json!({"name": "large", "query": query, "max_limit": 10_000});
        server.save(&endpoint);
        let stage = Self { server, worker, proxy, _folder: folder };
        let mut chance = Chance::new(7);
        for part in 0..ROWS / PART {
            // Texts that do not become small on their way.
            let mut event = |n: usize| {
                let words = (0..TEXT / 16).map(|_| format!("{:016x}", chance.below(usize::MAX)));
                let text = format!("the text of a row {} {}", part * PART + n, words.collect::<String>());
                json!({"timestamp": now() - 1_000_000, "project": "p1", "event_message": text})
            };
            stage.server.send(EDGE, &Value::Array((0..PART).map(&mut event).collect()));
            stage.server.until_segments(part + 1);
        }
        stage.used();
        stage
    }

    fn used(&self) {
        let used = || self.server.call("GET", "/ready", &[], b"").body["workers"][0]["used"] == true;
        until("the worker is used", used);
    }

    fn path(&self, format: &str) -> String {
        format!("/api/endpoints/query/large?{}", query_string(&[("project", "p1"), ("format", format)]))
    }
}

/// The rows of lines of JSON, and the last line if it is an error.
fn lines(text: &str) -> (usize, Option<Value>) {
    let values: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let error = values.last().filter(|last| last.get("error").is_some()).cloned();
    (values.len() - usize::from(error.is_some()), error)
}

/// What is in the chunks of a body, and whether it has its end.
fn chunks(mut reader: impl BufRead) -> (String, bool) {
    let mut text = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return (String::from_utf8(text).unwrap(), false);
        }
        let size = u64::from_str_radix(line.trim_end(), 16).unwrap();
        let mut chunk = Vec::new();
        let read = (&mut reader).take(size + 2).read_to_end(&mut chunk);
        if read.is_err() || chunk.len() as u64 != size + 2 {
            return (String::from_utf8(text).unwrap(), false);
        }
        if size == 0 {
            return (String::from_utf8(text).unwrap(), true);
        }
        text.extend_from_slice(&chunk[..chunk.len() - 2]);
    }
}

/// Asks for rows line by line over HTTP/1.1, and does `meanwhile` after the first of them.
fn streamed(stage: &Stage, meanwhile: impl FnOnce()) -> (String, bool) {
    let mut stream = TcpStream::connect(stage.server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let path = stage.path("ndjson");
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {PRIVATE}\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("transfer-encoding: chunked"), "{head}");
    meanwhile();
    chunks(reader)
}

#[test]
fn lines_of_json_end_with_an_error_and_without_their_end() {
    let mut stage = Stage::start();
    let (text, is_whole) = streamed(&stage, || {});
    assert!(lines(&text) == (ROWS, None) && is_whole);
    assert!(stage.worker.metric("tidegate_worker_sent_rows_total") >= ROWS as f64);

    let (text, is_whole) = streamed(&stage, || stage.worker.kill_now());
    let (rows, error) = lines(&text);
    assert!(rows > 0 && rows < ROWS && !is_whole, "{rows} rows, {is_whole}");
    let error = error.unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["status"]), (&json!("data_unavailable"), &json!(503)));
    assert!(error["error"]["message"].as_str().unwrap().contains("a worker"), "{error}");

    // The same over HTTP/2: the stream is reset. The reader is slow.
    stage.worker = worker(&stage._folder, "127.0.0.1:0", &[]);
    stage.proxy.lead_to(stage.worker.address());
    stage.used();
    let file = stage._folder.path().join("answer");
    let mut curl = Command::new("curl");
    curl.args(["--http2-prior-knowledge", "--silent", "--show-error", "--limit-rate", "4M", "--output"]).arg(&file);
    curl.args(["--write-out", "%{http_version} %{http_code}", "--header", &format!("x-api-key: {PRIVATE}")]);
    curl.arg(format!("{}{}", stage.server.base, stage.path("ndjson")));
    let curl = curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("rows come", || file.metadata().is_ok_and(|file| file.len() > 0));
    stage.worker.kill_now();
    let ended = curl.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "2 200", "{said}");
    // An error in the HTTP/2 framing layer, or a stream that was not closed cleanly.
    assert!(matches!(ended.status.code(), Some(16 | 92)), "{:?}: {said}", ended.status);
    // With the stream goes what the reader has not taken of it: the last line may be among that.
    let (rows, error) = lines(&std::fs::read_to_string(&file).unwrap());
    assert!(rows > 0 && rows < ROWS, "{rows} rows");
    assert!(error.is_none_or(|error| error["error"]["code"] == "data_unavailable"));
    until("nothing is held", || stage.server.metric("tidegate_answers_bytes") == 0.0);
}

#[test]
fn a_whole_document_is_an_error_instead() {
    let stage = Stage::start();
    let ask = |format: &str| stage.server.fetch("GET", &stage.path(format), &[("x-api-key", PRIVATE)], b"");
    let whole: Value = serde_json::from_slice(&ask("json").body).unwrap();
    assert_eq!(whole["result"].as_array().unwrap().len(), ROWS);
    for format in ["json", "csv"] {
        // A part of the rows comes, and the rest does not.
        stage.used();
        stage.proxy.break_after(ROWS * TEXT / 8);
        let answer = ask(format);
        assert!(answer.body.len() < 2_000, "{} bytes", answer.body.len());
        let error: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &error["error"]["code"]), (503, &json!("data_unavailable")), "{error}");
        assert!(error.get("result").is_none() && answer.header("retry-after").is_some(), "{error}");
        stage.proxy.break_after(usize::MAX);
    }
    stage.used();
    let again: Value = serde_json::from_slice(&ask("json").body).unwrap();
    assert_eq!(again["result"].as_array().map(Vec::len), Some(ROWS));
}
