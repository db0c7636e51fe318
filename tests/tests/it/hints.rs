//! What an author is told without asking: names that are near to others, filters that do not hold, logs
//! and parameters that make no difference.

use serde_json::json;
use tidegate_tests::EDGE;

use crate::kit::{COUNT, Endpoint, tidegate};

#[test]
fn names_that_logs_have_never_had_are_told_in_statements_and_grants() {
    let endpoint = Endpoint::new(&COUNT.replace("t.metadata FROM", "t.metadata, t.projct FROM"));
    endpoint.write("statements/paths.sql", "SELECT r.pahts\nFROM t, UNNEST(metadata) AS m, UNNEST(m.request) AS r");
    let told = endpoint.tidegate("check", &[]);
    told.succeeded().has(&[
        "query.sql:1:",
        "no log has had projct so far, and it is NULL; did you mean project?",
        "paths.sql:1:10: no log has had pahts so far, and it is NULL; did you mean path?",
    ]);
    // The same once in a test, before its cases, and with one request.
    let logs = json!([{"project": "a", "metadata": {"request": {"method": "GET", "path": "/"}}}]);
    for name in ["a", "b"] {
        let case = json!({"logs": {EDGE: logs}, "parameters": {"project": "b"}, "expect": {"result": []}});
        endpoint.write(&format!("tests/{name}.json"), &case.to_string());
    }
    let told = endpoint.tidegate("test", &[]);
    assert_eq!(told.succeeded().err.matches("no log has had projct").count(), 1, "{}", told.err);
    endpoint.tidegate("run", &["-p", "project=a"]).succeeded().has(&["warning: ", "did you mean project?"]);
}

#[test]
fn a_query_that_reads_past_its_grants_is_told() {
    let endpoint = Endpoint::new(
        &COUNT.replace("CROSS JOIN UNNEST(metadata) AS m", ", `postgres.logs` AS p CROSS JOIN UNNEST(t.metadata) AS m"),
    );
    let words = "beside its granted tables (t) the query reads postgres.logs itself";
    endpoint.tidegate("check", &[]).succeeded().has(&["query.sql: ", words]);
    endpoint.write("tests/a.json", r#"{"parameters": {"project": "a"}, "expect": {"result": []}}"#);
    endpoint.tidegate("test", &[]).succeeded().has(&["warning: ", words]);
}

#[test]
fn logs_and_parameters_that_make_no_difference_are_told() {
    let endpoint = Endpoint::new(COUNT);
    let case = json!({
        "logs": {"cloudflare.log.prod": [{"project": "a"}]},
        "parameters": {"project": "a", "projct": "b", "far_away": "c"},
        "expect": {"result": []},
    });
    endpoint.write("tests/a.json", &case.to_string());
    let told = endpoint.tidegate("test", &[]);
    told.succeeded().has(&[
        "there are logs of cloudflare.log.prod, and the endpoint does not read it; did you mean cloudflare.logs.prod?",
        "the endpoint has no parameter projct, and it is ignored; did you mean project?",
        "the endpoint has no parameter far_away, and it is ignored\n",
    ]);
    endpoint.tidegate("run", &["-p", "project=a", "-p", "projekt=b"]).succeeded().has(&["no parameter projekt"]);
    // Another case of a declared name is no other parameter.
    endpoint.tidegate("run", &["-p", "project=a", "-p", "Project=b"]).failed().has(&["did you mean 'project'?"]);
    // Ad-hoc text may use any.
    let told =
        endpoint.tidegate("run", &["-p", "project=a", "-p", "path=/x", "--sql", "SELECT @path AS path FROM t LIMIT 1"]);
    assert!(!told.succeeded().err.contains("no parameter"), "{}", told.err);

    endpoint.write("query.sql", &COUNT.replace("cloudflare.logs.prod", "cloudflare.logs.prd"));
    endpoint
        .tidegate("check", &[])
        .succeeded()
        .has(&["cloudflare.logs.prd is empty here", "did you mean cloudflare.logs.prod?"]);
}

#[test]
fn a_log_whose_time_cannot_be_read_is_a_mistake_of_its_case() {
    let endpoint = Endpoint::new(COUNT);
    for (time, ok) in
        [(json!("soon"), false), (json!([1]), false), (json!("2026-01-01T00:00:00Z"), true), (json!(null), true)]
    {
        let logs = json!([{"project": "b"}, {"project": "b", "timestamp": time}]);
        let case = json!({"logs": {EDGE: logs}, "parameters": {"project": "a"}, "expect": {"result": []}});
        endpoint.write("tests/a.json", &case.to_string());
        let told = endpoint.tidegate("test", &[]);
        match ok {
            true => told.succeeded(),
            false => told.failed().has(&["a.json: log 1 of cloudflare.logs.prod: its timestamp is", "no time such as"]),
        };
    }
}

#[test]
fn a_folder_that_is_none_and_values_of_the_wrong_type_are_told_in_plain_words() {
    tidegate(&["check", "no/such/folder"])
        .failed()
        .has(&["no/such/folder: there is no such folder", "tidegate new NAME --lang sql"]);
    let endpoint = Endpoint::new(COUNT);
    std::fs::remove_file(endpoint.file("query.sql")).unwrap();
    endpoint.tidegate("test", &[]).failed().has(&["query.sql: the folder of an endpoint has this file"]);
    endpoint.write("query.sql", COUNT);
    for (toml, told) in [
        ("name = 5\n", "endpoint.toml:1:8: this is the number `5`, and must be a text"),
        (
            "name = \"a\"\n[settings]\nmax_limit = \"many\"\n",
            "endpoint.toml:3:13: this is the text \"many\", and must be a whole number from 0",
        ),
        ("name = \"query\"\n", "endpoint.toml: the endpoint name 'query' is taken"),
        ("name = \"a\"\n[[parameters]]\nname = \"sql\"\n", "the parameter 'sql' cannot be sent"),
        (
            "name = \"a\"\n[[parameters]]\nname = \"unit\"\nenum = [\"hour\", \"day\"]\ndefault = \"week\"\n",
            "the default of parameter 'unit' has the value 'week'; allowed are hour, day",
        ),
    ] {
        endpoint.write("endpoint.toml", toml);
        endpoint.tidegate("check", &[]).failed().has(&[told]);
    }
}
