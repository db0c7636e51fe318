//! What is told about a saved query before anyone calls it: names that may be misspelt, and what a
//! parameter does not narrow.

use serde_json::json;
use tidegate_sql::{SavedQuery, Unbound};

use crate::support::World;

fn world() -> World {
    let log = json!({
        "id": "1", "timestamp": 1, "project": "p", "items": [{"name": "a"}],
        "metadata": {"response": {"status_code": 200}},
    });
    World::new().source("logs", &[log])
}

#[test]
fn a_name_near_to_one_that_logs_have_had_is_told_with_its_place() {
    let grants = "WITH t AS (SELECT id, metadata, items FROM logs) ";
    let cases = [
        ("SELECT projct FROM logs", "projct", "project", (1, 8)),
        ("SELECT l.projct FROM logs AS l", "projct", "project", (1, 10)),
        ("SELECT id FROM logs WHERE metadata[0].respons IS NULL", "respons", "response", (1, 39)),
        (
            "SELECT r.status_cod\nFROM logs, UNNEST(metadata) AS m, UNNEST(m.response) AS r",
            "status_cod",
            "status_code",
            (1, 10),
        ),
        ("SELECT nmae FROM logs, UNNEST(items) AS i", "nmae", "name", (1, 8)),
        ("SELECT metadata->'respons' FROM logs", "respons", "response", (0, 0)),
        ("WITH a AS (SELECT\n  projct FROM logs) SELECT id FROM logs", "projct", "project", (2, 3)),
    ];
    let world = world();
    for (sql, name, near, (line, column)) in cases {
        let told = world.remarks(sql, None);
        let [remark] = told.as_slice() else { panic!("{sql}: {told:?}") };
        assert!(remark.message.contains(&format!("no log has had {name} so far")), "{sql}: {remark}");
        assert!(remark.message.contains(&format!("did you mean {near}?")), "{sql}: {remark}");
        let at = remark.position.map_or((0, 0), |position| (position.line, position.column));
        assert_eq!(at, (line, column), "{sql}");
    }
    // Once, however often it is read.
    let told =
        world.remarks(&format!("{grants} SELECT id FROM t WHERE items[0].nmae = 'a' OR items[0].nmae = 'b'"), None);
    assert_eq!(told.len(), 2, "{told:?}");
    let twice = "WITH t AS (SELECT id, projct FROM logs) SELECT a.id FROM t AS a, t AS b";
    assert_eq!(world.remarks(twice, None).len(), 1);
    for fine in [
        "SELECT project, metadata[0].response[0].status_code FROM logs",
        "SELECT nam, ip, i FROM logs, UNNEST(items) AS x",
        "SELECT something_else_entirely, metadata[0].something_else FROM logs",
    ] {
        assert_eq!(world.remarks(fine, None), [], "{fine}");
    }
}

#[test]
fn a_statement_is_told_of_its_own_names_only() {
    let grants = "WITH t AS (SELECT id, metadata, projct FROM logs) SELECT id FROM t";
    let world = world();
    assert_eq!(world.remarks(grants, Some("SELECT id FROM t")), []);
    let told = world.remarks(grants, Some("SELECT id, metadata[0].respons FROM t"));
    assert_eq!(told.iter().filter_map(|remark| remark.location.as_deref()).collect::<Vec<_>>(), ["respons"]);
    // Nor is a reader of what stands in the endpoint that it reads.
    let world = world.endpoint("other", "SELECT id, projct FROM logs");
    assert_eq!(world.remarks("SELECT id FROM other", None), []);
}

#[test]
fn what_a_parameter_narrows_is_followed_through_the_tables() {
    let cases: [(&str, &[&str], bool); 12] = [
        ("SELECT id FROM logs WHERE project = @project", &[], false),
        ("SELECT id FROM logs", &[], true),
        ("SELECT 1 AS n", &[], false),
        ("WITH t AS (SELECT * FROM logs WHERE project = @Project) SELECT id FROM t", &[], false),
        ("WITH t AS (SELECT * FROM logs) SELECT id FROM t WHERE project = @project", &["t"], false),
        ("WITH t AS (SELECT * FROM logs) SELECT id FROM T", &["t"], true),
        (
            "WITH raw AS (SELECT * FROM logs), mine AS (SELECT * FROM raw WHERE project = @project) SELECT id FROM mine",
            &["raw"],
            false,
        ),
        (
            "WITH raw AS (SELECT * FROM logs), mine AS (SELECT * FROM raw WHERE project = @project), \
                  both AS (SELECT * FROM mine UNION ALL SELECT * FROM raw) SELECT id FROM mine",
            &["raw", "both"],
            false,
        ),
        (
            "WITH t AS (SELECT * FROM logs WHERE project = @project) SELECT id FROM t UNION ALL SELECT id FROM `LOGS`",
            &[],
            true,
        ),
        ("WITH t AS (SELECT 1 AS n) SELECT n FROM t", &[], false),
        ("WITH t AS (WITH x AS (SELECT 1 AS n) SELECT n FROM x) SELECT n FROM t", &[], false),
        (
            "WITH t AS (SELECT * FROM logs WHERE EXISTS (SELECT 1 FROM logs WHERE id = @project)) SELECT id FROM t",
            &[],
            false,
        ),
    ];
    for (sql, tables, body) in cases {
        let tables = tables.iter().map(|table| (*table).to_owned()).collect();
        let saved = SavedQuery::parse(sql).unwrap();
        assert_eq!(saved.unbound("project", ["logs", "other.logs"]), Unbound { tables, body }, "{sql}");
    }
    let dotted = SavedQuery::parse("WITH t AS (SELECT * FROM `other.logs`) SELECT * FROM t, other.logs AS o").unwrap();
    assert_eq!(dotted.unbound("project", ["other.logs"]), Unbound { tables: vec!["t".to_owned()], body: true });
    assert_eq!(dotted.names_in_body(["other.logs", "logs", "t"]), ["other.logs"]);
    assert_eq!(dotted.names(["other.logs", "logs", "t"]), ["other.logs"]);
    assert_eq!(dotted.relations().into_iter().collect::<Vec<_>>(), ["other.logs"]);
    // Letters whose small form depends on what follows.
    let greek = SavedQuery::parse("SELECT id FROM `ΛΟΓΟΣ.prod`").unwrap();
    assert!(greek.unbound("project", ["ΛΟΓΟΣ.prod"]).body);
}
