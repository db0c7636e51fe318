//! What an author does with a folder before any server has it: test, run, check.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{EDGE, Server, binary, folder};

/// What a command wrote, and whether it succeeded.
pub(super) struct Told {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) ok: bool,
}

impl Told {
    /// Asserts that all words stand in what was written to both.
    pub(super) fn has(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(
                self.out.contains(word) || self.err.contains(word),
                "{word:?} is missing:\n{}\n{}",
                self.out,
                self.err
            );
        }
        self
    }

    pub(super) fn succeeded(&self) -> &Self {
        assert!(self.ok, "{}\n{}", self.out, self.err);
        self
    }

    pub(super) fn failed(&self) -> &Self {
        assert!(!self.ok, "{}\n{}", self.out, self.err);
        self
    }
}

pub(super) fn tidegate(arguments: &[&str]) -> Told {
    told(Command::new(binary()).args(arguments))
}

pub(super) fn told(command: &mut Command) -> Told {
    let out = command.env_remove("TIDEGATE_GUESTS").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Told { out: text(out.stdout), err: text(out.stderr), ok: out.status.success() }
}

/// The folder of an endpoint, to be written by a test.
pub(super) struct Endpoint(TempDir);

impl Endpoint {
    pub(super) fn new(query: &str) -> Self {
        let endpoint = Self(folder());
        endpoint.write("endpoint.toml", "name = \"tried\"\n\n[[parameters]]\nname = \"project\"\nrequired = true\n\n[settings]\nsandboxable = true\n");
        endpoint.write("query.sql", query);
        endpoint
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    pub(super) fn tidegate(&self, command: &str, more: &[&str]) -> Told {
        let path = self.0.path().to_str().unwrap();
        tidegate(&[&[command, path], more].concat())
    }
}

pub(super) const COUNT: &str = "WITH t AS (SELECT t.id, t.timestamp, t.metadata FROM `cloudflare.logs.prod` AS t WHERE t.project = @project)\n\
                     SELECT r.method AS method, COUNT(*) AS requests FROM t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS r\n\
                     GROUP BY method ORDER BY method";

fn two_methods(expect: &Value) -> String {
    let log = |method: &str, project: &str| json!({"project": project, "metadata": {"request": {"method": method}}});
    let logs = [log("GET", "abc"), log("POST", "abc"), log("GET", "abc"), log("GET", "other")];
    let case = json!({"logs": {EDGE: logs}, "parameters": {"project": "abc"}, "expect": expect});
    serde_json::to_string_pretty(&case).unwrap()
}

#[test]
fn the_shipped_endpoints_hold_their_cases() {
    let shipped = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-endpoints").join(name);
    let [logs, counts] = ["logs.all", "usage.api-counts"].map(shipped);
    let told = tidegate(&["test", logs.to_str().unwrap(), counts.to_str().unwrap()]);
    told.succeeded().has(&["logs.all\n", "usage.api-counts\n", "ok      bounds", "cases hold"]);
    for path in [logs, counts] {
        tidegate(&["check", path.to_str().unwrap()]).succeeded();
    }
}

#[test]
fn the_endpoints_of_the_packs_hold_their_cases() {
    let packs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-endpoints/packs");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    };
    for pack in folders(&packs) {
        let endpoints = folders(&pack);
        let paths: Vec<&str> = endpoints.iter().map(|path| path.to_str().unwrap()).collect();
        let told = tidegate(&[&["test"], paths.as_slice()].concat());
        told.succeeded().has(&["cases hold"]);
        assert!(!told.err.contains("no cases"), "{}", told.err);
        for path in paths {
            tidegate(&["check", path]).succeeded();
        }
    }
}

#[test]
fn a_case_that_fails_shows_what_differs() {
    let endpoint = Endpoint::new(COUNT);
    let rows = json!({"result": [{"requests": 2.0, "method": "GET"}, {"method": "POST", "requests": 1}]});
    endpoint.write("tests/methods.json", &two_methods(&rows));
    endpoint.tidegate("test", &[]).succeeded().has(&["ok      methods", "1 case holds"]);

    let wrong = json!({"result": [{"method": "GET", "requests": 3}, {"method": "POST", "requests": 1}]});
    endpoint.write("tests/wrong.json", &two_methods(&wrong));
    endpoint.write("tests/refused.json", r#"{"expect": {"error": {"status": 400, "code": "invalid_parameter"}}}"#);
    let told = endpoint.tidegate("test", &[]);
    told.failed().has(&["ok      methods", "ok      refused", "FAILED  wrong", "1 of 3 cases failed"]);
    assert!(!told.out.contains('\x1b'), "no colours in a file");
    let lines: Vec<&str> = told.out.lines().map(str::trim).collect();
    assert!(lines.iter().any(|line| line.starts_with('-') && line.contains("\"requests\": 3")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with('+') && line.contains("\"requests\": 2")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with(['-', '+']) && line.contains("POST")), "{lines:?}");

    let told = endpoint.tidegate("test", &["--json"]);
    let verdicts: Vec<Value> = told.failed().out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ok: Vec<(&Value, &Value)> = verdicts.iter().map(|verdict| (&verdict["case"], &verdict["ok"])).collect();
    assert_eq!(
        ok,
        [(&json!("methods"), &json!(true)), (&json!("refused"), &json!(true)), (&json!("wrong"), &json!(false))]
    );
}

#[test]
fn update_writes_what_is_answered_and_keeps_the_rest() {
    let endpoint = Endpoint::new(COUNT);
    let before = "{\n  \"logs\": { \"cloudflare.logs.prod\": [ {\"project\":\"abc\",  \"metadata\": {\"request\": {\"method\": \"GET\"}}} ] },\n  \"parameters\": {\"project\": \"abc\"},\n  \"expect\": {\"result\": \"to be seen\"},\n  \"cost\": {}\n}\n";
    endpoint.write("tests/a.json", before);
    endpoint.write("tests/b.json", "{}\n");
    endpoint.tidegate("test", &[]).failed().has(&["FAILED  a", "FAILED  b", "nothing is expected"]);
    assert_eq!(endpoint.read("tests/a.json"), before);
    endpoint.tidegate("test", &["--update"]).succeeded().has(&["updated a", "updated b"]);
    let after = endpoint.read("tests/a.json");
    let (kept, _) = before.split_once("{\"result\": \"to be seen\"}").unwrap();
    assert!(after.starts_with(kept), "{after}");
    assert!(after.contains("\n      {\"method\": \"GET\", \"requests\": 1}\n"), "rows begin lines: {after}");
    let after: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(after["expect"], json!({"result": [{"method": "GET", "requests": 1}]}));
    assert_eq!(after["cost"]["statements"], json!(1));
    assert!(after["cost"]["instructions"].as_u64().unwrap() > 0);
    let refused: Value = serde_json::from_str(&endpoint.read("tests/b.json")).unwrap();
    assert_eq!(refused["expect"]["error"]["status"], json!(400));
    // What holds is left as it is.
    let whole = endpoint.read("tests/a.json");
    endpoint.tidegate("test", &["--update"]).succeeded().has(&["ok      a", "ok      b"]);
    assert_eq!(endpoint.read("tests/a.json"), whole);
    endpoint.write("tests/a.json", &whole.replace("\"statements\": 1", "\"statements\": 2"));
    endpoint.tidegate("test", &[]).failed().has(&["-", "\"statements\": 2", "\"statements\": 1"]);
}

#[test]
fn a_request_costs_the_same_every_time() {
    let endpoint = Endpoint::new(COUNT);
    endpoint.write(
        "tests/methods.json",
        &two_methods(&json!({"result": [{"method": "GET", "requests": 2}, {"method": "POST", "requests": 1}]})),
    );
    let cost = || {
        let told = endpoint.tidegate("test", &["--json"]);
        let verdict: Value = serde_json::from_str(told.succeeded().out.trim()).unwrap();
        verdict["cost"].clone()
    };
    let first = cost();
    assert!(first["instructions"].as_u64().unwrap() > 0 && first["guest_memory"].as_u64().unwrap() > 0, "{first}");
    assert_eq!((&first["host_calls"], &first["answer_rows"]), (&json!(2), &json!(2)));
    assert_eq!(cost(), first);
    endpoint.tidegate("test", &["--cost"]).succeeded().has(&[
        "instructions",
        "rows answered",
        "(0.2%)",
        "64 KiB (<0.1%)",
    ]);
}

#[test]
fn the_clock_of_a_case_stands_still() {
    let endpoint = Endpoint::new(
        "WITH t AS (SELECT t.id, t.timestamp FROM `cloudflare.logs.prod` AS t WHERE t.project = @project) \
         SELECT id, t.timestamp = CURRENT_TIMESTAMP() AS is_now FROM t ORDER BY id",
    );
    let case = json!({
        "now": "2020-02-29T12:00:00Z",
        "logs": {EDGE: [{"project": "a"}, {"project": "a", "timestamp": "2020-02-29T11:00:00Z"}]},
        "parameters": {"project": "a"},
        "expect": {"result": [{"id": "1", "is_now": true}, {"id": "2", "is_now": false}]},
    });
    endpoint.write("tests/clock.json", &case.to_string());
    endpoint.tidegate("test", &[]).succeeded();
    // LQL counts from it too.
    let case = json!({
        "now": "2020-02-29T12:00:00Z",
        "logs": {EDGE: [{"project": "a", "timestamp": "2020-02-29T11:59:00Z"}, {"project": "a", "timestamp": "2020-02-29T10:00:00Z"}]},
        "parameters": {"project": "a"},
        "lql": "f:t t:last@5minute s:id",
        "expect": {"result": [{"id": "1"}]},
    });
    endpoint.write("tests/clock.json", &case.to_string());
    endpoint.tidegate("test", &[]).succeeded();
}

#[test]
fn what_is_wrong_with_a_case_is_told_with_its_place() {
    let endpoint = Endpoint::new(COUNT);
    endpoint.tidegate("test", &[]).succeeded().has(&["no cases"]);
    for (text, told) in [
        ("{\n  \"expects\": {}\n}", "tests/a.json:2:11: unknown field `expects`"),
        ("{\"logs\": {\"s\": [1]}}", "tests/a.json:1:19: "),
        ("{\"parameters\": {\"project\": \"a\"}, ", "tests/a.json:1:"),
        ("{\"logs\": {\"no/source\\u0000\": [{}]}}", "tests/a.json: "),
    ] {
        endpoint.write("tests/a.json", text);
        endpoint.tidegate("test", &[]).failed().has(&[told]);
    }
    // An endpoint that the gate refuses is told once, with its place.
    endpoint.write("tests/a.json", "{}");
    endpoint.write("query.sql", "WITH t AS (SELECT 1 AS a)\nSELECT nothing(a) FROM t");
    endpoint.tidegate("test", &[]).failed().has(&["line 2", "tidegate check"]);
}

#[test]
fn a_source_that_exists_nowhere_is_empty_and_told() {
    let endpoint =
        Endpoint::new("WITH t AS (SELECT t.id FROM `my.own` AS t WHERE t.project = @project) SELECT id FROM t");
    endpoint.write("tests/a.json", r#"{"parameters": {"project": "a"}, "expect": {"result": []}}"#);
    endpoint.write("tests/b.json", r#"{"parameters": {"project": "a"}, "expect": {"result": []}}"#);
    let told = endpoint.tidegate("test", &[]);
    told.succeeded().has(&["the source my.own is empty here"]);
    assert_eq!(told.err.matches("my.own").count(), 1, "{}", told.err);
    endpoint.write("tests/a.json", r#"{"logs": {"my.own": [{"project": "a"}]}, "parameters": {"project": "a"}, "expect": {"result": [{"id": "1"}]}}"#);
    std::fs::remove_file(endpoint.file("tests/b.json")).unwrap();
    let told = endpoint.tidegate("test", &[]);
    assert_eq!(told.succeeded().err, "");
}

#[test]
fn run_answers_one_request() {
    let endpoint = Endpoint::new(COUNT);
    let told = endpoint.tidegate("run", &["-p", "project=default"]);
    let body: Value = serde_json::from_str(&told.succeeded().out).unwrap();
    assert!(body["result"].as_array().unwrap().iter().any(|row| row["method"] == "GET"), "{body}");
    told.has(&["200: ", "instructions"]);
    // Given logs are all that there are.
    endpoint.write("edge.ndjson", "{\"project\": \"a\", \"metadata\": {\"request\": {\"method\": \"PUT\"}}}\n");
    let logs = format!("{EDGE}={}", endpoint.file("edge.ndjson").display());
    let told = endpoint.tidegate("run", &["-p", "project=a", "--logs", &logs]);
    assert_eq!(
        serde_json::from_str::<Value>(&told.succeeded().out).unwrap(),
        json!({"result": [{"method": "PUT", "requests": 1}]})
    );
    let sql = "SELECT timestamp FROM t";
    let told =
        endpoint.tidegate("run", &["-p", "project=a", "--logs", &logs, "--sql", sql, "--now", "1970-01-01T00:00:01Z"]);
    assert_eq!(
        serde_json::from_str::<Value>(&told.succeeded().out).unwrap(),
        json!({"result": [{"timestamp": 1_000_000}]})
    );
    // A refusal is told as over HTTP, and fails.
    let told = endpoint.tidegate("run", &[]);
    let body: Value = serde_json::from_str(&told.failed().out).unwrap();
    assert_eq!(body["error"]["code"], "invalid_parameter");
    endpoint.write("edge.ndjson", "{}\n{\n");
    endpoint.tidegate("run", &["--logs", &logs]).failed().has(&["edge.ndjson:2: "]);
}

#[test]
fn check_tells_mistakes_and_what_is_read() {
    let endpoint = Endpoint::new(COUNT);
    endpoint.write(
        "statements/paths.sql",
        "SELECT r.path FROM t, UNNEST(metadata) AS m, UNNEST(m.request) AS r WHERE r.path = @path",
    );
    let told = endpoint.tidegate("check", &[]);
    told.succeeded().has(&[
        "grant t reads cloudflare.logs.prod: id, metadata, project, timestamp",
        "statement default reads t: metadata.request.method\n",
        "statement paths reads t: metadata.request.path\n",
        "@path is used and not declared",
        "world endpoint",
    ]);
    // Every mistake is told, each in its file.
    endpoint.write("statements/paths.sql", "SELECT 1,\n  nothing(2) FROM t");
    endpoint.write("query.sql", &COUNT.replace("r.method AS", "LOWERCASE(r.method) AS"));
    let told = endpoint.tidegate("check", &[]);
    told.failed().has(&["query.sql:2:8: ", "paths.sql:2:3: ", "2 errors"]);
    // Columns may come; who is narrowed by nothing is told.
    endpoint.write("statements/paths.sql", "SELECT newcomer FROM t");
    endpoint.write("query.sql", "WITH t AS (SELECT * FROM `cloudflare.logs.prod`) SELECT id FROM t");
    endpoint.tidegate("check", &[]).succeeded().has(&[
        "warning: ",
        "paths.sql:1:8: ",
        "the parameter project is declared, and no statement uses it",
    ]);
    // A source that says whose its rows are narrows by itself.
    endpoint.write("query.sql", "WITH t AS (SELECT * FROM `other.logs`) SELECT id FROM t");
    endpoint.tidegate("check", &[]).succeeded().has(&["warning: ", "no parameter narrows the grant t"]);
}

/// What `check` remarks, `test` and `push` say, too; `--strict` makes an error of it.
#[test]
fn remarks_are_the_same_wherever_an_author_looks() {
    let server = Server::start();
    let endpoint = Endpoint::new(&COUNT.replace("@project", "@projct"));
    endpoint.write("tests/none.json", &json!({"parameters": {"project": "abc"}, "expect": {"result": []}}).to_string());
    let push = |more: &[&str]| {
        let path = endpoint.file("");
        let arguments = [&["push", path.to_str().unwrap()], more].concat();
        told(&mut server.client(&arguments))
    };
    let remarks = ["@projct is used and not declared", "the parameter project is declared, and no statement uses it"];
    endpoint.tidegate("check", &[]).succeeded().has(&remarks);
    endpoint.tidegate("test", &[]).succeeded().has(&remarks).has(&["1 case holds"]);
    for command in ["check", "test"] {
        endpoint.tidegate(command, &["--strict"]).failed().has(&remarks).has(&["there are warnings, and --strict"]);
    }
    push(&["--strict"]).failed().has(&remarks).has(&["nothing is saved"]);
    push(&["--strict", "--dry-run"]).failed().has(&remarks);
    server.manage("GET", "/api/endpoints/tried", &Value::Null).is(404);
    push(&["--dry-run"]).succeeded().has(&remarks);
    push(&[]).succeeded().has(&remarks).has(&["version 1"]);
    endpoint.write("query.sql", COUNT);
    for command in ["check", "test"] {
        endpoint.tidegate(command, &["--strict"]).succeeded();
    }
    push(&["--strict"]).succeeded().has(&["version 2"]);
}

/// `tidegate check F | true`: not a word, and the exit code that the shell has for other programs.
#[test]
fn a_command_whose_reader_is_gone_ends_quietly() {
    let endpoint = Endpoint::new(COUNT);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(binary());
    command.arg("check").arg(endpoint.0.path()).stdout(writer);
    let done = command.output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8_lossy(&done.stderr)), (Some(141), "".into()));
}

#[test]
fn what_a_guest_logs_and_why_it_was_stopped_reaches_its_author() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-endpoints");
    let guests = std::env::var_os("TIDEGATE_GUESTS").map_or(own.join("target/built"), PathBuf::from);
    let (folder, module) = (own.join("hostile"), guests.join("hostile.wasm"));
    assert!(module.is_file(), "{} is missing: run cargo xtask guests first", module.display());
    let (folder, module) = (folder.to_str().unwrap(), module.to_str().unwrap());
    let told = tidegate(&["run", folder, "--module", module, "-p", "attack=panic"]);
    told.failed().has(&["guest error: ", "a secret of the guest", "the component was stopped", "500: "]);
    // Callers learn nothing of it.
    assert!(!told.out.contains("a secret of the guest"), "{}", told.out);
}
