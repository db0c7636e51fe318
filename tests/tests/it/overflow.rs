//! What does not fit the columns of a source is read under its own name all the same.

use serde_json::{Map, Value, json};
use tidegate_tests::{Data, Server, until};

const TIME: i64 = 1_763_633_702_000_000;
const SOURCE: &str = "postgres.logs";

fn event(id: usize, metadata: Value) -> Value {
    json!({"id": format!("{id:03}"), "project": "p1", "event_message": "m", "timestamp": TIME, "metadata": metadata})
}

/// The values of an expression over `m`, the element of `metadata`, in the order of the ids.
fn read(server: &Server, expr: &str) -> Vec<Value> {
    let sql = format!("select {expr} as v from postgres_logs cross join unnest(metadata) as m order by id");
    server.sql(&sql).column("v")
}

fn ids_where(server: &Server, condition: &str) -> Vec<String> {
    let sql = format!("select id from postgres_logs cross join unnest(metadata) as m where {condition} order by id");
    server.sql(&sql).ids()
}

#[test]
fn a_path_of_several_kinds_is_read_with_every_value() {
    let server = Server::start();
    let values = [
        json!({"err": "text", "tag": ["a", "b"], "q": [1, "z"], "n": 1}),
        json!({"err": {"message": "boom", "code": 7}, "tag": "c", "q": [[1]], "n": {"deep": [1, {"er": true}]}}),
        json!({"err": ["x", "y"], "tag": {"k": "d"}, "q": 3, "n": "one"}),
    ];
    for (id, metadata) in values.iter().enumerate() {
        server.send(SOURCE, &event(id, metadata.clone()));
    }
    assert_eq!(read(&server, "m.err"), [json!("text"), json!(r#"{"message":"boom","code":7}"#), json!(r#"["x","y"]"#)]);
    assert_eq!(read(&server, "m.err.message"), [Value::Null, json!("boom"), Value::Null]);
    assert_eq!(read(&server, "m.q"), [json!(r#"[1,"z"]"#), json!("[[1]]"), json!("3")]);
    assert_eq!(read(&server, "m.n"), [json!("1"), json!(r#"{"deep":[1,{"er":true}]}"#), json!("one")]);
    assert_eq!(ids_where(&server, "m.err = 'text'"), ["000"]);
    assert_eq!(ids_where(&server, "m.err.code = 7"), ["001"]);
    assert_eq!(ids_where(&server, "m.n = 1"), ["000"]);
    assert_eq!(ids_where(&server, "m.q LIKE '%z%'"), ["000"]);
    let tags = server.sql(
        "select id, tag from postgres_logs cross join unnest(metadata) as m cross join unnest(m.tag) as tag order by id, tag",
    );
    assert_eq!(tags.column("tag"), [json!("a"), json!("b"), json!("c"), json!(r#"{"k":"d"}"#)]);
    let codes = server.sql(
        "select id, err.code from postgres_logs cross join unnest(metadata) as m cross join unnest(m.err) as err where err.code = 7",
    );
    assert_eq!(codes.column("code"), [json!("7")]);
}

#[test]
fn a_record_stays_a_record_where_something_else_stood_once() {
    let server = Server::start();
    let values = [
        json!({"err": {"message": "boom", "code": 7}, "list": [{"a": 1}, {"a": 2}]}),
        json!({"err": "text", "list": 5}),
        json!({"err": {"message": "bang"}, "list": {"a": 3}}),
    ];
    for (id, metadata) in values.iter().enumerate() {
        server.send(SOURCE, &event(id, metadata.clone()));
    }
    server.send(SOURCE, &json!({"id": "003", "project": "p1", "timestamp": TIME, "metadata": "all text"}));
    // What was written for records goes on.
    let messages = "select id, err.message from postgres_logs cross join unnest(metadata) as m
                    cross join unnest(m.err) as err order by id";
    assert_eq!(server.sql(messages).column("message"), [json!("boom"), json!("bang")]);
    assert_eq!(ids_where(&server, "m.err = 'text'"), ["001"]);
    assert_eq!(ids_where(&server, "m.err is not null"), ["000", "001", "002"]);
    assert_eq!(ids_where(&server, "m.err like '%boom%'"), ["000"]);
    let whole = server.sql("select metadata from postgres_logs order by id").column("metadata");
    assert_eq!(whole[0], json!([{"err": [{"message": "boom", "code": 7}], "list": [{"a": 1}, {"a": 2}]}]));
    assert_eq!(whole[1], json!([{"err": "text", "list": [5]}]));
    assert_eq!(whole[2], json!([{"err": [{"message": "bang", "code": null}], "list": [{"a": 3}]}]));
    assert_eq!(whole[3], json!("all text"));
}

#[test]
fn junk_in_all_columns_hides_no_honest_field() {
    let server = Server::start();
    let deep = |leaf: usize| (0..29).fold(json!(leaf), |inner, _| json!({"d": inner}));
    let bomb: Map<String, Value> = (0..1000).map(|key| (format!("k{key}"), deep(key))).collect();
    server.send(SOURCE, &event(0, Value::Object(bomb)));
    let junk: Map<String, Value> = (0..1100).map(|key| (format!("j{key}"), json!(key))).collect();
    server.send(SOURCE, &event(1, Value::Object(junk)));
    let honest = json!({"status": 500, "request": {"path": "/x", "headers": [{"host": "h"}]}, "tags": ["a", "b"],
        "list": [{"n": 1}, {"n": 2}], "_present": 7, "\u{6b}".repeat(200): "long"});
    server.send(SOURCE, &event(2, honest));
    assert_eq!(ids_where(&server, "m.status = 500"), ["002"]);
    assert_eq!(ids_where(&server, "m.status > 499 and m.request.path = '/x'"), ["002"]);
    assert_eq!(ids_where(&server, "m.j1099 = 1099"), ["001"]);
    assert_eq!(ids_where(&server, "m._present = 7"), ["002"]);
    assert_eq!(ids_where(&server, &format!("m.{} = 'long'", "k".repeat(200))), ["002"]);
    let hosts = "select id, h.host, r.path from postgres_logs cross join unnest(metadata) as m
                 cross join unnest(m.request) as r cross join unnest(r.headers) as h";
    let hosts = server.sql(hosts);
    assert_eq!((hosts.column("host"), hosts.column("path")), (vec![json!("h")], vec![json!("/x")]));
    let items = "select item.n, tag from postgres_logs cross join unnest(metadata) as m
                 cross join unnest(m.list) as item cross join unnest(m.tags) as tag order by tag, item.n";
    assert_eq!(server.sql(items).column("n"), [json!("1"), json!("2"), json!("1"), json!("2")]);
    let whole = server.sql("select metadata from postgres_logs where id = '002'").column("metadata");
    assert_eq!(whole[0][0]["status"], 500);
    assert_eq!(whole[0][0]["request"], json!([{"path": "/x", "headers": [{"host": "h"}]}]));
    // The endpoint lives, and lives after a restart.
    let answer = server.query("logs.all", &[("project", "p1"), ("sql", "select count(*) as n from postgres_logs")]);
    assert_eq!(answer.column("n"), [json!(3)]);
}

/// What endpoints are about has columns, whatever came before; also after a restart.
#[test]
fn fields_that_a_saved_endpoint_names_have_their_place() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let query = "with rows as (select t.id, m.status, request.path from `postgres.logs` as t
                 cross join unnest(t.metadata) as m cross join unnest(m.request) as request)
                 select id, path from rows where status = 500";
    server.save(&json!({"name": "errors", "query": query}));
    let junk: Map<String, Value> = (0..1100).map(|key| (format!("j{key}"), json!(key))).collect();
    server.send(SOURCE, &event(1, Value::Object(junk)));
    server.send(SOURCE, &event(2, json!({"status": 500, "request": {"path": "/x", "other": 1}, "more": 2})));
    let columns = |server: &Server| {
        let schema = server.read(&format!("/api/sources/{SOURCE}/schema"));
        schema.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let paths = columns(&server);
    for (path, is_there) in [("status", true), ("request.path", true), ("request.other", false), ("more", false)] {
        assert_eq!(paths.contains(&format!("metadata.{path}")), is_there, "{path}: {paths:?}");
    }
    assert_eq!(server.query("errors", &[]).column("path"), [json!("/x")]);
    assert_eq!(read(&server, "m.more"), [Value::Null, json!("2")]);
    server.stop("-TERM");
    let server = Server::start_in(&data);
    assert_eq!(server.query("errors", &[]).column("path"), [json!("/x")]);
    assert!(columns(&server).contains(&"metadata.status".to_owned()));
}

/// A query that worked when it was saved is not taken down by what logs come in; callers are told what is wrong
/// as long as they are there.
#[test]
fn an_endpoint_does_not_die_of_its_logs() {
    let data = Data::new();
    let server = Server::start_in(&data);
    let query = "with rows as (select id, count + 1 as next from `postgres.logs`) select id, next from rows";
    server.save(&json!({"name": "counting", "query": query}));
    server.send(SOURCE, &json!({"id": "a", "count": [{"a": 1}, {"a": 2}]}));
    server.query("counting", &[]).is(400);
    server.stop("-TERM");
    let server = Server::start_in(&data);
    let checked = || {
        let endpoint = server.read("/api/endpoints/counting");
        endpoint["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty())
    };
    until("what does not fit is told", checked);
    // Not "cannot be used any more": what it does not read of these logs works.
    server.query("counting", &[]).is(400);
    server.query("counting", &[("sql", "select count(*) as n from (select 1)")]).is(200);
}
