//! A CTE that several aggregations read is computed once where that is safe, and answers stay what they are.

use serde_json::{Value as Json, json};

use super::super::support::World;

const SAVED: &str = "WITH edge_logs AS (SELECT id, timestamp, event_message, metadata, n FROM edge WHERE project = 'p')
                     SELECT id FROM edge_logs";

const LOGS: &str = "WITH logs AS (SELECT id, timestamp, n, m.status AS status, r.path AS path FROM edge_logs
                    CROSS JOIN UNNEST(metadata) AS m LEFT JOIN UNNEST(m.request) AS r)";

fn world() -> World {
    let event = |id: i64| {
        let status = if id % 2 == 0 { "200" } else { "404" };
        json!({"id": id.to_string(), "timestamp": id * 1_000_000, "project": if id % 5 == 0 { "q" } else { "p" }, "n": id,
            "event_message": format!("message {id}"),
            "metadata": {"_present": true, "status": status,
                "request": {"_present": true, "path": format!("/{}", id % 3)}}})
    };
    let events: Vec<Json> = (1..=20).map(event).collect();
    World::new().source("edge", &events)
}

fn facets(condition: &str) -> String {
    format!(
        "{LOGS}
         SELECT 'all' AS facet, NULL AS value, COUNT(*) AS count FROM logs {condition}
         UNION ALL SELECT 'status', status, COUNT(*) FROM logs {condition} GROUP BY status
         UNION ALL SELECT 'path', path, COUNT(*) FROM logs {condition} GROUP BY path ORDER BY facet, value"
    )
}

#[test]
fn facets_of_one_list_are_computed_from_one_scan() {
    let plan = world().physical(SAVED, &facets(""));
    assert_eq!(plan.matches("SharedRows: ").count(), 3, "{plan}");
    assert_eq!(plan.matches("DataSourceExec: ").count(), 1, "{plan}");
    assert_eq!(
        world().granted(SAVED, &facets("")).unwrap(),
        json!([
            {"facet": "all", "value": null, "count": 16},
            {"facet": "path", "value": "/0", "count": 5},
            {"facet": "path", "value": "/1", "count": 6},
            {"facet": "path", "value": "/2", "count": 5},
            {"facet": "status", "value": "200", "count": 8},
            {"facet": "status", "value": "404", "count": 8},
        ])
    );
}

/// A condition that all readers have is one of the shared rows; what a single reader adds stays with it.
#[test]
fn conditions_of_all_readers_hold_for_the_shared_rows() {
    let sql =
        facets("WHERE timestamp > TIMESTAMP_SECONDS(10)").replace("GROUP BY path", "AND path != '/0' GROUP BY path");
    let plan = world().physical(SAVED, &sql);
    let (_, part) = plan.split_once("part 0:").unwrap();
    assert!(part.contains("10000000") && !part.contains("/0"), "{plan}");
    let rows = world().granted(SAVED, &sql).unwrap();
    assert_eq!(rows[0], json!({"facet": "all", "value": null, "count": 8}));
    assert_eq!(rows.as_array().unwrap().len(), 5);
}

#[test]
fn what_is_better_left_to_each_reader_is() {
    let count = "(SELECT COUNT(*) AS c FROM logs)";
    let twice = |text: &str| format!("{LOGS} SELECT COUNT(*) AS c FROM {text} UNION ALL SELECT COUNT(*) FROM {text}");
    for (sql, why) in [
        (format!("{LOGS} SELECT * FROM {count}"), "one reader"),
        (twice("(SELECT * FROM logs ORDER BY timestamp DESC LIMIT 3)"), "readers that stop early"),
        (twice("logs AS a JOIN logs AS b ON a.id = b.id"), "joins, which have filters of their own"),
        (format!("{LOGS} SELECT id FROM logs UNION ALL SELECT path FROM logs"), "readers that hand rows on"),
        (
            format!(
                "{LOGS} SELECT COUNT(*) AS c FROM logs WHERE n < 3 UNION ALL SELECT COUNT(*) FROM logs WHERE n > 15"
            ),
            "readers of different rows",
        ),
        (
            "WITH logs AS (SELECT id, metadata FROM edge_logs)
             SELECT COUNT(m.status) AS c FROM logs, UNNEST(metadata) AS m
             UNION ALL SELECT COUNT(r.path) FROM logs, UNNEST(metadata) AS m, UNNEST(m.request) AS r"
                .to_owned(),
            "records of which fields are read",
        ),
    ] {
        let plan = world().physical(SAVED, &sql);
        assert!(!plan.contains("SharedRows"), "{why}: {plan}");
        let rows = world().granted(SAVED, &sql);
        assert!(rows.is_ok(), "{why}: {rows:?}");
    }
}

/// Of a CTE with such an expression, the rows below it are shared, and not the expression.
#[test]
fn what_is_random_or_can_fail_is_computed_by_each_reader() {
    for (expr, shown) in [("RAND()", "random()"), ("100 / (n - 4)", "100")] {
        let sql = format!(
            "WITH logs AS (SELECT n, {expr} AS x FROM edge_logs)
             SELECT COUNT(*) AS c FROM logs UNION ALL SELECT CAST(MAX(x) AS INT64) FROM logs WHERE n > 4"
        );
        let plan = world().physical(SAVED, &sql);
        let part = plan.split_once("part 0:").map_or("", |(_, part)| part);
        assert!(plan.contains(shown) && !part.contains(shown), "{plan}");
        let rows = world().granted(SAVED, &sql);
        assert!(rows.is_ok(), "{expr}: {rows:?}");
    }
}
