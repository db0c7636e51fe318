//! Rows with equal times come in the order of their arrival, however they are cut.
//!
//! The reference sorts by the number under which rows were sent, which is a column of theirs.

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

use super::super::tape::Tape;
use super::grammar::{Compare, Statement};
use super::world::World;
use super::{WORLD_BYTES, compare};

/// Worlds of rows, about half of which have equal times.
const WORLDS: u64 = 12;

/// Statements with `{ DESC}` where the reference has the number as its last key, in that direction; `{a. DESC}` is the number
/// of the table `a`.
const STATEMENTS: &[&str] = &[
    "SELECT id FROM t ORDER BY timestamp DESC{ DESC}",
    "SELECT id FROM t ORDER BY timestamp{ ASC}",
    "SELECT id FROM t ORDER BY timestamp DESC{ DESC} LIMIT 7",
    "SELECT id FROM t ORDER BY timestamp DESC{ DESC} LIMIT 9 OFFSET 13",
    "SELECT id FROM t ORDER BY timestamp{ ASC} LIMIT 9 OFFSET 3",
    "SELECT id, project FROM t WHERE event_message LIKE '%1%' ORDER BY project, timestamp DESC{ DESC} LIMIT 20",
    "SELECT id FROM (SELECT timestamp AS at, id, nth FROM t WHERE n > 10) AS r ORDER BY at DESC{ DESC} LIMIT 11",
    "SELECT id, CAST(timestamp AS DATETIME) AS at FROM t ORDER BY CAST(timestamp AS DATETIME) DESC{ DESC} LIMIT 30",
    "SELECT id FROM t ORDER BY timestamp IS NULL, timestamp DESC{ DESC} LIMIT 5",
    "WITH s AS (SELECT * FROM t ORDER BY timestamp DESC{ DESC} LIMIT 12) SELECT project, COUNT(*) AS c, MIN(id) AS i FROM s GROUP BY project ORDER BY project",
    "WITH s AS (SELECT * FROM t ORDER BY timestamp DESC{ DESC} LIMIT 30) SELECT id FROM s ORDER BY timestamp{ ASC} LIMIT 8",
    "WITH s AS (SELECT * FROM t) SELECT id, (SELECT MAX(id) FROM s) AS m FROM s ORDER BY timestamp DESC{ DESC} LIMIT 10",
    "SELECT a.id, b.id AS other FROM t AS a LEFT JOIN t AS b ON a.n = b.n AND b.project = 'p1' ORDER BY a.timestamp DESC, b.id{a. DESC} LIMIT 40",
    "SELECT a.id, b.id AS other FROM t AS b JOIN t AS a ON a.n = b.n AND b.project = 'p1' ORDER BY a.timestamp, b.id{a. ASC} LIMIT 40",
    "SELECT a.id, b.id AS other FROM t AS a JOIN t AS b ON a.n = b.n AND b.project = 'p1' ORDER BY a.timestamp DESC, b.timestamp{a. DESC}{b. ASC} LIMIT 40",
    "SELECT id, tag FROM t CROSS JOIN UNNEST(t.metadata) AS m CROSS JOIN UNNEST(m.tags) AS tag ORDER BY t.timestamp DESC, tag{t. DESC} LIMIT 25",
    "SELECT id FROM t WHERE id IN (SELECT id FROM t WHERE n = 20) ORDER BY timestamp DESC{ DESC} LIMIT 6",
    "SELECT id FROM ((SELECT id, timestamp, nth FROM t WHERE n = 20) UNION ALL (SELECT id, timestamp, nth FROM t WHERE n > 20)) AS u ORDER BY timestamp DESC{ DESC} LIMIT 15",
    "SELECT id, project FROM t WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY project ORDER BY timestamp DESC{ DESC}) <= 2 ORDER BY id",
    "SELECT id, LAG(id) OVER (PARTITION BY project ORDER BY timestamp{ ASC}) AS before, RANK() OVER (ORDER BY timestamp) AS r FROM t ORDER BY id",
    "SELECT id, FIRST_VALUE(id) OVER (ORDER BY timestamp{ ASC} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM t ORDER BY id",
    "SELECT project, ROW_NUMBER() OVER (ORDER BY timestamp DESC{ DESC}) AS r FROM t ORDER BY timestamp DESC{ DESC} LIMIT 10",
    "SELECT project, ARRAY_AGG(id ORDER BY timestamp DESC{ DESC} LIMIT 3) AS a, STRING_AGG(id ORDER BY timestamp{ ASC}) AS s, COUNT(DISTINCT n) AS d FROM t GROUP BY project ORDER BY project",
    "SELECT ARRAY_AGG(id ORDER BY timestamp DESC{ DESC}) AS a, ARRAY_AGG(DISTINCT n ORDER BY n) AS d FROM t",
    "SELECT ARRAY(SELECT id FROM t ORDER BY timestamp DESC{ DESC} LIMIT 4) AS a, (SELECT id FROM t ORDER BY timestamp{ ASC} LIMIT 1) AS b",
    "SELECT project, COUNT(*) AS c, ARRAY_AGG(id ORDER BY timestamp{ ASC} LIMIT 2) AS a FROM t GROUP BY ROLLUP(project) ORDER BY project, c",
];

/// A text as it is written, and as the reference has it.
fn texts(template: &str) -> (String, String) {
    let (mut written, mut with_number) = (String::new(), String::new());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}').unwrap();
        let (table, direction) = key.split_once(' ').unwrap();
        written += before;
        with_number += &format!("{before}, {table}nth {direction}");
        rest = after;
    }
    (written + rest, with_number + rest)
}

/// Sorts above each other share what is carried to them. Were each to carry its own, a chain of fifty would take half a
/// minute to plan.
#[test]
fn a_chain_of_sorts_carries_the_places_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::small(2, 1));
    let link = |from: usize| match from % 2 {
        0 => format!("SELECT * FROM c{from} ORDER BY timestamp DESC LIMIT 40"),
        _ => format!("SELECT id, timestamp, ROW_NUMBER() OVER (ORDER BY timestamp) AS r FROM c{from}"),
    };
    let links: Vec<String> = (0..50).map(|from| format!(", c{} AS ({})", from + 1, link(from))).collect();
    let sql = format!("WITH c0 AS (SELECT * FROM t){} SELECT id FROM c50 ORDER BY timestamp", links.concat());
    let plan = runtime.block_on(world.plan(&sql, None, None, 2));
    assert!(plan.contains(" call 0") && !plan.contains(" call 1"), "{plan}");
}

#[test]
fn rows_with_equal_times_come_as_they_arrived() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut wrong = Vec::new();
    for seed in 0..WORLDS {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rows = vec![0; WORLD_BYTES];
        TestRng::from_seed(RngAlgorithm::ChaCha, &bytes).fill_bytes(&mut rows);
        let world = runtime.block_on(World::new(&mut Tape::new(&rows)));
        for (nth, template) in STATEMENTS.iter().enumerate() {
            let (sql, same) = texts(template);
            let statement = Statement { sql, grant: None, compare: Compare::Rows, same: Some(same) };
            let turn = seed as usize + nth;
            let tenant = turn.is_multiple_of(3).then(|| turn % world.tenants());
            let difference = runtime.block_on(compare(&world, &statement, tenant, 1 + turn % 4)).err();
            wrong.extend(difference.map(|told| format!("seed {seed}: {}\n{told}", world.shown)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.iter().take(6).cloned().collect::<Vec<_>>().join("\n\n")
    );
}
