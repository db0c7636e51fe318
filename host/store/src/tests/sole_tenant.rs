//! The condition that binds a query to one project: not computed where all rows that are read have that project, and only
//! there.

use datafusion::prelude::{Expr, col, lit};
use serde_json::{Value, json};

use super::{field, manual, opened, rows, scan::scanned};
use crate::{Store, StoreOptions};

const START: i64 = 1_700_000_000_000_000;

fn event(number: i64, project: Value) -> Value {
    let mut event = json!({"id": format!("{number:05}"), "timestamp": START + number, "n": number % 7});
    if !project.is_null() {
        event["project"] = project;
    }
    event
}

/// A source with one segment for each of these lists of projects.
async fn filled(store: &Store, segments: &[Vec<Value>]) {
    store.create_source("s").unwrap();
    let mut number = 0;
    for projects in segments {
        let mut next = |project: &Value| {
            number += 1;
            event(number, project.clone())
        };
        store.flushed("s", projects.iter().map(&mut next).collect()).await;
    }
}

fn ids(store: &Store, filter: Option<Expr>) -> datafusion::prelude::DataFrame {
    let frame = filter.into_iter().fold(super::frame(store, "s"), |frame, filter| frame.filter(filter).unwrap());
    frame.select_columns(&["id"]).unwrap()
}

/// How many rows have this project, and whether the scan read more than their ids for that.
async fn asked(store: &Store, project: &str) -> (usize, bool) {
    let (_, all) = scanned(ids(store, None)).await;
    let (rows, bytes) = scanned(ids(store, Some(col("project").eq(lit(project))))).await;
    (rows, bytes > all)
}

#[tokio::test]
async fn a_project_that_all_rows_have_is_not_read() {
    let (_dir, store) = opened(manual());
    filled(&store, &[vec![json!("p"); 300]]).await;
    assert_eq!(asked(&store, "p").await, (300, false));
    // Asked again, the schema of the file is kept.
    assert_eq!(asked(&store, "p").await, (300, false));
    assert_eq!(asked(&store, "q").await.0, 0);
    // What else is asked is computed, and the other way round is no other condition.
    let filter = lit("p").eq(col("project")).and(col("n").eq(lit(3_i64)));
    assert_eq!(rows(ids(&store, Some(filter))).await.len(), 43);
    let filter = col("project").not_eq(lit("p")).or(col("n").eq(lit(3_i64)));
    assert_eq!(rows(ids(&store, Some(filter))).await.len(), 43);
}

#[tokio::test]
async fn a_project_that_some_rows_lack_is_read() {
    let cut = "x".repeat(100);
    let mut lacking = vec![json!("p"); 299];
    lacking.push(Value::Null);
    let mut others = vec![json!("p"); 299];
    others.push(json!("q"));
    let long = (0..300).map(|n| json!(format!("{cut}{}", n % 2))).collect();
    let mut numbers = vec![json!("p"); 299];
    numbers.push(json!(5));
    for (projects, project, expected) in
        [(lacking, "p", 299), (others, "p", 299), (long, &*format!("{cut}1"), 150), (numbers, "p", 299)]
    {
        let (_dir, store) = opened(manual());
        filled(&store, &[projects]).await;
        let asked = asked(&store, project).await;
        assert_eq!(asked.0, expected, "{project}");
        assert!(asked.1, "{project}");
    }
}

/// The path has values of other types since a later segment: the rows of the first are found as before.
#[tokio::test]
async fn a_project_of_mixed_types_has_its_rows() {
    let (_dir, store) = opened(manual());
    filled(&store, &[vec![json!("p"); 300], vec![json!(7); 10], vec![json!({"p": 1}); 10]]).await;
    let asked = asked(&store, "p").await;
    assert_eq!(asked.0, 300);
}

/// Runs of projects in one segment, merged from several: each project's rows, whichever row groups its run has.
#[tokio::test]
async fn each_run_has_its_own() {
    let options = StoreOptions { run_rows: 100, row_group_rows: 64, compaction_fan_in: 2, ..manual() };
    let (_dir, store) = opened(options);
    let part = |count: usize, small: &str| {
        let mut projects: Vec<Value> = (0..count).map(|n| json!(if n % 3 == 0 { "a" } else { "b" })).collect();
        projects.extend((0..20).map(|n| if n % 4 == 0 { Value::Null } else { json!(small) }));
        projects
    };
    filled(&store, &[part(600, "c"), part(900, "d")]).await;
    for merged in [false, true] {
        if merged {
            store.compact().await.unwrap();
            assert_eq!(store.stats().segments, 1);
        }
        for (project, expected) in [("a", 500), ("b", 1_000), ("c", 15), ("d", 15), ("e", 0)] {
            for filter in
                [col("project").eq(lit(project)), col("project").eq(lit(project)).and(col("n").gt_eq(lit(0_i64)))]
            {
                let found = rows(ids(&store, Some(filter))).await;
                assert_eq!(found.len(), expected, "{project}, merged: {merged}");
                assert!(found.iter().all(|row| field(row, "/id").is_string()));
            }
        }
    }
}
