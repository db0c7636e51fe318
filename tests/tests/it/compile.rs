//! Compiling what authors send: apart, bounded, and in nobody's way.

use std::process::Command;

use serde_json::Value;
use tidegate_tests::{Answer, Data, EDGE, PRIVATE, Server, binary, folder, now, request, until};

/// The component of a saved query of that name.
fn saved(name: &str) -> Vec<u8> {
    let folder = folder();
    let endpoint = folder.path().join("endpoint");
    std::fs::create_dir(&endpoint).unwrap();
    std::fs::write(endpoint.join("endpoint.toml"), format!("name = \"{name}\"\n")).unwrap();
    std::fs::write(endpoint.join("query.sql"), format!("SELECT id FROM `{EDGE}`\n")).unwrap();
    let output = folder.path().join("out.wasm");
    let built = Command::new(binary()).arg("build").arg(&endpoint).arg("-o").arg(&output).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    std::fs::read(output).unwrap()
}

/// The same with one more core module in it, which nothing uses and which is compiled all the same.
fn with_module(name: &str, module: &[u8]) -> Vec<u8> {
    [saved(name).as_slice(), &[1], &length(module.len()), module].concat()
}

/// LEB128.
pub(super) fn length(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number & 0x7f).unwrap();
        number >>= 7;
        bytes.push(if number == 0 { low } else { low | 0x80 });
        if number == 0 {
            return bytes;
        }
    }
}

/// A section of a module or a component.
pub(super) fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], length(content.len()).as_slice(), content].concat()
}

/// A module of some functions, each one long chain of additions and branches.
fn long_module(functions: usize, steps: usize) -> Vec<u8> {
    // local.get 0, local.get 1, i32.add, local.tee 0, if, local.get 0, local.set 1, end
    let step = [0x20, 0, 0x20, 1, 0x6a, 0x22, 0, 0x04, 0x40, 0x20, 0, 0x21, 1, 0x0b];
    let body = [&[0][..], &step.repeat(steps), &[0x0b]].concat();
    let body = [length(body.len()), body].concat();
    let count = length(functions);
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, &[1, 0x60, 2, 0x7f, 0x7f, 0]),
        section(3, &[count.clone(), vec![0; functions]].concat()),
        section(10, &[count, body.repeat(functions)].concat()),
    ]
    .concat()
}

fn put(server: &Server, name: &str, component: &[u8]) -> Answer {
    let path = format!("/api/endpoints/{name}/component");
    server.call("PUT", &path, &[("x-api-key", PRIVATE), ("content-type", "application/wasm")], component)
}

#[test]
fn a_module_that_compiles_for_minutes_is_refused_in_time_and_holds_up_nobody() {
    let server = Server::start_set(&[("TIDEGATE_COMPONENTS_COMPILE_TIME", "4 s")]);
    server.send(EDGE, &request("1", now(), "/x"));
    let module = b"\0asm\x01\0\0\0";
    assert_eq!(put(&server, "small", &with_module("small", module)).status, 201);
    assert_eq!(server.query("small", &[]).ids(), ["1"]);
    let endless = with_module("endless", &long_module(4, 80_000));
    assert!(endless.len() > 4 << 20);
    std::thread::scope(|scope| {
        let refused = scope.spawn(|| put(&server, "endless", &endless));
        until("it compiles", || children(&server) > 0);
        // What was compiled before is registered and called meanwhile, and so are saved queries.
        assert_eq!(put(&server, "other", &with_module("other", module)).status, 201);
        assert_eq!(server.query("other", &[]).ids(), ["1"]);
        assert_eq!(server.query("logs.all", &[("project", "p1")]).ids(), ["1"]);
        assert!(!refused.is_finished(), "it compiles in an instant");
        refused.join().unwrap().refused(422, "refused", &["compiling it takes longer than 4 s"]);
    });
    assert_eq!(put(&server, "later", &with_module("later", &long_module(1, 2))).status, 201);
    assert_eq!(server.query("later", &[]).ids(), ["1"]);
    let unknown = server.manage("GET", "/api/endpoints/endless", &Value::Null);
    unknown.refused(404, "not_found", &["endless"]);
    assert_eq!(children(&server), 0, "no compiler is left");
}

/// How many processes the server has started that still run.
fn children(server: &Server) -> usize {
    let process = server.process();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let of = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.map(|task| of(task.unwrap()).split_whitespace().count()).sum()
}

#[test]
fn the_compiler_ends_when_it_needs_too_much() {
    let compile = |seconds: &str, memory: &str, component: &[u8]| {
        let mut command = Command::new(binary());
        command.args(["compile-component", "--seconds", seconds, "--memory", memory]);
        let mut child = command
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // One that ends early closes its end.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), component);
        child.wait_with_output().unwrap()
    };
    let memory = "2147483648";
    let small = compile("30", memory, &saved("small"));
    assert!(small.status.success() && small.stdout.len() > 1000, "{}", String::from_utf8_lossy(&small.stderr));
    let endless = with_module("endless", &long_module(4, 80_000));
    assert!(!compile("1", memory, &endless).status.success(), "a second of processor time is not enough");
    let refused = compile("30", memory, b"\0asm\x0d\0\x01\0junk");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("cannot be used"), "{told}");
}

#[test]
fn compiled_code_of_endpoints_that_are_gone_is_swept_after_a_restart() {
    let data = Data::new();
    let server = Server::start_in(&data);
    for name in ["stays", "goes"] {
        let module = long_module(1, if name == "stays" { 1 } else { 2 });
        assert_eq!(put(&server, name, &with_module(name, &module)).status, 201);
    }
    let compiled = || std::fs::read_dir(data.join("compiled")).unwrap().count();
    let before = compiled();
    server.manage("DELETE", "/api/endpoints/goes", &Value::Null).is(204);
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = Server::start_in(&data);
    until("one is removed", || compiled() != before);
    assert_eq!(compiled(), before - 1, "{}", server.log());
    assert_eq!(server.query("stays", &[]).rows().len(), 0);
}
