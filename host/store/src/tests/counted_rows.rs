//! Rows that are counted by the value of a column: the counts are those of the rows, wherever these lie, and rows of segments
//! are not made where their column tells all.

use std::{collections::BTreeMap, sync::Arc};

use datafusion::{
    arrow::array::AsArray,
    arrow::datatypes::Int64Type,
    common::ScalarValue,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, displayable},
    prelude::{DataFrame, Expr, SessionContext, col, lit},
};
use serde_json::{Value, json};

use super::{json as json_of, manual, path, with_source};
use crate::{Store, StoreOptions, counted};

const START: i64 = 1_700_000_000_000_000;
const PRESENCE: &str = tidegate_model::PRESENCE_FIELD;

/// An event of one of three projects. Each tenth lacks `some`.
fn event(number: i64) -> Value {
    let mut event = json!({
        "id": format!("{number:05}"), "timestamp": START + number, "project": (["p", "p", "q", "r"])[(number % 4) as usize],
        "n": number % 5,
        "metadata": {"status": ([200, 200, 404, 500, 200])[(number * 7 % 5) as usize], "agent": format!("agent {}", number % 9)},
    });
    if number % 10 != 0 {
        event["metadata"]["some"] = json!("x");
    }
    event
}

/// A source with 900 events in three segments, and so many in memory.
async fn filled(dir: &tempfile::TempDir, in_memory: i64) -> (Arc<Store>, Vec<Value>) {
    let store = Store::open(dir.path(), StoreOptions { row_group_rows: 60, ..manual() }).unwrap();
    store.create_source("s").unwrap();
    let events: Vec<Value> = (0..900 + in_memory).map(event).collect();
    for part in events[..900].chunks(300) {
        store.flushed("s", part.to_vec()).await;
    }
    store.ingest("s", events[900..].to_vec()).await.unwrap();
    (store, events)
}

/// A value of rows that pass a filter.
fn frame(store: &Store, filter: Option<Expr>, value: Expr) -> DataFrame {
    let frame = filter.into_iter().fold(super::frame(store, "s"), |frame, filter| frame.filter(filter).unwrap());
    frame.select(vec![value.alias("v")]).unwrap()
}

/// How many rows have each value, how many rows came out, and how many of segments were counted without being made.
async fn counts(frame: DataFrame) -> Option<(BTreeMap<String, i64>, usize, usize)> {
    let rows = frame.create_physical_plan().await.unwrap();
    let Some(plan) = counted(&rows) else {
        // Seen where a test fails.
        println!("not counted:\n{}", displayable(rows.as_ref()).indent(true));
        return None;
    };
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
    assert_eq!(partitions(&plan), partitions(&rows));
    let batches = collect(Arc::clone(&plan), SessionContext::new().task_ctx()).await.unwrap();
    let mut counts = BTreeMap::new();
    let mut out = 0;
    for batch in batches {
        assert_eq!(batch.schema().fields().len(), 2, "{}", displayable(plan.as_ref()).indent(true));
        for row in 0..batch.num_rows() {
            let value = json_of(batch.column(0), row).unwrap_or(Value::Null).to_string();
            *counts.entry(value).or_default() += batch.column(1).as_primitive::<Int64Type>().value(row);
            out += 1;
        }
    }
    let (mut without, mut todo) = (0, vec![plan]);
    while let Some(plan) = todo.pop() {
        let metrics = plan.metrics().and_then(|metrics| metrics.sum_by_name("rows_counted"));
        without += metrics.map_or(0, |metric| metric.as_usize());
        todo.extend(plan.children().into_iter().cloned());
    }
    Some((counts, out, without))
}

/// The same of the events themselves.
fn expected(events: &[Value], filter: impl Fn(&Value) -> bool, pointer: &str) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| filter(event)) {
        *counts.entry(event.pointer(pointer).cloned().unwrap_or(Value::Null).to_string()).or_default() += 1;
    }
    counts
}

fn leaf(name: &str) -> Expr {
    path("metadata", &[name])
}

#[tokio::test]
async fn values_come_with_their_counts() {
    for in_memory in [0, 50] {
        let dir = tempfile::tempdir().unwrap();
        let (store, events) = filled(&dir, in_memory).await;
        let memory = in_memory as usize;
        let present = || leaf(PRESENCE).is_not_null();
        for (value, pointer) in [
            (leaf("status"), "/metadata/status"),
            (leaf("agent"), "/metadata/agent"),
            (col("project"), "/project"),
            (col("n"), "/n"),
        ] {
            for filter in [None, Some(present())] {
                let shown = format!("{pointer}, {filter:?}, {in_memory} in memory");
                let (found, out, without) = counts(frame(&store, filter, value.clone())).await.unwrap();
                assert_eq!(found, expected(&events, |_| true, pointer), "{shown}");
                assert!(out < 250 + memory, "{shown}: {out} rows");
                assert_eq!(out + without, 900 + memory, "{shown}");
            }
        }
    }
}

/// Row groups that lie in a range of times as a whole are counted; the others, at its ends, are read as rows.
#[tokio::test]
async fn row_groups_within_a_range_of_times_are_counted() {
    type Holds = fn(i64) -> bool;
    let time = |number: i64| lit(ScalarValue::TimestampMicrosecond(Some(START + number), None));
    let at = || col("timestamp");
    let cases: [(Expr, Holds, bool); 11] = [
        (at().gt_eq(time(120)), |n| n >= 120, true),
        (at().gt(time(120)), |n| n > 120, true),
        (at().gt_eq(time(121)).and(at().lt(time(660))), |n| (121..660).contains(&n), true),
        (at().between(time(59), time(720)), |n| (59..=720).contains(&n), true),
        (time(600).gt(at()), |n| n < 600, true),
        (time(600).lt_eq(at()), |n| n >= 600, true),
        (at().between(time(10), time(20)), |n| (10..=20).contains(&n), false),
        (at().lt(lit("2023-11-14T22:13:20.000450Z")), |n| n < 450, true),
        // Not of times alone, or no range.
        (at().gt_eq(time(120)).and(col("n").lt(lit(4_i64))), |n| n >= 120 && n % 5 < 4, false),
        (at().gt_eq(time(120)).or(col("n").eq(lit(1_i64))), |n| n >= 120 || n % 5 == 1, false),
        (at().not_eq(time(3)), |n| n != 3, false),
    ];
    for in_memory in [0, 50] {
        let dir = tempfile::tempdir().unwrap();
        let (store, events) = filled(&dir, in_memory).await;
        for (filter, holds, are_counted) in &cases {
            let shown = format!("{filter}, {in_memory} in memory");
            let (found, out, without) = counts(frame(&store, Some(filter.clone()), leaf("status"))).await.unwrap();
            let holds = |event: &Value| holds(event["timestamp"].as_i64().unwrap() - START);
            assert_eq!(found, expected(&events, holds, "/metadata/status"), "{shown}");
            assert_eq!(out + without, events.iter().filter(|event| holds(event)).count(), "{shown}");
            assert_eq!(without > 0, *are_counted, "{shown}: {without} were counted");
        }
    }
}

/// Where all rows that are read have the project of the condition, it leaves nothing to look at.
#[tokio::test]
async fn rows_of_one_project_are_counted() {
    let (_dir, store) = with_source(manual());
    let mut events: Vec<Value> = (0..300).map(event).collect();
    events.iter_mut().take(200).for_each(|event| event["project"] = json!("p"));
    for part in events.chunks(200) {
        store.flushed("s", part.to_vec()).await;
    }
    let of_project = Some(col("project").eq(lit("p")));
    let (found, out, without) = counts(frame(&store, of_project, leaf("status"))).await.unwrap();
    assert_eq!(found, expected(&events, |event| event["project"] == "p", "/metadata/status"));
    // The second segment has other projects too, so that its 50 rows are looked at.
    assert_eq!((out, without), (3 + 50, 197));
    // So are rows in memory, of which half do not pass.
    let in_memory: Vec<Value> = (300..340).map(event).collect();
    store.ingest("s", in_memory.clone()).await.unwrap();
    events.extend(in_memory);
    let of_project = Some(col("project").eq(lit("p")));
    let (found, out, without) = counts(frame(&store, of_project, leaf("status"))).await.unwrap();
    assert_eq!(found, expected(&events, |event| event["project"] == "p", "/metadata/status"));
    assert_eq!((out, without), (3 + 50 + 20, 197));
}

/// Conditions on the value itself are applied to the values.
#[tokio::test]
async fn conditions_on_the_value_are_applied_to_the_values() {
    type Passes = fn(&Value) -> bool;
    let status = || leaf("status");
    let of = |event: &Value| event["metadata"]["status"].as_i64().unwrap();
    let time = |number: i64| lit(ScalarValue::TimestampMicrosecond(Some(START + number), None));
    let since = || col("timestamp").gt_eq(time(120));
    let cases: [(Expr, Passes, bool); 8] = [
        (status().gt_eq(lit(400_i64)), |event| event["metadata"]["status"].as_i64() >= Some(400), true),
        (status().in_list(vec![lit(200_i64), lit(500_i64)], false), |event| event["metadata"]["status"] != 404, true),
        ((status() % lit(7_i64)).eq(lit(3_i64)), |event| event["metadata"]["status"].as_i64().unwrap() % 7 == 3, true),
        (status().gt(lit(9_000_i64)), |_| false, true),
        (
            status().gt_eq(lit(400_i64)).and(since()).and(leaf(PRESENCE).is_not_null()),
            |event| {
                event["metadata"]["status"].as_i64() >= Some(400) && event["timestamp"].as_i64() >= Some(START + 120)
            },
            true,
        ),
        // Other conditions beside it, or with it in one.
        (
            status().gt_eq(lit(400_i64)).and(col("n").gt(lit(2_i64))),
            |event| event["metadata"]["status"].as_i64() >= Some(400) && event["n"].as_i64() > Some(2),
            false,
        ),
        (
            status().gt_eq(lit(400_i64)).or(since()),
            |event| {
                event["metadata"]["status"].as_i64() >= Some(400) || event["timestamp"].as_i64() >= Some(START + 120)
            },
            false,
        ),
        (
            status().gt(col("n") * lit(100_i64)),
            |event| event["metadata"]["status"].as_i64().unwrap() > event["n"].as_i64().unwrap() * 100,
            false,
        ),
    ];
    for in_memory in [0, 50] {
        let dir = tempfile::tempdir().unwrap();
        let (store, events) = filled(&dir, in_memory).await;
        assert!(events.iter().any(|event| of(event) == 404));
        for (filter, passes, are_counted) in &cases {
            let shown = format!("{filter}, {in_memory} in memory");
            let right = expected(&events, passes, "/metadata/status");
            let (found, out, without) = counts(frame(&store, Some(filter.clone()), status())).await.unwrap();
            assert_eq!(found, right, "{shown}");
            if *are_counted {
                assert!(out < 120 + in_memory as usize, "{shown}: {out} rows");
            } else {
                assert_eq!(without, 0, "{shown}");
            }
            // Of rows without a column only the number is asked.
            let none = super::frame(&store, "s").filter(filter.clone()).unwrap().select(Vec::<Expr>::new()).unwrap();
            match counts(none).await {
                Some((found, out, _)) => {
                    assert_eq!(found.values().sum::<i64>(), right.values().sum::<i64>(), "{shown}");
                    assert!(!are_counted || out < 120 + in_memory as usize, "{shown}: {out} rows");
                }
                None => assert!(!are_counted, "{shown}"),
            }
        }
    }
}

/// Conditions on texts, and on one that some rows lack.
#[tokio::test]
async fn conditions_on_texts_are_applied_to_the_values() {
    let dir = tempfile::tempdir().unwrap();
    let (store, events) = filled(&dir, 30).await;
    let agent = || leaf("agent");
    let (found, _, without) = counts(frame(&store, Some(agent().like(lit("%3"))), agent())).await.unwrap();
    assert_eq!(found, expected(&events, |event| event["metadata"]["agent"] == "agent 3", "/metadata/agent"));
    assert!(without > 0);
    for filter in [leaf("some").is_null(), leaf("some").eq(lit("x")), leaf("some").is_not_null().is_false()] {
        let shown = filter.to_string();
        let is_equal = matches!(&filter, Expr::BinaryExpr(found) if found.op == datafusion::logical_expr::Operator::Eq);
        let passes = |event: &Value| event["metadata"].get("some").is_some() == is_equal;
        let (found, _, _) = counts(frame(&store, Some(filter), leaf("some"))).await.unwrap();
        assert_eq!(found, expected(&events, passes, "/metadata/some"), "{shown}");
    }
}

#[tokio::test]
async fn rows_are_counted_one_by_one_where_the_column_does_not_tell_all() {
    for in_memory in [0, 50] {
        let dir = tempfile::tempdir().unwrap();
        let (store, events) = filled(&dir, in_memory).await;
        // Some rows lack it; each row has another one; a condition is left.
        type Passes = fn(&Value) -> bool;
        let by_number: Passes = |event| event["n"].as_i64() > Some(2);
        for (filter, passes, value, pointer) in [
            (None, (|_| true) as Passes, leaf("some"), "/metadata/some"),
            (None, |_| true, col("id"), "/id"),
            (Some(col("n").gt(lit(2_i64))), by_number, leaf("status"), "/metadata/status"),
        ] {
            let (found, _, without) = counts(frame(&store, filter, value)).await.unwrap();
            assert_eq!((found, without), (expected(&events, passes, pointer), 0), "{pointer}");
        }
    }
}

#[tokio::test]
async fn other_plans_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = filled(&dir, 0).await;
    let all = || frame(&store, None, leaf("status"));
    assert!(counts(all()).await.is_some());
    assert!(counts(all().limit(0, Some(5)).unwrap()).await.is_none());
    assert!(counts(all().sort(vec![col("v").sort(true, false)]).unwrap()).await.is_none());
    let two = frame(&store, None, leaf("status")).with_column("w", lit(1_i64)).unwrap();
    assert!(counts(two).await.is_none());
    let (_dir, store) = with_source(manual());
    store.ingest("s", vec![event(1)]).await.unwrap();
    assert!(counts(frame(&store, None, leaf("status"))).await.is_none(), "all rows are in memory");
}
