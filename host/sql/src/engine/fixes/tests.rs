//! The faults, each with a statement that the engine alone answers wrongly or refuses.
//!
//! If one of these fails after an upgrade because the engine alone is right, its work-around can go; if because ours is
//! wrong, the work-around no longer works.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use tidegate_model::{Arguments, Failure};

use crate::{Binding, Engine, EngineOptions, Sources, StoredTable};

/// The rows of tables by name.
struct World(BTreeMap<&'static str, Arc<dyn TableProvider>>);

impl Sources for World {
    fn table(&self, name: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(self.0.get(name).cloned().map(StoredTable::whole))
    }
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

fn table(columns: Vec<(&str, ArrayRef)>) -> Arc<dyn TableProvider> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
    let batch = batch.unwrap();
    Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(values))
}

fn numbers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn world() -> World {
    let y = [("k", texts(&["a", "b", "c", "d"])), ("n", numbers(1..5))];
    let s = [("k", texts(&["b", "d", "a", "x"])), ("l", texts(&["e", "e", "f", "e"])), ("n", numbers(1..5))];
    World(BTreeMap::from([("y", table(y.into())), ("s", table(s.into()))]))
}

/// The rows as texts of their values.
fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let value = |column: &ArrayRef, row| match column.is_null(row) {
        true => "null".to_owned(),
        false => array_value_to_string(column, row).unwrap(),
    };
    let row = |batch: &RecordBatch, row| batch.columns().iter().map(|column| value(column, row)).collect::<Vec<_>>();
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|at| row(batch, at).join(" "))).collect()
}

async fn of_the_engine_alone(plan: &LogicalPlan) -> Result<Vec<String>, String> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let batches = async {
        let plan = context.state().create_physical_plan(plan).await?;
        collect(plan, context.task_ctx()).await
    };
    batches.await.map(|batches| shown(&batches)).map_err(|error| error.to_string())
}

/// The statements, their rows, and what the engine alone says if it refuses them.
const STATEMENTS: [(&str, &[&str], Option<&str>); 7] = [
    // `group_filters`.
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM y) WHERE (SELECT COUNT(*) FROM s) > 9", &[], None),
    // `distinct`: a hint without a direction.
    (
        "SELECT DISTINCT l, c FROM (SELECT l, COUNT(*) OVER (PARTITION BY l) AS c FROM s) LIMIT 10",
        &["e 3", "f 1"],
        Some("Ordering direction required"),
    ),
    // `distinct`: groups by NaN.
    (
        "SELECT DISTINCT x FROM UNNEST([IEEE_DIVIDE(0, 0), 1.0, IEEE_DIVIDE(0, 0)]) AS x ORDER BY x DESC LIMIT 3",
        &["1.0", "NaN"],
        None,
    ),
    // `sort_limits`.
    (
        "WITH o AS (SELECT n FROM y ORDER BY n LIMIT 3), t AS (SELECT * FROM o UNION ALL SELECT * FROM o UNION ALL \
         SELECT * FROM o) SELECT DISTINCT n FROM t ORDER BY n LIMIT 3",
        &["1", "2", "3"],
        None,
    ),
    // `nullable_constants`: outer joins.
    (
        "SELECT y.k, x.l FROM y LEFT JOIN (SELECT * FROM s WHERE l = 'e') AS x ON x.k = y.k ORDER BY x.l, y.k",
        &["a null", "c null", "b e", "d e"],
        None,
    ),
    // `nullable_constants`: grouping sets.
    (
        "SELECT l, k FROM s WHERE l = 'e' GROUP BY CUBE(l, k) ORDER BY l, k LIMIT 4",
        &["null null", "null b", "null d", "null x"],
        None,
    ),
    // `unordered_unions`.
    (
        "SELECT n, n AS m FROM y WHERE n < 3 UNION ALL SELECT n, n AS m FROM y WHERE n < 3 ORDER BY m",
        &["1 1", "1 1", "2 2", "2 2"],
        Some("SanityCheckPlan"),
    ),
];

#[tokio::test]
async fn the_engine_alone_still_has_its_faults() {
    let (world, arguments) = (world(), Arguments::new());
    let engine = Engine::new(&EngineOptions { partitions: 2, ..EngineOptions::default() }).unwrap();
    for (sql, rows, refused) in STATEMENTS {
        let plan = engine.plan(sql, Binding::new(&world, &arguments, 0)).unwrap();
        match (of_the_engine_alone(&plan.logical).await, refused) {
            (Ok(alone), None) => assert_ne!(alone, rows, "the engine alone is right: {sql}"),
            (Err(failure), Some(refused)) => assert!(failure.contains(refused), "{failure}: {sql}"),
            (alone, _) => panic!("the engine alone says {alone:?}: {sql}"),
        }
        let batches: Vec<_> = engine.run(plan, None).await.unwrap().try_collect().await.unwrap();
        let mut ours = shown(&batches);
        if !sql.contains("ORDER BY") {
            ours.sort();
        }
        assert_eq!(ours, rows, "{sql}");
    }
}
