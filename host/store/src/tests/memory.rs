//! Rows in memory: batches with bounds of their own, joined or not, are read as one table.

use std::cmp::Reverse;

use datafusion::{
    logical_expr::ident,
    prelude::{col, lit},
    scalar::ScalarValue,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{field, frame, manual, opened, path, rows};

const PROJECTS: u8 = 5;

/// Of each call: its rows, of each row the project, the second, and what else it has.
type Calls = Vec<Vec<(u8, i64, u8)>>;

fn calls() -> impl Strategy<Value = Calls> {
    let row = (0..PROJECTS + 1, 0_i64..60, 0_u8..6);
    prop::collection::vec(prop::collection::vec(row, 1..12), 1..24)
}

fn event(number: usize, (project, second, what): (u8, i64, u8)) -> Value {
    let mut event = json!({"id": format!("{number:05}"), "timestamp": (1_700_000_000 + second) * 1_000_000});
    if project < PROJECTS {
        event["project"] = json!(format!("p{project}"));
    }
    match what {
        0 => {}
        1 => event["metadata"] = json!({"status": 200}),
        // It has another type in the column, or is not in it.
        2 => event["metadata"] = json!({"status": "good"}),
        3 => event["metadata"] = json!({"status": 404, "path": "/x"}),
        _ => event["level"] = json!(what),
    }
    event
}

/// What a query of this condition finds.
async fn found(
    store: &crate::Store,
    condition: impl IntoIterator<Item = datafusion::prelude::Expr>,
) -> Result<(Vec<String>, bool), TestCaseError> {
    let mut frame = frame(store, "s");
    for part in condition {
        frame = frame.filter(part).unwrap();
    }
    let found = rows(frame.sort(vec![ident("timestamp").sort(false, false)]).unwrap()).await;
    let in_order = found.is_sorted_by_key(|row| Reverse(field(row, "/timestamp").as_i64()));
    let mut ids: Vec<String> = found.iter().map(|row| field(row, "/id").as_str().unwrap().to_owned()).collect();
    ids.sort_unstable();
    Ok((ids, in_order))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// However calls are made columns, joined and flushed: each condition finds its rows, newest first, and no other.
    #[test]
    fn batches_in_memory_leave_no_row_out(
        calls in calls(),
        what in prop::collection::vec(0_u8..8, 24),
        (project, from, until) in (0..PROJECTS, 0_i64..60, 0_i64..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_dir, store) = opened(manual());
            let source = store.get(store.create_source("s").unwrap().id).unwrap();
            let mut all = vec![(0, 0, 1), (0, 0, 2)];
            store.ingest("s", vec![event(0, all[0]), event(1, all[1])]).await.unwrap();
            for (call, what) in calls.iter().zip(&what) {
                let first = all.len();
                let events: Vec<Value> = call.iter().enumerate().map(|(at, row)| event(first + at, *row)).collect();
                all.extend(call.iter().copied());
                if what % 2 == 0 {
                    store.ingest("s", events).await.unwrap();
                } else {
                    // As a large call, whose columns are made before it is committed.
                    let mut intake = store.intake_of("s", 0, 1 << 20, tidegate_model::Audience::All);
                    events.into_iter().for_each(|event| assert!(intake.add(event)));
                    store.ingest_intake("s", intake).await.unwrap();
                }
                match what {
                    0 => store.flush().await.unwrap(),
                    1 => source.columnize().unwrap(),
                    // A query makes a batch of what came since the one before.
                    2..=5 => drop(store.table("s").unwrap()),
                    _ => {}
                }
            }
            let expected = |is: &dyn Fn((u8, i64, u8)) -> bool| -> Vec<String> {
                all.iter().enumerate().filter(|(_, row)| is(**row)).map(|(at, _)| format!("{at:05}")).collect()
            };
            let at = |second: i64| {
                lit(ScalarValue::TimestampMicrosecond(Some((1_700_000_000 + second) * 1_000_000), None))
            };
            let of_project = || ident("project").eq(lit(format!("p{project}")));
            let range = || col("timestamp").gt_eq(at(from)).and(col("timestamp").lt(at(until)));
            prop_assert_eq!(found(&store, []).await?, (expected(&|_| true), true));
            prop_assert_eq!(found(&store, [of_project()]).await?, (expected(&|row| row.0 == project), true));
            prop_assert_eq!(
                found(&store, [range()]).await?,
                (expected(&|row| (from..until).contains(&row.1)), true)
            );
            prop_assert_eq!(
                found(&store, [of_project(), range()]).await?,
                (expected(&|row| row.0 == project && (from..until).contains(&row.1)), true)
            );
            // The first status is a number, so that texts are read from the overflow.
            let is_good = path("metadata", &["status"]).eq(lit("good"));
            prop_assert_eq!(
                found(&store, [of_project(), is_good]).await?.0,
                expected(&|row| row.0 == project && row.2 == 2)
            );
            Ok(())
        })?;
    }
}
