//! What is told about a saved query before anyone calls it: names that may be misspelt, and what a
//! parameter does not narrow.

use serde_json::json;
use tidegate_sql::SavedQuery;

use super::super::support::World;

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
        "SELECT x, x.name, name FROM logs, UNNEST(items) AS x",
    ] {
        assert_eq!(world.remarks(fine, None), [], "{fine}");
    }
}

/// A name that is near to none is told too, at every depth, as long as there are rows that could have had it.
#[test]
fn a_name_that_no_row_has_had_is_told_where_there_are_rows() {
    let world = world().source("empty", &[]);
    let cases: [(&str, &[&str]); 6] = [
        ("SELECT nosuch FROM logs", &["nosuch"]),
        ("SELECT l.nosuch FROM logs AS l", &["nosuch"]),
        (
            "SELECT something_else_entirely, metadata[0].something_else FROM logs",
            &["something_else_entirely", "something_else"],
        ),
        ("SELECT r.other_thing, ip FROM logs, UNNEST(metadata) AS m, UNNEST(m.response) AS r", &["other_thing", "ip"]),
        ("SELECT nosuch, metadata[0].nosuch FROM empty", &[]),
        // Which of the two should have it cannot be known.
        ("SELECT nosuch FROM logs, empty", &[]),
    ];
    for (sql, names) in cases {
        let told = world.remarks(sql, None);
        assert_eq!(told.iter().filter_map(|remark| remark.location.as_deref()).collect::<Vec<_>>(), names, "{sql}");
        assert!(told.iter().all(|remark| remark.message.ends_with("so far, and it is NULL")), "{sql}: {told:?}");
    }
    // One that may be misspelt is told in any case.
    let told = world.remarks("SELECT event_mesage FROM empty", None);
    assert!(told.iter().any(|remark| remark.message.ends_with("did you mean event_message?")), "{told:?}");
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

/// Of a name that stands alone, also whoever sends the text is told: it may be a column that the table does not have.
#[test]
fn a_name_that_stands_alone_and_was_never_seen_is_told_with_the_answer() {
    let grants = "WITH t AS (SELECT id, metadata FROM logs WHERE nosuch IS NULL) SELECT id FROM t";
    let world = world().source("empty", &[]);
    let unnested = "FROM t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.response) AS r";
    for (select, told) in [
        (
            format!("SELECT id {unnested} WHERE identifier = 'default'"),
            vec!["no log has had identifier so far, and it is NULL (line 1, column "],
        ),
        (
            format!("SELECT status_cod {unnested} GROUP BY status_cod"),
            vec!["no log has had status_cod so far, and it is NULL; did you mean status_code? (line 1, column 8)"],
        ),
        (
            format!("SELECT {} {unnested}", (0..20).map(|i| format!("nosuch{i}")).collect::<Vec<_>>().join(", ")),
            vec![""; 8],
        ),
        // Behind an alias it says where it is looked for; what was seen, and what stands in the grant, is not told.
        (format!("SELECT r.nosuch, m.nosuch, status_code, id {unnested} ORDER BY id"), vec![]),
        ("SELECT id FROM t".to_owned(), vec![]),
    ] {
        let seen: Vec<String> = world.never_seen(grants, &select).iter().map(ToString::to_string).collect();
        assert_eq!(seen.len(), told.len(), "{select}: {seen:?}");
        for (seen, told) in seen.iter().zip(told) {
            assert!(seen.starts_with(told), "{select}: {seen}");
        }
    }
    // Where no row could have had it, too: who sends the text knows what is meant.
    assert_eq!(
        world
            .never_seen("WITH t AS (SELECT metadata FROM empty) SELECT 1", "SELECT identifier FROM t, UNNEST(metadata)")
            .len(),
        1
    );
}

#[test]
fn tables_that_a_query_names_are_none_of_its_ctes() {
    let dotted = SavedQuery::parse("WITH t AS (SELECT * FROM `other.logs`) SELECT * FROM t, other.logs AS o").unwrap();
    assert_eq!(dotted.names_in_body(["other.logs", "logs", "t"]), ["other.logs"]);
    assert_eq!(dotted.relations().into_iter().collect::<Vec<_>>(), ["other.logs"]);
    // Letters whose small form depends on what follows.
    let greek = SavedQuery::parse("SELECT id FROM `ΛΟΓΟΣ.prod`").unwrap();
    assert_eq!(greek.names_in_body(["ΛΟΓΟΣ.prod"]), ["ΛΟΓΟΣ.prod"]);
}
