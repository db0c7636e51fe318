//! What statements read: the columns and fields that decide about rows or come out, and no others.

use serde_json::json;
use tidegate_sql::SavedQuery;

use super::super::support::World;

fn world() -> World {
    let record = json!({
        "id": "1", "project": "p", "n": 1,
        "metadata": {"request": {"path": "/", "url": "/", "headers": {"agent": "a"}}, "response": {"status": 200}},
        "items": [{"name": "a", "size": 1}, {"name": "b", "size": 2}],
    });
    World::new().source("logs", std::slice::from_ref(&record)).source("other.logs", &[record]).with("project", "p")
}

/// `table: column, column` of each table, in order.
fn told(reads: tidegate_sql::Reads) -> Vec<String> {
    reads
        .into_iter()
        .map(|(table, paths)| format!("{table}: {}", paths.into_iter().collect::<Vec<_>>().join(", ")))
        .collect()
}

fn of_statement(saved: &str, sql: Option<&str>) -> Vec<String> {
    told(world().reads(&SavedQuery::parse(saved).unwrap(), sql))
}

fn of_grant(saved: &str, grant: &str) -> Vec<String> {
    told(world().reads_of_grant(&SavedQuery::parse(saved).unwrap(), grant))
}

const GRANTS: &str = "WITH t AS (SELECT id, timestamp, metadata, items, n FROM logs WHERE project = @project ORDER BY timestamp DESC), \
                      u AS (SELECT o.id, r.path AS path FROM `other.logs` AS o, UNNEST(o.metadata) AS m, UNNEST(m.request) AS r) ";

#[test]
fn a_statement_reads_what_it_uses_of_its_grants() {
    let cases = [
        ("SELECT id FROM t", "t: id"),
        ("SELECT COUNT(*) AS n FROM t", ""),
        (
            "SELECT r.path FROM t CROSS JOIN UNNEST(metadata) AS m CROSS JOIN UNNEST(m.request) AS r",
            "t: metadata.request.path",
        ),
        ("SELECT id FROM t, UNNEST(metadata) AS m", "t: id, metadata"),
        (
            "SELECT id FROM t WHERE metadata[0].response[0].status > 400 ORDER BY timestamp",
            "t: id, metadata.response.status, timestamp",
        ),
        ("SELECT metadata FROM t, UNNEST(metadata) AS m, UNNEST(m.request) AS r WHERE r.path = '/'", "t: metadata"),
        ("SELECT i.name FROM t, UNNEST(items) AS i", "t: items.name"),
        (
            "SELECT COUNTIF(r.headers[0].agent = 'x') AS n FROM t, UNNEST(metadata) AS m, UNNEST(m.request) AS r GROUP BY MOD(n, 2)",
            "t: metadata.request.headers.agent, n",
        ),
        ("SELECT a.id FROM t AS a JOIN u AS b USING (id) WHERE b.path = '/'", "t: id|u: id, path"),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM u WHERE path = 'x')", "t: id|u: id, path"),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)", "t: id|u: id"),
        ("SELECT id FROM t UNION ALL SELECT path FROM u", "t: id|u: path"),
        ("SELECT n, COUNT(*) AS c FROM t GROUP BY ROLLUP(n)", "t: n"),
        ("SELECT x.n FROM (SELECT n, id, COUNT(*) AS c FROM t GROUP BY GROUPING SETS ((n, id), n)) AS x", "t: id, n"),
        ("SELECT x.id FROM (SELECT id, n, metadata FROM t) AS x", "t: id"),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY n ORDER BY timestamp) AS r FROM t", "t: n, timestamp"),
        ("SELECT DISTINCT n FROM t", "t: n"),
        ("SELECT s.a FROM (SELECT STRUCT(id AS a, n AS b) AS s FROM t)", "t: id"),
        ("SELECT 1 AS one", ""),
        ("SELECT (SELECT MAX(u.path) FROM u WHERE u.id < t.id) AS p FROM t", "t: id|u: id, path"),
        (
            "SELECT n FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id <> CAST(t.metadata[0].response[0].status AS STRING))",
            "t: metadata.response.status, n|u: id",
        ),
    ];
    for (body, expected) in cases {
        let expected: Vec<&str> = expected.split('|').filter(|table| !table.is_empty()).collect();
        assert_eq!(of_statement(&format!("{GRANTS}{body}"), None), expected, "{body}");
        assert_eq!(of_statement(&format!("{GRANTS}SELECT 1 AS one"), Some(body)), expected, "{body}");
    }
}

#[test]
fn a_grant_reads_what_it_filters_by_and_shows() {
    let body = format!("{GRANTS}, v AS (SELECT path FROM u WHERE id = 'x') SELECT 1 AS one");
    assert_eq!(of_grant(&body, "t"), ["logs: id, items, metadata, n, project, timestamp"]);
    assert_eq!(of_grant(&body, "u"), ["other.logs: id, metadata.request.path"]);
    assert_eq!(of_grant(&body, "v"), ["other.logs: id, metadata.request.path"]);
}

#[test]
fn a_grant_may_have_columns_of_any_type() {
    let grants = "WITH t AS (SELECT id, DATETIME(timestamp) AS at, PARSE_JSON(event_message) AS j FROM logs WHERE project = @project) ";
    let of = |body: &str| of_statement(&format!("{grants}{body}"), None);
    assert_eq!(of("SELECT id FROM t WHERE at > DATETIME '2026-01-01 00:00:00'"), ["t: at, id"]);
    assert_eq!(of("SELECT j.a FROM t"), ["t: j"]);
}

#[test]
fn lineage_sees_through_recursion() {
    let body = "WITH RECURSIVE r AS (SELECT id AS k, n FROM logs WHERE project = @project UNION ALL SELECT o.id, r.n + 1 FROM r JOIN `other.logs` AS o \
                ON o.n = r.n WHERE r.n < 5), logs_of AS (SELECT k FROM r) SELECT k FROM logs_of";
    assert_eq!(of_grant(body, "r"), ["logs: id, n, project", "other.logs: id, n"]);
    assert_eq!(of_statement(body, None), ["logs_of: k"]);
    assert_eq!(of_statement(body, Some("SELECT n FROM r")), ["r: n"]);
    let saved = SavedQuery::parse(body).unwrap();
    assert_eq!(saved.relations().into_iter().collect::<Vec<_>>(), ["logs", "other.logs"]);
    assert_eq!(saved.tables(), ["r", "logs_of"]);
    // A name of a WITH RECURSIVE is never a table outside.
    let saved =
        SavedQuery::parse("WITH RECURSIVE a AS (SELECT * FROM logs), logs AS (SELECT 1 AS n) SELECT * FROM a").unwrap();
    assert!(saved.relations().is_empty());
    assert_eq!(told(world().reads_of_grant(&saved, "a")), Vec::<String>::new());
}
