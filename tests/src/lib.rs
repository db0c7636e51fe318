//! What the black-box tests share: a running binary, and an HTTP client's view of it.
//!
//! The tests know nothing of the crates. They start the binary on a free loopback port with a fresh
//! folder, speak HTTP to it, and end only what they started.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

mod access;
mod chance;
mod data;
mod port;
mod wait;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub use chance::Chance;
pub use data::Data;
pub use port::lasting_port;
pub use wait::{until, until_within};

/// The token for everything, in the environment of every server.
pub const PRIVATE: &str = "private-token-of-the-black-box-tests";
/// The token for ingest.
pub const PUBLIC: &str = "public-token-of-the-black-box-tests";
/// The source of the edge logs.
pub const EDGE: &str = "cloudflare.logs.prod";

/// The binary under test: beside the test's own executable, where the workspace build puts it.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("TIDEGATE_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let binary = folder.join("tidegate");
    assert!(
        binary.is_file(),
        "{} is missing: run cargo xtask test, or cargo build --workspace first",
        binary.display()
    );
    binary
}

/// A data folder that is removed at the end.
pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The command that serves a data folder on a free port of the loopback.
pub fn serve(data: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(binary());
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    command
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as JSON; null if there is none.
    pub body: Value,
}

/// An answer whose body is not JSON, or not read as such.
#[derive(Debug)]
pub struct Raw {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body as it came.
    pub body: Vec<u8>,
}

impl Raw {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header; several of one name are joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> =
            self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

impl Answer {
    /// The rows of a good answer.
    pub fn rows(&self) -> &[Value] {
        assert_eq!(self.status, 200, "{}", self.body);
        self.body.get("result").and_then(Value::as_array).expect("a result")
    }

    /// The values of one column.
    pub fn column(&self, name: &str) -> Vec<Value> {
        self.rows().iter().map(|row| row.get(name).cloned().unwrap_or(Value::Null)).collect()
    }

    /// The ids of the rows, in order.
    pub fn ids(&self) -> Vec<String> {
        self.column("id").iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// Asserts a refusal: its status, code, and words that its message must have.
    pub fn refused(&self, status: u16, code: &str, words: &[&str]) {
        let error = self.body.get("error").unwrap_or(&Value::Null);
        assert_eq!((self.status, error.get("code").and_then(Value::as_str)), (status, Some(code)), "{}", self.body);
        assert_eq!(error.get("status"), Some(&json!(status)));
        let message = error.get("message").and_then(Value::as_str).expect("error.message is a text");
        for word in words {
            assert!(message.contains(word), "{message:?} lacks {word:?}");
        }
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// `http://127.0.0.1:PORT`
    pub base: String,
    agent: ureq::Agent,
    log: PathBuf,
    _own: Option<TempDir>,
}

impl Server {
    /// Starts a server on a fresh folder.
    pub fn start() -> Self {
        let own = folder();
        let mut server = Self::start_in(&own.path().join("data"));
        server._own = Some(own);
        server
    }

    /// Starts a server on a folder.
    pub fn start_in(data: &Path) -> Self {
        Self::start_with(data, true)
    }

    /// Starts a server on a folder, with or without tokens in its environment.
    pub fn start_with(data: &Path, tokens: bool) -> Self {
        Self::spawn(serve(data), data.with_extension("log"), tokens)
    }

    /// Starts any command of the binary that listens.
    pub fn spawn(mut command: Command, log: PathBuf, tokens: bool) -> Self {
        command.env_remove("LOGFLARE_API_KEY").env_remove("TIDEGATE_LOG").env_remove("TIDEGATE_GUESTS");
        for name in ["PRIVATE", "PUBLIC"] {
            command
                .env_remove(format!("TIDEGATE_{name}_ACCESS_TOKEN"))
                .env_remove(format!("LOGFLARE_{name}_ACCESS_TOKEN"));
        }
        if tokens {
            command.env("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE).env("TIDEGATE_PUBLIC_ACCESS_TOKEN", PUBLIC);
        }
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let from = file.metadata().unwrap().len();
        let child = command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let mut server = Self { child, base: String::new(), agent: agent(), log, _own: None };
        let began = Instant::now();
        while server.base.is_empty() {
            let written = server.log();
            let fresh = written.get(usize::try_from(from).unwrap()..).unwrap_or_default();
            // A line is read when it is whole: half an address would be another one.
            let fresh = fresh.rfind('\n').and_then(|end| fresh.get(..=end)).unwrap_or_default();
            let after = |mark: &str| fresh.split(mark).nth(1)?.split([' ', '\n', '"']).next();
            if let Some(address) = after("address=").or_else(|| after("\"address\":\"")) {
                server.base = format!("http://{address}");
            } else if let Some(rest) = fresh.split("runs at ").nth(1).and_then(|rest| rest.split_whitespace().next()) {
                server.base = rest.to_owned();
            } else if let Some(status) = server.child.try_wait().unwrap() {
                panic!("the server ended with {status}:\n{written}");
            }
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not listen:\n{written}");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Starts a server on a known address that answers, but may never be open.
    pub fn spawn_at(mut command: Command, log: PathBuf, address: &str) -> Self {
        let file = std::fs::File::create(&log).unwrap();
        command.env("TIDEGATE_PRIVATE_ACCESS_TOKEN", PRIVATE).env("TIDEGATE_PUBLIC_ACCESS_TOKEN", PUBLIC);
        let child = command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let server = Self { child, base: format!("http://{address}"), agent: agent(), log, _own: None };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the server does not answer:\n{}", server.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Starts a server on a fresh folder with settings in its environment.
    pub fn start_set(settings: &[(&str, &str)]) -> Self {
        let own = folder();
        let mut server = Self::start_set_in(&own.path().join("data"), settings);
        server._own = Some(own);
        server
    }

    /// Starts a server on a folder with settings in its environment.
    pub fn start_set_in(data: &Path, settings: &[(&str, &str)]) -> Self {
        let mut command = serve(data);
        command.envs(settings.iter().copied());
        Self::spawn(command, data.with_extension("log"), true)
    }

    /// Its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The most memory that it ever held, in MiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }

    /// The processor time that it used, in hundredths of a second.
    pub fn processor_time(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        [11, 12].iter().map(|i| fields.get(*i).unwrap().parse::<u64>().unwrap()).sum()
    }

    /// A number of the metrics page, with its labels as they stand there; 0 if it is not there.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.text("/metrics");
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |number| number.parse().unwrap())
    }

    /// The metrics page as it is told to the private token.
    pub fn private_metrics(&self) -> String {
        let answer = self.fetch("GET", "/metrics", &[("x-api-key", PRIVATE)], b"");
        assert_eq!(answer.status, 200);
        String::from_utf8_lossy(&answer.body).into_owned()
    }

    /// What the server printed so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Any request.
    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.try_call(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.log()))
    }

    /// Any request, where the server may be gone.
    pub fn try_call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Answer, String> {
        let Raw { status, headers, body } = self.try_fetch(method, path, headers, body)?;
        let body =
            if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).map_err(|e| e.to_string())? };
        Ok(Answer { status, headers, body })
    }

    /// Any request, whose answer may be in any format.
    pub fn fetch(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Raw {
        self.try_fetch(method, path, headers, body)
            .unwrap_or_else(|error| panic!("{method} {path}: {error}\n{}", self.log()))
    }

    /// Any request, whose answer may be in any format, where the server may be gone or the answer may break off.
    pub fn try_fetch(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Raw, String> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).map_err(|error| error.to_string())?;
        let mut response = self.agent.run(request).map_err(|error| error.to_string())?;
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let mut body = Vec::new();
        response.body_mut().as_reader().read_to_end(&mut body).map_err(|error| error.to_string())?;
        Ok(Raw { status: response.status().as_u16(), headers, body })
    }

    /// The host and the port.
    pub fn address(&self) -> &str {
        self.base.trim_start_matches("http://")
    }

    /// A page of text.
    pub fn text(&self, path: &str) -> String {
        let mut response = self.agent.get(format!("{}{path}", self.base)).call().unwrap();
        assert_eq!(response.status().as_u16(), 200);
        response.body_mut().read_to_string().unwrap()
    }

    /// A query by GET, as log viewers send it.
    pub fn query(&self, endpoint: &str, parameters: &[(&str, &str)]) -> Answer {
        let path = format!("/api/endpoints/query/{endpoint}?{}", query_string(parameters));
        self.call("GET", &path, &[("x-api-key", PRIVATE), ("content-type", "application/json")], b"")
    }

    /// An ad-hoc query over the tables of `logs.all`, for the project `p1`.
    pub fn sql(&self, sql: &str) -> Answer {
        self.query("logs.all", &[("project", "p1"), ("sql", sql)])
    }

    /// Sends events, which must be taken.
    pub fn send(&self, source: &str, events: &Value) {
        let answer = self.send_raw(source, &[], events.to_string().as_bytes());
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    /// Sends any body.
    pub fn send_raw(&self, source: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut all = vec![("x-api-key", PUBLIC)];
        all.extend_from_slice(headers);
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            all.push(("content-type", "application/json"));
        }
        self.call("POST", &format!("/api/logs?{}", query_string(&[("source_name", source)])), &all, body)
    }

    /// Bytes as they are, on a connection of their own; the next slice follows when the last one
    /// has surely arrived. What came back until nothing more does.
    pub fn exchange(&self, slices: &[&[u8]]) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for slice in slices {
            // A peer that hung up shows in what is read.
            let _ = stream.write_all(slice);
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut read = Vec::new();
        let _ = stream.read_to_end(&mut read);
        String::from_utf8_lossy(&read).into_owned()
    }

    /// A management request with a JSON body, or with none for null.
    pub fn manage(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("authorization", &*format!("Bearer {PRIVATE}")), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.call(method, path, &headers, body.as_bytes())
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Ends the server at once with SIGKILL, whatever it is doing.
    pub fn kill_now(&self) {
        self.signal("-KILL");
    }

    /// Asks the server to end and returns its exit code.
    pub fn stop(self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.wait()
    }

    /// Waits for the end of a server that was asked for it, and returns its exit code.
    pub fn wait(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < Duration::from_secs(15), "the server does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .new_agent()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the server's last lines:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
}

/// `a=b&c=d`, encoded as browsers do: a blank is a plus.
pub fn query_string(parameters: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
                b' ' => "+".to_owned(),
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    parameters.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect::<Vec<_>>().join("&")
}

/// Now, in microseconds.
pub fn now() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

/// Microseconds as ISO text.
pub fn iso(micros: i64) -> String {
    chrono::DateTime::from_timestamp_micros(micros).unwrap().format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

/// An edge request of the project `p1`.
pub fn request(id: &str, time: i64, path: &str) -> Value {
    json!({
        "id": id, "timestamp": iso(time), "event_message": format!("GET {path}"), "project": "p1",
        "metadata": {"request": {"method": "GET", "path": path, "url": format!("https://p1.example.test{path}")}, "response": {"status_code": 200}},
    })
}

/// A set of texts.
pub fn set(items: impl IntoIterator<Item = String>) -> BTreeSet<String> {
    items.into_iter().collect()
}
