//! Small segments become large ones while the service runs: answers stay the same, and it is seen in the metrics.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_tests::{Data, EDGE, Server, request, serve};

const TIME: i64 = 1_763_633_702_000_000;

/// Many small segments, and merges of few.
const SETTINGS: [(&str, &str); 4] = [
    ("TIDEGATE_INGEST_FLUSH_ROWS", "50"),
    ("TIDEGATE_INGEST_FLUSH_INTERVAL", "100ms"),
    ("TIDEGATE_COMPACTION_FAN_IN", "3"),
    ("TIDEGATE_COMPACTION_PERCENT", "100"),
];

/// More footers than stay in memory: all queries get the same answers, and no more is held.
#[test]
fn footers_that_were_dropped_are_read_again() {
    let settings = [
        ("TIDEGATE_INGEST_FLUSH_ROWS", "20"),
        ("TIDEGATE_INGEST_FLUSH_INTERVAL", "50ms"),
        ("TIDEGATE_COMPACTION_FAN_IN", "1000"),
        ("TIDEGATE_STORAGE_FOOTER_MEMORY", "1 MiB"),
    ];
    let server = Server::start_set(&settings);
    let mut sent = 0;
    while server.metric("tidegate_store_segments") < 120.0 {
        assert!(sent < 100_000, "too few segments: {}", server.text("/metrics"));
        server.send(EDGE, &Value::Array((sent..sent + 20).map(event).collect()));
        sent += 20;
    }
    let all = (0..sent).filter(|number| number % 3 == 1).count();
    let mut most = 0.0_f64;
    for round in 0..3 {
        // Another text each time, so that no answer is kept.
        let sql = format!("SELECT COUNT(*) AS c, COUNT(DISTINCT id) AS d FROM edge_logs WHERE id != 'none{round}'");
        let answer = server.sql(&sql);
        assert_eq!((answer.column("c"), answer.column("d")), (vec![json!(all)], vec![json!(all)]));
        most = most.max(server.metric("tidegate_footers_bytes"));
    }
    assert!((512.0 * 1024.0..=1024.0 * 1024.0).contains(&most), "{most} bytes of footers");
}

fn event(number: i64) -> Value {
    let mut event = request(&format!("{number:04}"), TIME + number * 1_000, &format!("/rest/v1/items{}", number % 7));
    event["project"] = json!(format!("p{}", number % 3));
    event
}

#[test]
fn segments_are_merged_and_answers_stay() {
    let data = Data::new();
    let start = |file: &str| {
        let mut command = serve(&data);
        command.envs(SETTINGS);
        Server::spawn(command, data.around().join(file), true)
    };
    let server = start("first.log");
    let newest = |server: &Server, project: &str| {
        let sql = "SELECT id FROM edge_logs ORDER BY timestamp DESC LIMIT 5";
        server.query("logs.all", &[("project", project), ("sql", sql)]).ids()
    };
    // The events of `p1`, the project of `Server::sql`.
    let count = |server: &Server| server.sql("SELECT COUNT(*) AS c FROM edge_logs").column("c");
    let expected_count = |sent: i64| (0..sent).filter(|number| number % 3 == 1).count();
    let began = Instant::now();
    let mut sent = 0;
    while server.metric("tidegate_store_merges_total") < 3.0 {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is merged: {}", server.text("/metrics"));
        if sent < 3_000 {
            server.send(EDGE, &Value::Array((sent..sent + 50).map(event).collect()));
            sent += 50;
        }
        assert_eq!(count(&server), [json!(expected_count(sent))]);
        for project in 0..3 {
            let last = (0..sent).rev().filter(|number| number % 3 == project).take(5);
            let expected: Vec<String> = last.map(|number| format!("{number:04}")).collect();
            assert_eq!(newest(&server, &format!("p{project}")), expected);
        }
    }
    assert!(server.metric("tidegate_store_segments_merged_total") >= 9.0);
    assert!(server.metric("tidegate_store_segments") < server.metric("tidegate_store_flushes_total"));
    assert_eq!(server.metric("tidegate_store_merges_failed_total"), 0.0);
    let paths = "SELECT r.path AS path, COUNT(*) AS c FROM edge_logs CROSS JOIN UNNEST(metadata) AS m \
                 CROSS JOIN UNNEST(m.request) AS r GROUP BY path ORDER BY path";
    let before = server.sql(paths).rows().to_vec();
    assert_eq!(server.stop("-TERM"), Some(0));
    let server = start("second.log");
    assert_eq!(server.sql(paths).rows(), before);
    assert_eq!(count(&server), [json!(expected_count(sent))]);
    // One event is found by its id wherever it lies.
    assert_eq!(server.sql("SELECT id FROM edge_logs WHERE id = '0040'").ids(), ["0040"]);
}
