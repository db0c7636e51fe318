//! Packs: put on a server once, by hand or at its start, changed and taken back like any endpoint.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tidegate_tests::{Answer, Data, EDGE, PRIVATE, Server, binary, folder, now, query_string, serve};

use super::kit::{Told, told};
use super::log_viewer::self_hosted;

/// The endpoints of the pack.
pub(super) const PACK: [&str; 8] = [
    "auth.metrics",
    "functions.combined-stats",
    "functions.req-stats",
    "logs.all",
    "project.metrics",
    "service-health",
    "usage.api-counts",
    "usage.api-requests-count",
];

/// A command against a server.
fn tidegate(server: &Server, arguments: &[&str]) -> Told {
    told(&mut server.client(arguments))
}

/// A server that was started with packs.
pub(super) fn start_with(data: &Path, packs: &[&str]) -> Server {
    let mut command = serve(data);
    command.args(packs.iter().flat_map(|pack| ["--pack", pack]));
    Server::spawn(command, data.with_extension("log"), true)
}

/// The version of each endpoint of the pack that is there.
fn versions(server: &Server) -> BTreeMap<String, i64> {
    let all = server.manage("GET", "/api/endpoints", &Value::Null);
    let version = |shown: &Value| (shown["name"].as_str().unwrap().to_owned(), shown["version"].as_i64().unwrap());
    all.body.as_array().unwrap().iter().map(version).collect()
}

fn sources(server: &Server) -> Vec<String> {
    let all = server.manage("GET", "/api/sources", &Value::Null);
    all.body.as_array().unwrap().iter().map(|source| source["name"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn sql(server: &Server, sql: &str) -> Answer {
    server.query("logs.all", &[("project", "default"), ("sql", sql)])
}

#[test]
fn a_pack_is_installed_once_and_taken_back() {
    let server = Server::start();
    tidegate(&server, &["pack", "list"]).succeeded().has(&["log-viewer: ", "logs.all  ", "service-health  "]);
    server.send(EDGE, &self_hosted("default", now())[0].1);
    // Without the pack: nine tables of four columns.
    let columns = |answer: Answer| answer.rows()[0].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(columns(sql(&server, "SELECT * FROM edge_logs")), ["id", "timestamp", "event_message", "metadata"]);
    sql(&server, "SELECT id FROM supavisor_logs").refused(400, "unknown_table", &["supavisor_logs", "pgbouncer_logs"]);
    sql(&server, "SELECT identifier FROM edge_logs").refused(400, "unknown_column", &["identifier"]);

    let told = tidegate(&server, &["pack", "install", "log-viewer"]);
    told.succeeded().has(&[
        "logs.all: version 2, before it 1\n",
        "usage.api-counts: version 2, before it 1\n",
        "service-health: new, version 1\n",
        "the source supavisor.logs.prod is made\n",
        "8 endpoints",
        "tidegate rollback logs.all",
    ]);
    let (first, made) = (versions(&server), sources(&server));
    assert_eq!(first.keys().map(String::as_str).collect::<Vec<_>>(), PACK);
    assert_eq!(made.len(), 13, "{made:?}");
    assert_eq!(sql(&server, "SELECT identifier FROM edge_logs LIMIT 1").column("identifier"), [json!("default")]);
    assert_eq!(sql(&server, "SELECT id FROM supavisor_logs").rows().len(), 0);
    assert_eq!(
        columns(server.query("logs.all", &[("project", "default")])),
        ["id", "timestamp", "event_message", "metadata"],
        "the saved query answers what it did"
    );

    let again = tidegate(&server, &["pack", "install", "log-viewer"]);
    assert_eq!(again.succeeded().out.matches(": unchanged, version ").count(), 8, "{}", again.out);
    assert!(!again.out.contains(" is made") && !again.out.contains("rollback"), "{}", again.out);
    assert_eq!((versions(&server), sources(&server)), (first, made));

    tidegate(&server, &["rollback", "logs.all"]).succeeded().has(&["version 3 is now what version 1 was"]);
    sql(&server, "SELECT id FROM supavisor_logs").refused(400, "unknown_table", &["supavisor_logs"]);
    tidegate(&server, &["pack", "install", "log-viewer"]).succeeded().has(&["logs.all: version 4, before it 3\n"]);
    assert_eq!(sql(&server, "SELECT id FROM supavisor_logs").rows().len(), 0);
}

#[test]
fn a_start_saves_a_pack_once_and_undoes_nothing() {
    let data = Data::new();
    let server = start_with(&data, &["log-viewer"]);
    let first = versions(&server);
    assert_eq!((first.len(), first["logs.all"], first["service-health"]), (8, 2, 1));
    let shown = server.manage("GET", "/api/endpoints/service-health", &Value::Null);
    assert_eq!(shown.body["author"], "the pack log-viewer");
    // The same pack by hand: it is there.
    let told = tidegate(&server, &["pack", "install", "log-viewer"]);
    assert_eq!(told.succeeded().out.matches(": unchanged, version ").count(), 8, "{}", told.out);
    tidegate(&server, &["rollback", "logs.all"]).succeeded();
    server.manage("DELETE", "/api/endpoints/auth.metrics", &Value::Null).is(204);
    let changed = versions(&server);
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start_with(&data, &["log-viewer"]);
    assert_eq!(versions(&server), changed);
    sql(&server, "SELECT id FROM supavisor_logs").refused(400, "unknown_table", &["supavisor_logs"]);
    // Who asks for it by name gets it.
    tidegate(&server, &["pack", "install", "log-viewer"])
        .succeeded()
        .has(&["logs.all: version 4, before it 3\n", "auth.metrics: new, version 1\n"]);
}

#[test]
fn the_demonstration_takes_a_pack() {
    let own = folder();
    let mut command = Command::new(binary());
    let arguments = ["demo", "--listen", "127.0.0.1:0", "--pack", "log-viewer", "--data-dir"];
    command.args(arguments).arg(own.path().join("data"));
    let server = Server::spawn(command, own.path().join("demo.log"), false);
    server.until_logged("Ctrl-C");
    let printed = server.log();
    let token = printed.split("X-API-KEY: ").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    let text = "select count(*) as count from edge_logs where identifier = 'default'";
    let path = format!("/api/endpoints/query/logs.all?{}", query_string(&[("project", "default"), ("sql", text)]));
    let answer = server.call("GET", &path, &[("x-api-key", &token)], b"");
    assert!(answer.column("count")[0].as_i64() > Some(10), "{}", answer.body);
}

/// The folder of an endpoint in a pack of somebody's own.
fn write(pack: &Path, name: &str, query: &str) {
    let folder = pack.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let toml = format!("name = \"{name}\"\n\n[[parameters]]\nname = \"project\"\nrequired = true\n");
    std::fs::write(folder.join("endpoint.toml"), toml).unwrap();
    std::fs::write(folder.join("query.sql"), query).unwrap();
}

#[test]
fn a_folder_of_endpoints_is_a_pack() {
    let own = folder();
    let pack = own.path().join("shop");
    let path = pack.to_str().unwrap();
    let data = own.path().join("data");
    let server = Server::start_in(&data);
    write(
        &pack,
        "orders",
        "WITH t AS (SELECT t.id FROM `shop.orders` AS t WHERE t.project = @project) SELECT id FROM t",
    );
    write(&pack, "all.orders", "SELECT COUNT(*) AS orders FROM orders");
    tidegate(&server, &["pack", "install", path]).succeeded().has(&[
        "the source shop.orders is made\n",
        "orders: new, version 1\n",
        "all.orders: new, version 1\n",
        "shop: 2 endpoints",
    ]);
    server.send("shop.orders", &json!([{"project": "p1"}, {"project": "p2"}]));
    assert_eq!(server.query("all.orders", &[("project", "p1")]).column("orders"), [json!(1)]);
    assert!(!sources(&server).iter().any(|source| source == "orders"), "an endpoint is no source");

    // A mistake in one keeps all of them from being saved.
    let before = versions(&server);
    write(&pack, "another", "SELECT 1 AS one");
    write(&pack, "orders", "SELECT NOSUCH(1) AS x FROM `shop.orders`");
    tidegate(&server, &["pack", "install", path]).failed().has(&["orders: ", "NOSUCH", "nothing is saved"]);
    assert_eq!(versions(&server), before);
    tidegate(&server, &["pack", "install", "log-viever"])
        .failed()
        .has(&["no pack log-viever", "did you mean log-viewer?"]);
    let own_endpoint = pack.join("another");
    tidegate(&server, &["pack", "install", own_endpoint.to_str().unwrap()]).failed().has(&["tidegate push"]);

    // A start takes folders too, and does not begin with one that is refused.
    assert_eq!(server.stop("-TERM"), Some(0));
    write(
        &pack,
        "orders",
        "WITH t AS (SELECT t.id FROM `shop.orders` AS t WHERE t.project = @project) SELECT id FROM t LIMIT 5",
    );
    let server = start_with(&data, &[path]);
    let now = versions(&server);
    assert_eq!((now["orders"], now["all.orders"], now["another"]), (2, 1, 1));
    assert_eq!(server.stop("-TERM"), Some(0));
    write(&pack, "shop.orders", "SELECT 1 AS one");
    let mut refused = Command::new(binary());
    refused.args(["serve", "--listen", "127.0.0.1:0", "--pack", path, "--data-dir"]).arg(&data);
    let out = refused.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success() && told.contains("the pack shop: there is a source shop.orders"), "{told}");
}

/// What is renamed stays what the endpoint reads; a source of the old name would be an empty one.
#[test]
fn a_renamed_source_is_still_the_one_that_a_pack_reads() {
    let server = Server::start();
    server.send("postgres.logs", &json!([{"id": "1", "project": "default", "event_message": "before"}]));
    server.manage("PATCH", "/api/sources/postgres.logs", &json!({"name": "database"})).is(200);
    tidegate(&server, &["pack", "install", "log-viewer"]).succeeded().has(&["logs.all: version 2, before it 1\n"]);
    assert_eq!(sql(&server, "SELECT id FROM postgres_logs").ids(), ["1"]);
    // Of the endpoints that are new too.
    assert!(!sources(&server).iter().any(|source| source == "postgres.logs"));
    let today = [("project", "default"), ("interval", "1hr")];
    assert_eq!(server.query("project.metrics", &today).column("service"), [json!("db")]);
    // Nor is one made for a name in the query of an endpoint that is read as a table.
    server.manage("PATCH", &format!("/api/sources/{EDGE}"), &json!({"name": "gateway"})).is(200);
    let own = folder();
    write(own.path(), "newest", "WITH t AS (SELECT id FROM `logs.all`) SELECT COUNT(*) AS logs FROM t");
    tidegate(&server, &["pack", "install", own.path().to_str().unwrap()]).succeeded().has(&["newest: new, version 1"]);
    assert!(!sources(&server).iter().any(|source| source == EDGE));
    assert_eq!(server.query("newest", &[("project", "default")]).column("logs"), [json!(0)]);
}

#[test]
fn sources_are_made_only_where_a_request_asks_for_it() {
    let server = Server::start();
    let own = folder();
    write(own.path(), "orders", "SELECT t.id FROM `shop.orders` AS t WHERE t.project = @project");
    let (path, built) = (own.path().join("orders"), own.path().join("orders.wasm"));
    let [path, built] = [&path, &built].map(|path| path.to_str().unwrap());
    tidegate(&server, &["build", path, "-o", built]).succeeded();
    let component = std::fs::read(built).unwrap();
    let put = |query: &str| {
        let path = format!("/api/endpoints/orders/component{query}");
        server.call("PUT", &path, &[("x-api-key", PRIVATE)], &component)
    };
    put("").refused(422, "refused", &["there is no table shop.orders"]);
    put("?make_sources=false").refused(422, "refused", &["there is no table shop.orders"]);
    put("?make_sources=maybe").refused(400, "invalid_parameter", &["make_sources", "true or false"]);
    assert_eq!(sources(&server).len(), 9);
    let answer = put("?make_sources=true");
    assert_eq!((answer.status, &answer.body["made_sources"]), (201, &json!(["shop.orders"])), "{}", answer.body);
    assert_eq!(sources(&server).len(), 10);
    let again = put("?make_sources=true");
    assert_eq!((again.status, again.body.get("made_sources"), &again.body["version"]), (200, None, &json!(1)));
}

/// A pack says whose the rows of its sources are, and never changes what a source says.
#[test]
fn a_pack_declares_tenants() {
    let own = folder();
    let (pack, data) = (own.path().join("shop"), own.path().join("data"));
    let path = pack.to_str().unwrap();
    write(&pack, "orders", "WITH t AS (SELECT t.id FROM `shop.orders` AS t) SELECT id FROM t");
    write(&pack, "regions", "WITH t AS (SELECT t.id FROM `shop.regions` AS t) SELECT id FROM t");
    let declares = |path: &str| {
        let of = |name: &str, tenant: &str| format!("[[source]]\nname = \"{name}\"\ntenant = {tenant}\n");
        let text = of("shop.orders", &format!("{{ project = \"{path}\" }}")) + &of("shop.regions", "\"shared\"");
        std::fs::write(pack.join("pack.toml"), text).unwrap();
    };
    declares("project");
    let tenant = |server: &Server, name: &str| server.read(&format!("/api/sources/{name}"))["tenant"].clone();
    let says = |server: &Server, name: &str, tenant: Value| {
        let body = json!({"tenant": tenant, "widens": true});
        server.manage("PATCH", &format!("/api/sources/{name}"), &body).is(200);
    };
    let server = Server::start_in(&data);
    tidegate(&server, &["pack", "install", path])
        .succeeded()
        .has(&["shop.orders says whose its rows are: project=project", "shop.regions says whose its rows are: shared"]);
    assert_eq!(tenant(&server, "shop.orders"), json!({"project": "project"}));
    // What is said stays.
    declares("metadata.project");
    tidegate(&server, &["pack", "install", path])
        .succeeded()
        .has(&["which stays; the pack says project=metadata.project"]);
    assert_eq!(tenant(&server, "shop.orders"), json!({"project": "project"}));
    // A start declares once: what is taken back afterwards stays so.
    says(&server, "shop.orders", Value::Null);
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start_with(&data, &[path]);
    assert_eq!(tenant(&server, "shop.orders"), json!({"project": "metadata.project"}));
    says(&server, "shop.orders", Value::Null);
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start_with(&data, &[path]);
    assert_eq!((tenant(&server, "shop.orders"), tenant(&server, "shop.regions")), (Value::Null, json!("shared")));
    std::fs::write(pack.join("pack.toml"), "[[source]]\nname = \"x\"\n").unwrap();
    tidegate(&server, &["pack", "install", path]).failed().has(&["pack.toml", "tenant"]);
}
