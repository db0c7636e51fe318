//! Plans over a store, for what must hold for any bytes that come as a plan: the tests of the decoder change them, and the fuzz
//! target begins with them.
#![expect(clippy::expect_used, reason = "a world that cannot be made ends the run")]

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::TableProvider;
use datafusion::error::Result as EngineResult;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use serde_json::json;
use tidegate_model::{Arguments, Failure};
use tidegate_sql::{Binding, Carried, Carrier, Engine, EngineOptions, Sources, StoredTable};
use tidegate_store::{Store, StoreOptions};

/// How many segments the store has.
pub(crate) const SEGMENTS: usize = 2;

/// The statements, by the name of the file that their plan has in the corpus of the fuzz target.
pub(crate) const STATEMENTS: [(&str, &str); 13] = [
    ("newest", "SELECT id, timestamp, event_message FROM t ORDER BY timestamp DESC LIMIT 3"),
    (
        "groups",
        "SELECT COUNT(*) AS c, SUM(n) AS s, ARRAY_AGG(event_message ORDER BY id LIMIT 2) AS l FROM t GROUP BY MOD(n, 3)",
    ),
    (
        "texts",
        "SELECT UPPER(event_message) AS u FROM t WHERE REGEXP_CONTAINS(event_message, r'ro+w') AND n IN (1, 2, 3, 5, 8)",
    ),
    ("unnest", "SELECT id, tag FROM t CROSS JOIN UNNEST(t.tags) AS tag WITH OFFSET AS o WHERE o > 0"),
    ("exists", "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM UNNEST(t.tags) AS tag WHERE tag = 'b')"),
    ("join", "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id AND a.n < b.n + 1"),
    ("ids", "SELECT id, n FROM t WHERE id IN ('01', '13', 'none')"),
    ("left", "SELECT a.id, b.n FROM t AS a LEFT JOIN t AS b ON a.n > b.n ORDER BY a.id LIMIT 5"),
    ("window", "SELECT id, ROW_NUMBER() OVER (PARTITION BY n ORDER BY timestamp) AS r FROM t"),
    ("shared", "WITH s AS (SELECT n, id FROM t) SELECT (SELECT COUNT(*) FROM s) AS c, (SELECT MAX(n) FROM s) AS m"),
    (
        "case",
        "SELECT CASE WHEN n > 3 THEN 'x' ELSE TO_JSON_STRING(tags) END AS v, TIMESTAMP_TRUNC(timestamp, HOUR) AS h FROM t",
    ),
    ("union", "SELECT DISTINCT n FROM t UNION ALL SELECT n FROM t WHERE n > 100 LIMIT 7"),
    (
        "values",
        "SELECT APPROX_QUANTILES(n, 4) AS q, COUNT(DISTINCT id) AS d, ANY_VALUE(event_message) AS a, MAX(timestamp) AS m FROM t",
    ),
];

/// Operators of the list that plans may have, also after a change. A scan of segments is none of them.
pub(crate) const NAMES: [&str; 27] = [
    "AggregateExec",
    "BoundedWindowAggExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "CrossJoinExec",
    "EmptyExec",
    "FilterExec",
    "GlobalLimitExec",
    "HashJoinExec",
    "InterleaveExec",
    "LocalLimitExec",
    "NestedLoopJoinExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "RepartitionExec",
    "ScalarSubqueryExec",
    "SecurityBarrier",
    "SharedRows",
    "SortExec",
    "SortExec(TopK)",
    "SortMergeJoinExec",
    "SortPreservingMergeExec",
    "SourceUnion",
    "UnionExec",
    "UnnestExec",
    "Unordered",
    "WindowAggExec",
];

struct One(Arc<dyn TableProvider>);

impl Sources for One {
    fn table(&self, _: &str) -> Result<Option<StoredTable>, Failure> {
        Ok(Some(StoredTable::whole(Arc::clone(&self.0))))
    }
    fn names(&self) -> Vec<String> {
        vec!["t".to_owned()]
    }
}

/// A plan, and what it was to run with.
pub(crate) type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// Keeps the plans that pass.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Planned>>);

impl Carrier for Kept {
    fn carry(&self, plan: Arc<dyn ExecutionPlan>, task: &TaskContext) -> EngineResult<Carried> {
        let context = TaskContext::default().with_session_config(task.session_config().clone());
        let context = Arc::new(context.with_runtime(task.runtime_env()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::clone(&plan), context));
        Ok(plan.into())
    }
}

/// The plans of the statements, in their order, and the store that they read.
pub(crate) struct Samples {
    pub(crate) plans: Vec<Planned>,
    pub(crate) store: Arc<Store>,
    pub(crate) folder: tempfile::TempDir,
}

impl Samples {
    pub(crate) async fn made() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = StoreOptions { durable: false, manual_flush: true, ..StoreOptions::default() };
        let store = Store::open(&folder.path().join("data"), options).expect("a store");
        store.create_source("t").expect("a source");
        for part in 0..SEGMENTS {
            let rows = (0..20).map(|n| {
                json!({"id": format!("{part}{n}"), "timestamp": 1_763_600_000_000_000_i64 + n * 1_000_000,
                       "event_message": format!("row {n}"), "n": n, "tags": ["a", "b"]})
            });
            // The first segment has one row fewer, which tells it from the second.
            store.ingest("t", rows.skip(1 - part.min(1)).collect()).await.expect("rows are stored");
            store.flush().await.expect("a segment is written");
        }
        let kept = Arc::new(Kept::default());
        let options = EngineOptions {
            partitions: 2,
            narrow: tidegate_store::narrowed,
            placed: tidegate_store::placed,
            counted: tidegate_store::counted,
            ..EngineOptions::default()
        };
        let engine = Engine::new(&options).expect("an engine").with_carrier(Arc::clone(&kept) as _);
        let (sources, arguments) = (One(store.table("t").expect("a table")), Arguments::new());
        for (_, sql) in STATEMENTS {
            let plan = engine.plan(sql, Binding::new(&sources, &arguments, 1_763_633_702_000_000));
            drop(engine.run(plan.expect("a plan"), Some(100)).await.expect("a statement"));
        }
        let plans = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
        Self { plans, store, folder }
    }
}
