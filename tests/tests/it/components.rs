//! Components from authors: the contract from the other side, and what the gate refuses.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tidegate_tests::{EDGE, PRIVATE, Server, binary, folder, now, request};

/// The built guests, which `cargo xtask guests` collects.
pub(crate) fn guest(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-endpoints/target/built");
    let folder = std::env::var_os("TIDEGATE_GUESTS").map_or(own, PathBuf::from);
    let path = folder.join(name);
    assert!(path.is_file(), "{} is missing: run cargo xtask guests first", path.display());
    path
}

pub(crate) fn pack(endpoint: &str, module: &Path, output: &Path) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-endpoints").join(endpoint);
    let out = Command::new(binary())
        .arg("build")
        .arg(folder)
        .arg("--module")
        .arg(module)
        .arg("-o")
        .arg(output)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

pub(crate) fn put(server: &Server, name: &str, component: &[u8]) -> tidegate_tests::Answer {
    let path = format!("/api/endpoints/{name}/component");
    server.call("PUT", &path, &[("x-api-key", PRIVATE), ("content-type", "application/wasm")], component)
}

#[test]
fn a_rust_guest_computes_rows_however_it_was_built() {
    let server = Server::start();
    let with = |id: &str, method: &str, status: u16| {
        let mut event = request(id, now(), "/x");
        event["metadata"]["request"]["method"] = json!(method);
        event["metadata"]["response"]["status_code"] = json!(status);
        event
    };
    server.send(
        EDGE,
        &json!([
            with("1", "GET", 200),
            with("2", "GET", 503),
            with("3", "GET", 200),
            with("4", "GET", 500),
            with("5", "POST", 200)
        ]),
    );
    let folder = folder();
    for (built, status) in [("edge-methods.cargo.wasm", 201), ("edge-methods.component.wasm", 200)] {
        let component = folder.path().join(built);
        pack("edge-methods", &guest(built), &component);
        let answer = put(&server, "edge.methods", &std::fs::read(&component).unwrap());
        assert_eq!(answer.status, status, "{}", answer.body);
        let answer = server.query("edge.methods", &[("project", "p1")]);
        let mut rows: Vec<Value> = answer.rows().to_vec();
        rows.sort_by_key(|row| row["method"].to_string());
        let shares: Vec<(Value, Value)> =
            rows.iter().map(|row| (row["method"].clone(), row["requests"].clone())).collect();
        assert_eq!(shares, [(json!("GET"), json!(4)), (json!("POST"), json!(1))], "{rows:?}");
        assert!(rows[0].to_string().contains("0.5"), "half of the GETs failed: {}", rows[0]);
        server.query("edge.methods", &[]).refused(400, "invalid_parameter", &["'project'"]);
        // What a component makes of the rows is not known from the query.
        let document = server.read("/api/openapi");
        let operation = &document["paths"]["/api/endpoints/query/edge.methods"]["get"];
        let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(schema["properties"]["result"], json!({}), "{operation}");
    }
}

#[test]
fn the_gate_says_what_is_wrong() {
    let server = Server::start();
    put(&server, "x", b"not wasm").refused(422, "refused", &[]);
    put(&server, "x", b"\0asm\x01\0\0\0").refused(422, "refused", &["component"]);
    let raw = std::fs::read(guest("edge-methods.component.wasm")).unwrap();
    put(&server, "edge.methods", &raw).refused(422, "refused", &["manifest"]);
    let folder = folder();
    let packed = folder.path().join("packed.wasm");
    pack("edge-methods", &guest("edge-methods.cargo.wasm"), &packed);
    let component = std::fs::read(&packed).unwrap();
    put(&server, "other-name", &component).refused(422, "refused", &["edge.methods"]);
    let cut = &component[..component.len() / 2];
    put(&server, "edge.methods", cut).refused(422, "refused", &[]);
    server.call("PUT", "/api/endpoints/x/component", &[("x-api-key", tidegate_tests::PUBLIC)], b"").refused(
        403,
        "forbidden",
        &[],
    );
}

#[test]
fn the_system_interface_is_refused_by_name() {
    let server = Server::start();
    // A module as cargo builds it for a wasm32-wasi target, and a component that wants WASI.
    let module = r#"(module (import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32))))"#;
    let component = r#"(component (import "wasi:cli/environment@0.2.0" (instance)))"#;
    let folder = folder();
    let file = folder.path().join("module.wasm");
    std::fs::write(&file, wat::parse_str(module).unwrap()).unwrap();
    let out = Command::new(binary())
        .arg("build")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../guest-endpoints/edge-methods"))
        .arg("--module")
        .arg(&file)
        .arg("-o")
        .arg(folder.path().join("out.wasm"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && told.contains("wasi_snapshot_preview1.random_get"), "{told}");
    assert!(!folder.path().join("out.wasm").exists(), "nothing is left of a refused build");
    put(&server, "x", &wat::parse_str(component).unwrap()).refused(
        422,
        "refused",
        &["wasi:cli/environment@0.2.0", "wasm32-unknown-unknown"],
    );
    let foreign = r#"(component (import "acme:clock/now@1.0.0" (instance)))"#;
    put(&server, "x", &wat::parse_str(foreign).unwrap()).refused(422, "refused", &["acme:clock/now@1.0.0"]);
}

#[test]
fn what_a_guest_remarks_or_hands_back_stays_in_its_place() {
    let server = Server::start();
    server.send(EDGE, &request("1", now(), "/x"));
    let folder = folder();
    let packed = folder.path().join("hostile.wasm");
    pack("hostile", &guest("hostile.wasm"), &packed);
    put(&server, "hostile", &std::fs::read(&packed).unwrap()).is(201);
    let attack = |name: &str| server.query("hostile", &[("attack", name)]);
    // No instance serves two requests, and notes cannot become headers.
    for _ in 0..3 {
        assert_eq!(attack("marker").body, json!({"result": 0}));
    }
    // A document is no table.
    for (format, word) in [("arrow", "no columns"), ("csv", "no array"), ("ndjson", "no array")] {
        let answer = server.query("hostile", &[("attack", "marker"), ("format", format)]);
        answer.refused(400, "invalid_parameter", &[word, "ask for json"]);
    }
    let notes = attack("notes");
    assert_eq!((notes.rows().len(), notes.header("x")), (0, None));
}

#[test]
fn a_component_binds_what_its_statements_need() {
    let server = Server::start();
    let folder = folder();
    let packed = folder.path().join("incident-context.wasm");
    pack("incident-context", &guest("incident-context.wasm"), &packed);
    put(&server, "incident.context", &std::fs::read(&packed).unwrap()).is(201);
    assert_eq!(server.query("incident.context", &[("project", "p1")]).rows(), [] as [Value; 0]);
    let mut failed = request("1", now(), "/orders");
    failed["metadata"]["response"]["status_code"] = json!(503);
    server.send(EDGE, &failed);
    server.send(
        "postgres.logs",
        &json!({"project": "p1", "timestamp": now(), "event_message": "too many clients", "metadata":
            {"parsed": {"error_severity": "FATAL", "sql_state_code": "53300"}}}),
    );
    // What the component binds is no parameter of callers.
    for parameters in [&[("project", "p1")][..], &[("project", "p1"), ("from", "1970-01-01T00:00:00Z")]] {
        let answer = server.query("incident.context", parameters);
        let row = &answer.rows()[0];
        assert_eq!((&row["status"], &row["database_sql_state"]), (&json!(503), &json!("53300")), "{}", answer.body);
    }
    let document = server.read("/api/openapi").to_string();
    assert!(document.contains("incident.context") && !document.contains("\"from\""), "{document}");
}
