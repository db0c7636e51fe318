//! What is told about a saved query before anyone calls it: names that may be misspelt, and what a
//! parameter does not narrow.

use serde_json::json;
use tidegate_sql::{SavedQuery, Unbound, Weak};

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
        let unbound = Unbound { tables, body, ..Unbound::default() };
        assert_eq!(saved.unbound("project", ["logs", "other.logs"], []), unbound, "{sql}");
    }
    let dotted = SavedQuery::parse("WITH t AS (SELECT * FROM `other.logs`) SELECT * FROM t, other.logs AS o").unwrap();
    let unbound = Unbound { tables: vec!["t".to_owned()], body: true, ..Unbound::default() };
    assert_eq!(dotted.unbound("project", ["other.logs"], []), unbound);
    assert_eq!(dotted.names_in_body(["other.logs", "logs", "t"]), ["other.logs"]);
    assert_eq!(dotted.names(["other.logs", "logs", "t"]), ["other.logs"]);
    assert_eq!(dotted.relations().into_iter().collect::<Vec<_>>(), ["other.logs"]);
    // Letters whose small form depends on what follows.
    let greek = SavedQuery::parse("SELECT id FROM `ΛΟΓΟΣ.prod`").unwrap();
    assert!(greek.unbound("project", ["ΛΟΓΟΣ.prod"], []).body);
}

/// To search for a parameter in a text, or to take it where another is not sent, binds no rows to it.
#[test]
fn a_parameter_that_is_searched_for_or_stands_in_for_another_binds_nothing() {
    let search = "REGEXP_CONTAINS(url, @project)";
    for (condition, weak) in [
        (search.to_owned(), Some(Weak::Searched)),
        ("NOT REGEXP_CONTAINS(url, CONCAT('//', LOWER(@PROJECT), '[.]'))".to_owned(), Some(Weak::Searched)),
        ("url LIKE CONCAT('%', @project)".to_owned(), Some(Weak::Searched)),
        ("url ~ @project".to_owned(), Some(Weak::Searched)),
        ("STRPOS(url, @project) > 0 OR STARTS_WITH(url, @project)".to_owned(), Some(Weak::Searched)),
        ("project = COALESCE(@other, @project)".to_owned(), Some(Weak::Default)),
        ("project = IFNULL(NULLIF(@other, ''), @project)".to_owned(), Some(Weak::Default)),
        (format!("{search} AND project = COALESCE(x, @other, @project)"), Some(Weak::Default)),
        ("project = IF(@other IS NULL, @project, @other)".to_owned(), Some(Weak::Default)),
        ("project = CASE WHEN @other = '' THEN @project ELSE @other END".to_owned(), Some(Weak::Default)),
        ("NOT project = @project".to_owned(), Some(Weak::Loose)),
        ("project <> @project AND project != @project".to_owned(), Some(Weak::Loose)),
        ("project NOT IN ('x', @project)".to_owned(), Some(Weak::Loose)),
        ("project IS DISTINCT FROM @project".to_owned(), Some(Weak::Loose)),
        ("project = @project OR level = 'x'".to_owned(), Some(Weak::Loose)),
        ("id = 'a' OR (level = 'x' OR project = @project)".to_owned(), Some(Weak::Loose)),
        ("project = @project OR id IN (SELECT x.id FROM logs AS x)".to_owned(), Some(Weak::Loose)),
        ("id = 'a' OR REGEXP_CONTAINS(url, @project)".to_owned(), Some(Weak::Searched)),
        // These bind.
        ("@project IS NULL OR project = @project".to_owned(), None),
        ("(@other IS NULL OR level = @other) AND project = @project".to_owned(), None),
        ("project = @project AND level = 'x' OR id = 'y' AND project = @PROJECT".to_owned(), None),
        ("project = IF(@project = 'x', @other, @project) AND project = @project".to_owned(), None),
        ("id IN (SELECT x.id FROM logs AS x WHERE x.project = @project)".to_owned(), None),
        (format!("{search} AND project = @project"), None),
        ("project = COALESCE(@project, @other)".to_owned(), None),
        ("project = COALESCE(x, @project)".to_owned(), None),
        (format!("IF({search}, 1, 0) = 1 AND @project IS NOT NULL"), None),
        ("REGEXP_CONTAINS(url, @other) AND project IN (@project)".to_owned(), None),
    ] {
        let saved =
            SavedQuery::parse(&format!("WITH t AS (SELECT * FROM logs WHERE {condition}) SELECT id FROM t")).unwrap();
        let told = saved.weakly_bound(["logs"]);
        let told =
            told.iter().find(|(name, ..)| name.eq_ignore_ascii_case("project")).map(|(_, weak, piece)| (*weak, *piece));
        assert_eq!(told, weak.map(|weak| (weak, Some("t"))), "{condition}");
        // Of stored tables a column can stand in for the search, and for nothing else.
        let unbound = saved.unbound("project", ["logs"], ["logs"]);
        assert_eq!(!unbound.searched.is_empty(), weak == Some(Weak::Searched), "{condition}");
        assert_eq!(!unbound.tables.is_empty(), weak.is_some_and(|weak| weak != Weak::Searched), "{condition}");
        assert_eq!(!saved.unbound("project", ["logs"], []).tables.is_empty(), weak.is_some(), "{condition}");
    }
    for (from, binds) in [
        ("SELECT *, @project AS who FROM logs", false),
        ("SELECT id, IF(project = @project, 1, 0) AS own FROM logs", false),
        ("SELECT c.* FROM logs AS c LEFT JOIN (SELECT @project AS p) AS x ON x.p = c.project", false),
        ("SELECT c.* FROM logs AS c LEFT JOIN logs AS x ON x.project = @project", false),
        ("SELECT c.* FROM logs AS c JOIN (SELECT @project AS p) AS x ON x.p = c.project", true),
        ("SELECT c.* FROM logs AS c CROSS JOIN (SELECT @project AS p) AS x WHERE x.p = c.project", true),
        ("SELECT c.*, @project AS who FROM logs AS c WHERE c.project = @project", true),
        ("SELECT (SELECT COUNT(*) FROM logs AS x WHERE x.project = @project) AS n FROM logs AS c", true),
        ("SELECT c.* FROM logs AS c LEFT JOIN logs AS x ON x.id = c.id WHERE c.project = @project", true),
    ] {
        let saved = SavedQuery::parse(&format!("WITH t AS ({from}) SELECT id FROM t")).unwrap();
        assert_eq!(saved.unbound("project", ["logs"], ["logs"]).tables.is_empty(), binds, "{from}");
    }
    // What is searched may be another piece that nothing binds: its rows have no column of the source's.
    let sql =
        "WITH raw AS (SELECT * FROM logs), t AS (SELECT * FROM raw WHERE REGEXP_CONTAINS(url, @project)) SELECT 1";
    let saved = SavedQuery::parse(sql).unwrap();
    assert_eq!(saved.unbound("project", ["logs"], ["logs"]).tables, ["raw", "t"]);
    // A long chain takes time in proportion to its length.
    let deep = (0..40).fold("@project".to_owned(), |inner, _| format!("COALESCE({inner}, 'x')"));
    let saved = SavedQuery::parse(&format!("SELECT id FROM logs WHERE project = {deep}")).unwrap();
    assert_eq!(saved.weakly_bound(["logs"]), []);
    let long = (0..2_000).map(|n| format!("id = @p{n}")).collect::<Vec<_>>().join(" OR ");
    let saved = SavedQuery::parse(&format!("SELECT id FROM logs WHERE {long}")).unwrap();
    assert_eq!(saved.weakly_bound(["logs"]).len(), 2_000);
}
