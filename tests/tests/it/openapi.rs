//! The OpenAPI document: true to the service, and silent to strangers.
//!
//! Whether answers fit it is tried by `cargo xtask conformance`.

use serde_json::{Value, json};
use tidegate_tests::{EDGE, PRIVATE, PUBLIC, Server, now, request};

fn document(server: &Server, headers: &[(&str, &str)]) -> Value {
    let answer = server.call("GET", "/api/openapi", headers, b"").is(200);
    assert_eq!(answer.body["openapi"], "3.1.0");
    answer.body
}

fn operation<'a>(document: &'a Value, path: &str) -> &'a Value {
    let operation = &document["paths"][path]["get"];
    assert!(operation.is_object(), "{path} is not described");
    operation
}

fn parameter<'a>(operation: &'a Value, name: &str) -> &'a Value {
    let mut all = operation["parameters"].as_array().unwrap().iter();
    all.find(|parameter| parameter["name"] == name).unwrap_or_else(|| panic!("no {name} in {operation}"))
}

fn refers(operation: &Value, to: &str) -> bool {
    let to = json!({"$ref": format!("#/components/parameters/{to}")});
    operation["parameters"].as_array().unwrap().contains(&to)
}

#[test]
fn endpoints_are_described_to_those_who_may_query_them() {
    let server = Server::start();
    let own = json!({"name": "secret plans", "query": "select @codeword as c", "description": "SECRET"});
    server.save(&own);
    let whole = document(&server, &[("x-api-key", PRIVATE)]);
    for path in ["logs.all", "usage.api-counts", "secret%20plans"] {
        operation(&whole, &format!("/api/endpoints/query/{path}"));
    }
    assert!(parameter(operation(&whole, "/api/endpoints/query/secret%20plans"), "codeword").is_object());
    for headers in [&[][..], &[("x-api-key", PUBLIC)]] {
        let document = document(&server, headers);
        operation(&document, "/api/endpoints/query/{endpoint}");
        let text = document.to_string();
        for secret in ["secret plans", "secret%20plans", "SECRET", "codeword", "logs.all", "iso_timestamp_start"] {
            assert!(!text.contains(secret), "{secret} is told to {headers:?}");
        }
    }
    server.call("GET", "/api/openapi", &[("x-api-key", "wrong")], b"").refused(401, "unauthorized", &[]);
}

#[test]
fn a_token_sees_what_it_may_ask() {
    let server = Server::start();
    let free = json!({"name": "free", "query": "select @other as c"});
    server.save(&free);
    let token = |definition: &Value| server.token(definition);
    let saved = |token: &str| {
        let document = document(&server, &[("authorization", &format!("Bearer {token}"))]);
        let paths = document["paths"].as_object().unwrap().keys();
        let saved =
            paths.filter_map(|path| path.strip_prefix("/api/endpoints/query/")).filter(|name| *name != "{endpoint}");
        (saved.map(str::to_owned).collect::<Vec<_>>(), document.clone())
    };
    let one = token(&json!({"scopes": "query:endpoint:logs.all"}));
    assert_eq!(saved(&one).0, ["logs.all"]);
    // Endpoints without the pinned parameter refuse the token.
    let pinned = token(&json!({"scopes": "query", "pinned": {"project": "p1"}}));
    let (names, document) = saved(&pinned);
    assert_eq!(names, ["logs.all", "usage.api-counts"]);
    let project = parameter(operation(&document, "/api/endpoints/query/logs.all"), "project");
    assert_eq!(project["required"], false);
    assert!(project["description"].as_str().unwrap().contains("Fixed by the access token"), "{project}");
    assert!(!document.to_string().contains("p1"), "not what it is fixed to");
}

#[test]
fn parameters_and_columns_have_their_types() {
    let server = Server::start();
    server.send(EDGE, &request("1", now(), "/x"));
    let kinds = json!({
        "name": "kinds",
        "query": "with t as (select id, metadata from `cloudflare.logs.prod`) select id, metadata, @n as n from t",
        "parameters": [
            {"name": "n", "kind": "int64", "required": true, "enum": ["1", "60"], "description": "How many."},
            {"name": "since", "kind": "timestamp"},
            {"name": "short", "max_length": 5, "default": "abc"},
            {"name": "format", "description": "Its own."},
        ],
    });
    server.save(&kinds);
    let document = document(&server, &[("x-api-key", PRIVATE)]);
    let kinds = operation(&document, "/api/endpoints/query/kinds");
    let n = parameter(kinds, "n");
    assert_eq!((&n["required"], &n["description"]), (&json!(true), &json!("How many.")));
    assert_eq!((&n["schema"]["type"], &n["schema"]["enum"]), (&json!("integer"), &json!([1, 60])));
    assert!(parameter(kinds, "since")["schema"].to_string().contains("date-time"));
    assert_eq!(parameter(kinds, "short")["schema"], json!({"type": "string", "maxLength": 5, "default": "abc"}));
    // Its own `format`, and no ad-hoc queries: its sandbox is off.
    assert_eq!(parameter(kinds, "format")["description"], "Its own.");
    assert!(!refers(kinds, "format") && !refers(kinds, "sql") && refers(kinds, "redact"));
    let content = &kinds["responses"]["200"]["content"];
    assert_eq!(content.as_object().unwrap().len(), 4, "all formats: {content}");
    let row = &content["application/json"]["schema"]["properties"]["result"]["items"];
    assert_eq!(row["required"], json!(["id", "metadata", "n"]));
    assert_eq!(row["properties"]["n"]["type"], json!(["integer", "null"]));
    let metadata = &row["properties"]["metadata"];
    assert_eq!((&metadata["type"], &metadata["maxItems"]), (&json!(["array", "null"]), &json!(1)));
    let inner = &metadata["items"]["properties"]["request"]["items"]["properties"];
    assert_eq!(inner["path"]["type"], json!(["string", "null"]), "{metadata}");
    assert!(!document.to_string().contains("_present"), "hidden fields are hidden");

    let logs = operation(&document, "/api/endpoints/query/logs.all");
    assert_eq!(parameter(logs, "project")["required"], true);
    assert!(refers(logs, "sql") && refers(logs, "lql") && refers(logs, "format"));
    // A new version has a new description, at once.
    let id = server.read("/api/endpoints/kinds")["id"].as_str().unwrap().to_owned();
    let changed = json!({"query": "select 'x' as other", "parameters": []});
    server.manage("PUT", &format!("/api/endpoints/{id}"), &changed).is(200);
    let document = self::document(&server, &[("x-api-key", PRIVATE)]);
    let result = &operation(&document, "/api/endpoints/query/kinds")["responses"]["200"]["content"]["application/json"];
    assert_eq!(result["schema"]["properties"]["result"]["items"]["required"], json!(["other"]));
}

#[test]
fn every_route_of_the_document_is_there() {
    let server = Server::start();
    let document = document(&server, &[]);
    let mut tried = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let path = path.replace(['{', '}'], "");
            let answer = server.fetch(&method.to_uppercase(), &path, &[("x-api-key", PUBLIC)], b"");
            let text = String::from_utf8_lossy(&answer.body);
            assert!(answer.status != 405 && !text.contains("there is nothing at"), "{method} {path}: {text}");
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried}");
}
