//! Tables are taken with the fields that a statement reads, and answers stay what they are.

use serde_json::json;

use super::super::support::{World, narrowed};

const SAVED: &str = "WITH edge_logs AS (SELECT id, timestamp, event_message, metadata FROM edge WHERE project = 'p')
                     SELECT id FROM edge_logs";

fn world() -> World {
    let event = |id: &str, status: i64| {
        // A store says of each record whether it is there.
        json!({"id": id, "timestamp": status, "project": "p", "event_message": "m", "metadata": {"_present": true,
            "request": {"_present": true, "path": format!("/{id}"), "method": "GET",
                "headers": {"_present": true, "host": "h", "agent": "a"}},
            "response": {"_present": true, "status": status, "time": 7},
            "other": {"_present": true, "deep": {"_present": true, "er": 1}}, "list": [{"a": 1}, {"a": 2}]
        }})
    };
    World::new().source("edge", &[event("1", 200), event("2", 500)])
}

/// The rows of a statement over the granted table, and what was read of each table.
fn run(sql: &str) -> (serde_json::Value, Vec<Vec<String>>) {
    let world = world();
    drop(narrowed());
    let rows = world.granted(SAVED, sql).unwrap();
    (rows, narrowed())
}

#[test]
fn a_record_is_read_by_the_paths_of_its_fields() {
    let (rows, tables) = run("SELECT id, request.path, response.status FROM edge_logs CROSS JOIN UNNEST(metadata) AS m
                              CROSS JOIN UNNEST(m.request) AS request CROSS JOIN UNNEST(m.response) AS response
                              WHERE response.status >= 500");
    assert_eq!(rows, json!([{"id": "2", "path": "/2", "status": 500}]));
    let [fields] = tables.as_slice() else { panic!("{tables:?}") };
    assert!(fields.contains(&"metadata.response.status".to_owned()), "{fields:?}");
    assert!(fields.iter().all(|field| !field.contains("other") && !field.contains("headers")), "{fields:?}");
}

#[test]
fn a_table_that_is_read_twice_has_the_fields_of_both() {
    let both = "SELECT a.id, r.path FROM edge_logs AS a CROSS JOIN UNNEST(a.metadata) AS m
                CROSS JOIN UNNEST(m.request) AS r WHERE r.path = '/1'
                UNION ALL
                SELECT b.id, CAST(r.time AS STRING) FROM edge_logs AS b CROSS JOIN UNNEST(b.metadata) AS m
                CROSS JOIN UNNEST(m.response) AS r WHERE b.id = '2'";
    let (rows, tables) = run(&format!("SELECT * FROM ({both}) ORDER BY id"));
    assert_eq!(rows, json!([{"id": "1", "path": "/1"}, {"id": "2", "path": "7"}]));
    let [fields] = tables.as_slice() else { panic!("{tables:?}") };
    for field in ["metadata.request.path", "metadata.response.time"] {
        assert!(fields.contains(&field.to_owned()), "{field}: {fields:?}");
    }
    assert!(!fields.contains(&"metadata.response.status".to_owned()), "{fields:?}");
}

#[test]
fn a_record_under_another_name_is_followed() {
    let (rows, tables) = run("SELECT h.host, x.response FROM
                              (SELECT id, metadata AS m FROM edge_logs ORDER BY timestamp DESC LIMIT 1) AS t
                              CROSS JOIN UNNEST(t.m) AS x CROSS JOIN UNNEST(x.request) AS r
                              CROSS JOIN UNNEST(r.headers) AS h");
    assert_eq!(rows, json!([{"host": "h", "response": [{"status": 500, "time": 7}]}]));
    let [fields] = tables.as_slice() else { panic!("{tables:?}") };
    assert!(fields.contains(&"metadata.response.time".to_owned()), "{fields:?}");
    assert!(fields.iter().all(|field| !field.contains("other") && !field.contains("agent")), "{fields:?}");
}

#[test]
fn a_record_that_is_read_whole_is_whole() {
    for sql in [
        "SELECT metadata FROM edge_logs",
        "SELECT DISTINCT TO_JSON_STRING(metadata) AS m FROM edge_logs",
        "SELECT ANY_VALUE(m) AS m FROM (SELECT metadata AS m FROM edge_logs)",
        "SELECT x.metadata, r.path FROM edge_logs AS x CROSS JOIN UNNEST(x.metadata) AS m
         CROSS JOIN UNNEST(m.request) AS r",
    ] {
        let (rows, tables) = run(sql);
        assert!(rows[0].to_string().contains("er"), "{sql}: {rows}");
        assert_eq!(tables, Vec::<Vec<String>>::new(), "{sql}");
    }
}
