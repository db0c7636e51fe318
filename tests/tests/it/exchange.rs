//! Endpoints on their way: made, built, pushed, pulled, and rolled back, with the commands that
//! authors use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_tests::{EDGE, PRIVATE, PUBLIC, Server, binary, folder, now, request};

/// An author: a folder to work in, and a server to push to.
struct Author {
    server: Server,
    home: TempDir,
}

impl Author {
    fn new() -> Self {
        Self { server: Server::start(), home: folder() }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.home.path().join(file)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.server.client(arguments).current_dir(self.home.path()).output().unwrap()
    }

    /// What a command that must succeed prints.
    fn does(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    /// A command that must fail, with these words.
    fn fails(&self, arguments: &[&str], words: &[&str]) {
        let out = self.run(arguments);
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{arguments:?} succeeded: {}", String::from_utf8_lossy(&out.stdout));
        for word in words {
            assert!(told.contains(word), "{arguments:?}: {told:?} lacks {word:?}");
        }
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(file)).unwrap();
        assert!(text.contains(from), "{file} lacks {from:?}");
        std::fs::write(self.path(file), text.replace(from, to)).unwrap();
    }

    fn shown(&self, name: &str) -> Value {
        let answer = self.server.manage("GET", &format!("/api/endpoints/{name}"), &Value::Null).is(200);
        answer.body
    }

    fn component(&self, path: &str) -> Vec<u8> {
        let answer =
            self.server.fetch("GET", &format!("/api/endpoints/{path}/component"), &[("x-api-key", PRIVATE)], b"");
        assert_eq!((answer.status, answer.header("content-type").as_deref()), (200, Some("application/wasm")));
        answer.body
    }

    /// A folder whose code is not generated: what `tidegate build` makes of SQL, and one section more.
    fn code(&self, name: &str) -> PathBuf {
        self.does(&["new", name, "--lang", "sql"]);
        self.does(&["build", name, "-o", "prebuilt.wasm"]);
        let folder = self.path(name);
        let mut component = std::fs::read(self.path("prebuilt.wasm")).unwrap();
        component.extend(MARK);
        std::fs::write(folder.join("built-elsewhere.wasm"), component).unwrap();
        let toml = std::fs::read_to_string(folder.join("endpoint.toml")).unwrap();
        let build = "\n[build]\ncommand = [\"cp\", \"built-elsewhere.wasm\", \"out.wasm\"]\nmodule = \"out.wasm\"\n";
        std::fs::write(folder.join("endpoint.toml"), toml + build).unwrap();
        folder
    }
}

/// A custom section called `mark`, which only that code has.
const MARK: &[u8] = b"\0\x09\x04mark1234";

fn has_mark(component: &[u8]) -> bool {
    component.windows(MARK.len()).any(|window| window == MARK)
}

#[test]
fn a_new_endpoint_in_sql_is_built_pushed_changed_and_rolled_back() {
    let author = Author::new();
    author.server.send(EDGE, &json!([request("1", now(), "/a"), request("2", now(), "/b")]));
    let next = author.does(&["new", "requests.hourly", "--lang", "sql"]);
    assert!(next.contains("tidegate push requests.hourly"), "{next}");
    assert!(author.does(&["check", "requests.hourly"]).contains("edge_logs"));
    assert!(author.does(&["test", "requests.hourly"]).contains("2 cases hold"));
    let built = author.does(&["build", "requests.hourly"]);
    for words in ["requests.hourly: ", "world    endpoint\n", "64 KiB", "wit-component", "requests.hourly.wasm"] {
        assert!(built.contains(words), "{built}");
    }
    assert!(author.path("requests.hourly.wasm").is_file());

    let tried = author.does(&["push", "requests.hourly", "--dry-run"]);
    assert!(tried.contains("requests.hourly: would be new, ") && tried.contains("nothing is saved"), "{tried}");
    author.fails(&["versions", "requests.hourly"], &["404", "no endpoint requests.hourly"]);
    let pushed = author.does(&["push", "requests.hourly"]);
    let call = "/api/endpoints/query/requests.hourly?project=PROJECT'";
    assert!(pushed.contains("version 1") && pushed.contains(call), "{pushed}");
    assert_eq!(author.server.query("requests.hourly", &[("project", "p1")]).column("requests"), [json!(2)]);
    assert!(author.does(&["push", "requests.hourly"]).contains("version 1, "), "the same again is no version");

    assert!(author.does(&["push", "requests.hourly", "--dry-run"]).contains("unchanged, it is version 1, "));

    author.edit("requests.hourly/query.sql", "COUNT(*) AS requests", "COUNT(*) * 10 AS requests");
    assert!(author.does(&["push", "requests.hourly", "--dry-run"]).contains("would follow version 1, "));
    assert_eq!(author.server.query("requests.hourly", &[("project", "p1")]).column("requests"), [json!(2)]);
    assert!(author.does(&["push", "requests.hourly"]).contains("version 2"));
    assert_eq!(author.server.query("requests.hourly", &[("project", "p1")]).column("requests"), [json!(20)]);
    let versions = author.does(&["versions", "requests.hourly"]);
    let marks: Vec<&str> = versions.lines().skip(1).map(|line| line.get(..9).unwrap()).collect();
    assert_eq!(marks, ["*       2", "        1"], "{versions}");
    assert!(versions.contains("the private token"), "{versions}");

    assert!(author.does(&["rollback", "requests.hourly"]).contains("version 3 is now what version 1 was"));
    assert_eq!(author.server.query("requests.hourly", &[("project", "p1")]).column("requests"), [json!(2)]);
    assert!(
        author
            .does(&["rollback", "requests.hourly", "1"])
            .contains("version 3, the current one, is what version 1 was")
    );
    assert!(author.does(&["rollback", "requests.hourly", "2"]).contains("version 4 is now what version 2 was"));
    author.fails(&["rollback", "requests.hourly", "9"], &["404", "no version 9"]);
    author.fails(&["rollback", "logs.all"], &["was never anything else"]);
}

/// What only the server knows is told without anything being saved.
#[test]
fn a_dry_run_says_what_the_server_would_say() {
    let author = Author::new();
    author.does(&["new", "tried", "--lang", "sql"]);
    let sources = author.server.read("/api/sources").as_array().unwrap().len();
    author.edit("tried/query.sql", "`cloudflare.logs.prod`", "`not.there.yet`");
    let told = ["422", "there is no table not.there.yet; POST /api/sources"];
    author.fails(&["push", "tried", "--dry-run"], &told);
    author.edit("tried/query.sql", "`not.there.yet`", "`cloudflare.logs.prod`");
    author.edit("tried/query.sql", "SELECT", "SELECT NOSUCH(1), ");
    author.fails(&["push", "tried", "--dry-run"], &["NOSUCH"]);
    author.fails(&["push", "tried", "--dry-run", "--name", "cloudflare.logs.prod"], &["422"]);
    let there = author.server.read("/api/sources").as_array().unwrap().len();
    assert_eq!(there, sources);
    author.fails(&["versions", "tried"], &["404"]);
    author.does(&["new", "built", "--lang", "sql"]);
    author.does(&["build", "built"]);
    let component = std::fs::read(author.path("built.wasm")).unwrap();
    let check = |name: &str, token: &str| {
        let headers = [("x-api-key", token), ("content-type", "application/wasm")];
        author.server.call("POST", &format!("/api/endpoints/{name}/component/check"), &headers, &component)
    };
    check("built", PUBLIC).refused(403, "forbidden", &[]);
    check("other", PRIVATE).refused(422, "refused", &["calls itself built"]);
    let answer = check("built", PRIVATE).is(200);
    assert_eq!((&answer.body["version"], &answer.body["unchanged"]), (&Value::Null, &json!(false)));
}

#[test]
fn what_is_pulled_is_what_was_pushed() {
    let author = Author::new();
    author.does(&["new", "mine", "--lang", "sql"]);
    let toml = std::fs::read_to_string(author.path("mine/endpoint.toml")).unwrap();
    let limits = "\n[limits]\nrequest_time = \"5000 ms\"\nrows = 50\n";
    std::fs::write(author.path("mine/endpoint.toml"), toml + limits).unwrap();
    // Without a newline at the end, with a statement and with what a server would add: @other is not declared.
    let query = "WITH t AS (SELECT id FROM `cloudflare.logs.prod` WHERE id = @other) SELECT id, 'größe' AS g FROM t";
    std::fs::write(author.path("mine/query.sql"), query).unwrap();
    std::fs::create_dir(author.path("mine/statements")).unwrap();
    std::fs::write(author.path("mine/statements/by-id.sql"), "SELECT id FROM t\n\n").unwrap();
    author.does(&["push", "mine"]);
    let first = author.shown("mine");
    assert_eq!((&first["kind"], &first["version"]), (&json!("sql"), &json!(1)));
    assert_eq!(first["statements"], json!({"by-id": "SELECT id FROM t\n\n"}));
    assert_eq!(first["limits"], json!({"request_time": "5 s", "rows": "50"}));
    author.does(&["pull", "mine", "--folder", "again"]);
    assert_eq!(std::fs::read_to_string(author.path("again/query.sql")).unwrap(), query);
    assert!(!author.path("again/component.wasm").exists(), "SQL is all there is");
    author.does(&["push", "again"]);
    assert_eq!(author.shown("mine"), first, "the same digest is no version");
    author.does(&["push", "again", "--name", "copy of mine"]);
    assert_eq!(author.shown("copy%20of%20mine")["query"], json!(query));

    // A folder that is there is left alone, or becomes the version that is asked for and no more.
    author.edit("again/query.sql", "größe", "x");
    author.fails(&["pull", "mine", "--folder", "again"], &["endpoint.toml", "--force"]);
    std::fs::write(author.path("again/statements/more.sql"), "SELECT 1 FROM t").unwrap();
    author.does(&["push", "again"]);
    assert_eq!(author.shown("mine")["version"], json!(2));
    author.does(&["pull", "mine", "--version", "1", "--folder", "again", "--force"]);
    assert!(!author.path("again/statements/more.sql").exists());
    author.does(&["push", "again"]);
    assert_eq!(author.shown("mine")["digest"], first["digest"]);
    author.fails(&["pull", "mine", "--version", "7"], &["404", "no version 7"]);
}

#[test]
fn code_is_built_by_its_command_and_survives_every_change() {
    let author = Author::new();
    author.server.send(EDGE, &json!([request("1", now(), "/a")]));
    let folder = author.code("coded");
    author.does(&["push", "coded"]);
    assert!(folder.join("out.wasm").is_file(), "the command ran in the folder");
    let first = author.shown("coded");
    assert_eq!(first["kind"], json!("wasm"), "{first}");
    let component = &first["component"];
    assert_eq!(component["bytes"], json!(author.component("coded").len()), "{component}");
    assert_eq!(component["world"], json!("endpoint"), "{component}");
    assert!(component["imports"].to_string().contains("tidegate:endpoint/"), "{component}");
    assert!(has_mark(&author.component("coded")));

    // A change of settings, by either method, and of the query.
    for (method, change) in [("PATCH", json!({"max_limit": 7})), ("PUT", json!({"description": "changed"}))] {
        let answer = author.server.manage(method, "/api/endpoints/coded", &change);
        assert_eq!((answer.status, &answer.body["kind"]), (200, &json!("wasm")), "{}", answer.body);
        assert!(has_mark(&author.component("coded")), "{method} lost the code");
    }
    let query = first["query"].as_str().unwrap().replace("AS requests", "AS n");
    let answer = author.server.manage("PATCH", "/api/endpoints/coded", &json!({"query": query}));
    assert_eq!((answer.status, &answer.body["max_limit"]), (200, &json!(7)), "{}", answer.body);
    assert!(has_mark(&author.component("coded")));
    assert_eq!(author.server.query("coded", &[("project", "p1")]).column("n"), [json!(1)]);
    // What was shown can be sent back.
    let answer = author.server.manage("PUT", "/api/endpoints/coded", &answer.body);
    assert_eq!((answer.status, &answer.body["version"]), (200, &json!(4)), "{}", answer.body);
    let versions = author.server.read("/api/endpoints/coded/versions");
    let last = versions.as_array().unwrap().last().unwrap();
    assert_eq!((&last["digest"], &last["kind"]), (&first["digest"], &json!("wasm")));
    assert_ne!(author.component("coded"), author.component("coded/versions/1"));

    // Pulled it is a component and its texts, and becomes the same again.
    let told = author.does(&["pull", "coded", "--folder", "pulled"]);
    assert!(told.contains("component.wasm"), "{told}");
    author.does(&["push", "pulled"]);
    assert_eq!(author.shown("coded")["version"], json!(4));
    // Pulled over its sources, these count as before: how they are built is not lost.
    let told = author.does(&["pull", "coded", "--force"]);
    assert!(told.contains("note: the folder has sources, which are built in place of component.wasm"), "{told}");
    assert!(!folder.join("endpoint.toml.new").exists());
    std::fs::remove_file(folder.join("out.wasm")).unwrap();
    author.does(&["build", "coded"]);
    assert!(folder.join("out.wasm").is_file(), "the command ran again");
    author.does(&["rollback", "coded", "1"]);
    assert_eq!(author.shown("coded")["digest"], first["digest"]);
    let answer = author.server.fetch("GET", "/api/endpoints/coded/component", &[("x-api-key", PRIVATE)], b"");
    assert_eq!(answer.header("etag"), Some(format!("\"{}\"", first["digest"].as_str().unwrap())));
    author.server.call("GET", "/api/endpoints/coded/component", &[("x-api-key", PUBLIC)], b"").refused(
        403,
        "forbidden",
        &[],
    );
}

#[test]
fn builds_that_fail_say_why() {
    let author = Author::new();
    author.code("coded");
    author.edit("coded/endpoint.toml", "[\"cp\", \"built-elsewhere.wasm\", \"out.wasm\"]", "[\"false\"]");
    author.fails(&["build", "coded"], &["[build] command: false ended with"]);
    author.edit("coded/endpoint.toml", "[\"false\"]", "[\"no-such-program-here\"]");
    author.fails(&["build", "coded"], &["no-such-program-here cannot be started"]);
    author.edit("coded/endpoint.toml", "[\"no-such-program-here\"]", "[\"true\"]");
    author.fails(&["build", "coded"], &["out.wasm is not there after the command"]);
    author.edit("coded/endpoint.toml", "\"out.wasm\"", "\"../prebuilt.wasm\"");
    author.fails(&["build", "coded"], &["a path in the folder"]);

    let build = |wat: &str, words: &[&str]| {
        std::fs::write(author.path("module.wasm"), wat::parse_str(wat).unwrap()).unwrap();
        author.does(&["new", "wasi", "--lang", "sql", "--folder", "wasi"]);
        author.fails(&["build", "wasi", "--module", "module.wasm"], words);
        assert!(!author.path("wasi.wasm").exists(), "nothing is left of a refused build");
        std::fs::remove_dir_all(author.path("wasi")).unwrap();
    };
    build(
        r#"(module (import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32))))"#,
        &["module.wasm", "'wasi_snapshot_preview1.random_get'", "getrandom", "wasm32-unknown-unknown"],
    );
    build(
        r#"(module (import "__wbindgen_placeholder__" "__wbindgen_throw" (func (param i32 i32))))"#,
        &["'__wbindgen_placeholder__.__wbindgen_throw'", "browser"],
    );
    build("(module)", &["cdylib"]);
}

#[test]
fn what_cannot_be_done_is_said_and_changes_nothing() {
    let author = Author::new();
    author.fails(&["new", "a/b", "--lang", "sql"], &["'a/b' is not allowed"]);
    author.fails(&["new", "..", "--lang", "sql"], &["--folder"]);
    author.does(&["new", "mine", "--lang", "sql"]);
    author.fails(&["new", "mine", "--lang", "rust"], &["nothing is overwritten"]);
    assert!(!author.path("mine/Cargo.toml").exists());
    author.fails(&["sdk", "mine"], &["no Cargo.toml"]);
    author.fails(&["push", "nowhere"], &["nowhere: there is no such folder"]);
    author.fails(&["versions", "nowhere"], &["404", "there is no endpoint nowhere"]);
    author.fails(&["versions", "mine", "--url", "ftp://x"], &["http:// or https://"]);
    let with_path = format!("{}/api/endpoints", author.server.base);
    author.fails(&["versions", "mine", "--url", &with_path], &["404", "the address has a path, /api/endpoints"]);
    let tls = author.server.base.replace("http://", "https://");
    author.fails(&["versions", "mine", "--url", &tls], &["if it speaks no TLS: http://127.0.0.1:"]);
    author.fails(&["versions", "mine", "--url", "http://127.0.0.1:1"], &["http://127.0.0.1:1", "is a server running"]);
    author.edit("mine/query.sql", "cloudflare.logs.prod", "no.such.source");
    author.fails(&["push", "mine"], &["422", "no.such.source"]);
    let early = format!("WITH t AS (SELECT * FROM `{EDGE}` WHERE project = @project) SELECT soon FROM t");
    std::fs::write(author.path("mine/query.sql"), early).unwrap();
    assert!(author.does(&["push", "mine"]).contains("warning: there is no column soon"));
    for (token, words) in [("", "TIDEGATE_TOKEN is not set"), ("wrong-token-of-some-length", "401"), (PUBLIC, "403")] {
        let mut command = author.server.client(&["push", "mine"]);
        let out = command.env("TIDEGATE_TOKEN", token).current_dir(author.home.path()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && told.contains(words), "{words}: {told}");
    }
    assert_eq!(author.shown("mine")["version"], json!(1));
}

/// Cargo would compile for minutes before it finds that out, so it is not even started.
#[test]
fn a_missing_target_is_said_before_anything_is_compiled() {
    let (author, tools) = (Author::new(), folder());
    author.does(&["new", "by.section", "--lang", "rust"]);
    let (sysroot, started) = (tools.path().join("a-toolchain"), tools.path().join("cargo-was-started"));
    let script = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let path = tools.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let library = sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib");
    script(
        "rustc",
        &format!("case \"$2\" in sysroot) echo {};; *) echo {};; esac", sysroot.display(), library.display()),
    );
    let cargo = script("cargo", &format!(": > {}; exit 1", started.display()));
    let test = || {
        let mut command = Command::new(binary());
        command.args(["test", "by.section"]).current_dir(author.home.path()).stdin(Stdio::null());
        command.env("PATH", tools.path()).env("CARGO", &cargo).env_remove("RUSTC");
        let out = command.output().unwrap();
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout)
    };
    // A Rust that rustup does not manage.
    let told = test();
    for words in ["wasm32-unknown-unknown is not installed", "libstd-rust-dev-wasm32", "--module"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // An empty folder is no library.
    std::fs::create_dir_all(&library).unwrap();
    script("rustup", &format!("echo {}/bin/rustc", sysroot.display()));
    let told = test();
    assert!(told.contains("rustup target add --toolchain a-toolchain wasm32-unknown-unknown"), "{told}");
    assert!(!started.exists(), "cargo was started");
    std::fs::write(library.join("libcore-0123456789abcdef.rlib"), "").unwrap();
    let told = test();
    assert!(started.exists() && told.contains("cargo build ended with"), "{told}");
}

#[test]
fn a_new_endpoint_in_rust_is_built_by_cargo() {
    // Built for real where the guests are: it needs their toolchain, and shares what is compiled.
    let Some(guests) = std::env::var_os("TIDEGATE_GUESTS") else {
        eprintln!("left out: TIDEGATE_GUESTS is not set (cargo xtask test sets it)");
        return;
    };
    let author = Author::new();
    author.server.send(EDGE, &json!([request("1", now(), "/rest/v1/a"), request("2", now(), "/rest/v1/b")]));
    author.does(&["new", "by.section", "--lang", "rust"]);
    let run = |arguments: &[&str]| {
        let mut command = author.server.client(arguments);
        command.env("CARGO_TARGET_DIR", Path::new(&guests).join(".."));
        command.current_dir(author.home.path()).output().unwrap()
    };
    let pushed = run(&["push", "by.section"]);
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    let tested = run(&["test", "by.section"]);
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
    let answer = author.server.query("by.section", &[("project", "p1")]);
    assert_eq!(answer.rows(), [json!({"section": "rest", "requests": 2})]);
    // The SDK is refreshed, and another crate in its place is not.
    std::fs::write(author.path("by.section/sdk/src/lib.rs"), "").unwrap();
    author.does(&["sdk", "by.section"]);
    assert!(run(&["build", "by.section"]).status.success());
    author.edit("by.section/Cargo.toml", "crate-type = [\"cdylib\"]", "crate-type = [\"rlib\"]");
    let wrong = run(&["build", "by.section"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("crate-type = [\"cdylib\"]"), "{wrong:?}");
    std::fs::write(author.path("by.section/sdk/Cargo.toml"), "[package]\nname = \"other\"\n").unwrap();
    author.fails(&["sdk", "by.section"], &["another crate"]);
}
